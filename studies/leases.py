"""Who holds which trial of a study, and until when: a table that any number of processes and machines may write.

Time is the database's, so that clocks of machines need not agree. What a process does with it is in `studies.claims`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from studies.schema import leases

_NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "mysql": "(UNIX_TIMESTAMP(NOW(6)) + 0.0E0)",
    "mariadb": "(UNIX_TIMESTAMP(NOW(6)) + 0.0E0)",
}
"""Dialect -> its time now, in seconds since 1970."""


class Lease(NamedTuple):
    """Who holds something.

    Attributes:
        owner: The process, as `studies.owner` writes it.
        deadline: Until when, in seconds since 1970 by the database's clock.
        seconds_left: Until then; below 0 when it has passed.
    """

    owner: str
    deadline: float
    seconds_left: float


class LeaseTable(Protocol):
    """The leases of all studies of a storage. Each call is one transaction, and may come from any thread."""

    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> bool:
        """Takes what nobody holds, or takes it over; returns whether that was so.

        Args:
            study: The study's key.
            number: What is taken.
            owner: Who takes it.
            seconds: For how long.
            instead_of: Whose lease is taken over, exactly as it was read; if it was renewed since, nothing happens.
        """

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        """Holds everything that an owner holds for so many seconds from now; returns the numbers."""

    def release(self, study: str, number: int, owner: str) -> bool:
        """Gives something back; returns whether the owner still held it."""

    def held(self, study: str) -> dict[int, Lease]:
        """Returns what is held of a study, also where the deadline has passed."""

    def delete(self, study: str) -> None:
        """Forgets everything that is held of a study."""


class SqlLeases:
    """A `LeaseTable` in a database.

    Args:
        engine: The database, whose tables `studies.schema.prepare` has made.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._now: sa.ColumnElement[float] = sa.literal_column(_NOW[engine.dialect.name], sa.Double())

    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> bool:
        """See `LeaseTable`."""
        deadline = self._now + seconds
        if instead_of is not None:
            same = (leases.c.owner == instead_of.owner) & (leases.c.deadline == instead_of.deadline)
            takeover = leases.update().where(_is(study, number), same).values(owner=owner, deadline=deadline)
            with self._engine.begin() as connection:
                return connection.execute(takeover).rowcount == 1
        try:
            with self._engine.begin() as connection:
                row = {"study_name": study, "number": number, "owner": owner, "deadline": deadline}
                connection.execute(leases.insert().values(**row))
        except IntegrityError:  # somebody holds it
            return False
        return True

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        """See `LeaseTable`."""
        own = (leases.c.study_name == study) & (leases.c.owner == owner)
        with self._engine.begin() as connection:
            connection.execute(leases.update().where(own).values(deadline=self._now + seconds))
            return set(connection.execute(sa.select(leases.c.number).where(own)).scalars())

    def release(self, study: str, number: int, owner: str) -> bool:
        """See `LeaseTable`."""
        with self._engine.begin() as connection:
            given = connection.execute(leases.delete().where(_is(study, number), leases.c.owner == owner))
            return given.rowcount == 1

    def held(self, study: str) -> dict[int, Lease]:
        """See `LeaseTable`."""
        columns = (leases.c.number, leases.c.owner, leases.c.deadline, leases.c.deadline - self._now)
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(*columns).where(leases.c.study_name == study)).all()
        return {number: Lease(owner, deadline, seconds) for number, owner, deadline, seconds in rows}

    def delete(self, study: str) -> None:
        """See `LeaseTable`."""
        with self._engine.begin() as connection:
            connection.execute(leases.delete().where(leases.c.study_name == study))


def _is(study: str, number: int) -> sa.ColumnElement[bool]:
    return (leases.c.study_name == study) & (leases.c.number == number)

"""Who holds which trial of a study, and until when: a table that any number of processes and machines may write.

Time is the database's, so that clocks of machines need not agree. What a process does with it is in
`studies.coordination.lease_manager`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from studies.database.damage import damaged
from studies.database.schema import leases

_NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "mysql": "(UNIX_TIMESTAMP(NOW(6)) + 0.0E0)",
    "mariadb": "(UNIX_TIMESTAMP(NOW(6)) + 0.0E0)",
}
"""Dialect -> its time now, in seconds since 1970."""


_NOBODY = ""
"""The owner of what was given back: the row stays, so that its epoch goes on."""


class Lease(NamedTuple):
    """Who holds something.

    Attributes:
        owner: The process, as `studies.coordination.owner` writes it.
        deadline: Until when, in seconds since 1970 by the database's clock.
        seconds_left: Until then; below 0 when it has passed.
        epoch: How often it was taken; see `studies.database.fencing`.
    """

    owner: str
    deadline: float
    seconds_left: float
    epoch: int


class LeaseTable(Protocol):
    """The leases of all studies of a storage. Each call is one transaction, and may come from any thread."""

    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> int:
        """Takes what nobody holds, or takes it over; returns its epoch from then on, 0 where it is not taken.

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

    def epochs(self, study: str) -> dict[int, int]:
        """Returns how often each thing of a study was taken, held or not."""

    def delete(self, study: str) -> None:
        """Forgets everything that is held of a study."""


class SqlLeases:
    """A `LeaseTable` in a database.

    Args:
        engine: The database, whose tables `studies.database.schema.prepare` has made.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._now: sa.ColumnElement[float] = sa.literal_column(_NOW[engine.dialect.name], sa.Double())

    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> int:
        """See `LeaseTable`."""
        before = leases.c.owner == _NOBODY
        if instead_of is not None:
            before = (leases.c.owner == instead_of.owner) & (leases.c.deadline == instead_of.deadline)
        new = {"owner": owner, "deadline": self._now + seconds}
        takeover = leases.update().where(_is(study, number), before).values(**new, epoch=leases.c.epoch + 1)
        try:
            with self._engine.begin() as connection:
                if connection.execute(takeover).rowcount == 1:
                    epoch = connection.execute(sa.select(leases.c.epoch).where(_is(study, number))).scalar_one()
                    return int(epoch)
                if instead_of is not None:
                    return 0
                connection.execute(leases.insert().values(study_name=study, number=number, epoch=1, **new))
        except IntegrityError:  # somebody holds it
            return 0
        return 1

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        """See `LeaseTable`."""
        own = (leases.c.study_name == study) & (leases.c.owner == owner)
        with self._engine.begin() as connection:
            connection.execute(leases.update().where(own).values(deadline=self._now + seconds))
            return set(connection.execute(sa.select(leases.c.number).where(own)).scalars())

    def release(self, study: str, number: int, owner: str) -> bool:
        """See `LeaseTable`."""
        with self._engine.begin() as connection:
            own = leases.update().where(_is(study, number), leases.c.owner == owner)
            return connection.execute(own.values(owner=_NOBODY)).rowcount == 1

    def held(self, study: str) -> dict[int, Lease]:
        """See `LeaseTable`."""
        columns = (leases.c.number, leases.c.owner, leases.c.deadline, leases.c.deadline - self._now, leases.c.epoch)
        are_held = (leases.c.study_name == study, leases.c.owner != _NOBODY)
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(*columns).where(*are_held)).all()
        found = {number: Lease(*of_number) for number, *of_number in rows}
        for number, lease in found.items():
            if not _can_be(lease):
                raise damaged(f"the lease {number} of {study!r} in the table {leases.name}", f"it is {lease}")
        return found

    def epochs(self, study: str) -> dict[int, int]:
        """See `LeaseTable`."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(leases.c.number, leases.c.epoch).where(leases.c.study_name == study))
            return {row.number: row.epoch for row in rows}

    def delete(self, study: str) -> None:
        """See `LeaseTable`."""
        with self._engine.begin() as connection:
            connection.execute(leases.delete().where(leases.c.study_name == study))


def _can_be(lease: Lease) -> bool:
    """Whether a lease is one that was written: SQLite keeps in a column whatever it is given."""
    times = (lease.deadline, lease.seconds_left)
    are_numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in times)
    return are_numbers and isinstance(lease.owner, str) and isinstance(lease.epoch, int)


def _is(study: str, number: int) -> sa.ColumnElement[bool]:
    return (leases.c.study_name == study) & (leases.c.number == number)

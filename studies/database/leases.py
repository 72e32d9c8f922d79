"""Leases of studies and trials: a table that any number of processes and machines may write.

Time is that of the database, so that clocks of machines need not agree. The protocol is in
`studies.coordination.lease_manager`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from studies.database.damage import damaged
from studies.database.schema import leases

_NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "mysql": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1.0E6)",
    "mariadb": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1.0E6)",
}
"""Dialect -> SQL expression of the current time in seconds since 1970, independent of daylight saving time."""


_NOBODY = ""
"""Owner of a released lease: the row remains, so that its epoch continues."""


class Lease(NamedTuple):
    """Lease of a study or a trial.

    Attributes:
        owner: Owning process, as `studies.coordination.owner` writes it.
        deadline: Expiry, in seconds since 1970 by the clock of the database.
        seconds_left: Seconds until expiry; below 0 afterwards.
        epoch: Number of times that it was acquired; see `studies.database.fencing`.
    """

    owner: str
    deadline: float
    seconds_left: float
    epoch: int


class LeaseTable:
    """Leases of all studies of a storage, in a database. Each call is one transaction, and is thread-safe.

    Args:
        engine: Database, with the tables that `studies.database.schema.prepare` created.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._now: sa.ColumnElement[float] = sa.literal_column(_NOW[engine.dialect.name], sa.Double())

    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> int:
        """Acquire a free lease, or take one over; return its new epoch, 0 if it was not acquired.

        Args:
            study: Key of the study.
            number: Number of the lease.
            owner: New owner.
            seconds: Duration.
            instead_of: Lease to take over, exactly as it was read; if it was renewed since, nothing happens.
        """
        before = leases.c.owner == _NOBODY
        if instead_of is not None:
            before = (leases.c.owner == instead_of.owner) & (leases.c.deadline == instead_of.deadline)
        elif self._is_held(study, number):  # most calls, where processes wait for it: they should not write
            return 0
        new = {"owner": owner, "deadline": self._now + seconds}
        takeover = leases.update().where(_is_row(study, number), before).values(**new, epoch=leases.c.epoch + 1)
        try:
            with self._engine.begin() as connection:
                if connection.execute(takeover).rowcount == 1:
                    epoch = connection.execute(sa.select(leases.c.epoch).where(_is_row(study, number))).scalar_one()
                    return int(epoch)
                if instead_of is not None:
                    return 0
                connection.execute(leases.insert().values(study_name=study, number=number, epoch=1, **new))
        except IntegrityError:  # held by another owner
            return 0
        return 1

    def _is_held(self, study: str, number: int) -> bool:
        with self._engine.connect() as connection:
            owner = connection.execute(sa.select(leases.c.owner).where(_is_row(study, number))).scalar_one_or_none()
        return owner not in (None, _NOBODY)

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        """Extend all leases of an owner by this duration from now; return their numbers."""
        own = (leases.c.study_name == study) & (leases.c.owner == owner)
        with self._engine.begin() as connection:
            connection.execute(leases.update().where(own).values(deadline=self._now + seconds))
            return set(connection.execute(sa.select(leases.c.number).where(own)).scalars())

    def release(self, study: str, number: int, owner: str) -> bool:
        """Release a lease; return whether the owner still held it."""
        with self._engine.begin() as connection:
            own = leases.update().where(_is_row(study, number), leases.c.owner == owner)
            return connection.execute(own.values(owner=_NOBODY)).rowcount == 1

    def held(self, study: str) -> dict[int, Lease]:
        """Return the leases of a study, expired ones included, by number."""
        columns = (leases.c.number, leases.c.owner, leases.c.deadline, leases.c.deadline - self._now, leases.c.epoch)
        are_held = (leases.c.study_name == study, leases.c.owner != _NOBODY)
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(*columns).where(*are_held)).all()
        found = {number: Lease(*of_number) for number, *of_number in rows}
        for number, lease in found.items():
            if not _is_valid(lease):
                raise damaged(f"the lease {number} of {study!r} in the table {leases.name}", f"it is {lease}")
        return found

    def epochs(self, study: str) -> dict[int, int]:
        """Return the epoch of each lease of a study, held or not, by number."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(leases.c.number, leases.c.epoch).where(leases.c.study_name == study))
            return {row.number: row.epoch for row in rows}

    def delete(self, study: str) -> None:
        """Delete all leases of a study."""
        with self._engine.begin() as connection:
            connection.execute(leases.delete().where(leases.c.study_name == study))


def _is_valid(lease: Lease) -> bool:
    """Return whether a lease is valid; SQLite does not enforce the types of columns."""
    times = (lease.deadline, lease.seconds_left)
    are_numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in times)
    return are_numbers and isinstance(lease.owner, str) and isinstance(lease.epoch, int)


def _is_row(study: str, number: int) -> sa.ColumnElement[bool]:
    return (leases.c.study_name == study) & (leases.c.number == number)

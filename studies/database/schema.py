"""Schema of Finder's tables, and their migrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from studies.database.damage import damaged
from studies.errors import StudyError

SCHEMA_VERSION = 3
"""Version of the schema. It is incremented whenever tables or their meaning change."""

_metadata = sa.MetaData()

_versions = sa.Table("finder_schema", _metadata, sa.Column("version", sa.Integer, primary_key=True))
"""All versions that the tables have had; the highest is the current one."""

episodes = sa.Table(
    "finder_episodes",
    _metadata,
    # 450 characters of 4 bytes and three numbers fit into the largest index key of MySQL.
    sa.Column("study_name", sa.String(450), primary_key=True),
    sa.Column("trial_number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seed", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("episode", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("env_steps", sa.BigInteger, nullable=False),
    sa.Column("episode_return", sa.Double),
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("loss", sa.Double),
    sa.Column("wall_seconds", sa.Double, nullable=False),
    sqlite_with_rowid=False,  # the key is the order in which curves are read: a third less space, and no second lookup
)
"""Episodes of all trials (`studies.database.episodes`); since version 1."""

leases = sa.Table(
    "finder_leases",
    _metadata,
    sa.Column("study_name", sa.String(450), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("deadline", sa.Double, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False, server_default="1"),
)
"""Leases of studies and trials (`studies.database.leases`); since version 2, with epochs since version 3."""


def _add_epochs(connection: sa.Connection) -> None:
    if "epoch" not in (column["name"] for column in sa.inspect(connection).get_columns(leases.name)):
        connection.exec_driver_sql(f"ALTER TABLE {leases.name} ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1")


_MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {
    2: lambda connection: leases.create(connection, checkfirst=True),
    3: _add_epochs,
}
"""Version -> migration from the previous one. Migrations are idempotent, as MySQL does not roll back schema changes."""


def prepare(engine: sa.Engine, place: str) -> None:
    """Create missing tables, and migrate older ones with their contents.

    Args:
        engine: Database.
        place: Name of the database in error messages.

    Raises:
        StudyError: If the tables were created by a newer version.
    """
    if version_of(engine) == SCHEMA_VERSION:
        for table in (episodes, leases):
            if not sa.inspect(engine).has_table(table.name):
                raise damaged(f"the storage {place!r}", f"its table {table.name} is missing")
        return
    fresh = not sa.inspect(engine).has_table(_versions.name)
    if fresh:
        _metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(
            _versions.update().values(version=_versions.c.version)
        )  # one process at a time, on every database
        version = connection.execute(sa.select(sa.func.max(_versions.c.version))).scalar()
        if version is None:
            # An interrupted first call created the tables but not this row.
            _metadata.create_all(connection)
            connection.execute(_versions.insert().values(version=SCHEMA_VERSION))
            return
        if version > SCHEMA_VERSION:
            raise newer_version(place, version)
        for further in range(version + 1, SCHEMA_VERSION + 1):
            _MIGRATIONS[further](connection)
            connection.execute(_versions.insert().values(version=further))


def version_of(engine: sa.Engine) -> int | None:
    """Return the version of the tables of a database, None if there are none.

    Raises:
        StudyError: If it is not a number, because another program wrote it.
    """
    if not sa.inspect(engine).has_table(_versions.name):
        return None
    with engine.connect() as connection:
        version = connection.execute(sa.select(sa.func.max(_versions.c.version))).scalar()
    if version is not None and (not isinstance(version, int) or version < 1):
        raise damaged(f"the table {_versions.name} of the storage", f"its version is {version!r}")
    return version


def newer_version(place: str, version: int) -> StudyError:
    """Return the error for tables of a newer version.

    Args:
        place: Name of the database.
        version: Version of its tables.
    """
    return StudyError(
        f"{place} was written by a newer version (schema {version}, this one knows {SCHEMA_VERSION}): upgrade Finder."
    )

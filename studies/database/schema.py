"""Our tables beside Optuna's, and how those that an older version made become today's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from studies.database.damage import damaged
from studies.errors import StudyError

SCHEMA_VERSION = 3
"""Version of our tables. Raised whenever they or their meaning change."""

_metadata = sa.MetaData()

_versions = sa.Table("finder_schema", _metadata, sa.Column("version", sa.Integer, primary_key=True))
"""Every version that the tables have had; the highest is what they are now."""

episodes = sa.Table(
    "finder_episodes",
    _metadata,
    # 450 characters of 4 bytes and three numbers fit into MySQL's largest index key.
    sa.Column("study_name", sa.String(450), primary_key=True),
    sa.Column("trial_number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seed", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("episode", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("env_steps", sa.BigInteger, nullable=False),
    sa.Column("episode_return", sa.Double),
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("loss", sa.Double),
    sa.Column("wall_seconds", sa.Double, nullable=False),
    sqlite_with_rowid=False,  # the key is the order in which curves are read: a third less file, and no second lookup
)
"""Every episode of every trial (`studies.database.episodes`); from version 1."""

leases = sa.Table(
    "finder_leases",
    _metadata,
    sa.Column("study_name", sa.String(450), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("deadline", sa.Double, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False, server_default="1"),
)
"""Who holds which trial of a study (`studies.database.leases`); from version 2, with epochs from version 3."""


def _add_epochs(connection: sa.Connection) -> None:
    if "epoch" not in (column["name"] for column in sa.inspect(connection).get_columns(leases.name)):
        connection.exec_driver_sql(f"ALTER TABLE {leases.name} ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1")


_MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {
    2: lambda connection: leases.create(connection, checkfirst=True),
    3: _add_epochs,
}
"""Version -> what makes it from the one before. May be run again over itself, as MySQL keeps half of what fails."""


def prepare(engine: sa.Engine, place: str) -> None:
    """Creates our tables where they are missing, and brings older ones up to today's version, with all that is in them.

    Args:
        engine: The database.
        place: How it is called in error messages.

    Raises:
        StudyError: If the tables were made by a newer version.
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
        connection.execute(_versions.update().values(version=_versions.c.version))  # one at a time, on every database
        version = connection.execute(sa.select(sa.func.max(_versions.c.version))).scalar()
        if version is None:
            # Somebody's first call, that was cut short between its tables and this row, made what is there.
            _metadata.create_all(connection)
            connection.execute(_versions.insert().values(version=SCHEMA_VERSION))
            return
        if version > SCHEMA_VERSION:
            raise newer_version(place, version)
        for further in range(version + 1, SCHEMA_VERSION + 1):
            _MIGRATIONS[further](connection)
            connection.execute(_versions.insert().values(version=further))


def version_of(engine: sa.Engine) -> int | None:
    """Returns the version of a database's tables, None where there are none.

    Raises:
        StudyError: It is no number: something else wrote it.
    """
    if not sa.inspect(engine).has_table(_versions.name):
        return None
    with engine.connect() as connection:
        version = connection.execute(sa.select(sa.func.max(_versions.c.version))).scalar()
    if version is not None and (not isinstance(version, int) or version < 1):
        raise damaged(f"the table {_versions.name} of the storage", f"its version is {version!r}")
    return version


def newer_version(place: str, version: int) -> StudyError:
    """Returns the error for tables that a newer version made.

    Args:
        place: How the database is called.
        version: The version of its tables.
    """
    return StudyError(
        f"{place} was written by a newer version (schema {version}, this one knows {SCHEMA_VERSION}): upgrade with "
        "pip install -U agentfinder."
    )

"""Episodes of all trials, in a table beside Optuna's, which holds only few intermediate values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from studies.database.damage import damaged
from studies.database.records import EpisodeRecord
from studies.database.schema import episodes
from studies.statistics.bounds import TIMES, ReturnExtremes

if TYPE_CHECKING:
    import pandas as pd

_KEY = ("study_name", "trial_number", "seed", "episode")
_VALUES = tuple(column.name for column in episodes.columns if column.name not in _KEY)
_COLUMNS = (*_KEY, *_VALUES)

_DELETED_ROWS = 50_000
"""Approximate number of rows that one transaction deletes, which holds the lock of a SQLite file."""

_KINDS = (
    ("env_steps", (int,)),
    ("episode_return", (float, int)),
    ("length", (int,)),
    ("loss", (float, int, type(None))),
    ("wall_seconds", (float, int)),
)
"""Types of the fields of an episode; SQLite does not enforce the types of columns."""


class EpisodeTable:
    """Episodes of all studies of a storage, in a database. Calls are thread-safe.

    Args:
        engine: Database, with the tables that `studies.database.schema.prepare` created.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._insert = _upsert(engine.dialect.name)

    def add(self, study_name: str, batch: Sequence[tuple[int, EpisodeRecord]]) -> None:
        """Write a batch in one transaction.

        Args:
            study_name: Key of the study.
            batch: Pairs of trial number and episode. An existing episode is replaced, so that a trial that is resumed
                from a checkpoint may send its last episodes again.
        """
        if not batch:
            return
        rows: dict[tuple[int, int, int], dict[str, Any]] = {  # by key: a statement cannot replace a row twice
            (number, record.seed, record.episode): {
                "study_name": study_name,
                "trial_number": number,
                "seed": record.seed,
                "episode": record.episode,
                "env_steps": record.env_steps,
                "episode_return": _finite(record.episode_return),
                "length": record.length,
                "loss": _finite(record.loss),
                "wall_seconds": record.wall_seconds,
            }
            for number, record in batch
        }
        with self.engine.begin() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(self._insert, {name: [row[name] for row in rows.values()] for name in _COLUMNS})
            else:
                connection.execute(self._insert, list(rows.values()))

    def curve(self, study_name: str, trial_number: int) -> list[EpisodeRecord]:
        """Return the episodes of a trial, ordered by seed, then by episode. A return that was not finite is NaN."""
        return [episode for _, episode in self._read(study_name, trial_number)]

    def curves(self, study_name: str) -> dict[int, list[EpisodeRecord]]:
        """Return the episodes of every trial that has any, by trial number."""
        found: dict[int, list[EpisodeRecord]] = {}
        for number, episode in self._read(study_name, None):
            found.setdefault(number, []).append(episode)
        return found

    def delete(self, study_name: str, trial_number: int | None = None) -> None:
        """Delete all episodes of a study, or of one of its trials.

        Those of a study are deleted in several transactions: if the call is interrupted, a second one deletes the rest.
        """
        own = episodes.c.study_name == study_name
        if trial_number is not None:
            with self.engine.begin() as connection:
                connection.execute(episodes.delete().where(own, episodes.c.trial_number == trial_number))
            return
        number = episodes.c.trial_number
        last_of_portion = sa.select(number).where(own).order_by(number).offset(_DELETED_ROWS - 1).limit(1)
        while True:
            with self.engine.begin() as connection:
                last = connection.execute(last_of_portion).scalar()
                connection.execute(episodes.delete().where(own if last is None else own & (number <= last)))
            if last is None:
                return

    def return_extremes(self, study_name: str) -> ReturnExtremes | None:
        """Return the extremes of the returns of a study, None if no episode has a return."""
        columns = episodes.c
        own = sa.and_(columns.study_name == study_name, columns.episode_return.is_not(None), columns.length > 0)
        a_step = columns.episode_return / columns.length
        value = columns.episode_return
        extremes = sa.select(sa.func.min(value), sa.func.max(value), sa.func.min(a_step), sa.func.max(a_step))
        with self.engine.connect() as connection:
            lowest, highest, least, most = connection.execute(extremes.where(own)).one()
            if lowest is None:
                return None
            counts = [
                len(
                    connection.execute(
                        sa.select(columns.trial_number)
                        .where(own, value == extreme)
                        .group_by(columns.trial_number, columns.seed)
                        .having(sa.func.count() >= TIMES)
                    ).all()
                )
                for extreme in (lowest, highest)
            ]
        return ReturnExtremes(float(lowest), float(highest), counts[0], counts[1], float(least), float(most))

    def frame(self, study_name: str) -> pd.DataFrame:
        """Return all episodes of a study as a table, ordered by trial, seed and episode, for export and analysis."""
        import pandas as pd

        names = list(EpisodeRecord.__dataclass_fields__)
        rows = [
            (number, *(getattr(episode, name) for name in names))
            for number, episodes in self.curves(study_name).items()
            for episode in episodes
        ]
        table = pd.DataFrame.from_records(rows, columns=["trial_number", *names])
        return table.astype({"episode_return": "float64", "loss": "float64", "wall_seconds": "float64"})

    def _read(self, study_name: str, trial_number: int | None) -> Iterator[tuple[int, EpisodeRecord]]:
        """Yield trial number and episode, in order."""
        statement = sa.select(episodes).where(episodes.c.study_name == study_name)
        if trial_number is not None:
            statement = statement.where(episodes.c.trial_number == trial_number)
        statement = statement.order_by(episodes.c.trial_number, episodes.c.seed, episodes.c.episode)
        with self.engine.connect() as connection:
            rows = connection.execute(statement).all()
        for row in rows:
            record = EpisodeRecord(
                seed=row.seed,
                episode=row.episode,
                env_steps=row.env_steps,
                episode_return=math.nan if row.episode_return is None else row.episode_return,
                length=row.length,
                loss=row.loss,
                wall_seconds=row.wall_seconds,
            )
            if not all(type(getattr(record, name)) in kinds for name, kinds in _KINDS):
                what = f"an episode of trial {row.trial_number} of {study_name!r}"
                raise damaged(what, f"its row is {record}")
            yield row.trial_number, record


def _finite(value: float | None) -> float | None:
    """Return None for NaN and infinities: SQL has no portable literal for them."""
    return value if value is not None and math.isfinite(value) else None


def _upsert(dialect: str) -> sa.Insert:
    """Return an insert that replaces a row with the same key; its syntax differs between SQL dialects.

    For PostgreSQL, it inserts all rows at once, and its parameters are columns. Its driver would send one statement per
    row in a pipeline, within which the server keeps the locks of a client that stopped, whatever its timeout of idle
    transactions (`studies.storage.server_timeouts`).
    """
    if dialect == "sqlite":
        lite = sqlite.insert(episodes)
        return lite.on_conflict_do_update(index_elements=_KEY, set_={name: lite.excluded[name] for name in _VALUES})
    if dialect == "postgresql":
        types = {name: postgresql.ARRAY(episodes.c[name].type) for name in _COLUMNS}
        rows = sa.func.unnest(*(sa.bindparam(name, type_=kind) for name, kind in types.items()))
        columns = rows.table_valued(*_COLUMNS).render_derived().columns
        postgres = postgresql.insert(episodes).from_select(_COLUMNS, sa.select(*columns))
        return postgres.on_conflict_do_update(
            index_elements=_KEY, set_={name: postgres.excluded[name] for name in _VALUES}
        )
    if dialect in ("mysql", "mariadb"):
        my = mysql.insert(episodes)
        return my.on_duplicate_key_update({name: my.inserted[name] for name in _VALUES})
    return episodes.insert()

"""The history of a training in Parquet: every episode and every evaluation, written during the training.

A Parquet file cannot grow. So a table is a folder of files, ``history.parquet/``, which pandas, Polars, DuckDB and
pyarrow read like one file: each batch of rows is written to a new file, atomically. At intervals, and at the end, the
files are merged into one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from agents.callbacks.callback import Callback
from agents.errors import ConfigurationError
from agents.renamed import renamed_arguments
from agents.state_files.whole_file import remove_unfinished, replacing
from agents.training.records import Episode, Evaluation, metrics_of
from agents.training.training import require_alone

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

EPISODES, EVALUATIONS = "history.parquet", "evaluations.parquet"

_NUMBERS = pa.map_(pa.string(), pa.float64())
EPISODES_SCHEMA = pa.schema(
    {
        "episode": pa.int64(),
        "env_steps": pa.int64(),
        "return": pa.float64(),
        "length": pa.int64(),
        "loss": pa.float64(),
        "wall_seconds": pa.float64(),
        "environment": pa.int32(),
        "custom_metrics": _NUMBERS,
    }
)
EVALUATIONS_SCHEMA = pa.schema(
    {
        "evaluation": pa.int64(),
        "env_steps": pa.int64(),
        "n_training_episodes": pa.int64(),
        "mean_return": pa.float64(),
        "std_return": pa.float64(),
        "min_return": pa.float64(),
        "max_return": pa.float64(),
        "n_episodes": pa.int64(),
        "is_best": pa.bool_(),
        "metrics": _NUMBERS,
        "n_cut": pa.int64(),
    }
)

_LATER = {"custom_metrics", "n_cut"}
"""Columns that older histories lack."""

_ALIKE = ("env_steps", "return", "length", "loss", "wall_seconds")
"""Columns by which episodes of two trainings are told apart."""

_MOST_PARTS = 50
_TRIES = 5


class GrowingTable:
    """A Parquet table to which rows are appended. Its first column numbers the rows: 0, 1, 2, ...

    Args:
        folder: Folder of its files.
        schema: Its columns.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self._key = schema.names[0]

    def create(self) -> None:
        """Create the table, without rows, unless it exists."""
        if not self._parts():
            self._write(self.schema.empty_table(), 0)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows."""
        if not rows:
            return
        self._write(pa.Table.from_pylist(list(rows), self.schema), rows[0][self._key])
        if len(self._parts()) > _MOST_PARTS:
            self.merge()

    def read(self) -> pa.Table:
        """Return all rows. A row that is in two files, after an interrupted merge, is returned once."""
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):  # the writer has just merged the files
                return self._read()
        return self._read()

    def _read(self) -> pa.Table:
        tables, n_rows = [self.schema.empty_table()], 0
        for path in self._parts():
            part = pq.ParquetFile(path).read()
            part = part.slice(max(0, n_rows - part[self._key][0].as_py())) if len(part) else part
            tables.append(part)
            n_rows += len(part)
        return pa.concat_tables(tables, promote_options="default")

    def cut(self, n_rows: int) -> None:
        """Keep the first rows only."""
        there = self.read()
        if len(there) > n_rows or (n_rows == 0 and self._parts()):
            self._replace(there.slice(0, n_rows))

    def merge(self) -> None:
        """Merge all files into one."""
        if len(self._parts()) > 1:
            self._replace(self.read())

    def _replace(self, table: pa.Table) -> None:
        others = [path for path in self._parts() if path.name != _name(0)]
        self._write(table, 0)
        for path in others:
            path.unlink(missing_ok=True)

    def _write(self, table: pa.Table, first: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / _name(first), for_all=True) as file:
            pq.write_table(table, file)

    def _parts(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.parquet") if not path.name.startswith("."))


def _is_of(table: pa.Table, episodes: Sequence[Episode]) -> bool:
    """Return whether a table may be an earlier or later history of a training: the newest common episode is equal."""
    common = min(len(table), len(episodes))
    if common == 0:
        return True
    row, episode = table.slice(common - 1, 1).to_pylist()[0], episodes[common - 1]
    ours = _episode_row(episode)
    return all(row[name] == ours[name] or row[name] != row[name] for name in _ALIKE)  # NaN is unlike itself


def _name(first: int) -> str:
    return f"{first:012d}.parquet"


class HistoryFile(Callback):
    """Write every episode and every evaluation of a training to `history.parquet` and `evaluations.parquet`.

    Rows are written at most every few seconds, and at the end; after a kill the last rows are missing. A resumed
    training continues its history: rows after the checkpoint are removed, missing rows are written.

    Args:
        folder: Folder of both tables; it belongs to one training.
        every_seconds: Seconds between files. Defaults to 5.
        overwrite: Whether a new training replaces the history of another one; otherwise this is an error.
    """

    last = True

    @renamed_arguments(anew="overwrite")
    def __init__(self, folder: str | Path, *, every_seconds: float = 5.0, overwrite: bool = False) -> None:
        self.folder = Path(folder)
        self.every_seconds = every_seconds
        self.overwrite = overwrite
        self._episodes = GrowingTable(self.folder / EPISODES, EPISODES_SCHEMA)
        self._evaluations = GrowingTable(self.folder / EVALUATIONS, EVALUATIONS_SCHEMA)
        self._new_episodes: list[dict[str, Any]] = []
        self._new_evaluations: list[dict[str, Any]] = []
        self._next = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        require_alone(trainer, "HistoryFile")
        history, there = trainer.history, self._episodes.read()
        n_evaluations = len(self._evaluations.read())
        is_other = bool(len(there) or n_evaluations) if trainer.is_new else not _is_of(there, history.episodes)
        if is_other and not self.overwrite:
            raise ConfigurationError(
                f"{self.folder} has the history of another training, of {len(there):,} episodes and {n_evaluations:,} "
                f"evaluations: resume that training (agents.resume), or use another folder."
            )
        for table in (self._episodes, self._evaluations):
            remove_unfinished(table.folder)
        self._episodes.cut(0 if is_other else len(history.episodes))
        self._evaluations.cut(0 if is_other else len(history.evaluations))
        self._episodes.create()
        n_there, n_evaluations = len(self._episodes.read()), len(self._evaluations.read())
        self._new_episodes = [_episode_row(episode) for episode in history.episodes[n_there:]]
        further = enumerate(history.evaluations[n_evaluations:], n_evaluations)
        self._new_evaluations = [_evaluation_row(index, evaluation) for index, evaluation in further]
        self.write()

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        self._new_episodes.append(_episode_row(episode))
        if time.monotonic() >= self._next:
            self.write()

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        index = len(trainer.history.evaluations) - 1
        self._new_evaluations.append(_evaluation_row(index, evaluation))
        self.write()

    def on_train_end(self, trainer: Trainer) -> None:
        self.write()
        self._episodes.merge()
        self._evaluations.merge()

    def write(self) -> None:
        """Write all rows since the last call."""
        self._episodes.append(self._new_episodes)
        self._evaluations.append(self._new_evaluations)
        self._new_episodes, self._new_evaluations = [], []
        self._next = time.monotonic() + self.every_seconds


def read_history(place: str | Path) -> pa.Table:
    """Return every episode of a training: `episode`, `env_steps`, `return`, `length`, `loss`, `wall_seconds`, ...

    `custom_metrics` are pairs of a name and a number.

    Args:
        place: The folder of a run, or its `history.parquet`.

    Raises:
        ConfigurationError: There is no history, or it cannot be read.
    """
    return _read(Path(place), EPISODES, EPISODES_SCHEMA)


def read_evaluations(place: str | Path) -> pa.Table:
    """Return every evaluation of a training; none if it was not evaluated.

    Args:
        place: The folder of a run.

    Raises:
        ConfigurationError: They cannot be read.
    """
    folder = Path(place) / EVALUATIONS
    return _read(Path(place), EVALUATIONS, EVALUATIONS_SCHEMA) if folder.exists() else EVALUATIONS_SCHEMA.empty_table()


def _read(place: Path, name: str, schema: pa.Schema) -> pa.Table:
    folder = place if place.name == name or not (place / name).exists() else place / name
    try:
        if folder.is_file():
            table = pq.ParquetFile(folder).read()
        elif folder.name == name and folder.is_dir():
            table = GrowingTable(folder, schema).read()
        else:
            raise ConfigurationError(f"There is no history of a training in {str(place)!r}.")
    except (OSError, pa.ArrowException) as error:
        raise ConfigurationError(f"The history {str(folder)!r} cannot be read: {error}") from error
    missing = sorted(set(schema.names) - set(table.column_names) - _LATER)
    if missing:
        raise ConfigurationError(f"{str(folder)!r} is no history of a training: it has no column {missing[0]!r}.")
    return pa.concat_tables([schema.empty_table(), table], promote_options="default")


def _episode_row(episode: Episode) -> dict[str, Any]:
    return {
        "episode": episode.index,
        "env_steps": episode.env_steps,
        "return": episode.episode_return,
        "length": episode.length,
        "loss": episode.loss,
        "wall_seconds": episode.wall_seconds,
        "environment": episode.environment,
        "custom_metrics": list(metrics_of(episode).items()),
    }


def _evaluation_row(index: int, evaluation: Evaluation) -> dict[str, Any]:
    return {"evaluation": index, **evaluation._asdict(), "metrics": list(evaluation.metrics.items())}

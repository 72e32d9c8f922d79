"""Table of finished runs: the value of every configuration on every seed, at several marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from studies.errors import StudyError
from studies.spaces.spaces import Json
from studies.statistics.values import mean_of_seeds

Array = np.ndarray[Any, Any]

COLUMNS = ("config", "seed", "env_steps", "return")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """Finished runs of C configurations on S seeds, each judged at T marks. Higher returns are better.

    Attributes:
        configs: [C] names.
        params: [C] configurations: the further columns.
        seeds: [S] seeds; positions from 0 if configurations have different ones.
        marks: [T] environment steps, ascending; the last one is the whole budget of a run.
        values: [C, S, T] returns. A run without one (it diverged, or no episode had ended yet) counts as the worst of
            the table at that mark. Marks at which no run has one are left out.
        counts: [C] seeds that each configuration has, the first ones of `values`; the others are NaN. Defaults to S.
        known: [C, S, T] whether a run had a value of its own. Defaults to where `values` are finite.
    """

    configs: tuple[str, ...]
    params: tuple[Mapping[str, Json], ...]
    seeds: tuple[int, ...]
    marks: tuple[int, ...]
    values: Array
    counts: tuple[int, ...] = ()
    known: Array | None = None

    def __post_init__(self) -> None:
        if not self.counts:
            object.__setattr__(self, "counts", (len(self.seeds),) * len(self.configs))

    def cost(self, mark: int) -> float:
        """Return what training one run from the mark before to this one costs, as a share of a whole run."""
        before = self.marks[mark - 1] if mark else 0
        return (self.marks[mark] - before) / self.marks[-1]

    def find(self, row: Mapping[str, Json]) -> int | None:
        """Return the position of a configuration, None if the table has none; numbers are equal to 4 digits or so."""
        for config, params in enumerate(self.params):
            if params.keys() == row.keys() and all(_is_equal(params[name], value) for name, value in row.items()):
                return config
        return None

    @property
    def shares(self) -> Array:
        """[T] marks as shares of the whole budget."""
        return np.asarray(self.marks, np.float64) / self.marks[-1]

    @classmethod
    def read(cls, path: str | Path) -> RunTable:
        """Read a table from a CSV or Parquet file.

        Args:
            path: The file. Its columns are `config`, `seed`, `env_steps` and `return`; any others, equal on all rows of
                a config, are the configuration, and name it if there is no `config`. Configs may have different numbers
                of seeds. Where runs have values after different steps, all are judged at `N_MARKS` common marks, evenly
                spaced up to the median length of the runs, by their last value at or before each; a run that ended
                earlier keeps its last value.

        Raises:
            StudyError: If the file cannot be read, or is not such a table; the message names the first problem.
        """
        import pandas as pd

        file = Path(path)
        readers: dict[str, Any] = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
        if file.suffix.lower() not in readers:
            raise StudyError(f"the table {str(path)!r} is neither a .csv nor a .parquet file.")
        try:
            frame = readers[file.suffix.lower()](file)
        except FileNotFoundError:
            raise StudyError(f"there is no table {str(path)!r}: check the path.") from None
        except (OSError, ValueError) as error:
            raise StudyError(f"the table {str(path)!r} cannot be read: {error}") from error
        return cls.of_frame(frame)

    @classmethod
    def of_frame(cls, frame: Any) -> RunTable:
        """Return the table of a DataFrame; see `read`."""
        frame = _checked(frame)
        configs = tuple(frame["config"].drop_duplicates())
        params = _params(frame, configs)
        frame = frame.sort_values("env_steps", kind="stable", ignore_index=True)
        steps, returns = frame["env_steps"].to_numpy(), frame["return"].to_numpy(np.float64)
        runs = frame.groupby(["config", "seed"], sort=True).indices  # rows of each, by steps
        marks = _common_marks([tuple(steps[rows].tolist()) for rows in runs.values()])
        of_config = {config: [seed for own, seed in runs if own == config] for config in configs}
        counts = tuple(len(of_config[config]) for config in configs)
        values = np.full((len(configs), max(counts), len(marks)), np.nan)
        for c, config in enumerate(configs):
            for s, seed in enumerate(of_config[config]):
                rows = runs[config, seed]
                values[c, s] = _values_at(marks, steps[rows], returns[rows])
        some = np.isfinite(values).any(axis=(0, 1))
        if not some.any():
            raise StudyError("the table has no return that is a number.")
        marks, values = tuple(mark for mark, there in zip(marks, some, strict=True) if there), values[:, :, some]
        first = of_config[configs[0]]
        shared = all(seeds == first for seeds in of_config.values())
        return cls(
            configs=configs,
            params=params,
            seeds=tuple(map(int, first)) if shared else tuple(range(max(counts))),
            marks=marks,
            values=_without_gaps(values, counts),
            counts=counts,
            known=np.isfinite(values),
        )

    @property
    def is_even(self) -> bool:
        """Return whether all configurations have equally many seeds."""
        return len(set(self.counts)) == 1

    def worth(self, first: Sequence[int] | None = None) -> Array:
        """Return the [C] means of the final values over seeds.

        Args:
            first: [C] numbers of first seeds that are left out. Defaults to None: 0.
        """
        if self.is_even and first is None:
            finals: Array = mean_of_seeds(self.values[:, :, -1])
            return finals
        skipped = first or (0,) * len(self.configs)
        return np.array([mean_of_seeds(self.values[c, skipped[c] : n, -1]) for c, n in enumerate(self.counts)])

    def only_seeds(self, positions: Array) -> RunTable:
        """Return the runs of some of the seeds, by position; a position may occur twice.

        A run without a value counts as the worst of these: nothing depends on other seeds.

        Args:
            positions: [n] positions; or [C, n] of each configuration, -1 where it has fewer.
        """
        values = np.where(self._is_known, self.values, np.nan)
        if positions.ndim == 1:
            seeds, values = tuple(self.seeds[int(i)] for i in positions), values[:, positions]
            counts = (len(positions),) * len(self.configs)
        else:
            seeds, values = tuple(range(positions.shape[1])), values[np.arange(len(self.configs))[:, None], positions]
            values = np.where((positions >= 0)[:, :, None], values, np.nan)  # [C, n, T]
            counts = tuple(int(n) for n in (positions >= 0).sum(axis=1))
        return replace(
            self, seeds=seeds, values=_without_gaps(values, counts), counts=counts, known=np.isfinite(values)
        )

    @property
    def _is_known(self) -> Array:
        return np.isfinite(self.values) if self.known is None else self.known


N_MARKS = 20
"""Marks of a table whose runs were judged at different steps."""


def _checked(frame: Any) -> Any:
    """Return a DataFrame with names of configurations and numbers.

    Raises:
        StudyError: If it is no table of runs.
    """
    further = _further_columns(frame)
    missing = [name for name in COLUMNS if name not in frame.columns and not (name == "config" and further)]
    if missing:
        has = f", and has {', '.join(map(str, frame.columns))}" if len(frame.columns) else ""
        raise StudyError(f"the table has no column {missing[0]!r}: it needs {', '.join(COLUMNS)}{has}.")
    if frame.empty:
        raise StudyError(f"the table has no rows: it needs {', '.join(COLUMNS)}.")
    names = frame["config"].astype(str) if "config" in frame.columns else _names_of_configs(frame, further)
    numbers = {name: _numbers(frame, name) for name in COLUMNS[1:]}
    frame = frame.assign(config=names, **numbers)
    if not (frame["env_steps"] > 0).all():
        raise StudyError("env_steps has a value that is not above 0.")
    repeated = frame[frame.duplicated(["config", "seed", "env_steps"])]
    if len(repeated):
        first = repeated.iloc[0]
        raise StudyError(
            f"the table has two values of {first['config']!r} with seed {first['seed']} after "
            f"{first['env_steps']} environment steps."
        )
    return frame


def _further_columns(frame: Any) -> list[str]:
    """Return the names of the columns that are the configuration."""
    return [name for name in frame.columns if name not in COLUMNS]


def _names_of_configs(frame: Any, further: list[str]) -> list[str]:
    """Return the configuration of each row as its name: `learning_rate=0.001, optimizer=adam`.

    Raises:
        StudyError: If no two rows have the same, so that a column is no hyperparameter.
    """
    import pandas as pd

    names = [
        ", ".join(f"{name}={_plain(value)}" for name, value in zip(further, row, strict=True) if pd.notna(value))
        for row in frame[further].itertuples(index=False, name=None)
    ]
    if frame["env_steps"].nunique() > 1 and len(set(names)) == len(frame):
        raise StudyError(
            f"every row has another configuration ({', '.join(map(str, further))}): leave out the columns that change "
            "during a run, or name the configurations in a column 'config'."
        )
    return names


def _common_marks(steps: Sequence[tuple[float, ...]]) -> tuple[int, ...]:
    """Return the marks that all runs have, or `N_MARKS` evenly spaced ones up to the median length of the runs."""
    if len(set(steps)) == 1:
        return tuple(map(int, steps[0]))
    budget = float(np.median([own[-1] for own in steps]))
    return tuple(sorted({round(budget * (i + 1) / N_MARKS) for i in range(N_MARKS)} - {0}))


def _values_at(marks: Sequence[int], steps: Array, values: Array) -> Array:
    """Return the last value of a run at or before each mark; NaN before its first one."""
    at = np.searchsorted(steps, marks, side="right") - 1
    found: Array = np.where(at >= 0, values[np.maximum(at, 0)], np.nan)
    return found


def _numbers(frame: Any, name: str) -> Any:
    """Return a column as numbers; only returns may be missing."""
    import pandas as pd

    numbers = pd.to_numeric(frame[name], errors="coerce")
    wrong = frame[name][numbers.isna() & (frame[name].notna() | (name != "return"))]
    if len(wrong):
        raise StudyError(f"the column {name!r} has {wrong.iloc[0]!r}, which is not a number.")
    return numbers


def _params(frame: Any, configs: tuple[str, ...]) -> tuple[Mapping[str, Json], ...]:
    further = _further_columns(frame)
    grouped = frame.groupby("config", sort=False)
    for name in further:
        counts = grouped[name].nunique(dropna=False)
        if (counts > 1).any():
            raise StudyError(f"the column {name!r} is not the same on all rows of {counts.idxmax()!r}.")
    firsts = grouped.first()
    return tuple({name: _plain(firsts.loc[config, name]) for name in further} for config in configs)


def _is_equal(one: Json, other: Json) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-3)
    return bool(one == other)


def _plain(value: Any) -> Json:
    plain: Json = value.item() if hasattr(value, "item") else value
    return plain


def _without_gaps(values: Array, counts: Sequence[int]) -> Array:
    """Return values in which missing returns of runs are replaced by the worst of all at that mark.

    Where no run has a return at a mark, it is the worst of all marks.
    """
    least = np.where(np.isfinite(values), values, np.inf).min(axis=(0, 1))  # [T]
    some = np.isfinite(least)
    worst = np.where(some, least, least.min() if some.any() else 0.0)
    is_run = np.arange(values.shape[1]) < np.array(counts)[:, None]  # [C, S]
    return np.where(np.isfinite(values) | ~is_run[:, :, None], values, worst)

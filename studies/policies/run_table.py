"""Table of finished runs: the value of every configuration on every seed, at several marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.errors import StudyError
from studies.spec.spaces import Json

Array = np.ndarray[Any, Any]

COLUMNS = ("config", "seed", "env_steps", "return")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """Finished runs of C configurations on S seeds, each judged at T marks. Higher returns are better.

    Attributes:
        configs: [C] names.
        params: [C] configurations: the further columns.
        seeds: [S] seeds.
        marks: [T] environment steps, ascending; the last one is the whole budget of a run.
        values: [C, S, T] returns. A run without one (it diverged, or no episode had ended yet) counts as the worst of
            the table at that mark. Marks at which no run has one are left out.
    """

    configs: tuple[str, ...]
    params: tuple[Mapping[str, Json], ...]
    seeds: tuple[int, ...]
    marks: tuple[int, ...]
    values: Array

    @property
    def shares(self) -> Array:
        """[T] marks as shares of the whole budget."""
        return np.asarray(self.marks, np.float64) / self.marks[-1]

    @classmethod
    def read(cls, path: str | Path) -> RunTable:
        """Read a table from a CSV or Parquet file.

        Args:
            path: The file. Its columns are `config`, `seed`, `env_steps` and `return`; any others, equal on all rows of
                a config, are the configuration. Every config has every seed, and every run every mark.

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
        missing = [name for name in COLUMNS if name not in frame.columns]
        if missing:
            raise StudyError(f"the table has no column {missing[0]!r}: it needs {', '.join(COLUMNS)}.")
        if frame.empty:
            raise StudyError(f"the table has no rows: it needs {', '.join(COLUMNS)}.")
        frame = frame.assign(**{name: _numbers(frame, name) for name in COLUMNS[1:]})
        if not (frame["env_steps"] > 0).all():
            raise StudyError("env_steps has a value that is not above 0.")
        keys = ["config", "seed", "env_steps"]
        repeated = frame[frame.duplicated(keys)]
        if len(repeated):
            first = repeated.iloc[0]
            raise StudyError(
                f"the table has two values of {first['config']!r} with seed {first['seed']} after "
                f"{first['env_steps']} environment steps."
            )
        configs = tuple(str(config) for config in frame["config"].drop_duplicates())
        seeds = tuple(sorted(int(seed) for seed in frame["seed"].unique()))
        marks = tuple(sorted(int(mark) for mark in frame["env_steps"].unique()))
        wanted = len(configs) * len(seeds) * len(marks)
        if len(frame) != wanted:
            raise StudyError(
                f"the table has {len(frame)} rows, not {wanted}: each of {len(configs)} configs needs each of "
                f"{len(seeds)} seeds at each of {len(marks)} marks."
            )
        ordered = frame.assign(config=frame["config"].astype(str)).set_index(keys)["return"]
        index = [(config, seed, mark) for config in configs for seed in seeds for mark in marks]
        values = ordered.reindex(index).to_numpy(np.float64).reshape(len(configs), len(seeds), len(marks))
        some = np.isfinite(values).any(axis=(0, 1))
        if not some.any():
            raise StudyError("the table has no return that is a number.")
        marks, values = tuple(mark for mark, there in zip(marks, some, strict=True) if there), values[:, :, some]
        return cls(
            configs=configs, params=_params(frame, configs), seeds=seeds, marks=marks, values=_without_gaps(values)
        )

    def only_seeds(self, positions: Array) -> RunTable:
        """Return the runs of some of the seeds, by position; a position may occur twice."""
        seeds = tuple(self.seeds[int(i)] for i in positions)
        return RunTable(
            configs=self.configs, params=self.params, seeds=seeds, marks=self.marks, values=self.values[:, positions]
        )


def _numbers(frame: Any, name: str) -> Any:
    """Return a column as numbers; only returns may be missing."""
    import pandas as pd

    numbers = pd.to_numeric(frame[name], errors="coerce")
    wrong = frame[name][numbers.isna() & (frame[name].notna() | (name != "return"))]
    if len(wrong):
        raise StudyError(f"the column {name!r} has {wrong.iloc[0]!r}, which is not a number.")
    return numbers


def _params(frame: Any, configs: tuple[str, ...]) -> tuple[Mapping[str, Json], ...]:
    further = [name for name in frame.columns if name not in COLUMNS]
    grouped = frame.assign(config=frame["config"].astype(str)).groupby("config", sort=False)
    for name in further:
        counts = grouped[name].nunique(dropna=False)
        if (counts > 1).any():
            raise StudyError(f"the column {name!r} is not the same on all rows of {counts.idxmax()!r}.")
    firsts = grouped.first()
    return tuple({name: _plain(firsts.loc[config, name]) for name in further} for config in configs)


def _plain(value: Any) -> Json:
    plain: Json = value.item() if hasattr(value, "item") else value
    return plain


def _without_gaps(values: Array) -> Array:
    """Return values in which missing returns are replaced by the worst of all at that mark."""
    worst = np.where(np.isfinite(values), values, np.inf).min(axis=(0, 1))  # [T]
    return np.where(np.isfinite(values), values, worst)

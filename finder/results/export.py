"""Export of a study as a table in a file: its trials, or all of their episodes."""

from __future__ import annotations

import json
import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial

from agents.errors import ConfigurationError
from finder.results.table import trial_table
from studies.spec.attributes import seed_values, stopped_values
from studies.study.study import OpenStudy, check_open

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")
"""Endings of the names of files that can be written."""


def export(study: OpenStudy, path: str | PathLike[str], *, episodes: bool = False) -> Path:
    """Write the trials of a study, or all of their episodes, as a table, and return the file's absolute path.

    Trials have the columns of `SearchResult.table`, the trial that they confirm on further seeds (`confirms`), and the
    value of each seed (`value_of_seed_0`, ...). Episodes have a row each: trial, seed, index, environment steps so far,
    return, length, loss and seconds, all of them, also where figures show fewer points.

    Args:
        study: The study.
        path: The file, which is replaced: ``.csv`` or ``.parquet``.
        episodes: Whether episodes are written. Defaults to False: trials.

    Raises:
        ConfigurationError: The file has another ending or cannot be written, or the study has no trials.
        StudyError: The study was deleted since it was opened, or is not open, but named for example.
    """
    check_open(study)
    output = Path(path)
    if output.suffix.lower() not in SUFFIXES:
        raise ConfigurationError(f"{str(output)!r} must end in {' or '.join(SUFFIXES)}.")
    frame = _episodes(study) if episodes else _trials(study)
    try:
        if output.suffix.lower() == ".csv":
            frame.to_csv(output, index=False)
        else:
            frame.to_parquet(output, index=False)
    except OSError as error:
        raise ConfigurationError(f"{str(output)!r} cannot be written: {error.strerror or error}.") from error
    return output.resolve()


def _episodes(study: OpenStudy) -> pd.DataFrame:
    if not study.all_trials():
        raise _nothing_to_export(study)
    return study.storage.episodes.frame(study.episodes_key).rename(columns={"trial_number": "trial"})


def _trials(study: OpenStudy) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(trial_table(study, confirmations=True))
    if frame.empty:
        raise _nothing_to_export(study)
    frame["confirms"] = frame["confirms"].astype("Int64")  # whole numbers, in spite of missing ones
    values = {trial.number: seed_values(trial) or _where_stopped(trial) for trial in study.all_trials()}
    for seed in sorted({seed for own in values.values() for seed in own}):
        frame[f"value_of_seed_{seed}"] = [values[number].get(seed) for number in frame["trial"]]
    mixed = [name for name, kind in frame.dtypes.items() if kind.kind == "O"]  # values of several types, or texts
    for name in mixed:
        frame[name] = frame[name].map(_text)
    return frame


def _where_stopped(trial: FrozenTrial) -> dict[int, float]:
    """Return the values by which a finalist is judged that a spent budget has stopped; {} for other trials."""
    report = stopped_values(trial)
    return {} if report is None else report[1]


def _nothing_to_export(study: OpenStudy) -> ConfigurationError:
    return ConfigurationError(f"The study {study.name!r} has no trials yet: there is nothing to export.")


def _text(value: Any) -> str | None:
    is_missing = value is None or (isinstance(value, float) and math.isnan(value))
    return None if is_missing else value if isinstance(value, str) else json.dumps(value)

"""Headers of a training's checkpoints, and the search for a checkpoint by them.

They are read without the other parts of a file, and without TensorFlow.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pydantic

from agents.errors import ConfigurationError
from agents.state_files import state_file
from agents.state_files.state_file import SUFFIX

log = logging.getLogger(__name__)

FORMAT = 2
"""Format of the checkpoints of this version; format 1 is one pickle."""

FORMATS = (1, FORMAT)
KIND = "training"

Contents = Literal["everything", "weights"]


@dataclass(frozen=True, kw_only=True)
class CheckpointHeader:
    """Header of a checkpoint, read without its other parts, and without TensorFlow.

    Attributes:
        algorithm: Class of the agent.
        environment: The environment.
        env_kwargs: The environment's arguments, as text if they are not JSON.
        observation_space: The agent's observation space, as text.
        action_space: The agent's action space, as text.
        config: The hyperparameters.
        seed: Seed of the training.
        env_steps: Environment steps so far.
        episodes: Complete episodes.
        gradient_steps: Gradient steps so far.
        contents: ``"everything"``: the training can be resumed. ``"weights"``: for playing, or as initial weights.
        in_episodes: Whether it has copies of the environments. Otherwise a resumed training begins new episodes.
        value: Value of the training at that time (see `judged_by`), or None.
        judged_by: Measure of the value; see `agents.callbacks.evaluate`.
        versions: Versions of the packages that wrote it.
        written: Time, as ISO 8601.
        wrappers: The environment's wrappers, as text. Earlier checkpoints have none.
        max_episode_steps: The environment's step limit, if set.
    """

    algorithm: str
    environment: str
    env_kwargs: dict[str, Any]
    observation_space: str
    action_space: str
    config: dict[str, Any]
    seed: int
    env_steps: int
    episodes: int
    gradient_steps: int
    contents: Contents
    in_episodes: bool
    value: float | None
    judged_by: str
    versions: dict[str, str]
    written: str
    wrappers: list[str] = field(default_factory=list)
    max_episode_steps: int | None = None


def header_of(path: str | Path) -> CheckpointHeader:
    """Read the header of a checkpoint.

    Raises:
        ConfigurationError: There is no such file, it is incomplete, not a checkpoint, or of a newer version.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(f"There is no checkpoint {str(path)!r}.")
    fields = state_file.read_header(path)
    if fields is None:
        raise ConfigurationError(f"{path} is not a complete checkpoint: it was cut off, or is no file of Finder.")
    if fields.pop("kind", None) != KIND:
        raise ConfigurationError(
            f"{path} is a checkpoint of a study's trials, not of a training: resume the study instead."
        )
    if not isinstance(fields.get("format"), int):
        raise _damaged(path, f"its format is {fields.get('format')!r}")
    if fields["format"] > FORMAT:
        raise ConfigurationError(
            f"{path} has format {fields['format']}, and this version of Finder reads up to format {FORMAT}: it was "
            f"written by agentfinder {fields.get('versions', {}).get('agentfinder', 'of a later version')}, take that."
        )
    fields.pop("format")
    try:
        return pydantic.TypeAdapter(CheckpointHeader).validate_python(fields)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None


def _damaged(path: Path, reason: str) -> ConfigurationError:
    """Return the error for a damaged checkpoint."""
    return ConfigurationError(f"{path} is damaged ({reason}): take another checkpoint.")


def find(place: str | Path, *, best: bool = False) -> Path:
    """Return the path of a checkpoint: the file itself, or the newest one in a folder (of a run, or of checkpoints).

    Args:
        place: A file or a folder.
        best: Whether to return the one with the greatest value of a folder instead (`best_of`).

    Raises:
        ConfigurationError: There is none.
    """
    try:
        place = Path(place)
    except TypeError:
        raise ConfigurationError(f"A checkpoint is {place!r}: give the path of a file or a folder.") from None
    if place.is_file():
        if best:
            raise ConfigurationError(f"{place} is a single checkpoint: give a folder to find the best one.")
        return place
    folder = place / "checkpoints" if (place / "checkpoints").is_dir() else place
    found = list_checkpoints(folder)
    damaged = [path for path in sorted(folder.glob(f"*{SUFFIX}")) if path not in found and _is_damaged(path)]
    if not found:
        problem = "no checkpoint of a training is in it" if folder.is_dir() else "there is no such file or folder"
        if damaged:
            problem = (
                f"no checkpoint in it is whole; cut off, or not ours, are {', '.join(path.name for path in damaged)}"
            )
        raise ConfigurationError(f"{str(place)!r}: {problem}.")
    if not best:
        newest, header = list(found.items())[-1]
        for path in damaged:
            if path.name[0].isdigit() and path.name > newest.name:  # names begin with the environment steps
                _warn_damaged(path, newest, header.env_steps)
        return newest
    chosen = best_of(found)
    if chosen is None:
        raise ConfigurationError(
            f"No checkpoint in {str(place)!r} has a value: too few episodes had ended, or nothing was evaluated. Take "
            f"the newest."
        )
    return chosen


def best_of(found: Mapping[Path, CheckpointHeader], judged_by: str | None = None) -> Path | None:
    """Return the checkpoint with the greatest value; None if none has one.

    Values of different measures are not compared.

    Args:
        found: Checkpoints, oldest first, with their headers.
        judged_by: Measure of the values. Defaults to that of the newest checkpoint with a value.
    """
    valued = {path: header for path, header in found.items() if header.value is not None}
    if judged_by is None and valued:
        judged_by = list(valued.values())[-1].judged_by
    values = {path: header.value or 0.0 for path, header in valued.items() if header.judged_by == judged_by}
    return max(values, key=lambda path: values[path], default=None)


@functools.cache  # once in a process
def _warn_damaged(damaged: Path, newest: Path, env_steps: int) -> None:
    log.warning(
        "%s is damaged (cut off?): taking the newest whole checkpoint, %s, after %s environment steps.",
        *(damaged, newest.name, f"{env_steps:,}"),
    )


def list_checkpoints(folder: Path) -> dict[Path, CheckpointHeader]:
    """Return all complete checkpoints of a training in a folder, oldest first; none if the folder does not exist."""
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with contextlib.suppress(ConfigurationError):  # damaged, of something else, or removed meanwhile
            found[path] = header_of(path)
    return dict(sorted(found.items(), key=lambda item: (item[1].env_steps, item[1].gradient_steps)))


def _is_damaged(path: Path) -> bool:
    """Return whether a file that is no complete checkpoint of a training may have been one."""
    stored = state_file.read_header(path)
    return stored is None or (stored.get("kind") == KIND and stored.get("format") in FORMATS)

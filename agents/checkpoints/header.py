"""The header of a checkpoint of a training; it is read without the rest, and without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pydantic

from agents.checkpoints import state_file
from agents.errors import ConfigurationError

FORMAT = 2
"""Of checkpoints of trainings, as this version writes them; those of format 1 are one pickle."""

FORMATS = (1, FORMAT)
KIND = "training"

Contents = Literal["everything", "weights"]


@dataclass(frozen=True, kw_only=True)
class CheckpointHeader:
    """Header of a checkpoint: what it says about itself. It is read without the rest, and without TensorFlow.

    Attributes:
        algorithm: Class of the agent.
        environment: What it learns in.
        env_kwargs: The environment's arguments, as text where they are no JSON.
        observation_space: What the agent sees, as text.
        action_space: What it does, as text.
        config: Its hyperparameters.
        seed: Of the training.
        env_steps: Environment steps made.
        episodes: Episodes that had ended.
        gradient_steps: Gradient steps made.
        contents: ``"everything"``: the training goes on from it. ``"weights"``: it plays, or others start from it.
        in_episodes: Whether the environments are in it as they stood. Otherwise who goes on begins new episodes.
        value: What the training was worth by then (see `judged_by`), or None.
        judged_by: By what; see `agents.callbacks.judging`.
        versions: Of the packages that wrote it.
        written: When, as ISO 8601.
        wrappers: The environment's, as text. Checkpoints of before have none.
        max_episode_steps: Its step limit, where one was given.
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
    """Read what a checkpoint says about itself.

    Raises:
        ConfigurationError: There is no such file, it is not whole, none of ours, or of a newer version.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(f"There is no checkpoint {str(path)!r}.")
    told = state_file.about(path)
    if told is None:
        raise ConfigurationError(f"{path} is no whole checkpoint: it was cut off, or something else wrote it.")
    if told.pop("kind", None) != KIND:
        raise ConfigurationError(f"{path} is a checkpoint of a study's trials, not of a training: its study goes on.")
    if not isinstance(told.get("format"), int):
        raise _damaged(path, f"its format is {told.get('format')!r}")
    if told["format"] > FORMAT:
        raise ConfigurationError(
            f"{path} has format {told['format']}, and this version of Finder reads up to format {FORMAT}: it was "
            f"written by agentfinder {told.get('versions', {}).get('agentfinder', 'of a later version')}, take that."
        )
    told.pop("format")
    try:
        return pydantic.TypeAdapter(CheckpointHeader).validate_python(told)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None


def _damaged(path: Path, why: str) -> ConfigurationError:
    """The error for a checkpoint of which it is not known what it holds."""
    return ConfigurationError(f"{path} is damaged ({why}): take another checkpoint.")

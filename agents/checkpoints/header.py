"""The header of a training's checkpoint, read without its other parts, and without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pydantic

from agents.checkpoints import state_file
from agents.errors import ConfigurationError

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
        raise ConfigurationError(f"{path} is no whole checkpoint: it was cut off, or something else wrote it.")
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

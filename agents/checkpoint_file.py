"""A checkpoint of a training: one file with all that it needs to go on, and what it says about itself."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import logging
import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import cloudpickle

from agents import state_file
from agents.agent import Agent
from agents.callbacks import require_alone
from agents.errors import ConfigurationError
from agents.loading import name_of
from agents.pickling import pickled, unpickled
from agents.plain_state import packed, unpacked
from agents.spec import AgentSpec, start_from
from agents.state_file import SUFFIX, write_with_environments

if TYPE_CHECKING:
    from agents.trainer import Trainer

log = logging.getLogger(__name__)

FORMAT = 1
"""Of checkpoints of trainings, as this version writes them."""

_KIND = "training"
_PACKAGES = ("agentfinder", "tensorflow", "keras", "gymnasium", "numpy")

Contents = Literal["everything", "weights"]


@dataclass(frozen=True, kw_only=True)
class CheckpointHeader:
    """What a checkpoint says about itself; it is read without the rest, and without TensorFlow.

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
        judged_by: By what; see `agents.judging`.
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


def write(path: Path, trainer: Trainer, contents: Contents, value: float | None, judged_by: str) -> None:
    """Writes a checkpoint of a training, in one step.

    Call it from `on_step_end`, or when training has ended: in the middle of a step there is no state to go on from.

    Args:
        path: The file.
        trainer: The training.
        contents: What of it.
        value: What it is worth, or None.
        judged_by: By what.

    Raises:
        ConfigurationError: It trains a population.
        OSError: It cannot be written.
    """
    agent = require_alone(trainer, "A checkpoint")
    spec = AgentSpec(type(agent), trainer.environment, agent.config)

    def write_one(environments: bool) -> None:
        state: dict[str, Any]
        if contents == "weights":
            state, in_episodes = {"agent": weights_of(agent)}, False
        else:
            whole = trainer.get_state(environments=environments)
            collector = whole["collector"] = dict(whole["collector"])
            in_episodes = not collector["started"] or collector["environments"] is not None
            # By themselves: who only wants the agent needs no module of the environments.
            collector["environments"] = cloudpickle.dumps(collector["environments"])
            state = {"trainer": whole, "callbacks": trainer.callbacks.get_state()}
        header = CheckpointHeader(
            algorithm=type(agent).__name__,
            environment=trainer.environment.label,
            env_kwargs=_as_json(trainer.environment.kwargs),
            observation_space=str(agent.observation_space),
            action_space=str(agent.action_space),
            config=_as_json(agent.config.to_dict()),
            seed=trainer.run.seed,
            env_steps=trainer.env_steps,
            episodes=len(trainer.history.returns),
            gradient_steps=agent.gradient_steps,
            contents=contents,
            in_episodes=in_episodes,
            value=value,
            judged_by=judged_by,
            versions={name: importlib.metadata.version(name) for name in _PACKAGES},
            written=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            wrappers=_as_json(trainer.environment.wrappers),
            max_episode_steps=trainer.environment.max_episode_steps,
        )
        about = {"kind": _KIND, "format": FORMAT, **asdict(header)}
        own = {"spec": pickled(spec, spec), "interface": cloudpickle.dumps(agent.interface)}
        whole_agent = state["trainer"]["agent"] if "trainer" in state else state["agent"]
        state_file.write(path, {**own, **state}, about, _plain_weights(whole_agent))

    write_with_environments(write_one)


def _plain_weights(state: Mapping[str, Any]) -> bytes:
    """The weights in an agent's state as they can be read without unpickling; empty where that is not possible."""
    try:
        return packed({"networks": state["networks"], "extra": state["extra"]})
    except (KeyError, TypeError):  # a user's agent has others
        return b""


def weights_of(agent: Agent) -> dict[str, Any]:
    """Returns what of an agent's state it needs to act: no optimizer, no generator."""
    state = agent.get_state()
    if not {"networks", "extra"} <= set(state):
        raise ConfigurationError(
            f"The state of {type(agent).__name__} does not tell weights from the rest: keep everything."
        )
    return {"networks": state["networks"], "extra": state["extra"]}


def header_of(path: str | Path) -> CheckpointHeader:
    """Reads what a checkpoint says about itself.

    Raises:
        ConfigurationError: There is no such file, it is not whole, none of ours, or of a newer version.
    """
    return _header(Path(path))[0]


def find(place: str | Path, *, best: bool = False) -> Path:
    """Returns a checkpoint: the file itself, or of a folder (of a run, or of its checkpoints) the newest one.

    Args:
        place: A file or a folder.
        best: Whether to take the one of the greatest value instead, of a folder.

    Raises:
        ConfigurationError: There is none.
    """
    place = Path(place)
    if place.is_file():
        if best:
            raise ConfigurationError(f"{place} is one checkpoint: ask for the best one of a folder.")
        return place
    folder = place / "checkpoints" if (place / "checkpoints").is_dir() else place
    found = all_in(folder)
    others = (path for path in sorted(folder.glob(f"*{SUFFIX}")) if path not in found)
    damaged = [path for path in others if state_file.about(path) is None]
    if not found:
        told = "no checkpoint of a training is in it" if folder.is_dir() else "there is no such file or folder"
        if damaged:
            told = f"no checkpoint in it is whole; cut off, or not ours, are {', '.join(path.name for path in damaged)}"
        raise ConfigurationError(f"{str(place)!r}: {told}.")
    if not best:
        newest, header = list(found.items())[-1]
        for path in damaged:
            if path.name[0].isdigit() and path.name > newest.name:  # they begin with environment steps
                _say_damaged(path, newest, header.env_steps)
        return newest
    valued = {path: header.value for path, header in found.items() if header.value is not None}
    if not valued:
        raise ConfigurationError(
            f"No checkpoint in {str(place)!r} has a value: too few episodes had ended, or nothing was evaluated. Take "
            f"the newest."
        )
    return max(valued, key=lambda path: valued[path])


@functools.cache  # once in a process
def _say_damaged(damaged: Path, newest: Path, env_steps: int) -> None:
    log.warning(
        "%s is damaged (cut off?): taking the newest whole checkpoint, %s, after %s environment steps.",
        *(damaged, newest.name, f"{env_steps:,}"),
    )


def all_in(folder: Path) -> dict[Path, CheckpointHeader]:
    """Returns every whole checkpoint of a training in a folder, oldest first; none if there is no such folder."""
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        told = state_file.about(path)
        if told is not None and (told.get("kind"), told.get("format")) == (_KIND, FORMAT):
            found[path] = _header(path)[0]
    return dict(sorted(found.items(), key=lambda item: (item[1].env_steps, item[1].gradient_steps)))


class NewEpisodesWarning(UserWarning):
    """A training goes on with new episodes, so with other numbers than if it had never stopped."""


def resume(trainer: Trainer, place: str | Path) -> CheckpointHeader:
    """Has a training go on from a checkpoint, as if it had never stopped; its callbacks too.

    Where the environments are not in it, new episodes begin, with seeds that none before had, and a
    `NewEpisodesWarning` says so: what follows is not what would have followed without the stop.

    Args:
        trainer: A trainer of the same agent, environment and callbacks, that has not begun.
        place: A checkpoint, or a folder with some, of which the newest is taken.

    Returns:
        What the checkpoint says about itself.

    Raises:
        ConfigurationError: It is of another algorithm or environment, of an agent of another structure, holds weights
            only, or cannot be read; names both sides.
    """
    path = find(place)
    header, state = _read(path)
    agent = require_alone(trainer, "A checkpoint")
    _check_same(path, header, agent, trainer)
    if header.contents != "everything":
        raise ConfigurationError(
            f"{path} holds weights only: no training goes on from it. Start a new one from its weights instead."
        )
    whole = state["trainer"]
    try:
        whole["collector"]["environments"] = cloudpickle.loads(whole["collector"]["environments"])
    except Exception as error:
        raise ConfigurationError(f"The environments in {path} cannot be made again: {error}") from error
    trainer.set_state(whole)
    trainer.callbacks.set_state(state["callbacks"])
    if not header.in_episodes:
        warnings.warn(why_new_episodes(trainer), NewEpisodesWarning, stacklevel=2)
    return header


def why_new_episodes(trainer: Trainer) -> str:
    """Returns why a training whose environments are not in its checkpoint cannot go on exactly, and what can."""
    kind = trainer.collector.environments.kind
    told = (
        f"The environments {trainer.environment.label!r}, stepped by {kind!r}, were not copied into the checkpoint: "
        f"new episodes begin, so the numbers are not those of a run that was never stopped."
    )
    if kind in ("envpool", "async", "ray-subproc"):
        told += " With vectorization='sync' a new run can go on exactly, where its environment can be copied."
    return told


def load_agent(place: str | Path, *, best: bool = False) -> Agent:
    """Builds the agent of a checkpoint as it was then, ready to act (`agents.play`, `agents.evaluate`).

    What is in the file is run: load none from people whom you do not trust.

    Args:
        place: A checkpoint, or a folder with some, of which the newest is taken.
        best: Whether to take the best one of the folder instead.

    Raises:
        ConfigurationError: There is none, or it cannot be read.
    """
    path = find(place, best=best)
    header, state = _read(path)
    before = list(sys.path)
    spec: AgentSpec = unpickled(state["spec"])
    sys.path[:] = [*before, *(each for each in sys.path if each not in before)]  # ours first, unlike in a child
    # Checkpoints of before have no spaces: the environment is made, to see.
    agent = spec.build(header.seed, interface=cloudpickle.loads(state["interface"]) if "interface" in state else None)
    if "trainer" in state:
        agent.set_state(state["trainer"]["agent"])
    else:
        start_from(agent, state["agent"])
    return agent


def load_weights(place: str | Path, *, best: bool = False) -> dict[str, Any]:
    """Returns the weights of a checkpoint, for `AgentSpec.state`: what a new training can start from.

    Nothing in the file is run: weights of other people can be loaded. Checkpoints of before, and those of agents whose
    extra state is more than numbers, texts and arrays, hold their weights in a pickle, which is run, as a warning says.

    Args:
        place: A checkpoint, or a folder with some, of which the newest is taken.
        best: Whether to take the best one of the folder instead.

    Raises:
        ConfigurationError: There is none, or it cannot be read.
    """
    path = find(place, best=best)
    _, parts = _header(path)
    try:
        plain = state_file.read_plain(path, parts)
        if plain:
            weights: dict[str, Any] = unpacked(plain)
            return weights
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
    log.warning("%s holds its weights in a pickle: reading it runs what it says.", path)
    _, state = _read(path)
    own = state["trainer"]["agent"] if "trainer" in state else state["agent"]
    return {"networks": own["networks"], "extra": own["extra"]}


def _header(path: Path) -> tuple[CheckpointHeader, state_file.Parts]:
    """Read the header of a checkpoint, and where the parts of the file are."""
    if not path.is_file():
        raise ConfigurationError(f"There is no checkpoint {str(path)!r}.")
    told = state_file.about(path)
    if told is None:
        raise ConfigurationError(f"{path} is no whole checkpoint: it was cut off, or something else wrote it.")
    if told.pop("kind", None) != _KIND:
        raise ConfigurationError(f"{path} is a checkpoint of a study's trials, not of a training: its study goes on.")
    if told["format"] > FORMAT:
        raise ConfigurationError(
            f"{path} has format {told['format']}, and this version of Finder reads up to format {FORMAT}: it was "
            f"written by agentfinder {told.get('versions', {}).get('agentfinder', 'of a later version')}, take that."
        )
    told.pop("format")
    parts = state_file.Parts.taken_from(told)
    return CheckpointHeader(**told), parts


def _read(path: Path) -> tuple[CheckpointHeader, dict[str, Any]]:
    header, parts = _header(path)
    try:
        return header, state_file.read(path, parts.crc, parts.size)
    except Exception as error:
        made = ", ".join(f"{name} {version}" for name, version in header.versions.items())
        raise ConfigurationError(
            f"{path} cannot be read ({type(error).__name__}: {error}). It was written with {made}."
        ) from error


def _check_same(path: Path, header: CheckpointHeader, agent: Agent, trainer: Trainer) -> None:
    """Refuses a checkpoint of something else, in words that name both sides."""
    environment = trainer.environment
    sides = {
        "algorithm": (header.algorithm, type(agent).__name__),
        "environment": (header.environment, environment.label),
        "environment's arguments": (header.env_kwargs, _as_json(environment.kwargs)),
        "environment's wrappers": (header.wrappers, _as_json(environment.wrappers)),
        "environment's step limit": (header.max_episode_steps, environment.max_episode_steps),
        "observation space": (header.observation_space, str(agent.observation_space)),
        "action space": (header.action_space, str(agent.action_space)),
    }
    for what, (theirs, ours) in sides.items():
        if theirs != ours:
            raise ConfigurationError(f"{path} is of another {what}: it has {theirs}, this training has {ours}.")


def _as_json(value: Any) -> Any:
    """A value as JSON gives it back; what JSON does not know, by its name, which is the same in every process."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return name_of(value)

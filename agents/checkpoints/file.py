"""Checkpoints of a training: one file with the complete state for a resume, and a header."""

from __future__ import annotations

import datetime
import importlib.metadata
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.checkpoints.plain_spec import plain_spec, spec_of_plain
from agents.checkpoints.training_state import sections_of, sections_of_before, state_of
from agents.contract.agent import Agent
from agents.contract.pickling import pickled, unpickled
from agents.contract.restoring import restoring
from agents.contract.spec import AgentSpec
from agents.contract.weights import start_from
from agents.errors import ConfigurationError, UntrustedFileError
from agents.state_files import state_file
from agents.state_files.header import FORMAT, KIND, CheckpointHeader, Contents, find, header_of
from agents.state_files.state_file import write_with_environments
from agents.training.training import Training, require_alone
from agents.trust.allowed_modules import places_in, restrict_to_names
from agents.trust.loading import name_of
from agents.trust.signatures import trusts_all

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

_PACKAGES = ("agentfinder", "tensorflow", "keras", "gymnasium", "numpy")


def write(path: Path, trainer: Trainer, contents: Contents, value: float | None, judged_by: str) -> None:
    """Write a checkpoint of a training atomically.

    Call it from `on_step_end`, before an update, or after the training: in the middle of a step there is no state to
    resume from.

    Args:
        path: The file.
        trainer: The training.
        contents: The parts of the training to write.
        value: The value of the training, or None.
        judged_by: The measure of that value.

    Raises:
        ConfigurationError: The training is of a population.
        OSError: The file cannot be written.
    """
    agent = require_alone(trainer, "A checkpoint")
    spec = AgentSpec(type(agent), trainer.environment, agent.config)

    def write_one(environments: bool) -> None:
        sections: dict[str, Any]
        if contents == "weights":
            sections, in_episodes = {"agent": weights_of(agent)}, False
        else:
            sections = sections_of(trainer, environments=environments)
            in_episodes = not sections["training"]["collector"]["started"] or sections["environments"] is not None
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
        about = {"kind": KIND, "format": FORMAT, **asdict(header)}
        sections["spec"] = plain_spec(spec, agent.interface) or (pickled(spec, spec), agent.interface)
        state_file.write(path, sections, about)

    write_with_environments(write_one)


def weights_of(agent: Agent) -> dict[str, Any]:
    """Return the part of an agent's state that acting needs: no optimizer, no generator."""
    state = agent.get_state()
    if not {"networks", "extra"} <= set(state):
        raise ConfigurationError(
            f"The state of {type(agent).__name__} does not separate weights from the rest: "
            "write complete checkpoints (weights_only=False)."
        )
    return {"networks": state["networks"], "extra": state["extra"]}


class NewEpisodesWarning(UserWarning):
    """A resumed training begins new episodes, so its numbers differ from those of an uninterrupted training."""


def resume(trainer: Trainer, place: str | Path, *, trust: bool = False) -> CheckpointHeader:
    """Resume a training from a checkpoint, exactly and with its callbacks.

    Hyperparameters that can change during training, such as learning rates, continue with their values in the
    checkpoint; `Trainer.set_hyperparameter` changes them afterwards.

    If the checkpoint has no environments, new episodes begin, with seeds that no earlier episode had, and a
    `NewEpisodesWarning` is issued: the training then differs from an uninterrupted one.

    Args:
        trainer: A trainer of the same agent, environment and callbacks, before its first step.
        place: A checkpoint, or a folder with checkpoints, of which the newest is used.
        trust: Whether to unpickle objects of a file that this user did not write on this machine: copies of
            environments and objects of callbacks are pickles, which can run any code. Defaults to False.

    Returns:
        The header of the checkpoint.

    Raises:
        ConfigurationError: It is of another algorithm or environment, of an agent of another structure, holds weights
            only, or cannot be read; the message names both sides. Or the first argument is no trainer.
        UntrustedFileError: It cannot be read without unpickling, and is not trusted.
    """
    if not isinstance(trainer, Training):
        raise ConfigurationError(f"{trainer!r} is no trainer: give the trainer, then the checkpoint or its folder.")
    path = find(place)
    header = header_of(path)
    agent = require_alone(trainer, "A checkpoint")
    _check_same(path, header, agent, trainer)
    if header.contents != "everything":
        raise ConfigurationError(
            f"{path} holds weights only: no training can be resumed from it. Start a new one from its weights instead."
        )
    state, is_trusted = _read(path, ("agent", "training", "callbacks"), trust)
    try:
        copies, are_copies_trusted = _read(path, ("environments",), trust)
    except (UntrustedFileError, OSError):
        raise
    except Exception as error:
        raise ConfigurationError(f"The environments in {path} cannot be made again: {error}") from error
    own = places_in(agent.config, trainer.environment)
    # A state includes hyperparameters, which may be names.
    with restrict_to_names(path, own, trusted=is_trusted and are_copies_trusted):
        trainer.set_state(state_of({**state, **copies}))
    trainer.callbacks.set_state(state["callbacks"])
    if not header.in_episodes:
        warnings.warn(why_new_episodes(trainer), NewEpisodesWarning, stacklevel=2)
    return header


def why_new_episodes(trainer: Trainer) -> str:
    """Return why a training without environments in its checkpoint cannot be resumed exactly, and the remedy."""
    kind = trainer.collector.environments.kind
    reason = (
        f"The environments {trainer.environment.label!r}, stepped by {kind!r}, were not copied into the checkpoint: "
        f"new episodes begin, so the numbers are not those of a run that was never stopped."
    )
    if kind in ("envpool", "async", "ray-subproc"):
        reason += " With vectorization='sync' a new run can be resumed exactly, if its environment can be copied."
    return reason


def load_agent(
    place: str | Path, *, best: bool = False, trust: bool = False, allow_modules: Sequence[str] = ()
) -> Agent:
    """Build the agent of a checkpoint, ready to act (`agents.play`, `agents.evaluate`).

    For a built-in algorithm in an environment given by its name, nothing is unpickled.

    Args:
        place: A checkpoint, or a folder with checkpoints, of which the newest is used.
        best: Whether to use the best one of the folder instead.
        trust: Whether to unpickle objects of a file that this user did not write on this machine: the class of a user's
            agent is a pickle, which can run any code. Defaults to False.
        allow_modules: Modules, or files, that a file from elsewhere may name, for example as its environment, in
            addition to those of `FINDER_ALLOW_MODULES`. Defaults to Finder's own, Gymnasium and Keras.

    Raises:
        ConfigurationError: There is none, it cannot be read, or it names a module that is not allowed.
        UntrustedFileError: It cannot be read without unpickling, and is not trusted.
    """
    path = find(place, best=best)
    header = header_of(path)
    state, trusted = _read(path, ("spec", "agent"), trust)
    before = list(sys.path)
    with restrict_to_names(path, allow_modules, trusted=trusted):
        stored = state["spec"]
        if isinstance(stored, dict):
            further = stored["path"] if trusted else []
            spec, interface = spec_of_plain(stored)
        else:
            packed, interface = stored
            spec = unpickled(packed)
            further = list(sys.path)
        sys.path[:] = [
            *before,
            *(each for each in further if each not in before),
        ]  # own entries first, unlike in a child process
        with restoring():
            agent = spec.build(header.seed, interface=interface)
    if header.contents == "everything":
        agent.set_state(state["agent"])
    else:
        start_from(agent, state["agent"])
        agent.env_steps = header.env_steps  # its random actions at the beginning of training are over
    return agent


def load_weights(place: str | Path, *, best: bool = False, trust: bool = False) -> dict[str, Any]:
    """Return the weights of a checkpoint, for `AgentSpec.state`: a new training can start from them.

    Nothing is unpickled, so weights of other people can be loaded. Checkpoints of earlier versions, and of agents with
    a state of more than numbers, texts and arrays, must be this user's own, or trusted.

    Args:
        place: A checkpoint, or a folder with checkpoints, of which the newest is used.
        best: Whether to use the best one of the folder instead.
        trust: Whether to unpickle the file where necessary. Defaults to False.

    Raises:
        ConfigurationError: There is none, or it cannot be read.
        UntrustedFileError: It cannot be read without unpickling, and is not trusted.
    """
    path = find(place, best=best)
    header_of(path)
    own = _read(path, ("agent",), trust)[0]["agent"]
    if not {"networks", "extra"} <= set(own):
        raise ConfigurationError(
            f"The state in {path} does not separate weights from the rest: no training can start from it."
        )
    return {"networks": own["networks"], "extra": own["extra"]}


def _read(path: Path, names: Sequence[str], trust: bool) -> tuple[dict[str, Any], bool]:
    """Read sections of a checkpoint; return them, and whether the names in them are trusted."""
    try:
        found = state_file.read_signed(path, names, trust=trust)
        if found is None:
            sections, are_signed = sections_of_before(state_file.read_of_before(path, trust=trust), names), False
        else:
            sections, are_signed = found
        return {name: sections[name] for name in names}, are_signed or trust or trusts_all()
    except UntrustedFileError:
        raise
    except Exception as error:
        made = ", ".join(f"{name} {version}" for name, version in header_of(path).versions.items())
        raise ConfigurationError(
            f"{path} cannot be read ({type(error).__name__}: {error}). It was written with {made}."
        ) from error


def _check_same(path: Path, header: CheckpointHeader, agent: Agent, trainer: Trainer) -> None:
    """Refuse a checkpoint of another algorithm, environment or structure; the message names both sides."""
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
    """Return a value after a round trip through JSON; values unknown to JSON by their name, equal in every process."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _as_json(value.tolist())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return name_of(value)

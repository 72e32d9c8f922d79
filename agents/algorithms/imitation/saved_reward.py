"""The reward that an earlier run learned, taken out of it.

Fu et al. 2018, arXiv 1710.11248: a reward of states alone is what remains of AIRL without the shaping, which depends on
the dynamics, and without the policy. A fresh agent can be trained by it, also where the dynamics have changed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from agents.algorithms.imitation.features import ObservationScale, action_vectors, with_absorbing
from agents.algorithms.imitation.learned_reward import LEARNED_REWARD, REWARD
from agents.contract.agent import Agent
from agents.environments.plain_space import plain_space, space_of_plain
from agents.environments.transforms import observation_transform, space_text
from agents.errors import ConfigurationError, UntrustedFileError
from agents.state_files import state_file
from agents.state_files.header import find, header_of

Array = np.ndarray[Any, Any]

SAVED_REWARD = "saved_reward"
"""Name, in the state of an agent, of the reward of an earlier run by which the agent is trained."""

KEPT = 4
"""Rewards of checkpoints that stay in memory for the next agent of this process."""


@dataclass(frozen=True, eq=False)
class SavedReward:
    """A reward that an agent has learned, as a function of steps. It does not change any more.

    Of AIRL it is the reward g(s) of states alone (g(s, a) with `reward_of_actions`), without shaping and without the
    log-probability of the policy; of GAIL the logarithm of the odds f(s, a) that the expert took the step. A step that
    terminates an episode includes the discounted rewards of the absorbing state that follows, as in training.

    Attributes:
        learned_by: ``"airl"`` or ``"gail"``.
        gamma: Discount of the agent that learned it.
        scale: Mean and standard deviation of the expert's observations.
        action_space: Action space of the agent that learned it.
        layers: Kernel and bias of each layer of the network; hidden layers have the activation tanh.
    """

    learned_by: str
    gamma: float
    scale: ObservationScale
    action_space: Any
    layers: Sequence[tuple[Array, Array]]

    def __repr__(self) -> str:
        actions = f", {space_text(self.action_space)}" if self.takes_actions else ""
        return f"{type(self).__name__}({self.learned_by!r}, {len(self.scale.mean)} observations{actions})"

    @property
    def takes_actions(self) -> bool:
        """True if the reward depends on actions: that of GAIL, or of AIRL with `reward_of_actions`."""
        return len(self.layers[0][0]) > self.scale.n_features

    def __call__(
        self, observations: Array, actions: Array, next_observations: Array, terminated: Array, *, gamma: Any = None
    ) -> Array:
        """Return the rewards of steps, [R] float32.

        Args:
            observations: [R, F], as the networks of agents see them (`agents.load_demonstrations` returns such steps).
            actions: [R, ...] as `Agent.act` returns them. Only if `takes_actions`.
            next_observations: [R, F]. No reward depends on them yet: `terminated` has the end of an episode.
            terminated: [R] bool: the episode ended there, by the rules of the environment.
            gamma: Discount of the rewards of the absorbing state: a number or [R]. Defaults to None: that of the agent
                that learned the reward.

        Raises:
            ConfigurationError: The shapes do not fit.
        """
        ends = np.asarray(terminated)
        shape = (len(ends), len(self.scale.mean))
        for name, given in (("observations", observations), ("next_observations", next_observations)):
            if np.shape(given) != shape:
                raise ConfigurationError(f"{name} must have the shape {list(shape)}, got {list(np.shape(given))}.")
        features, absorbing = self.scale.features(np.asarray(observations)), np.zeros((1, shape[1] + 1), np.float32)
        absorbing[0, -1] = 1.0
        if self.takes_actions:
            vectors = self._action_vectors(np.asarray(actions), len(ends))
            features = np.concatenate([features, vectors], axis=1)
            absorbing = np.concatenate([absorbing, np.zeros((1, vectors.shape[1]), np.float32)], axis=1)
        discount = self.gamma if gamma is None else gamma
        return with_absorbing(self._outputs(features), ends, self._outputs(absorbing), discount)

    def _action_vectors(self, actions: Array, n_rows: int) -> Array:
        if len(actions) != n_rows:
            raise ConfigurationError(f"actions must have {n_rows} rows, as terminated, got {len(actions)}.")
        return action_vectors(actions, observation_transform(self.action_space, "actions"))

    def _outputs(self, rows: Array) -> Array:
        """Return the outputs [R] of the network for rows [R, D]."""
        *hidden, (kernel, bias) = self.layers
        for each, own in hidden:
            rows = np.tanh(rows @ each + own)
        outputs: Array = (rows @ kernel + bias)[:, 0]
        return outputs

    def to_plain(self) -> dict[str, Any]:
        """Return the reward as plain values and arrays, for a checkpoint."""
        own = {"learned_by": self.learned_by, "gamma": self.gamma, "actions": plain_space(self.action_space)}
        return {**own, **self.scale._asdict(), "layers": [list(layer) for layer in self.layers]}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the reward of a result of `to_plain`."""
        scale = ObservationScale(plain["mean"], plain["std"])
        layers = [(kernel, bias) for kernel, bias in plain["layers"]]
        return cls(plain["learned_by"], plain["gamma"], scale, space_of_plain(plain["actions"]), layers)


def learned_reward(source: str | os.PathLike[str] | Agent, *, trust: bool = False) -> SavedReward:
    """Return the reward that an agent has learned from demonstrations, or by which it is trained.

    No demonstrations are needed for that. From a file, nothing is unpickled.

    Args:
        source: Folder of a run of ``"airl-ppo"``, ``"gail-sac"`` or the like, whose newest checkpoint is used; a
            checkpoint; or such an agent.
        trust: Whether to unpickle the file where necessary, as for `agents.load_weights`. Defaults to False.

    Returns:
        A function of steps, which does not follow later training.

    Raises:
        ConfigurationError: There is no such run; its agent has no learned reward; or an earlier version wrote it.
        UntrustedFileError: It cannot be read without unpickling, and is not trusted.
    """
    if isinstance(source, Agent):
        state = source.get_state()
        return _taken(state, source.config.to_dict(), type(source).__name__, f"this {type(source).__name__}")
    path = _checkpoint(source)
    about = path.stat()
    return _read(path.resolve(), (about.st_mtime_ns, about.st_size), trust)


def _checkpoint(source: str | os.PathLike[str]) -> Path:
    try:
        return find(Path(source))
    except ConfigurationError as error:
        raise ConfigurationError(f"A reward is taken from the folder of a run, or from a checkpoint. {error}") from None


@functools.lru_cache(maxsize=KEPT)
def _read(path: Path, version: tuple[int, int], trust: bool) -> SavedReward:
    """Return the reward in a checkpoint; `version` changes with the file."""
    header = header_of(path)
    try:
        sections = state_file.read(path, ("agent",), trust=trust)
        return _taken({} if sections is None else sections["agent"], header.config, header.algorithm, str(path))
    except (UntrustedFileError, ConfigurationError):
        raise
    except Exception as error:
        raise ConfigurationError(f"{path} cannot be read ({type(error).__name__}: {error}).") from error


def _taken(state: Mapping[str, Any], config: Mapping[str, Any], algorithm: str, label: str) -> SavedReward:
    """Return the reward in the state of an agent.

    Args:
        state: Its `get_state`, or weights alone; {} if an earlier version wrote it.
        config: Its hyperparameters.
        algorithm: Name of its class.
        label: Origin, for messages.
    """
    extra = state.get("extra", {})
    if SAVED_REWARD in extra:
        return SavedReward.of_plain(extra[SAVED_REWARD])
    if LEARNED_REWARD in extra:
        about = {**extra[LEARNED_REWARD], "gamma": config["gamma"]}
        return SavedReward.of_plain({**about, "layers": _layers(state["networks"][REWARD])})
    if algorithm.startswith(("AIRL", "GAIL")):
        raise ConfigurationError(
            f"{label} was written by an earlier version, without the scale of the expert's observations: resume the "
            f"run for some steps (finder train --resume), whose next checkpoint has it."
        )
    raise ConfigurationError(
        f"{label} has no learned reward, as it is of {algorithm}: give a run of airl-ppo, gail-ppo or the like "
        f"(finder train --expert)."
    )


def _layers(arrays: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Return kernel and bias of each layer from the variables of a network.

    Those of a layer with a spectral norm are its kernel, a vector [1, outputs], and its bias.
    """
    ends = [i for i, array in enumerate(arrays) if array.ndim == 1]
    return [(arrays[first], arrays[last]) for first, last in zip([0, *(i + 1 for i in ends)], ends, strict=False)]

"""Opponents for some agents of an environment: the learner plays one side, an opponent the others."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.environments.multi_agent.joint_env import JointEnv
from agents.errors import ConfigurationError, unknown_name

Array = np.ndarray[Any, Any]


class Opponent(Protocol):
    """Interface of opponents: they act on joint observations, as the learner does.

    Attributes:
        rng: Generator of the environment that asks for actions, which sets it before each. Draws from it continue in a
            copy of the environment, so that a resumed training plays the same games, and differ between environments.
    """

    rng: np.random.Generator | None

    def begin(self) -> None:
        """Prepare for an episode."""

    def act(self, vectors: Array) -> Array:
        """Return joint actions [N, ...] for joint observations [N, W], in the spaces of `JointEnv`."""


class Opponents(gym.Wrapper[Array, Array, Array, Array]):
    """Wrapper that gives all sides but one to an opponent, in each episode another side and another opponent.

    The learner sees the agents of the other sides as agents that have left (their actions count in no loss), and its
    actions for them are replaced. The reward is that of the learner's side. Opponents are drawn uniformly from those
    that `set_opponents` sets (`agents.SelfPlay` does); before, they act at random, as in evaluations.

    Args:
        environment: An environment with several agents.
        sides: Names of the agents of each side. Defaults to None: each agent is a side.

    Raises:
        ConfigurationError: The environment has a single agent, a name is unknown, or not every agent is in one side of
            at least two.
    """

    def __init__(self, environment: gym.Env[Any, Any], sides: Sequence[Sequence[str]] | None = None) -> None:
        super().__init__(environment)
        joint = environment.unwrapped
        if not isinstance(joint, JointEnv):
            raise ConfigurationError(
                f"{environment!r} has a single agent: opponents are for environments with several."
            )
        names = joint.agent_names
        given = [(name,) for name in names] if sides is None else [tuple(side) for side in sides]
        for name in (name for side in given for name in side):
            if name not in names:
                raise unknown_name("agent", name, names)
        if sorted(name for side in given for name in side) != sorted(names) or len(given) < 2:
            raise ConfigurationError(
                f"Each agent must be in one of at least two sides, got {[list(side) for side in given]} for the agents "
                f"{', '.join(names)}."
            )
        self._space = joint.observation_space
        seen = copy.copy(self._space)
        seen.has_opponents = True
        self.observation_space = seen
        self._numbers = [[names.index(name) for name in side] for side in given]
        self._sizes = self._space.action_sizes
        self._opponents: list[Opponent] = []
        self._opponent: Opponent | None = None
        self._own = self._numbers[0]
        self._seen: Array = np.zeros(self._space.shape, np.float32)

    def set_opponents(self, opponents: Sequence[Opponent]) -> None:
        """Set the opponents to draw from, from the next episode on."""
        self._opponents = list(opponents)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode with another side and another opponent."""
        self._seen, info = self.env.reset(seed=seed, options=options)
        rng = self.np_random
        self._own = self._numbers[int(rng.integers(len(self._numbers)))]
        self._opponent = self._opponents[int(rng.integers(len(self._opponents)))] if self._opponents else None
        if self._opponent is not None:
            self._opponent.begin()
        return self._of_learner(self._seen), info

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Step with the opponent's actions for the other sides."""
        others = self._random() if self._opponent is None else self._of_opponent(self._opponent)
        self._seen, _, terminated, truncated, info = self.env.step(self._mixed(np.asarray(action), others))
        reward = float(self._space.view(self._seen).rewards[self._own].sum())
        return self._of_learner(self._seen), reward, terminated, truncated, info

    def _mixed(self, own: Array, others: Array) -> Array:
        mixed = np.array(others, own.dtype)
        ends = np.cumsum(self._sizes)
        for i in self._own:
            part = slice(i, i + 1) if self._space.discrete else slice(ends[i] - self._sizes[i], ends[i])
            mixed[part] = own[part]
        return mixed

    def _of_opponent(self, opponent: Opponent) -> Array:
        opponent.rng = self.np_random
        actions: Array = opponent.act(self._seen[None])[0]
        return actions

    def _random(self) -> Array:
        rng = self.np_random
        if not self._space.discrete:
            return drawn_within(cast("spaces.Box", self.env.action_space), rng)
        allowed = self._space.view(self._seen).allowed
        numbers: Array = np.argmax(rng.random(allowed.shape) * (allowed > 0.0), axis=1)
        return numbers

    def _of_learner(self, vector: Array) -> Array:
        """Return an observation in which only the learner's side is alive."""
        own = vector.copy()
        alive = self._space.view(own).alive
        kept = alive[self._own].copy()
        alive[:] = 0.0
        alive[self._own] = kept
        return own


def drawn_within(space: spaces.Box, rng: np.random.Generator) -> Array:
    """Draw an action [D]: uniform between two bounds, exponential from a single one, and standard normal without.

    The distributions are those of `gymnasium.spaces.Box.sample`.
    """
    below, above = space.bounded_below, space.bounded_above
    both = below & above
    drawn = rng.uniform(np.where(both, space.low, 0.0), np.where(both, space.high, 1.0))
    if not both.all():
        tail = rng.standard_exponential(space.shape)
        kinds = [drawn, space.low + tail, space.high - tail]
        drawn = np.select([both, below, above], kinds, rng.standard_normal(space.shape))
    return drawn.astype(np.float32)

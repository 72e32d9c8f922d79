"""CartPole as Gymnasium's own vector environment: all copies in one NumPy expression.

CartPole is the only environment of which Gymnasium includes a vectorised version without further dependencies. That
version has one generator for all copies and starts an episode one step late; here every copy draws its initial states
from its own seed, in the step in which its last episode ended. The numbers are therefore those of single environments,
to the last bit (`tests/agents/environments/test_environment_kinds.py`), some twenty times faster.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector.utils import batch_space

from agents.environments.vector.vector_env import Array, Stepped, VectorEnv

_SINGLE_ENTRY_POINT = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
_ENTRY_POINT = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"
_KWARGS = {"sutton_barto_reward"}


class NativeCopies(VectorEnv):
    """Vector environment of CartPole.

    Args:
        id: ``"CartPole-v1"`` or ``"CartPole-v0"``.
        kwargs: Arguments for the environment.
        n: Number of copies, >= 1.
        infos: Whether to return the infos of each step, which are empty for CartPole: ``{}``.
        max_episode_steps: Steps after which episodes are truncated. Defaults to None, the limit of the registration.
    """

    kind = "native"

    def __init__(
        self, id: str, kwargs: Mapping[str, Any], n: int, *, infos: bool = False, max_episode_steps: int | None = None
    ) -> None:
        self.n = n
        self._wants_infos = infos
        steps = max_episode_steps or gym.spec(id).max_episode_steps
        self._vector: Any = gym.make_vec(
            id, n, vectorization_mode="vector_entry_point", max_episode_steps=steps, **kwargs
        ).unwrapped
        self._generators: list[np.random.Generator] = []
        self.single_observation_space = self._vector.single_observation_space
        self.single_action_space = self._vector.single_action_space

    @staticmethod
    def can_make(id: Any, kwargs: Mapping[str, Any]) -> bool:
        """Return whether this is CartPole, without wrappers and arguments that the vectorised version lacks."""
        known = gym.registry.get(id) if isinstance(id, str) else None
        return (
            known is not None
            and known.vector_entry_point == _ENTRY_POINT
            and known.entry_point == _SINGLE_ENTRY_POINT  # not a variant that was registered with Gymnasium's vectors
            and known.max_episode_steps is not None
            and not known.additional_wrappers
            and set(kwargs) <= _KWARGS
        )

    def reset(self, seeds: Sequence[int]) -> Array:
        vector = self._vector
        vector.reset(seed=0)
        self._generators = [np_random(seed)[0] for seed in seeds]
        self._begin(range(self.n))
        return np.asarray(vector.state.T, np.float32)

    def _begin(self, positions: Sequence[int]) -> None:
        vector = self._vector
        for i in positions:
            vector.state[:, i] = self._generators[i].uniform(vector.low, vector.high, 4)
            vector.steps[i] = 0

    def step(self, actions: Array) -> Stepped:
        vector = self._vector
        observations, rewards, terminated, truncated, _ = vector.step(actions)
        finals = {}
        ended = np.flatnonzero(vector.prev_done)
        if len(ended):
            finals = {int(i): observations[i].copy() for i in ended}
            self._begin(ended.tolist())
            vector.prev_done[:] = False  # otherwise Gymnasium would reset those episodes again
            observations[ended] = vector.state[:, ended].T
        infos: list[dict[str, Any] | None] | None = [{} for _ in range(self.n)] if self._wants_infos else None
        return Stepped(observations, rewards.astype(np.float64), terminated, truncated, finals, {}, infos)

    def select(self, positions: Sequence[int]) -> None:
        vector, kept = self._vector, list(positions)
        self.n = vector.num_envs = len(kept)
        vector.action_space = batch_space(vector.single_action_space, self.n)
        vector.prev_done = vector.prev_done[kept]
        if self._generators:
            vector.state, vector.steps = vector.state[:, kept], vector.steps[kept]
            self._generators = [self._generators[i] for i in kept]

    def close(self) -> None:
        self._vector.close()

    def get_state(self) -> dict[str, Any]:
        vector = self._vector
        return {
            "state": vector.state.copy(),
            "steps": vector.steps.copy(),
            "generators": [generator.bit_generator.state for generator in self._generators],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._vector.reset(seed=0)
        self._vector.state, self._vector.steps = state["state"].copy(), state["steps"].copy()
        self._generators = [_generator_of(own) for own in state["generators"]]


def _generator_of(state: Any) -> np.random.Generator:
    """Return the generator of a state; older states contain the generator itself."""
    if isinstance(state, np.random.Generator):
        return copy.deepcopy(state)
    generator = np_random(0)[0]
    generator.bit_generator.state = state
    return generator

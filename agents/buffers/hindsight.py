"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv 1707.01495).

Goals that were achieved later in an episode replace the desired goals, and rewards are recomputed. Goals are replaced
when a minibatch is drawn, so every stored step can be used with any number of goals.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from agents.buffers.buffer import Array, Transition
from agents.buffers.uniform import UniformReplay
from agents.environments.goals import Goals

STRATEGIES = ("future", "final", "episode")

_COMPARED = 64
"""Number of minibatches per comparison of computed rewards with those of the environment."""

log = logging.getLogger(__name__)


class HindsightReplay(UniformReplay):
    """Replay buffer of a goal environment that replaces the desired goal in some transitions.

    Args:
        goals: Positions of goals in an observation, and the reward function of pairs of goals.
        n_sampled_goal: Number of transitions with a replaced goal per transition with its own goal, k in the paper,
            >= 0.
        strategy: Choice of goals: achieved later in the same episode (``"future"``), at its end (``"final"``), or at
            any step of it (``"episode"``). The newest step of an unfinished episode counts as its end.
        **kwargs: See `UniformReplay`; `n_step` is 1.
    """

    computes_rewards = True

    def __init__(self, *, goals: Goals, n_sampled_goal: int = 4, strategy: str = "future", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._goals = goals
        self._share = n_sampled_goal / (n_sampled_goal + 1)
        self._strategy = strategy
        self._until_compared = 0
        self._warned = False
        # For every stored step, the number of its episode in its environment, [T, N]; for every episode, by number
        # modulo T + 1, the times of its first and its newest step: for T steps, and one to come.
        self._make_room(self.n_envs)

    def _make_room(self, n_columns: int) -> None:
        self._episodes = np.zeros((self.capacity, n_columns), np.int64)
        self._first = np.zeros((self.capacity + 1, n_columns), np.int64)
        self._newest = np.zeros((self.capacity + 1, n_columns), np.int64)
        self._current = np.zeros(n_columns, np.int64)

    def add(self, transition: Transition) -> None:
        time, columns = self._added, np.arange(len(self._current))
        super().add(transition)
        slot = time % self.capacity
        self._episodes[slot] = self._current
        self._newest[self._current % len(self._newest), columns] = time
        self._begin_next(np.flatnonzero(self._ended[slot]), time + 1)

    def _begin_next(self, environments: Array, time: int) -> None:
        """Start new episodes at a time in these environments."""
        self._current[environments] += 1
        self._first[self._current[environments] % len(self._first), environments] = time

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:
        if self._added:
            slot = (self._added - 1) % self.capacity
            going = np.zeros(len(self._current), bool)
            going[slice(None) if environments is None else list(environments)] = True
            self._begin_next(np.flatnonzero(going & ~self._ended[slot]), self._added)
        super().mark_truncated(environments)

    def draw(self, n: int) -> dict[str, Array]:
        slots, columns = self._draw(n)
        # Random numbers for the decision to replace a goal, and for the choice of the goal.
        chances = np.concatenate([rng.random((n, 2)) for rng in self._rngs])
        data = self._transitions(slots, columns, n)
        others = chances[:, 0] < self._share
        chosen = np.flatnonzero(others)
        if self._goals.rules:
            judged = np.arange(len(others))
        else:
            judged = chosen
            self._compare(data, np.flatnonzero(~others))
        own = data["next_observations"][judged, self._goals.desired]  # a copy of the environment's own goals
        if len(chosen):
            self._relabel_goals(data, chosen, slots[chosen], columns[chosen], chances[chosen, 1])
        if len(judged):
            self._judge(data, judged, own)
        return data

    def _compare(self, data: dict[str, Array], kept: Array) -> None:
        """Warn once where computed rewards differ from the environment's rewards for its own goals."""
        self._until_compared -= 1
        if self._warned or self._until_compared >= 0 or not len(kept):
            return
        self._until_compared = _COMPARED - 1
        places = data["next_observations"][kept]
        given, computed = data["rewards"][kept], self._goals.judge(*self._pairs(places))[0]
        different = ~np.isclose(given, computed, rtol=1e-3, atol=1e-3)
        if different.any():
            first = int(np.argmax(different))
            log.warning(
                "Hindsight computes other rewards than the environment gives (%g where it gave %g for the same goals), "
                "so two different reward functions are mixed. Does compute_reward need more than the goals, does a "
                "wrapper or a curriculum change rewards, or does the trainer step another environment than that of the "
                "agent? A goal_function computes all of them.",
                *(computed[first], given[first]),
            )
            self._warned = True

    def _pairs(self, observations: Array) -> tuple[Array, Array]:
        """Return the achieved and the desired goals."""
        return observations[:, self._goals.achieved], observations[:, self._goals.desired]

    def _judge(self, data: dict[str, Array], judged: Array, own: Array) -> None:
        """Recompute rewards and ends of the rows `judged`, whose goals in the environment were `own`."""
        achieved, wanted = self._pairs(data["next_observations"][judged])
        data["rewards"][judged], ended = self._goals.judge(achieved, wanted)
        if not self._goals.computes_ends:
            return
        # An episode that ended for another reason than its goal would have ended with any goal.
        otherwise = data["terminated"][judged]
        stored = np.flatnonzero(otherwise)
        if len(stored):
            otherwise[stored] = ~self._goals.judge(achieved[stored], own[stored])[1]
        data["terminated"][judged] = ended | otherwise

    def _relabel_goals(
        self, data: dict[str, Array], chosen: Array, slots: Array, columns: Array, chances: Array
    ) -> None:
        """Replace the desired goals of the `chosen` rows by achieved goals."""
        episodes = self._episodes[slots, columns] % len(self._newest)
        last = self._newest[episodes, columns]
        oldest = max(0, self._added - self.capacity)
        if self._strategy == "final":
            first = last
        elif self._strategy == "future":
            first = oldest + (slots - oldest) % self.capacity
        else:
            first = np.maximum(self._first[episodes, columns], oldest)
        at = first + (chances * (last - first + 1)).astype(np.int64)
        width = self._ended.shape[1]
        reached = self._rows("next_observations", at % self.capacity * width + columns)[:, self._goals.achieved]
        for name in ("observations", "next_observations"):
            data[name][chosen, self._goals.desired] = reached

    @classmethod
    def of_members(cls, buffers: Sequence[Self]) -> Self:
        joined = super().of_members(buffers)
        joined._make_room(joined.n_envs * len(buffers))
        return joined

    def select(self, positions: Sequence[int]) -> None:
        columns = self._columns(positions)
        super().select(positions)
        self._episodes, self._first, self._newest = (
            values.take(columns, axis=1) for values in (self._episodes, self._first, self._newest)
        )
        self._current = self._current[columns]

    def bytes_when_full(self, transition: Transition) -> int:
        return super().bytes_when_full(transition) + self._episodes.nbytes + self._first.nbytes + self._newest.nbytes

    def get_state(self) -> dict[str, Any]:
        episodes = [self._episodes, self._first, self._newest, self._current]
        return {**super().get_state(), "episodes": [values.copy() for values in episodes]}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._episodes, self._first, self._newest, self._current = (values.copy() for values in state["episodes"])

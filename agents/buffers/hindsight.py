"""Hindsight experience replay: Andrychowicz et al. 2017, arXiv 1707.01495.

What was reached later in an episode is put in the place of what was wanted, and the reward is computed anew. That is
done when a minibatch is drawn, so every stored step can serve any number of goals.
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
"""In one of so many minibatches, rewards are compared with those that the environment gave."""

log = logging.getLogger(__name__)


class HindsightReplay(UniformReplay):
    """A ring of the newest transitions of a goal environment, in some of which another goal is wanted.

    Args:
        goals: Where goals are in an observation, and what pairs of them give.
        n_sampled_goal: Transitions with another goal for each one that keeps its own, k in the paper, >= 0.
        strategy: Which goals: one that was reached later in the same episode (``"future"``), at its end
            (``"final"``), or at any step of it (``"episode"``). Of an episode that is not over yet, its newest step
            is the last.
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
        # Of every stored step, the number of its episode in its environment, [T, N]; and of episodes by that number,
        # modulo T + 1, the times of their first and of their newest step: of T steps, and of one to come.
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
        """New episodes begin at a time in these environments."""
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
        chances = np.concatenate([rng.random((n, 2)) for rng in self._rngs])  # of another goal, and of which
        data = self._transitions(slots, columns, n)
        others = chances[:, 0] < self._share
        chosen = np.flatnonzero(others)
        if self._goals.rules:
            judged = np.arange(len(others))
        else:
            judged = chosen
            self._compare(data, np.flatnonzero(~others))
        own = data["next_observations"][judged, self._goals.desired]  # copies: the goals of the environment
        if len(chosen):
            self._want_others(data, chosen, slots[chosen], columns[chosen], chances[chosen, 1])
        if len(judged):
            self._judge(data, judged, own)
        return data

    def _compare(self, data: dict[str, Array], kept: Array) -> None:
        """Warn, once, where the environment gave other rewards for its own goals than are computed for them."""
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
                "so there are two kinds to learn from. Does compute_reward need more than the goals, does a wrapper or "
                "a curriculum change rewards, or does the trainer step another environment than that of the agent? A "
                "goal_function computes all of them.",
                *(computed[first], given[first]),
            )
            self._warned = True

    def _pairs(self, observations: Array) -> tuple[Array, Array]:
        """What was reached, and what was wanted."""
        return observations[:, self._goals.achieved], observations[:, self._goals.desired]

    def _judge(self, data: dict[str, Array], judged: Array, own: Array) -> None:
        """Compute rewards and ends of these rows anew, whose goals in the environment were others, `own`."""
        achieved, wanted = self._pairs(data["next_observations"][judged])
        data["rewards"][judged], ended = self._goals.judge(achieved, wanted)
        if not self._goals.tells_ends:
            return
        # An episode may have ended for another reason than its goal, and then it would have with any other.
        otherwise = data["terminated"][judged]
        stored = np.flatnonzero(otherwise)
        if len(stored):
            otherwise[stored] = ~self._goals.judge(achieved[stored], own[stored])[1]
        data["terminated"][judged] = ended | otherwise

    def _want_others(self, data: dict[str, Array], chosen: Array, slots: Array, columns: Array, chances: Array) -> None:
        """Put goals that were reached into the `chosen` rows of the data."""
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
    def of_members(cls, memories: Sequence[Self]) -> Self:
        joined = super().of_members(memories)
        joined._make_room(joined.n_envs * len(memories))
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

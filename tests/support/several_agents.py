"""Small environments with several agents, in PettingZoo's parallel interface, without PettingZoo's wrappers."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Countdown(ParallelEnv):
    """Agent i leaves after `lives[i]` steps; each gets its number plus one as its reward.

    Observations are [time, number]; the state, if there is one, is [time].
    """

    metadata = {"name": "countdown"}  # noqa: RUF012 - as PettingZoo declares it
    render_mode = None

    def __init__(self, lives: tuple[int, ...] = (1, 3), truncates: bool = False, with_state: bool = True) -> None:
        self.possible_agents = [f"agent_{i}" for i in range(len(lives))]
        self.lives = dict(zip(self.possible_agents, lives, strict=True))
        self.truncates = truncates
        self.agents: list[str] = []
        if with_state:
            self.state = lambda: np.array([self.time], np.float32)  # type: ignore[method-assign]

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def set_lives(self, lives: int) -> None:
        """Let all agents stay for as many steps."""
        self.lives = dict.fromkeys(self.possible_agents, lives)

    def _seen(self, agents: list[str]) -> dict[str, Any]:
        return {a: np.array([self.time, self.possible_agents.index(a)], np.float32) for a in agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.time, self.agents = 0, list(self.possible_agents)
        return self._seen(self.agents), {a: {} for a in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.time += 1
        acting = self.agents
        left = {a: self.time >= self.lives[a] for a in acting}
        last = all(left.values())
        cut = {a: left[a] and last and self.truncates for a in acting}
        self.agents = [a for a in acting if not left[a]]
        rewards = {a: 1.0 + self.possible_agents.index(a) for a in acting}
        ended = {a: left[a] and not cut[a] for a in acting}
        return self._seen(acting), rewards, ended, cut, {a: {} for a in acting}


class Masked(ParallelEnv):
    """Two agents with 2 and 3 actions; a mask allows one action each, and any other raises.

    Args:
        in_info: Whether masks come in `info`; otherwise in a `Dict` observation.
    """

    metadata = {"name": "masked"}  # noqa: RUF012
    render_mode = None

    def __init__(self, in_info: bool = False, length: int = 5) -> None:
        self.possible_agents = ["first", "second"]
        self.counts = {"first": 2, "second": 3}
        self.in_info, self.length = in_info, length

    def observation_space(self, agent: str) -> Any:
        seen = spaces.Box(0.0, 1.0, (2 if agent == "first" else 1,), np.float32)
        if self.in_info:
            return seen
        return spaces.Dict({"observation": seen, "action_mask": spaces.Box(0, 1, (self.counts[agent],), np.int8)})

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(self.counts[agent])

    def _answer(self) -> tuple[dict[str, Any], dict[str, Any]]:
        masks = {}
        for agent in self.possible_agents:
            masks[agent] = np.zeros(self.counts[agent], np.int8)
            masks[agent][self.time % self.counts[agent]] = 1
        seen = {a: np.ones(2 if a == "first" else 1, np.float32) for a in self.possible_agents}
        if self.in_info:
            return seen, {a: {"action_mask": masks[a]} for a in masks}
        return {a: {"observation": seen[a], "action_mask": masks[a]} for a in masks}, {a: {} for a in masks}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.time, self.agents = 0, list(self.possible_agents)
        return self._answer()

    def step(self, actions: dict[str, Any]) -> Any:
        for agent, action in actions.items():
            assert action == self.time % self.counts[agent], f"{agent} took {action}, which its mask forbids"
        self.time += 1
        over = self.time >= self.length
        acting = self.agents
        seen, infos = self._answer()
        if over:
            self.agents = []
        return seen, dict.fromkeys(acting, 1.0), dict.fromkeys(acting, over), dict.fromkeys(acting, False), infos


class Duel(Countdown):
    """Two agents whose rewards sum to zero."""

    def step(self, actions: dict[str, Any]) -> Any:
        observations, _, ended, cut, infos = super().step(actions)
        gain = float(np.sin(self.time) + actions["agent_0"] - actions["agent_1"])
        return observations, {"agent_0": gain, "agent_1": -gain}, ended, cut, infos


class InTurns(AECEnv):
    """AEC environment whose agents act in turns: the one at turn gets its action as its reward."""

    metadata = {"name": "in_turns", "is_parallelizable": False}  # noqa: RUF012
    render_mode = None

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["black", "white"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0.0, 9.0, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def observe(self, agent: str) -> Any:
        return np.array([self.turn], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.turn = list(self.possible_agents), 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "black"

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0) | {agent: float(action)}
        self.turn += 1
        if self.turn >= 4:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = "white" if agent == "black" else "black"
        self._accumulate_rewards()

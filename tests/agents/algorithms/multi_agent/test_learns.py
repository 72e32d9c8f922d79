"""Tests that several agents learn easy games, at thresholds that random agents do not reach, and of the matrix game."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("pettingzoo")

import agents
from agents import EnvironmentSpec, Trainer
from agents.environments.multi_agent.games import MatrixGame


class Repeats(gym.Env[Any, Any]):
    """Two agents see a number of three each; an agent gains 1 for choosing its own. Ten steps; optimum 20."""

    def __init__(self) -> None:
        seen = gym.spaces.Box(0.0, 1.0, (3,), np.float32)
        self.observation_space = gym.spaces.Tuple([seen, seen])
        self.action_space = gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Discrete(3)])

    def _drawn(self) -> Any:
        self.shown = self.np_random.integers(3, size=2)
        return tuple(np.eye(3, dtype=np.float32)[self.shown])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._drawn(), {}

    def step(self, action: Any) -> Any:
        gains = [float(own == shown) for own, shown in zip(action, self.shown, strict=True)]
        self.time += 1
        return self._drawn(), gains, self.time == 10, False, {}


def random_return(spec: EnvironmentSpec, n_episodes: int = 200) -> float:
    environment, total = spec.make(), 0.0
    environment.action_space.seed(0)
    for episode in range(n_episodes):
        environment.reset(seed=episode)
        ended = False
        while not ended:
            _, reward, ended, *_ = environment.step(environment.action_space.sample())
            total += float(reward)
    return total / n_episodes


SMALL: dict[str, Any] = {
    "hidden_sizes": (32,), "batch_size": 64, "learning_starts": 100, "learning_rate": 5e-3, "gamma": 0.0,
    "share_parameters": False,  # one agent's learning must not be that of the other
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.learns
@pytest.mark.parametrize("algorithm", ["maddpg", "vdn"])
def test_every_agent_learns_to_repeat_its_own_observation(algorithm: str):
    spec, threshold = EnvironmentSpec(Repeats), 0.9 * 20
    assert random_return(spec) < 0.5 * threshold  # 20 / 3
    agent = agents.make(algorithm, spec, seed=0, **SMALL)
    assert agents.evaluate(agent, n_episodes=50).mean() < threshold
    with Trainer(agent) as trainer:
        trainer.train(env_steps=4_000, progress=False)
    assert agents.evaluate(agent, n_episodes=50).mean() >= threshold


def test_matrix_game_pays_each_agent_half_and_ends():
    game = MatrixGame()
    for actions, half in {(0, 0): 5.5, (0, 1): -15.0, (1, 2): 3.0, (2, 1): 0.0}.items():
        seen, info = game.reset()
        assert ([each.tolist() for each in seen], info) == ([[1.0], [1.0]], {})
        _, rewards, terminated, truncated, _ = game.step(actions)
        assert (rewards, terminated, truncated) == ([half, half], True, False)
    assert [each.n for each in MatrixGame([[1, 2, 3], [4, 5, 6]]).action_space] == [2, 3]

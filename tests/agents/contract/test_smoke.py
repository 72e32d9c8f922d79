"""Smoke tests: every algorithm trains for 200 steps on every kind of space; parameters change, losses are finite."""

import os
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents import LambdaCallback, Trainer


class Room(gym.Env):
    """Environment with random observations of a space and episodes of 7 steps, terminated or truncated at random."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def _observation(self):
        space = self.observation_space
        if isinstance(space, spaces.Discrete):
            return int(self.np_random.integers(space.n)) + int(space.start)
        if isinstance(space, spaces.MultiBinary):
            return self.np_random.integers(0, 2, space.shape).astype(np.int8)
        return (self.np_random.random(space.shape) * (255 if space.dtype == np.uint8 else 1)).astype(space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        terminated, truncated = self.t == 7 and self.np_random.random() < 0.5, self.t == 7
        return self._observation(), float(self.np_random.normal()), terminated, truncated, {}


OBSERVATIONS = {
    "vector": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "doubles": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "matrix": spaces.Box(0.0, 1.0, (2, 3), np.float32),
    "scalar": spaces.Box(0.0, 1.0, (), np.float32),
    "image": spaces.Box(0, 255, (36, 36, 2), np.uint8),
    "bytes": spaces.Box(0, 255, (4,), np.uint8),
    "discrete": spaces.Discrete(4, start=2),
    "binary": spaces.MultiBinary(3),
}
ACTIONS = {
    "discrete": spaces.Discrete(3, start=1),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 9.0], np.float32)),
    "matrix": spaces.Box(-2.0, 2.0, (2, 2), np.float64),
    "unbounded": spaces.Box(-np.inf, np.inf, (1,), np.float32),
}
SMALL = {"hidden_sizes": (8,), "jit_compile": False, "learning_rate": 1e-3}
DQN = {
    **SMALL,
    "learning_starts": 50,
    "batch_size": 8,
    "train_freq": 25,
    "target_update_interval": 2,
    "buffer_size": 150,
}
PPO = {**SMALL, "n_envs": 4, "n_steps": 10, "batch_size": 20, "n_epochs": 1}
ACER = {**SMALL, "n_envs": 2, "n_steps": 10, "replay_ratio": 1, "learning_starts": 50}
OWN = {"dqn": DQN, "rainbow": DQN, "ppo": PPO, "trpo": PPO, "acer": ACER}
CASES = [
    *[("dqn", kind, "discrete", {}) for kind in OBSERVATIONS],
    *[("ppo", kind, "discrete", {}) for kind in OBSERVATIONS],
    *[("ppo", "vector", kind, {}) for kind in ("box", "matrix", "unbounded")],
    pytest.param("ppo", "image", "box", {}, marks=pytest.mark.slow),
    *[pytest.param("trpo", "image", kind, {}, marks=pytest.mark.slow) for kind in ("discrete", "box")],
    pytest.param(
        "trpo",
        "discrete",
        "matrix",
        {"normalize_observations": True, "normalize_advantages": False},
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "trpo",
        "matrix",
        "unbounded",
        {"ent_coef": 0.01, "max_grad_norm": 0.5, "batch_size": 7, "jit_compile": True},
        marks=pytest.mark.slow,
    ),
    pytest.param("acer", "image", "discrete", {}, marks=pytest.mark.slow),
    *[pytest.param("acer", kind, "discrete", {}, marks=pytest.mark.slow) for kind in ("matrix", "discrete")],
    pytest.param(
        "acer",
        "vector",
        "discrete",
        {"replay_ratio": 0, "max_grad_norm": None, "optimizer": "muon"},
        marks=pytest.mark.slow,
    ),
    ("dqn", "vector", "discrete", {"double": True, "dueling": True, "n_step": 3}),
    pytest.param("dqn", "image", "discrete", {"dueling": True, "n_envs": 3}, marks=pytest.mark.slow),
    pytest.param("rainbow", "image", "discrete", {}, marks=pytest.mark.slow),
    pytest.param("rainbow", "matrix", "discrete", {"jit_compile": True}, marks=pytest.mark.slow),
    pytest.param(
        "rainbow",
        "discrete",
        "discrete",
        {"policy": "boltzmann", "n_atoms": 2, "gradient_steps": 4, "hidden_sizes": (5,)},
        marks=pytest.mark.slow,
    ),
    ("dqn", "vector", "discrete", {"noisy": True, "activation": "gelu"}),
    ("dqn", "discrete", "discrete", {"policy": "softmax", "max_grad_norm": None, "gradient_steps": 4}),
    ("dqn", "vector", "discrete", {"policy": "epsilon-greedy", "policy_kwargs": {"epsilon": 0.3}, "tau": 0.01}),
    ("ppo", "vector", "box", {"normalize_observations": True, "ent_coef": 0.01}),
    ("ppo", "discrete", "discrete", {"normalize_observations": True, "normalize_advantages": False}),
    pytest.param(
        "ppo",
        "matrix",
        "discrete",
        {"normalize_observations": True, "activation": "gelu", "hidden_sizes": ()},
        marks=pytest.mark.slow,
    ),
    pytest.param("ppo", "image", "discrete", {"normalize_observations": True}, marks=pytest.mark.slow),
    pytest.param(
        "ppo",
        "vector",
        "discrete",
        {"max_grad_norm": None, "n_epochs": 3, "batch_size": 7, "optimizer": "muon"},
        marks=pytest.mark.slow,
    ),
    pytest.param("ppo", "vector", "discrete", {"jit_compile": True}, marks=pytest.mark.slow),
    pytest.param("dqn", "vector", "discrete", {"jit_compile": True, "dueling": True}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("algorithm", "observation", "action", "params"), CASES)
def test_training_of_200_steps(algorithm, observation, action, params):
    room = {"observation_space": OBSERVATIONS[observation], "action_space": ACTIONS[action]}
    agent = agents.make(algorithm, Room, env_kwargs=room, **{**OWN[algorithm], **params})
    before, updates = agent.get_state()["networks"], []
    watch = LambdaCallback(on_update_end=lambda trainer, update: updates.append(update))
    with Trainer(agent, callbacks=[watch]) as trainer:
        result = trainer.train(env_steps=200)
    assert result.env_steps >= 200
    assert len(updates) >= 2
    assert all(update.finite for update in updates)
    assert all(np.isfinite(values).all() for update in updates for values in update.metrics.values())
    after = agent.get_state()["networks"]
    changed = {n: [not np.array_equal(a, b) for a, b in zip(before[n], after[n], strict=True)] for n in before}
    assert all(all(flags) for flags in changed.values()), changed


SCRIPT = """
import agents
with agents.Trainer(agents.make("ppo", "CartPole-v1", n_envs=2, n_steps=16)) as trainer:
    trainer.train(env_steps=64)
"""


@pytest.mark.real
def test_training_script_prints_nothing():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")

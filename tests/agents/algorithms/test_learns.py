"""Tests that agents learn very easy environments, at thresholds that a random agent does not reach."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from agents import AgentSpec, Trainer, evaluate
from agents.environments import Environments, EnvironmentSpec

pytestmark = pytest.mark.learns


class Identity(gym.Env):
    """Environment whose reward is for repeating the observation as action. Ten steps; optimum 10."""

    optimum = 10.0

    def __init__(self, continuous=False):
        self.continuous = continuous
        box = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = box if continuous else spaces.Discrete(3)
        self.action_space = spaces.Box(-3.0, 3.0, (1,), np.float32) if continuous else spaces.Discrete(3)

    def _draw(self):
        self.shown = (
            self.np_random.uniform(-1, 1, 1).astype(np.float32) if self.continuous else self.np_random.integers(3)
        )
        return self.shown

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._draw(), {}

    def step(self, action):
        # The best continuous action is three times the observation, so that the whole range of actions is used.
        reward = 1.0 - abs(action.item() / 3 - self.shown.item()) if self.continuous else float(action == self.shown)
        self.t += 1
        return self._draw(), reward, self.t == 10, False, {}


class Several(gym.Env):
    """Environment whose reward is the share of observed numbers that the action repeats. Ten steps; optimum 10."""

    optimum = 10.0

    def __init__(self, flags=False):
        self.observation_space = spaces.MultiBinary(3) if flags else spaces.MultiDiscrete([2, 3, 4])
        self.action_space = spaces.MultiBinary(3) if flags else spaces.MultiDiscrete([2, 3, 4], start=[1, 0, -2])
        self.start = 0 if flags else self.action_space.start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.t, self.shown = 0, self.observation_space.sample()
        return self.shown, {}

    def step(self, action):
        reward = float(np.mean(action - self.start == self.shown))
        self.t, self.shown = self.t + 1, self.observation_space.sample()
        return self.shown, reward, self.t == 10, False, {}


class Bandit(gym.Env):
    """Bandit of four arms with noisy rewards and one state; optimum 10 in ten steps."""

    optimum = 10.0
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.t += 1
        reward = (0.0, 0.5, 1.0, -0.5)[action] + 0.3 * self.np_random.normal()
        return np.ones(1, np.float32), reward, self.t == 10, False, {}


class Chain(gym.Env):
    """Chain with reward 1 after five actions to the right in a row; others go back to 0. Twelve steps; optimum 1."""

    optimum = 1.0
    observation_space = spaces.Discrete(6)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.t = 0
        return self.at, {}

    def step(self, action):
        self.at = self.at + 1 if action == 1 else 0
        self.t += 1
        there = self.at == 5
        return self.at, float(there), there, self.t == 12 and not there, {}


class Endless(gym.Env):
    """Environment of one state with reward 1 per step, in episodes of two steps that are truncated or terminated."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, truncates, continuous=False):
        self.truncates = truncates
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.t += 1
        end = self.t == 2
        return np.ones(1, np.float32), 1.0, end and not self.truncates, end and self.truncates, {}


PPO = {"n_envs": 8, "n_steps": 32, "batch_size": 64, "n_epochs": 8, "hidden_sizes": (32,), "learning_rate": 1e-2}
DQN = {
    **{"hidden_sizes": (32,), "learning_starts": 100, "batch_size": 64, "buffer_size": 5_000, "learning_rate": 5e-3},
    **{"n_envs": 4, "exploration_steps": 2_000, "target_update_interval": 25, "jit_compile": True},
}


A2C = {"hidden_sizes": (32,), "n_steps": 8, "learning_rate": 5e-3}
TRPO = {"n_envs": 8, "n_steps": 32, "hidden_sizes": (32,), "target_kl": 0.05}
ACER = {"n_envs": 4, "n_steps": 10, "hidden_sizes": (32,), "learning_rate": 5e-3, "learning_starts": 100}
CONTINUOUS = {"hidden_sizes": (32, 32), "batch_size": 64, "buffer_size": 10_000, "learning_rate": 3e-3, "n_envs": 4}
SMALL = {
    "acer": ACER,
    "dqn": DQN,
    "rainbow": {**DQN, "jit_compile": False},
    "ppo": PPO,
    "a2c": A2C,
    "trpo": TRPO,
    "ddpg": CONTINUOUS,
    "td3": CONTINUOUS,
    "sac": CONTINUOUS,
}


NORMALISED = {"gamma": 0.0, "learning_rate": 5e-3, "normalize_observations": True}


def random_return(spec, n_episodes=300):
    environments = Environments(spec, 1)
    environments.reset([7])
    rng, total, episodes = np.random.default_rng(0), 0.0, 0
    while episodes < n_episodes:
        space = environments.action_space
        if isinstance(space, spaces.Box):
            actions = rng.uniform(-1, 1, (1, 1))
        else:
            actions = (
                rng.integers(0, space.n, 1) if isinstance(space, spaces.Discrete) else rng.integers(0, [space.nvec])
            )
        step = environments.step(actions)
        total += step.rewards.sum()
        episodes += int((step.terminated | step.truncated).sum())
    return total / episodes


@pytest.mark.parametrize(
    ("algorithm", "environment", "kwargs", "params", "env_steps"),
    [
        ("dqn", Identity, {}, {"gamma": 0.0}, 3_000),
        ("dqn", Bandit, {}, {"gamma": 0.0}, 3_000),
        ("dqn", Chain, {}, {"gamma": 0.9}, 6_000),
        ("dqn", Chain, {}, {"gamma": 0.9, "n_step": 3, "double": True, "dueling": True}, 6_000),
        ("dqn", Chain, {}, {"gamma": 0.9, "replay": "prioritized"}, 6_000),
        ("dqn", Chain, {}, {"gamma": 0.9, "noisy": True}, 6_000),
        ("dqn", Chain, {}, {"gamma": 0.9, "n_atoms": 21, "v_min": 0.0, "v_max": 1.0}, 6_000),
        ("rainbow", Identity, {}, {"gamma": 0.0, "v_min": 0.0, "v_max": 1.0}, 3_000),
        ("rainbow", Bandit, {}, {"gamma": 0.0, "v_min": -2.0, "v_max": 2.0}, 3_000),
        ("rainbow", Chain, {}, {"gamma": 0.9, "v_min": 0.0, "v_max": 1.0}, 6_000),
        ("ppo", Identity, {}, {"gamma": 0.5}, 5_000),
        # At 1e-2, half of the seeds have not learned yet.
        ("ppo", Identity, {"continuous": True}, {"gamma": 0.0, "learning_rate": 5e-3}, 16_000),
        ("ppo", Identity, {"continuous": True}, NORMALISED, 16_000),
        ("ppo", Bandit, {}, {"gamma": 0.0}, 5_000),
        ("ppo", Several, {}, {"gamma": 0.0}, 16_000),
        ("ppo", Several, {"flags": True}, {"gamma": 0.0}, 8_000),
        ("a2c", Several, {}, {"gamma": 0.0}, 40_000),
        ("trpo", Several, {"flags": True}, {"gamma": 0.0}, 16_000),
        ("ppo", Chain, {}, {"gamma": 0.95, "ent_coef": 0.01}, 15_000),
        ("a2c", Identity, {}, {"gamma": 0.5}, 10_000),
        ("a2c", Identity, {"continuous": True}, {"gamma": 0.0}, 40_000),
        ("a2c", Bandit, {}, {"gamma": 0.0}, 10_000),
        ("a2c", Chain, {}, {"gamma": 0.95, "ent_coef": 0.01}, 20_000),
        ("trpo", Identity, {}, {"gamma": 0.5}, 10_000),
        ("trpo", Identity, {"continuous": True}, {"gamma": 0.0}, 20_000),
        ("trpo", Bandit, {}, {"gamma": 0.0}, 10_000),
        ("trpo", Chain, {}, {"gamma": 0.95}, 15_000),
        ("acer", Identity, {}, {"gamma": 0.5}, 6_000),
        ("acer", Bandit, {}, {"gamma": 0.0}, 6_000),
        ("acer", Chain, {}, {"gamma": 0.95}, 10_000),
        ("ddpg", Identity, {"continuous": True}, {"gamma": 0.0}, 4_000),
        ("td3", Identity, {"continuous": True}, {"gamma": 0.0}, 4_000),
        ("sac", Identity, {"continuous": True}, {"gamma": 0.0}, 4_000),
        ("sac", Identity, {"continuous": True}, {"gamma": 0.0, "replay": "prioritized"}, 4_000),
    ],
)
@pytest.mark.slow
def test_agent_learns_easy_environment(algorithm, environment, kwargs, params, env_steps):
    spec = EnvironmentSpec(environment, kwargs)
    threshold = 0.9 * environment.optimum
    assert random_return(spec) < threshold - 0.2 * environment.optimum  # random actions stay below the threshold
    agent = AgentSpec.of(algorithm, spec, {**SMALL[algorithm], **params}).build()
    with Trainer(agent) as trainer:
        trainer.train(env_steps=env_steps)
    assert evaluate(agent, n_episodes=50).mean() >= threshold


@pytest.mark.parametrize("truncates", [True, False])
@pytest.mark.parametrize(
    ("algorithm", "name", "params", "bootstrapped"),
    [
        ("dqn", "q", {"target_update_interval": 10}, 1.0),
        ("dqn", "q", {"target_update_interval": 10, "n_step": 3}, 0.0),
        ("dqn", "q", {"target_update_interval": 10, "replay": "prioritized"}, 1.0),
        ("ppo", "critic", {"learning_rate": 2e-2, "gae_lambda": 0.9}, 0.1),
        ("acer", "critic", {"n_steps": 1, "replay_ratio": 1, "learning_rate": 2e-3}, 1.0),
        ("acer", "critic", {"n_steps": 8, "replay_ratio": 0, "learning_rate": 2e-2}, 0.0),
    ],
)
@pytest.mark.slow
def test_learned_value_bootstraps_at_truncation_and_ends_at_termination(
    algorithm, name, params, bootstrapped, truncates
):
    """With bootstrapping the value is 1 / (1 - 0.8) = 5; the two steps of an episode alone are worth 1.8 and 1."""
    spec = EnvironmentSpec(Endless, {"truncates": truncates})
    agent = AgentSpec.of(algorithm, spec, {**SMALL[algorithm], "gamma": 0.8, **params}).build()
    with Trainer(agent) as trainer:
        trainer.train(env_steps=5_000)
    value = agent.infer(name, np.ones((1, 1), np.float32)).max()
    # Both steps have the same observation. The value after the first step is V where the target bootstraps there, and 1
    # where the target looks further ahead: V = (2 + 0.8 (bV + (1 - b) 1)) / 2.
    terminating = (2 + 0.8 * (1 - bootstrapped)) / (2 - 0.8 * bootstrapped)
    assert value == pytest.approx(5.0 if truncates else terminating, rel=0.07)


@pytest.mark.parametrize("truncates", [True, False])
@pytest.mark.parametrize(("algorithm", "params"), [("ddpg", {}), ("td3", {}), ("sac", {"ent_coef": 1e-6})])
@pytest.mark.slow
def test_learned_value_of_continuous_actions_bootstraps_at_truncation_and_ends_at_termination(
    algorithm, params, truncates
):
    """The value is V = 1 + 0.8 V = 5, or V = (1 + 0.8 V + 1) / 2 = 1.667 where every second step ends the episode."""
    spec = EnvironmentSpec(Endless, {"truncates": truncates, "continuous": True})
    settings = {**CONTINUOUS, "gamma": 0.8, "tau": 0.05, "learning_starts": 100, "replay": "uniform", **params}
    agent = AgentSpec.of(algorithm, spec, settings).build()
    with Trainer(agent) as trainer:
        trainer.train(env_steps=5_000)
    observations = np.ones((1, 1), np.float32)
    values = [
        float(agent.value(critic, observations, agent.chosen(observations, False))[0]) for critic in agent.critics
    ]
    assert values == pytest.approx([5.0 if truncates else 2 / (2 - 0.8)] * len(values), rel=0.07)

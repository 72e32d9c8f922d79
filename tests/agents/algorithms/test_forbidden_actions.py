"""Tests of action masking: agents whose policy network outputs logits of -inf learn, and never take masked actions."""

from collections.abc import Mapping

import gymnasium as gym
import keras
import numpy as np
import pytest

from agents import AgentSpec, Trainer, evaluate
from agents.algorithms.a2c import A2C
from agents.algorithms.acer import ACER
from agents.algorithms.ppo import PPO
from agents.algorithms.trpo import TRPO
from agents.population import Population

N_ACTIONS = 4
N_STEPS = 8


class Cards(gym.Env):
    """Environment with reward 1 for the marked action, in which one to three other actions are forbidden.

    An observation has a flag for the marked action, then a flag for each action that is allowed.
    """

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2 * N_ACTIONS,), np.float32)
        self.action_space = gym.spaces.Discrete(N_ACTIONS)

    def _deal(self):
        self.marked = int(self.np_random.integers(N_ACTIONS))
        self.allowed = self.np_random.random(N_ACTIONS) < 0.5
        self.allowed[(self.marked + 1) % N_ACTIONS] = False
        self.allowed[self.marked] = True
        return np.concatenate([np.arange(N_ACTIONS) == self.marked, self.allowed]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._deal(), {}

    def step(self, action):
        assert self.allowed[action], "the agent took an action that its mask forbids"
        paid, self.t = float(action == self.marked), self.t + 1
        # The final observation of an episode allows no action.
        terminated = self.t == N_STEPS
        observation = np.zeros(2 * N_ACTIONS, np.float32) if terminated else self._deal()
        return observation, paid, terminated, False, {}


class Forbid(keras.layers.Layer):
    """Layer that sets the logits of actions that the observation does not allow to -inf."""

    def call(self, inputs):
        logits, observations = inputs
        return keras.ops.where(observations[:, N_ACTIONS:] > 0.5, logits, -np.inf)


def masked(networks: Mapping[str, keras.Model], names: tuple[str, ...]) -> dict[str, keras.Model]:
    made = dict(networks)
    for name in names:
        observations = keras.Input((2 * N_ACTIONS,))
        outputs = Forbid()([made[name](observations), observations])
        made[name] = keras.Model(observations, outputs, name=name)
    return made


class MaskedPPO(PPO):
    def build(self):
        return masked(super().build(), ("actor",))


class MaskedA2C(A2C):
    def build(self):
        return masked(super().build(), ("actor",))


class MaskedTRPO(TRPO):
    def build(self):
        return masked(super().build(), ("actor",))


class MaskedACER(ACER):
    def build(self):
        return masked(super().build(), ("actor", "average"))


ROLLOUTS = {"ent_coef": 0.01, "hidden_sizes": [16], "n_envs": 8, "learning_rate": 3e-3}
CASES = [
    (MaskedPPO, {**ROLLOUTS, "n_steps": 32, "n_epochs": 4}, 6_000),
    (MaskedA2C, {**ROLLOUTS, "n_steps": 5, "learning_rate": 1e-2}, 12_000),
    (MaskedTRPO, {**ROLLOUTS, "n_steps": 32, "n_epochs": 4}, 12_000),
    (MaskedACER, {"hidden_sizes": [16], "n_envs": 4, "n_steps": 10, "learning_rate": 5e-3}, 6_000),
]


@pytest.mark.parametrize(("agent", "params", "env_steps"), CASES)
@pytest.mark.slow
def test_agents_learn_with_masked_actions(agent, params, env_steps):
    spec = AgentSpec.of(agent, Cards, params)
    trained = spec.build(0)
    at_random = evaluate(spec.build(1), n_episodes=20, seed=5, explore=True).mean()
    with Trainer(trained) as trainer:
        trainer.train(env_steps=env_steps)
    assert at_random < 0.7 * N_STEPS  # 0.57 of the steps: the share of the marked action among the allowed ones
    assert evaluate(trained, n_episodes=20, seed=5).mean() > 0.95 * N_STEPS


@pytest.mark.parametrize("agent", [MaskedPPO, MaskedTRPO, MaskedACER])
@pytest.mark.slow
def test_population_members_learn_with_masked_actions(agent):
    params = {"hidden_sizes": [8], "n_envs": 2, "n_steps": 8, "ent_coef": 0.01}
    population = Population(AgentSpec.of(agent, Cards, params), [{"seed": 0}, {"seed": 1}])
    with Trainer(population) as trainer:
        trainer.train(env_steps=64)
        assert [run.error for run in trainer.runs] == [None, None]
        assert all(np.isfinite(run.newest_loss) for run in trainer.runs)

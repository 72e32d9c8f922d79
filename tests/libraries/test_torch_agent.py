"""Tests of agents in PyTorch: the contract of all agents, gradient steps by hand, and the same numbers as in Keras."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import torch
from agent_contract import AgentContract, same
from gymnasium import spaces
from torch import nn

import agents
from agents import AgentConfig, KerasAgent, OffPolicyConfig, RolloutBuffer, TorchAgent, Trainer, UniformReplay
from agents.buffers import Batches
from agents.errors import ConfigurationError
from agents.exploration import EpsilonGreedy, Softmax, greedy
from agents.functional.returns import discounted_returns
from agents.updates.gradient_steps import OptimizerStep
from finder import LRFinder, OptFinder

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Reinforce(TorchAgent):
    """REINFORCE (Williams 1992)."""

    def build(self):
        size, n_actions = self.observation_space.shape[0], int(self.action_space.n)
        return {"policy": nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, n_actions))}

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=16, rng=rng)

    def act(self, observations, explore=False):
        logits = self.infer("policy", observations)
        return Softmax().select(logits, self.rng) if explore else greedy(logits)

    def preprocess_batch(self, data):
        ended = data["terminated"] | data["truncated"]
        return data | {"returns": discounted_returns(data["rewards"], ended, np.zeros(ended.shape[1]), 0.99)}

    def loss(self, batch):
        log_probs = torch.log_softmax(self.networks["policy"](batch["observations"]), dim=1)
        chosen = log_probs.gather(1, batch["actions"][:, None])[:, 0]
        return {"default": -(chosen * batch["returns"]).mean()}


class TestReinforce(AgentContract):
    agent_class = Reinforce
    params: ClassVar = {"n_envs": 2}
    live = "learning_rate"
    live_value = 0.5


class ActorCritic(Reinforce):
    """An agent with two optimizers, the second of which steps at every second gradient step, and an attribute."""

    def build(self):
        self.critic = nn.Linear(self.observation_space.shape[0], 1)
        return {**super().build(), "critic": self.critic}

    def optimized_networks(self):
        return {"actor": ["policy"], "critic": ["critic"]}

    def optimizer_steps(self):
        return [OptimizerStep(["critic"], self.critic_loss), OptimizerStep(["actor"], self.actor_loss, every=2)]

    def critic_loss(self, batch):
        values = self.critic(batch["observations"])[:, 0]
        return {"critic": (batch["returns"] - values).square().mean(), "value": values.mean()}

    def actor_loss(self, batch):
        values = self.networks["critic"](batch["observations"])[:, 0].detach()
        return {"actor": super().loss(batch | {"returns": batch["returns"] - values})["default"]}


class TestActorCritic(AgentContract):
    agent_class = ActorCritic
    params: ClassVar = {
        **{"n_envs": 2, "critic.learning_rate": 0.1, "critic.optimizer": "sgd(momentum=0.9)", "max_grad_norm": 1.0},
    }
    live = "max_grad_norm"
    live_value = 1e-3


class QLearner(TorchAgent):
    """A DQN with target network and priorities."""

    config_class = OffPolicyConfig
    config: OffPolicyConfig
    target_networks: ClassVar = {"target": "q"}

    def build(self):
        size, n_actions = self.observation_space.shape[0], int(self.action_space.n)
        return {name: nn.Linear(size, n_actions) for name in ("q", "target")}

    def make_buffer(self, n_envs, rng):
        return self.config.make_replay(n_envs, rng, lambda: None)

    def act(self, observations, explore=False):
        values = self.infer("q", observations)
        return EpsilonGreedy(0.5).select(values, self.rng) if explore else greedy(values)

    def loss(self, batch):
        values = self.networks["q"](batch["observations"]).gather(1, batch["actions"][:, None])[:, 0]
        following = self.networks["target"](batch["next_observations"]).max(dim=1).values
        going = 1.0 - batch["terminated"].float()
        targets = batch["rewards"] + self.hyperparameters.gamma ** batch["lengths"] * going * following
        errors = values - targets.detach()
        priorities = {"priorities": errors.detach().abs()} if self.config.replay == "prioritized" else {}
        return {"default": errors.square().mean(), **priorities}


class TestQLearner(AgentContract):
    agent_class = QLearner
    params: ClassVar = {"learning_starts": 20, "batch_size": 8, "target_update_interval": 5}


class TestPrioritizedQLearner(TestQLearner):
    params: ClassVar = {**TestQLearner.params, "replay": "prioritized", "gradient_steps": 2}


# --- by hand


class Product(TorchAgent):
    """The loss is the mean of weight * x + bias, so that gradients are the mean of x and 1."""

    config_class = OffPolicyConfig
    target_networks: ClassVar = {"slow": "fast"}

    def build(self):
        return {"fast": nn.Linear(1, 1), "slow": nn.Linear(1, 1)}

    def make_buffer(self, n_envs, rng):
        return UniformReplay(buffer_size=10, batch_size=1, n_envs=n_envs, rng=rng)

    def act(self, observations, explore=False):
        return np.zeros(len(observations), np.int64)

    def loss(self, batch):
        return {"default": self.networks["fast"](batch["x"]).mean()}


def product(**params: Any) -> Product:
    values = {"optimizer": "sgd", "learning_rate": 0.5, **params}
    made = Product(BOX, spaces.Discrete(2), OffPolicyConfig.from_dict(values))
    made.assign_networks({name: [np.ones((1, 1), np.float32), np.zeros(1, np.float32)] for name in ("fast", "slow")})
    return made


def batches(*rows: list[float]) -> Batches:
    data = np.array(rows, np.float32).reshape(-1, 1)
    return Batches({"x": data}, np.arange(len(data), dtype=np.int32).reshape(len(rows), -1))


def values(agent: TorchAgent, network: str = "fast") -> list[float]:
    return [float(value.item()) for value in agent.network_values()[network]]


def test_gradient_steps_are_those_of_stochastic_gradient_descent():
    agent = product()
    update = agent.update(batches([1.0, 3.0], [4.0, 4.0]))
    # losses: mean(1 * [1, 3]) = 2; the weight becomes 1 - 0.5 * 2 = 0, the bias -0.5: 0 * 4 - 0.5
    np.testing.assert_allclose(update.losses["default"], [2.0, -0.5])
    assert values(agent) == [0.0 - 0.5 * 4.0, -1.0]
    assert agent.gradient_steps == 2


def test_gradients_are_clipped_by_their_global_norm():
    agent = product(max_grad_norm=1.0)
    agent.record_gradient_norms()
    update = agent.update(batches([2.0]))
    norm = math.sqrt(5.0)  # of the gradient (2, 1)
    np.testing.assert_allclose(values(agent), [1.0 - 0.5 * 2.0 / norm, -0.5 / norm], rtol=1e-6)
    np.testing.assert_allclose(update.metrics["gradient_norm/default"], [norm], rtol=1e-6)
    np.testing.assert_allclose(update.metrics["clipped_gradient_norm/default"], [1.0], rtol=1e-6)


def test_targets_move_by_a_share_at_every_interval():
    agent = product(tau=0.25, target_update_interval=2)
    agent.update(batches([2.0]))
    assert values(agent, "slow") == [1.0, 0.0]
    agent.update(batches([2.0]))
    assert values(agent) == [-1.0, -1.0]
    np.testing.assert_allclose(values(agent, "slow"), [1.0 + 0.25 * (-1.0 - 1.0), -0.25])


class EverySecond(Product):
    def optimizer_steps(self):
        return [OptimizerStep(["default"], self.loss, every=2, after=lambda _: {"after": torch.tensor(1.0)})]


def test_optimizers_step_at_every_second_gradient_step():
    agent = EverySecond(BOX, spaces.Discrete(2), OffPolicyConfig(optimizer="sgd", learning_rate=0.5))
    before = values(agent)
    update = agent.update(batches([2.0]))
    assert values(agent) == before
    assert "after" not in update.metrics
    update = agent.update(batches([2.0], [2.0]))
    np.testing.assert_allclose(values(agent), [before[0] - 1.0, before[1] - 0.5], rtol=1e-6)
    np.testing.assert_array_equal(update.metrics["after"], [1.0, np.nan])


# --- beside Keras


class KerasLinear(KerasAgent):
    def build(self):
        inputs = keras.Input((2,))
        return {"policy": keras.Model(inputs, keras.layers.Dense(3)(inputs))}

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=4, rng=rng)

    def act(self, observations, explore=False):
        return greedy(self.infer("policy", observations))

    def loss(self, batch):
        return {"default": keras.ops.mean(keras.ops.square(self.networks["policy"](batch["x"]) - batch["y"]))}


class TorchLinear(Reinforce):
    def build(self):
        return {"policy": nn.Linear(2, 3)}

    def preprocess_batch(self, data):
        return data

    def loss(self, batch):
        return {"default": (self.networks["policy"](batch["x"]) - batch["y"]).square().mean()}


@pytest.mark.parametrize(
    "optimizer",
    [
        *("adam", "adamw", "adamax", "adadelta", "adagrad", "nadam", "sgd", "sgd(momentum=0.9)"),
        *("sgd(momentum=0.9, nesterov=true)", "adam(amsgrad=true, beta_1=0.5)", "adamw(weight_decay=0.1)"),
        *("rmsprop(epsilon=1e-16)", "rmsprop(momentum=0.5, centered=true, epsilon=1e-16)"),  # its place differs
    ],
)
def test_optimizers_of_a_name_make_the_same_steps_in_both_libraries(optimizer: str):
    config = AgentConfig(optimizer=optimizer, learning_rate=0.05, max_grad_norm=0.5)
    of_keras = KerasLinear(BOX, spaces.Discrete(3), config)
    of_torch = TorchLinear(BOX, spaces.Discrete(3), config)
    weights, bias = of_keras.network_values()["policy"]
    of_torch.assign_networks({"policy": [weights.T, bias]})
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(12, 2)).astype(np.float32), "y": rng.normal(size=(12, 3)).astype(np.float32)}
    given = Batches(data, np.arange(12, dtype=np.int32).reshape(6, 2))
    one, other = of_keras.update(given), of_torch.update(given)
    np.testing.assert_allclose(other.losses["default"], one.losses["default"], rtol=1e-3)
    weights, bias = of_keras.network_values()["policy"]
    np.testing.assert_allclose(of_torch.network_values()["policy"][0], weights.T, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(of_torch.network_values()["policy"][1], bias, rtol=2e-3, atol=2e-4)


def test_agents_in_the_two_libraries_act_on_the_same_observations_alike():
    of_torch = TorchLinear(BOX, spaces.Discrete(3))
    of_keras = KerasLinear(BOX, spaces.Discrete(3))
    weights, bias = of_keras.network_values()["policy"]
    of_torch.assign_networks({"policy": [weights.T, bias]})
    observations = np.random.default_rng(1).normal(size=(20, 2)).astype(np.float32)
    np.testing.assert_array_equal(of_torch.act(observations), of_keras.act(observations))


def test_a_class_of_pytorch_is_an_optimizer_with_its_own_arguments():
    agent = TorchLinear(BOX, spaces.Discrete(3), AgentConfig(optimizer="torch.optim:RAdam(eps=0.001)"))
    assert isinstance(agent.optimizers["default"].optimizer, torch.optim.RAdam)
    assert agent.optimizers["default"].optimizer.param_groups[0]["eps"] == 0.001


def test_numbers_of_an_optimizer_can_change():
    agent = TorchLinear(BOX, spaces.Discrete(3), AgentConfig(optimizer="sgd(momentum=0.9)"))
    agent.set_hyperparameter("optimizer.momentum", 0.5)
    assert agent.optimizers["default"].optimizer.param_groups[0]["momentum"] == 0.5


@pytest.mark.parametrize("optimizer", ["sgd(momentum=0.9)", "rmsprop(momentum=0.9, epsilon=1e-16)"])
def test_momentum_is_that_of_keras_also_where_the_learning_rate_changes(optimizer: str):
    config = AgentConfig(optimizer=optimizer, learning_rate=0.1)
    of_keras, of_torch = KerasLinear(BOX, spaces.Discrete(3), config), TorchLinear(BOX, spaces.Discrete(3), config)
    weights, bias = of_keras.network_values()["policy"]
    of_torch.assign_networks({"policy": [weights.T, bias]})
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(4, 2)).astype(np.float32), "y": rng.normal(size=(4, 3)).astype(np.float32)}
    for rate in (0.1, 0.001, 0.05):
        for agent in (of_keras, of_torch):
            agent.set_learning_rate(rate)
            agent.update(Batches(data, np.array([[0, 1], [2, 3]], np.int32)))
    np.testing.assert_allclose(
        of_torch.network_values()["policy"][0], of_keras.network_values()["policy"][0].T, rtol=1e-4, atol=1e-5
    )


def test_an_error_of_a_loss_leaves_the_networks_in_evaluation_mode():
    agent = NoName(BOX, spaces.Discrete(3))
    with pytest.raises(ConfigurationError):
        agent.update(Batches({"x": np.ones((2, 2), np.float32)}, np.array([[0, 1]], np.int32)))
    assert not agent.networks["policy"].training


@pytest.mark.slow
def test_optimizers_of_pytorch_are_searched(tmp_path: Path):
    search: dict[str, Any] = {"env_steps": 400, "seeds": 1, "confirm": 0, "executor": "inline"}
    storage = f"sqlite:///{tmp_path}/f.db"
    found = OptFinder(Reinforce, ["torch.optim:RAdam(eps=0.001)", "adam"], "CartPole-v1")
    result = found.find(n_rates=2, storage=storage, **search)
    assert set(found.rewards) == {"torch.optim:RAdam(eps=0.001)", "adam"}
    with pytest.warns(UserWarning, match="with one seed each"):
        optimizer = result.best_optimizer()
    chosen = agents.make(Reinforce, "CartPole-v1", optimizer=optimizer)
    assert chosen.config.optimizer_spec().label == found.best_opt
    with pytest.raises(ConfigurationError, match="'lion' has no counterpart in PyTorch"):
        LRFinder(Reinforce, "CartPole-v1").grid(1e-3, 1e-2, 2, fixed={"optimizer": "lion"}, storage=storage, **search)


# --- what is refused


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"jit_compile": True}, "jit_compile concerns TensorFlow"),
        ({"optimizer": "lion"}, "'lion' has no counterpart in PyTorch"),
        ({"optimizer": "sgd(weight_decay=0.1)"}, "weight_decay=0.1 of the optimizer 'sgd' has no counterpart"),
        ({"optimizer": "adam(betas=3)"}, "betas"),
        ({"optimizer": "adam(beta_1=2.0)"}, "cannot be built in PyTorch"),
        ({"optimizers": {"actor": {"learning_rate": 1.0}}}, "actor"),
        ({"learning_rate": {"class_name": "CosineDecay", "config": {}}}, "schedule of Keras"),
    ],
)
def test_settings_without_a_counterpart_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        TorchLinear(BOX, spaces.Discrete(3), AgentConfig.from_dict(params))


class NoNetworks(TorchLinear):
    def build(self):
        return {"policy": 3}


class Detached(TorchLinear):
    def loss(self, batch):
        return {"default": self.networks["policy"](batch["x"]).detach().mean()}


class NoGradient(TorchLinear):
    def loss(self, batch):
        return {
            "default": self.networks["policy"](batch["x"]).detach().mean() * 0.0 + torch.ones((), requires_grad=True)
        }


class Vector(TorchLinear):
    def loss(self, batch):
        return {"default": self.networks["policy"](batch["x"])}


class NoName(TorchLinear):
    def loss(self, batch):
        return {"other": self.networks["policy"](batch["x"]).mean()}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (NoNetworks, "must return torch.nn.Module objects"),
        (Detached, "does not depend on its weights"),
        (NoGradient, "does not depend on its weights"),
        (Vector, "must give a scalar as 'default'"),
        (NoName, "must give a value for the optimizer 'default'"),
    ],
)
def test_mistakes_are_explained(made: type[TorchAgent], message: str):
    with pytest.raises(ConfigurationError, match=message):
        made(BOX, spaces.Discrete(3)).update(Batches({"x": np.ones((2, 2), np.float32)}, np.array([[0, 1]], np.int32)))


def test_strategies_are_refused():
    with pytest.raises(ConfigurationError, match="strateg"):
        agents.make(Reinforce, "CartPole-v1", strategy="one-device")


# --- the rest of the product


def test_the_global_generator_is_left_alone_and_does_not_matter():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    agent = agents.make(Reinforce, "CartPole-v1", seed=1, n_envs=2)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=64)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    again = agents.make(Reinforce, "CartPole-v1", seed=1, n_envs=2)
    with Trainer(again) as trainer:
        trainer.train(env_steps=64)
    assert same(again.get_state()["networks"], agent.get_state()["networks"])


def test_a_checkpoint_is_resumed_and_loaded(tmp_path: Any):
    agent = agents.make(Reinforce, "CartPole-v1", n_envs=2)
    with Trainer(agent, callbacks=[agents.Checkpoint(tmp_path, every="64 steps")]) as trainer:
        trainer.train(env_steps=64)
        trainer.train(env_steps=64)
    straight = agent.get_state()
    first, *_ = sorted(tmp_path.glob("*"), key=lambda path: path.stat().st_mtime)
    with Trainer(
        agents.make(Reinforce, "CartPole-v1", n_envs=2), callbacks=[agents.Checkpoint(tmp_path / "b")]
    ) as again:
        agents.resume(again, first)
        again.train(env_steps=64)
    assert same(again.agent.get_state(), straight)
    observation = np.zeros(4, np.float32)
    newest = sorted(tmp_path.glob("*"), key=lambda path: path.stat().st_mtime)[-1]
    assert agents.load_agent(newest).predict(observation) == agent.predict(observation)


@pytest.mark.real
def test_a_pool_collects_for_an_agent_in_pytorch():
    agent = agents.make(Reinforce, "CartPole-v1", n_envs=2)
    before = agent.network_values()
    with Trainer(agent, pool=agents.Pool(2)) as trainer:
        trainer.train(env_steps=200)
    assert not same(agent.network_values(), before)


@pytest.mark.learns
def test_reinforce_learns_cartpole():
    agent = agents.make(Reinforce, "CartPole-v1", n_envs=8, learning_rate=1e-2, seed=0)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=60_000)
    returns = trainer.run.history.returns
    assert np.mean(returns[:20]) < 40
    assert np.mean(returns[-20:]) > 100

"""Tests of live hyperparameters: every hook uses the current value, of its own population member."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from agents import AgentSpec, ConfigurationError, Trainer
from agents.algorithms.ppo import PPO, PPOConfig
from agents.backend.tensorflow import ops
from agents.callbacks.callback import LambdaCallback
from agents.errors import NotMappableError
from agents.population import Population
from agents.updates.gradient_steps import PRIORITIES, OptimizerStep

SMALL = {"hidden_sizes": (4,), "n_envs": 2, "n_steps": 4, "n_epochs": 1, "jit_compile": False}
SEPARATE = {"actor.learning_rate": 1e-3}  # separate optimizers, which step one after the other


class ReportsDiscount(PPO):
    """Agent that reports the discount seen by each hook, as a metric."""

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        prepared = super().preprocess_batch(data)
        seen = np.zeros_like(prepared["advantages"]) + np.float32(self.hyperparameters.gamma)
        return {**prepared, "in_prepare": seen}

    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        return self.tell

    def tell(self, rows: dict[str, Any]) -> Mapping[str, Any]:
        return {"in_opening": self.live.gamma, "in_whole_of_opening": ops.mean(rows["in_whole"])}

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {**super().preprocess_minibatch(batch), "in_whole": self.live.gamma * ops.ones_like(batch["advantages"])}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        return [OptimizerStep(["actor"], self.actor_loss), OptimizerStep(["critic"], self.critic_loss, every=2)]

    def actor_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        metrics = {f"{name}_of_rows": ops.mean(batch[name]) for name in ("in_prepare", "in_whole")}
        weights = ops.sum(ops.square(self.networks["actor"].trainable_variables[0]))
        seen = self.live.gamma * ops.ones_like(batch["advantages"])
        return {"actor": self.live.gamma * weights, "in_first_turn": self.live.gamma, PRIORITIES: seen, **metrics}

    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        weights = ops.sum(ops.square(self.networks["critic"].trainable_variables[0]))
        return {"critic": self.live.gamma * weights, "in_second_turn": self.live.gamma}


SEEN = {"in_prepare_of_rows", "in_opening", "in_whole_of_opening", "in_whole_of_rows", "in_first_turn"}
SEEN |= {"in_second_turn"}


def seen_in(updates: Sequence[Any]) -> list[float]:
    """Return the discount seen by all hooks of each update, which must be the same."""
    seen = []
    for update in updates:
        assert {*update.metrics} == SEEN
        values = np.concatenate([np.ravel(each) for each in (*update.metrics.values(), update.priorities)])
        assert np.ptp(values) < 1e-6
        seen.append(round(float(values[0]), 6))
    return seen


def trainer_of(agent: Any) -> tuple[Trainer, list[Any]]:
    updates: list[Any] = []
    return Trainer(agent, callbacks=[LambdaCallback(on_update_end=lambda _, update: updates.append(update))]), updates


@pytest.mark.slow
@pytest.mark.parametrize("by_xla", [False, True])
def test_every_hook_uses_current_value(by_xla: bool):
    agent = AgentSpec.of(ReportsDiscount, "CartPole-v1", {**SMALL, **SEPARATE, "jit_compile": by_xla}).build(0)
    trainer, updates = trainer_of(agent)
    with trainer:
        for gamma in (0.99, 0.1, 0.7):
            agent.set_hyperparameter("gamma", gamma)
            trainer.train(env_steps=8)
    assert seen_in(updates) == [0.99, 0.1, 0.7]


@pytest.mark.slow
def test_every_hook_uses_value_of_its_member():
    members = [{"seed": 0, "gamma": 0.9}, {"seed": 1, "gamma": 0.5}, {"seed": 2, "gamma": 0.3}]
    population = Population(AgentSpec.of(ReportsDiscount, "CartPole-v1", {**SMALL, **SEPARATE}), members)
    trainer, updates = trainer_of(population)
    with trainer:
        trainer.train(env_steps=8)
        population.set_hyperparameter("gamma", 0.2, position=1)
        trainer.train(env_steps=8)
    assert [update.member for update in updates] == [0, 1, 2] * 2
    assert seen_in(updates) == [0.9, 0.5, 0.3, 0.9, 0.2, 0.3]


# --- validation errors


@dataclass(frozen=True, kw_only=True)
class HalvingConfig(PPOConfig):
    """Config with a property that depends on a live hyperparameter."""

    @property
    def half(self) -> float:
        return self.gamma / 2


class ReadsConfig(PPO):
    config_class = HalvingConfig

    def way(self) -> Any:
        return self.config.gamma


class InLoss(ReadsConfig):
    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        self.way()
        return super().loss(batch)


class InMinibatch(ReadsConfig):
    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.way()
        return super().preprocess_minibatch(batch)


class InSteps(ReadsConfig):
    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        self.way()
        return super().optimizer_steps()


class InPreUpdate(ReadsConfig):
    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        self.way()
        return lambda rows: {}


class InPreUpdateStep(ReadsConfig):
    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        return self.step

    def step(self, rows: dict[str, Any]) -> Mapping[str, Any]:
        self.way()
        return {}


class InCriticLoss(ReportsDiscount):
    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        _ = self.config.gamma
        return super().critic_loss(batch)


HOOKS = {
    "loss": (InLoss, {}),
    "preprocess_minibatch": (InMinibatch, {}),
    "optimizer_steps": (InSteps, {}),
    "pre_update": (InPreUpdate, {}),
    "step": (InPreUpdateStep, {}),
    "critic_loss": (InCriticLoss, SEPARATE),
}


def train(spec: AgentSpec, members: Any) -> None:
    learner = spec.build(0) if members is None else Population(spec, members)
    assert learner.config.gamma in (0.99, 0.9)  # outside of traced hooks the config may be read
    with Trainer(learner) as trainer:
        trainer.train(env_steps=8)


@pytest.mark.parametrize("members", [None, [{"gamma": 0.9}, {"gamma": 0.5}]])
@pytest.mark.parametrize("hook", HOOKS)
def test_traced_hook_cannot_read_live_value_from_config(hook: str, members: Any):
    agent, params = HOOKS[hook]
    spec = AgentSpec.of(agent, "CartPole-v1", {**SMALL, **params})
    message = rf"{hook}\(\) reads self\.config\.gamma, .* read self\.hyperparameters\.gamma"
    with pytest.raises(ConfigurationError, match=message):
        train(spec, members)


WAYS = {
    "to_dict": lambda agent: agent.config.to_dict(),
    "live_values": lambda agent: agent.config.live_values(),
    "a property": lambda agent: agent.config.half,
    "number": lambda agent: agent.number("gamma"),
    "replace": lambda agent: agent.config.replace({"gamma": 0.5}),
    "the rate": lambda agent: agent.optimizer_spec().learning_rate,
}


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_to_read_live_values_are_refused(way: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(InMinibatch, "way", WAYS[way])
    agent = AgentSpec.of(InMinibatch, "CartPole-v1", SMALL).build(0)
    with (
        Trainer(agent) as trainer,
        pytest.raises(ConfigurationError, match=r"preprocess_minibatch\(\) reads self\.config"),
    ):
        trainer.train(env_steps=8)


def test_structural_values_can_be_read_in_hooks(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []

    def look(agent: Any) -> None:
        config = agent.config
        assert "gamma=0.99" in repr(config)
        seen.append((config.n_steps, config.layers("actor")["hidden_sizes"], config.complements()))
        assert isinstance(config, PPOConfig)

    monkeypatch.setattr(InMinibatch, "way", look)
    agent = AgentSpec.of(InMinibatch, "CartPole-v1", SMALL).build(0)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=8)
    assert seen == [(4, (4,), {"one_minus_gamma": "gamma"})]


class PreparesForAll(PPO):
    """Agent that prepares the data of all members at once, and reads the discount of one member."""

    @property
    def rowwise(self) -> bool:
        return True

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        prepared = super().preprocess_batch(data)
        return {**prepared, "returns": prepared["returns"] * self.config.gamma}


def test_rowwise_agent_cannot_read_value_of_one_member():
    population = Population(AgentSpec.of(PreparesForAll, "CartPole-v1", SMALL), [{"gamma": 0.9}, {"gamma": 0.5}])
    with Trainer(population) as trainer, pytest.raises(NotMappableError, match=r"use self\.hyperparameters\.gamma"):
        trainer.train(env_steps=8)


class ReadsHyperparameters(PPO):
    """Agent that records the discount read by each of its hooks."""

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        read["preprocess_batch"] = self.hyperparameters.gamma
        return super().preprocess_batch(data)

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        read["n_epochs"] = self.hyperparameters.n_epochs
        weights = self.hyperparameters.gamma * ops.ones_like(batch["advantages"])
        return {**super().preprocess_minibatch(batch), "discounts": weights}

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        return {**super().loss(batch), "in_minibatch": batch["discounts"][0], "in_loss": self.hyperparameters.gamma}


read: dict[str, Any] = {}


def test_hyperparameters_are_current_in_every_hook():
    seen: list[tuple[float, float, float]] = []

    def note(_: Any, update: Any) -> None:
        found = [np.ravel(update.metrics[name])[-1] for name in ("in_minibatch", "in_loss")]
        seen.append((float(read["preprocess_batch"]), *map(float, found)))

    agent = AgentSpec.of(ReadsHyperparameters, "CartPole-v1", SMALL).build(0)
    with Trainer(agent, callbacks=[LambdaCallback(on_update_end=note)]) as trainer:
        trainer.train(env_steps=8)
        agent.set_hyperparameter("gamma", 0.5)
        trainer.train(env_steps=8)
    assert seen[0] == pytest.approx((0.99, 0.99, 0.99))
    assert seen[-1] == pytest.approx((0.5, 0.5, 0.5))
    assert read["n_epochs"] == agent.config.n_epochs
    with pytest.raises(AttributeError, match="nonsense"):
        _ = agent.hyperparameters.nonsense


# --- built-in algorithms

REPLAY = {"hidden_sizes": (4,), "learning_starts": 8, "batch_size": 8, "jit_compile": False}
ALGORITHMS = [
    ("a2c", "CartPole-v1", SMALL_A2C := {name: value for name, value in SMALL.items() if name != "n_epochs"}, {}),
    ("acer", "CartPole-v1", {**SMALL_A2C, "learning_starts": 0, "replay_ratio": 1}, {}),
    ("ddpg", "Pendulum-v1", REPLAY, {}),
    ("dqn", "CartPole-v1", {**REPLAY, "target_update_interval": 1}, {}),
    ("ppo", "CartPole-v1", SMALL, {}),
    ("rainbow", "CartPole-v1", {**REPLAY, "target_update_interval": 1, "v_min": -1.0, "v_max": 9.0}, {"v_min": -3.0}),
    ("sac", "Pendulum-v1", {**REPLAY, "target_entropy": -2.0}, {"target_entropy": -9.0}),
    ("sac", "Pendulum-v1", {**REPLAY, "ent_coef": 0.1}, {}),
    ("td3", "Pendulum-v1", REPLAY, {"target_noise": 0.4, "target_noise_clip": 0.6}),
    ("trpo", "CartPole-v1", SMALL, {"line_search_shrinking_factor": 0.5}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params", "changes"), ALGORITHMS)
def test_changed_live_values_equal_built_in_values(name, environment, params, changes):
    """All live hyperparameters change at once, after the update was compiled."""
    spec = AgentSpec.of(name, environment, params)
    changed = spec.build(0)
    halved = {number: value / 2 for number, value in changed.config.live_values().items()} | changes
    assert halved
    with Trainer(changed) as trainer:
        trainer.train(env_steps=32)
    for number, value in halved.items():
        changed.set_hyperparameter(number, value)
    built = spec.with_params(halved).build(0)
    built.set_state(changed.get_state())
    for agent in (changed, built):
        with Trainer(agent, seed=3) as trainer:
            trainer.train(env_steps=32)
    assert changed.gradient_steps == built.gradient_steps > 0
    for one, other in zip(changed.state_variables(), built.state_variables(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6, err_msg=one.path)

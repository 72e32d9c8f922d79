"""Numbers that change while an agent trains: every hook uses the number as it is, and that of its own member."""

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
SEPARATE = {"actor.learning_rate": 1e-3}  # an optimizer each, which step one after the other


class Tells(PPO):
    """Tells the discount that each hook sees, as a metric."""

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
        told = {f"{name}_of_rows": ops.mean(batch[name]) for name in ("in_prepare", "in_whole")}
        weights = ops.sum(ops.square(self.networks["actor"].trainable_variables[0]))
        seen = self.live.gamma * ops.ones_like(batch["advantages"])
        return {"actor": self.live.gamma * weights, "in_first_turn": self.live.gamma, PRIORITIES: seen, **told}

    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        weights = ops.sum(ops.square(self.networks["critic"].trainable_variables[0]))
        return {"critic": self.live.gamma * weights, "in_second_turn": self.live.gamma}


SEEN = {"in_prepare_of_rows", "in_opening", "in_whole_of_opening", "in_whole_of_rows", "in_first_turn"}
SEEN |= {"in_second_turn"}


def seen_in(updates: Sequence[Any]) -> list[float]:
    """The only discount that all hooks saw, an update each."""
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


@pytest.mark.parametrize("by_xla", [False, True])
def test_every_hook_uses_the_number_as_it_is(by_xla: bool):
    agent = AgentSpec.of(Tells, "CartPole-v1", {**SMALL, **SEPARATE, "jit_compile": by_xla}).build(0)
    trainer, updates = trainer_of(agent)
    with trainer:
        for gamma in (0.99, 0.1, 0.7):
            agent.set_hyperparameter("gamma", gamma)
            trainer.train(env_steps=8)
    assert seen_in(updates) == [0.99, 0.1, 0.7]


def test_every_hook_uses_the_number_of_its_own_member():
    members = [{"seed": 0, "gamma": 0.9}, {"seed": 1, "gamma": 0.5}, {"seed": 2, "gamma": 0.3}]
    population = Population(AgentSpec.of(Tells, "CartPole-v1", {**SMALL, **SEPARATE}), members)
    trainer, updates = trainer_of(population)
    with trainer:
        trainer.train(env_steps=8)
        population.set_hyperparameter("gamma", 0.2, position=1)
        trainer.train(env_steps=8)
    assert [update.member for update in updates] == [0, 1, 2] * 2
    assert seen_in(updates) == [0.9, 0.5, 0.3, 0.9, 0.2, 0.3]


# --- what is refused


@dataclass(frozen=True, kw_only=True)
class HalvingConfig(PPOConfig):
    """With a property that depends on a live number."""

    @property
    def half(self) -> float:
        return self.gamma / 2


class Reads(PPO):
    config_class = HalvingConfig

    def way(self) -> Any:
        return self.config.gamma


class InLoss(Reads):
    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        self.way()
        return super().loss(batch)


class InWhole(Reads):
    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.way()
        return super().preprocess_minibatch(batch)


class InTurns(Reads):
    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        self.way()
        return super().optimizer_steps()


class InOpening(Reads):
    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        self.way()
        return lambda rows: {}


class InTheOpeningsStep(Reads):
    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        return self.step

    def step(self, rows: dict[str, Any]) -> Mapping[str, Any]:
        self.way()
        return {}


class InASecondTurn(Tells):
    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        _ = self.config.gamma
        return super().critic_loss(batch)


HOOKS = {
    "loss": (InLoss, {}),
    "preprocess_minibatch": (InWhole, {}),
    "optimizer_steps": (InTurns, {}),
    "pre_update": (InOpening, {}),
    "step": (InTheOpeningsStep, {}),
    "critic_loss": (InASecondTurn, SEPARATE),
}


def train(spec: AgentSpec, members: Any) -> None:
    learner = spec.build(0) if members is None else Population(spec, members)
    assert learner.config.gamma in (0.99, 0.9)  # outside of hooks it is read as ever
    with Trainer(learner) as trainer:
        trainer.train(env_steps=8)


@pytest.mark.parametrize("members", [None, [{"gamma": 0.9}, {"gamma": 0.5}]])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_is_traced_reads_no_live_number_from_the_config(hook: str, members: Any):
    agent, params = HOOKS[hook]
    spec = AgentSpec.of(agent, "CartPole-v1", {**SMALL, **params})
    told = rf"{hook}\(\) reads self\.config\.gamma, .* read self\.hyperparameters\.gamma"
    with pytest.raises(ConfigurationError, match=told):
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
def test_there_is_no_way_around_that(way: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(InWhole, "way", WAYS[way])
    agent = AgentSpec.of(InWhole, "CartPole-v1", SMALL).build(0)
    with (
        Trainer(agent) as trainer,
        pytest.raises(ConfigurationError, match=r"preprocess_minibatch\(\) reads self\.config"),
    ):
        trainer.train(env_steps=8)


def test_what_cannot_change_is_read_as_ever(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []

    def look(agent: Any) -> None:
        config = agent.config
        assert "gamma=0.99" in repr(config)
        seen.append((config.n_steps, config.layers("actor")["hidden_sizes"], config.complements()))
        assert isinstance(config, PPOConfig)

    monkeypatch.setattr(InWhole, "way", look)
    agent = AgentSpec.of(InWhole, "CartPole-v1", SMALL).build(0)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=8)
    assert seen == [(4, (4,), {"one_minus_gamma": "gamma"})]


class ForAll(PPO):
    """Prepares for all members at once, and reads the discount of one of them."""

    @property
    def rowwise(self) -> bool:
        return True

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        prepared = super().preprocess_batch(data)
        return {**prepared, "returns": prepared["returns"] * self.config.gamma}


def test_what_acts_for_all_members_reads_no_number_of_one_of_them():
    population = Population(AgentSpec.of(ForAll, "CartPole-v1", SMALL), [{"gamma": 0.9}, {"gamma": 0.5}])
    with Trainer(population) as trainer, pytest.raises(NotMappableError, match=r"use self\.hyperparameters\.gamma"):
        trainer.train(env_steps=8)


class Reads(PPO):
    """Notes the discount that each of its hooks reads, in the same words everywhere."""

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


def test_a_hyperparameter_is_read_in_one_way_and_never_stale():
    seen: list[tuple[float, float, float]] = []

    def note(_: Any, update: Any) -> None:
        found = [np.ravel(update.metrics[name])[-1] for name in ("in_minibatch", "in_loss")]
        seen.append((float(read["preprocess_batch"]), *map(float, found)))

    agent = AgentSpec.of(Reads, "CartPole-v1", SMALL).build(0)
    with Trainer(agent, callbacks=[LambdaCallback(on_update_end=note)]) as trainer:
        trainer.train(env_steps=8)
        agent.set_hyperparameter("gamma", 0.5)
        trainer.train(env_steps=8)
    assert seen[0] == pytest.approx((0.99, 0.99, 0.99))
    assert seen[-1] == pytest.approx((0.5, 0.5, 0.5))
    assert read["n_epochs"] == agent.config.n_epochs
    with pytest.raises(AttributeError, match="nonsense"):
        _ = agent.hyperparameters.nonsense


# --- our own algorithms

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


@pytest.mark.parametrize(("name", "environment", "params", "changes"), ALGORITHMS)
def test_changed_numbers_are_those_of_an_agent_that_was_built_with_them(name, environment, params, changes):
    """All live numbers at once, after the update was compiled."""
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

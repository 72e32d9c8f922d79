"""Tests of members that copy others, and of schedules of hyperparameters: population-based training, live."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import agents
from agents import AgentSpec, Callback, ConfigurationError, HyperparameterSchedule, Trainer
from agents.population import Population
from agents.population.stacks import copy_position
from agents.training.run import Budget
from agents.updates.compiled import CompiledCalls

PPO = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "hidden_sizes": [8], "jit_compile": False}
DQN = {"learning_starts": 32, "batch_size": 8, "hidden_sizes": [8], "train_freq": 2, "jit_compile": False}
SAC = {"learning_starts": 32, "batch_size": 8, "hidden_sizes": [8], "jit_compile": False}
CASES = [
    ("ppo", "CartPole-v1", {**PPO, "normalize_observations": True}),
    ("ppo", "CartPole-v1", PPO),
    ("dqn", "CartPole-v1", DQN),
    ("sac", "Pendulum-v1", SAC),
]


def population(name: str, environment: str, params: dict[str, Any], rates: list[float]) -> Trainer:
    spec = AgentSpec.of(name, environment, params)
    return Trainer(Population(spec, [{"seed": i, "learning_rate": rate} for i, rate in enumerate(rates)]))


def advance(trainer: Trainer, env_steps: int) -> None:
    trainer.train(env_steps=env_steps - trainer.env_steps, progress=False)


def values(trainer: Trainer, member: int) -> list[np.ndarray]:
    return [own[member].copy() for own in trainer.agent._values()]


class Captures(Callback):
    """Record a number at the beginning of every rollout."""

    def __init__(self, name: str) -> None:
        self.name, self.seen = name, []

    def on_rollout_begin(self, trainer: Trainer) -> None:
        self.seen.append((trainer.env_steps, getattr(trainer.agent.config, self.name)))


@pytest.mark.parametrize(("name", "environment", "params"), CASES)
def test_a_copy_has_the_state_bit_for_bit_and_the_others_are_untouched(
    name: str, environment: str, params: dict[str, Any]
) -> None:
    trainer = population(name, environment, params, [1e-3, 1e-4, 1e-2])
    advance(trainer, 128)
    before = [values(trainer, member) for member in range(3)]
    streams = [generator.bit_generator.state for generator in trainer.agent._generators()]
    assert any(not np.array_equal(one, other) for one, other in zip(before[0], before[2], strict=True))
    trainer.copy_member(2, 0)
    after = [values(trainer, member) for member in range(3)]
    for source, own in zip(before[2], after[0], strict=True):
        np.testing.assert_array_equal(own, source)
    for member in (1, 2):
        for old, new in zip(before[member], after[member], strict=True):
            np.testing.assert_array_equal(new, old)
    assert [generator.bit_generator.state for generator in trainer.agent._generators()] == streams
    assert [member.seed for member in trainer.agent.members] == [0, 1, 2]
    assert [member.config.learning_rate for member in trainer.agent.members] == [1e-2, 1e-4, 1e-2]
    extracted = [trainer.agent.extract(member) for member in (0, 2)]
    observations = np.random.default_rng(0).normal(size=(2, *trainer.agent.observation_space.shape)).astype(np.float32)
    first, second = (agent.act(observations) for agent in extracted)
    np.testing.assert_array_equal(first, second)
    assert str(extracted[0].extra_state()) == str(extracted[1].extra_state())
    trainer.close()


def test_a_copy_has_the_mutable_hyperparameters_of_its_source_also_in_the_replay() -> None:
    spec = AgentSpec.of("dqn", "CartPole-v1", {**DQN, "replay": "prioritized", "n_step": 3})
    numbers = {"gamma": 0.5, "priority_alpha": 0.9, "priority_beta": 0.7, "priority_eps": 0.1}
    trainer = Trainer(Population(spec, [{"seed": 0, "learning_rate": 0.5, **numbers}, {"seed": 1}, {"seed": 2}]))
    trainer.copy_member(0, 2)
    assert trainer.buffer.gammas.tolist() == [0.5, 0.99, 0.5]
    assert {name: values.tolist() for name, values in trainer.buffer._numbers.items()} == {
        "alpha": [0.9, 0.6, 0.9],
        "beta": [0.7, 0.4, 0.7],
        "eps": [0.1, 1e-6, 0.1],
    }
    configs = [member.config for member in trainer.agent.members]
    assert configs[2].live_values() == configs[0].live_values() != configs[1].live_values()
    assert [config.learning_rate for config in configs] == [0.5, spec.config.learning_rate, 0.5]
    trainer.close()


def test_a_copy_explores_as_before() -> None:
    """Hyperparameters of exploration do not change while an agent trains; what a policy counts is its own."""
    spec = AgentSpec.of("dqn", "CartPole-v1", DQN)
    counting = {"policy": "boltzmann-gumbel", "policy_kwargs": {"C": 2.0}}
    members = [
        {"seed": 0, **counting},
        {"seed": 1, "exploration_final_eps": 0.3},
        {"seed": 2, **counting, "gamma": 0.5},
    ]
    trainer = Trainer(Population(spec, members))
    advance(trainer, 27)
    actors, before = trainer.agent.actors, [actor.running_state() for actor in trainer.agent.actors]
    assert before[0]["policy"]["counts"].tolist() != before[2]["policy"]["counts"].tolist()
    for target in (0, 1):
        trainer.copy_member(2, target)
    assert [member.config.gamma for member in trainer.agent.members] == [0.5] * 3
    assert [member.config.policy for member in trainer.agent.members] == ["boltzmann-gumbel", None, "boltzmann-gumbel"]
    assert trainer.agent.members[1].config.exploration_final_eps == actors[1].config.exploration_final_eps == 0.3
    for actor, own in zip(actors, before, strict=True):
        np.testing.assert_equal(actor.running_state(), own)
    advance(trainer, 50)
    trainer.close()


def test_a_copy_keeps_the_sums_of_rewards_of_its_running_episodes() -> None:
    spec = AgentSpec.of("ppo", "CartPole-v1", {**PPO, "normalize_rewards": True})
    trainer = Trainer(Population(spec, [{"seed": 0}, {"seed": 1, "gamma": 0.5}]))
    advance(trainer, 32)
    scalers = [actor.scaler for actor in trainer.agent.actors]
    before = scalers[1].sums.copy()
    assert not np.array_equal(scalers[0].sums, before)
    trainer.copy_member(0, 1)
    np.testing.assert_array_equal(scalers[1].sums, before)
    assert scalers[1].get_state() == scalers[0].get_state()
    trainer.close()


def test_the_seeds_of_random_layers_stay() -> None:
    class Variable:
        def __init__(self, dtype: str) -> None:
            self.dtype = dtype

    stacks = [np.array([1.0, 2.0]), np.array([[7, 7], [8, 8]])]
    copy_position([Variable("float32"), Variable("uint32")], stacks, 0, 1)
    assert stacks[0].tolist() == [1.0, 1.0]
    assert stacks[1].tolist() == [[7, 7], [8, 8]]


@pytest.mark.slow
def test_a_copy_and_new_numbers_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    original = CompiledCalls._traced

    def counted(self: CompiledCalls, *arguments: Any) -> Any:
        traces.append(type(self).__name__)
        return original(self, *arguments)

    monkeypatch.setattr(CompiledCalls, "_traced", counted)
    trainer = population("ppo", "CartPole-v1", PPO, [1e-3, 1e-4])
    advance(trainer, 64)
    first = len(traces)
    assert first > 0
    for step in (128, 192):
        trainer.copy_member(0, 1)
        trainer.set_hyperparameter("learning_rate", step * 1e-5, 1)
        trainer.set_hyperparameter("one_minus_gamma", 0.05, 1)
        advance(trainer, step)
    assert len(traces) == first
    assert trainer.agent.members[1].config.gamma == 0.95
    assert trainer.agent.members[0].config.gamma != 0.95
    trainer.close()


def test_a_copy_with_the_same_numbers_learns_what_its_source_learns_from_the_same_data() -> None:
    """Only environments and random streams differ: with those of the source, the copy stays equal to it."""
    trainer = population("ppo", "CartPole-v1", PPO, [1e-3, 1e-2])
    advance(trainer, 64)
    trainer.copy_member(0, 1)
    rows = {name: np.concatenate([own, own], axis=1) for name, own in rollout(trainer).items()}
    before = values(trainer, 0)
    for generator in trainer.buffer._rngs:
        generator.bit_generator.state = np.random.default_rng(3).bit_generator.state
    trainer.agent.update(trainer.buffer.batches(trainer.agent.preprocess_batch(rows)))
    for one, other in zip(values(trainer, 0), values(trainer, 1), strict=True):
        np.testing.assert_array_equal(one, other)
    assert any(not np.array_equal(old, new) for old, new in zip(before, values(trainer, 0), strict=True))
    trainer.close()


def rollout(trainer: Trainer) -> dict[str, np.ndarray]:
    """Return random data of one member, [T, N, ...]."""
    rng = np.random.default_rng(1)
    shape = (16, 2)
    return {
        "observations": rng.normal(size=(*shape, 4)).astype(np.float32),
        "actions": rng.integers(0, 2, shape),
        "rewards": np.ones(shape, np.float32),
        "next_observations": rng.normal(size=(*shape, 4)).astype(np.float32),
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
    }


def test_a_single_agent_has_no_members_to_copy() -> None:
    trainer = Trainer(agents.make("ppo", "CartPole-v1", **PPO))
    with pytest.raises(ConfigurationError, match="single agent"):
        trainer.copy_member(0, 0)
    trainer.close()


def test_a_schedule_sets_numbers_between_updates() -> None:
    schedule = HyperparameterSchedule([(0, {"learning_rate": 0.1}), (50, {"learning_rate": 0.01, "ent_coef": 0.5})])
    captured = Captures("learning_rate")
    trainer = Trainer(agents.make("ppo", "CartPole-v1", **PPO), callbacks=[schedule, captured])
    trainer.train(env_steps=128, progress=False)
    assert captured.seen == [(0, 0.1), (32, 0.1), (64, 0.01), (96, 0.01)]
    assert trainer.agent.config.ent_coef == 0.5
    assert float(trainer.agent.optimizers["default"].learning_rate) == pytest.approx(0.01)
    trainer.close()


def test_a_rate_of_one_optimizer_prevails_over_that_of_all_whatever_their_order() -> None:
    agent = agents.make("ppo", "CartPole-v1", **PPO, **{"actor.learning_rate": 1e-3})
    both = {"actor.learning_rate": 0.1, "learning_rate": 0.2}
    trainer = Trainer(agent, callbacks=[HyperparameterSchedule([(0, both)])])
    trainer.train(env_steps=32, progress=False)
    assert [agent.get_learning_rate(name) for name in ("actor", "critic")] == pytest.approx([0.1, 0.2])
    for name, rate in (("learning_rate", 0.4), ("optimizer.learning_rate", 0.5)):
        trainer.set_hyperparameters({"critic.learning_rate": 0.3, name: rate})
        assert [agent.get_learning_rate(each) for each in ("actor", "critic")] == pytest.approx([rate, 0.3])
        assert [agent.optimizer_spec(each).learning_rate for each in ("actor", "critic")] == [rate, 0.3]
    trainer.close()


def test_a_schedule_resumes_in_the_middle() -> None:
    """A resumed training does not repeat changes, so that a number that changed otherwise since then stays."""
    changes = [(32, {"learning_rate": 0.1}), (96, {"learning_rate": 0.01})]
    first = Trainer(agents.make("ppo", "CartPole-v1", **PPO), callbacks=[HyperparameterSchedule(changes)])
    first.train(env_steps=64, progress=False)
    state, callbacks = first.get_state(), first.callbacks.get_state()
    second_schedule, captured = HyperparameterSchedule(changes), Captures("learning_rate")
    second = Trainer(agents.make("ppo", "CartPole-v1", **PPO), callbacks=[second_schedule, captured])
    second.set_state(state)
    second.callbacks.set_state(callbacks)
    assert second_schedule.n_applied == 1
    second.train(env_steps=64, progress=False)
    assert captured.seen == [(64, 0.1), (96, 0.01)]
    first.close()
    second.close()


@pytest.mark.slow
def test_a_change_waits_for_the_end_of_a_rollout_that_was_stopped() -> None:
    """Rollouts end at 32, 64, ...: a change at 36 takes effect at 64, also if the training was stopped at 40."""
    changes = [(36, {"learning_rate": 0.1})]
    first = Trainer(agents.make("ppo", "CartPole-v1", **PPO), callbacks=[HyperparameterSchedule(changes)])
    first.train(env_steps=40, progress=False)
    captured = Captures("learning_rate")
    second = Trainer(agents.make("ppo", "CartPole-v1", **PPO), callbacks=[HyperparameterSchedule(changes), captured])
    second.set_state(first.get_state())
    second.callbacks.set_state(first.callbacks.get_state())
    second.train(env_steps=56, progress=False)
    usual = first.agent.config.learning_rate
    assert captured.seen == [(40, usual), (64, 0.1)]
    first.close()
    second.close()


def test_a_schedule_changes_one_member_of_a_population() -> None:
    spec = AgentSpec.of("ppo", "CartPole-v1", PPO)
    schedule = HyperparameterSchedule([(32, {"learning_rate": 0.5})], member=1)
    trainer = Trainer(Population(spec, [{"seed": 0}, {"seed": 1}]), callbacks=[schedule])
    for _ in trainer.iterate(Budget(env_steps=96)):
        pass
    assert [member.config.learning_rate for member in trainer.agent.members] == [spec.config.learning_rate, 0.5]
    trainer.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(10, {}), (5, {})], r"\[10, 5\]: give them from 0 on, ascending"),
        ([(-1, {})], "from 0 on"),
        ([(0, {"learning_rate": float("nan")})], "learning_rate to nan at step 0: give a finite number"),
        ([(0, {"learning_rate": True})], "learning_rate to True at step 0: give a finite number"),
        ({100: {"learning_rate": 0.1}}, "give a list of pairs of environment steps and hyperparameters"),
        ([(2.5, {"learning_rate": 0.1})], "give a list of pairs"),
        ([("100", {"learning_rate": 0.1})], "give a list of pairs"),
        ([(100, 0.1)], "give a list of pairs"),
        (100, "give a list of pairs"),
    ],
)
def test_bad_schedules_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        HyperparameterSchedule(changes)


def test_a_schedule_of_numpy_has_numbers_of_python() -> None:
    changes = [(np.int64(1000), {"learning_rate": np.float32(0.5), "n_epochs": np.int64(2)})]
    ((env_steps, values),) = HyperparameterSchedule(changes).changes
    assert (env_steps, values) == (1000, {"learning_rate": 0.5, "n_epochs": 2})
    assert [type(each) for each in (env_steps, *values.values())] == [int, float, int]


def test_a_schedule_of_structure_is_refused_with_what_can_change() -> None:
    schedule = HyperparameterSchedule([(0, {"n_steps": 8})])
    trainer = Trainer(agents.make("ppo", "CartPole-v1", **PPO), callbacks=[schedule])
    with pytest.raises(ConfigurationError, match="'n_steps' cannot change while"):
        trainer.train(env_steps=32, progress=False)
    trainer.close()

"""Tests of `self.hyperparameters`: values are current everywhere, in population members and stored readers too."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agents import AgentSpec, LambdaCallback, Trainer
from agents.algorithms.ppo import PPO
from agents.backend.tensorflow import tf
from agents.contract.hyperparameter_reader import HyperparameterReader
from agents.contract.rows import row_by_row
from agents.population import Population
from agents.population.members import MemberSpec, RowNumbers

SMALL = {"hidden_sizes": (4,), "n_envs": 2, "n_steps": 4, "n_epochs": 1, "jit_compile": False}


class ReadsAll(PPO):
    """Agent that reads structural hyperparameters where it acts for all members at once."""

    @row_by_row
    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        found = self.hyperparameters
        seen.append((found.n_steps, found.activation, found.share_layers, found.max_grad_norm, found.gamma))
        return super().preprocess_batch(data)


seen: list[Any] = []


def test_mutable_hyperparameters_of_population_are_arrays() -> None:
    seen.clear()
    population = Population(AgentSpec.of(ReadsAll, "CartPole-v1", SMALL), [{"gamma": 0.9}, {"gamma": 0.5}])
    with Trainer(population) as trainer:
        trainer.train(env_steps=8)
    n_steps, activation, share_layers, max_grad_norm, gamma = seen[0]
    assert (n_steps, activation, share_layers) == (4, "tanh", False)
    np.testing.assert_allclose(max_grad_norm, [0.5] * 4)
    np.testing.assert_allclose(gamma, [0.9, 0.9, 0.5, 0.5])


class KeepsReader(PPO):
    """Agent that stores the reader at its start."""

    def start(self) -> None:
        super().start()
        self.stored = self.hyperparameters

    def loss(self, batch: dict[str, Any]) -> Any:
        return {**super().loss(batch), "gamma_in_loss": self.stored.gamma}


def test_stored_reader_gives_current_values() -> None:
    agent: Any = AgentSpec.of(KeepsReader, "CartPole-v1", SMALL).build(0)
    assert agent.stored.gamma == 0.99
    found: list[float] = []
    note = LambdaCallback(on_update_end=lambda _, update: found.append(float(update.metrics["gamma_in_loss"][-1])))
    with Trainer(agent, callbacks=[note]) as trainer:
        for gamma in (0.5, 0.25):
            agent.set_hyperparameter("gamma", gamma)
            assert agent.stored.gamma == gamma
            trainer.train(env_steps=8)
    assert found == [0.5, 0.25]


def test_tensorflow_functions_read_variables() -> None:
    agent: Any = AgentSpec.of("ppo", "CartPole-v1", SMALL).build(0)

    @tf.function
    def discount() -> Any:
        return agent.hyperparameters.gamma * 1.0

    assert float(discount()) == pytest.approx(0.99)
    agent.set_hyperparameter("gamma", 0.5)
    assert float(discount()) == pytest.approx(0.5)


class BuildsByReader(PPO):
    """Agent that reads hyperparameters in `build`."""

    def build(self) -> Any:
        assert self.hyperparameters.share_layers is False
        assert self.hyperparameters.gamma == 0.99
        return super().build()


def test_build_may_read_hyperparameters() -> None:
    agent = AgentSpec.of(BuildsByReader, "CartPole-v1", SMALL).build(0)
    agent.reset(1)


@pytest.mark.parametrize("normalized", [False, True])
def test_acting_state_contains_changed_hyperparameters(normalized: bool) -> None:
    spec = AgentSpec.of("ppo", "CartPole-v1", {**SMALL, "normalize_observations": normalized})
    agent: Any = spec.build(0)
    copied: Any = spec.build(0)
    shapes = [each.shape for each in agent.acting_state()]
    agent.set_hyperparameter("gamma", 0.5)
    copied.set_acting_state(agent.acting_state())
    assert copied.hyperparameters.gamma == 0.5
    assert float(copied.live.gamma.numpy()) == 0.5
    assert [each.shape for each in agent.acting_state()] == shapes


def test_numbers_of_an_agent_are_those_of_a_member() -> None:
    """Products of numbers too: 0.9 times 0.8 differs between single and double precision."""
    params = {**SMALL, "gamma": 0.9, "gae_lambda": 0.8}
    alone: Any = AgentSpec.of("ppo", "CartPole-v1", params).build(0).hyperparameters
    member = MemberSpec(0, AgentSpec.of("ppo", "CartPole-v1", params).config)
    rows = RowNumbers([member], 2)
    together = rows("gamma") * rows("gae_lambda")
    assert together.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(alone.gamma * alone.gae_lambda), together[0], strict=True)


def test_reader_can_be_copied_and_pickled() -> None:
    agent: Any = SimpleNamespace(config=None, live=None)
    for other in (copy.deepcopy(HyperparameterReader(agent)), pickle.loads(pickle.dumps(HyperparameterReader(agent)))):
        assert other._agent == agent

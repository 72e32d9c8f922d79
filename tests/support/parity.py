"""Trainings that must be equal: members of a population and agents alone, resumed runs and uninterrupted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from movements import assert_same_movement, values_of

from agents import AgentSpec, Trainer
from agents.population import Population
from agents.population.saved_values import loaded_values
from agents.training.training_run import TrainingRun


def members_and_agents_alone(
    algorithm: str, environment: Any, params: dict[str, Any], env_steps: int = 60, *, other: str = "gamma"
) -> Iterator[tuple[TrainingRun, Trainer]]:
    """Train two members that differ in hyperparameters, and an agent alone with those of each.

    Weights must move by the same amount. `other` is a hyperparameter of the second member.

    Yields the run of a member and the trainer of its agent.
    """
    members: list[dict[str, Any]] = [{"seed": 3, "learning_rate": 1e-2}, {"seed": 4, other: 0.5}]
    population = Population(AgentSpec.of(algorithm, environment, params), members)
    with Trainer(population) as trainer:
        trainer.train(env_steps=env_steps)
        assert population.updates_as_function != bool(params.get("spectral_norm"))  # which assigns weights in its loss
        values = loaded_values(population.agent, population.get_state()["values"])
        for position, member in enumerate(members):
            own = {key: value for key, value in member.items() if key != "seed"}
            alone = AgentSpec.of(algorithm, environment, {**params, **own}).build(member["seed"])
            initial = values_of(alone.state_variables())
            with Trainer(alone) as single:
                single.train(env_steps=env_steps)
                yield trainer.runs[position], single
            assert_same_movement([each[position] for each in values], values_of(alone.state_variables()), initial)


def assert_resumed_run_equals_uninterrupted_run(make: Callable[[], Trainer], until: int, at: int) -> None:
    """Assert that a run whose state is restored after `at` of `until` environment steps ends bit for bit the same."""
    with make() as straight, make() as resumed:
        straight.train(env_steps=at)
        state = straight.get_state()
        straight.train(env_steps=until)
        resumed.set_state(state)
        resumed.train(env_steps=until)
        assert straight.history.returns == resumed.history.returns
        ours, theirs = (values_of(each.agent.state_variables()) for each in (straight, resumed))
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)

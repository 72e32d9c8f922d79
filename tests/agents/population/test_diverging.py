"""Tests of members that diverge: the others continue as if each was alone, with the same random numbers and states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from movements import assert_same_movement, values_of

from agents import AgentSpec, Trainer, seeding
from agents.errors import MembersFailedError
from agents.population import Population

PPO: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2}
REPLAY: dict[str, Any] = {"learning_starts": 32, "batch_size": 8, "train_freq": 2}
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False, "max_grad_norm": None}


@pytest.fixture(scope="module")
def swing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Demonstrations on Pendulum-v1."""
    pytest.importorskip("minari")
    from experts import record_rule, swing

    folder = tmp_path_factory.mktemp("datasets")
    with pytest.MonkeyPatch.context() as patch:
        record_rule(folder, "Pendulum-v1", swing, patch, name="swing-v0")
        yield folder


CASES = [
    ("dqn", "CartPole-v1", REPLAY, {"learning_rate": 1e38}),
    ("dqn", "CartPole-v1", {**REPLAY, "policy": "boltzmann-gumbel"}, {"learning_rate": 1e38}),
    ("rainbow", "CartPole-v1", REPLAY, {"learning_rate": 1e38}),
    ("ppo", "CartPole-v1", PPO, {"learning_rate": 1e38}),
    ("a2c", "CartPole-v1", {"n_envs": 2, "normalize_observations": True}, {"learning_rate": 1e38}),
    ("ddpg", "Pendulum-v1", {**REPLAY, "noise": "ornstein-uhlenbeck"}, {"learning_rate": 1e38}),
    ("gail-sac", "Pendulum-v1", {**REPLAY, "expert": "swing"}, {"reward.learning_rate": 1e38}),
]


@pytest.mark.slow
@pytest.mark.usefixtures("swing")
@pytest.mark.parametrize(("algorithm", "environment", "params", "diverging"), CASES)
def test_diverging_member_leaves_alone(
    algorithm: str, environment: str, params: dict[str, Any], diverging: dict[str, Any]
):
    spec = AgentSpec.of(algorithm, environment, {**SMALL, **params})
    with Trainer(Population(spec, [{"seed": 0}, {"seed": 1, **diverging}])) as together:
        together.train(env_steps=240)
    assert isinstance(together.runs[1].error, FloatingPointError)
    assert together.runs[0].error is None
    with Trainer(spec.build(0)) as alone:
        initial = values_of(alone.agent.state_variables())
        alone.train(env_steps=240)
    assert together.runs[0].history.returns == alone.history.returns
    own = together.agent.extract(0)
    assert own.rng.bit_generator.state == alone.agent.rng.bit_generator.state
    assert_same_movement(values_of(own.state_variables()), values_of(alone.agent.state_variables()), initial)


ACTING = [
    pytest.param("rainbow", "CartPole-v1", {}, marks=pytest.mark.slow),  # all at once, with noise that is drawn first
    ("dqn", "CartPole-v1", {"policy": "boltzmann-gumbel"}),
    ("a2c", "CartPole-v1", {"normalize_observations": True}),
    ("ddpg", "Pendulum-v1", {"noise": "ornstein-uhlenbeck", "learning_starts": 0}),
]


@pytest.mark.parametrize(("algorithm", "environment", "params"), ACTING)
def test_acting_that_fails_for_one_member_changes_nothing(algorithm: str, environment: str, params: dict[str, Any]):
    spec = AgentSpec.of(algorithm, environment, {**SMALL, "n_envs": 2, **params})
    population = Population(spec, [{"seed": 0}, {"seed": 1}])
    rows = np.random.default_rng(0).standard_normal((4, *population.observation_space.shape)).astype(np.float32)
    population.act(rows, explore=True)

    def state() -> Any:
        return [generator.bit_generator.state for generator in population._generators()], [
            {name: str(part) for name, part in actor.running_state().items()} for actor in population.actors
        ]

    before, values = state(), population._values()
    for own in values:
        if own.dtype == np.float32:
            own[1] = np.nan
    population._set_values(values)
    population._bind()
    with pytest.raises(MembersFailedError) as failure:
        population.act(rows, explore=True)
    assert list(failure.value.errors) == [1]
    assert state() == before


def test_draws_are_undone_where_a_block_fails():
    one, others = seeding.generator(0, "one"), [seeding.generator(seed, "others") for seed in (1, 2)]
    both = seeding.MemberStreams(others)
    with seeding.restored_on_error(one, both):
        kept = one.random(3), both.random((4, 1))
    first: Any = ()
    try:
        with seeding.restored_on_error(one, both):
            first = one.random(3), both.random((4, 1))
            raise ValueError("after the draws")
    except ValueError:
        pass
    again = one.random(3), both.random((4, 1))
    for mine, theirs, earlier in zip(first, again, kept, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert not np.array_equal(mine, earlier)

"""Tests of the cost of a search against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from finder.budgets.cost import LOST_AT_RUNGS, PROCESS_SECONDS, RECORDING, Costs
from finder.budgets.estimating import trials_to_measure
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.search.object_resolver import ObjectResolver
from finder.trials.speed import Speed
from studies.adapters.expected_pruning import Stage
from studies.spec.spec import StudySpec


def speed(**fields: Any) -> Speed:
    return Speed(**{"n_runs": 4, "start_seconds": 2.0, "shared_seconds": 0.001, "run_seconds": 0.0005, **fields})


def costs(*speeds: Speed, **fields: Any) -> Costs:
    named = {f"agent {k}": own for k, own in enumerate(speeds or (speed(),))}
    return Costs(
        **{"speeds": named, "n_processes": 1, "n_cores": 2, "together": True, "own_processes": False, **fields}
    )


def test_runs_together_share_a_part_of_each_step() -> None:
    assert costs().batch_seconds((Stage(100, 2),), 3) == pytest.approx(100 * (0.001 + 6 * 0.0005) * (1 + RECORDING))


def test_stages_cost_what_their_trials_do() -> None:
    course = (Stage(100, 2), Stage(300, 1))
    expected = 100 * (0.001 + 6 * 0.0005) + 200 * (0.001 + 3 * 0.0005)
    assert costs().batch_seconds(course, 3) == pytest.approx(expected * (1 + RECORDING))
    assert costs().batch_seconds(course, 3, 200) == pytest.approx(100 * 0.0025 * (1 + RECORDING))


def test_steps_before_the_first_update_cost_less() -> None:
    own = costs(speed(first_update=50, start_share=0.2))
    assert own.batch_seconds((Stage(100, 2),), 3) == pytest.approx(60 * 0.004 * (1 + RECORDING))
    assert own.batch_seconds((Stage(100, 2),), 3, 40) == pytest.approx((10 * 0.2 + 50) * 0.004 * (1 + RECORDING))


def test_evaluations_cost_beside_the_steps() -> None:
    own = costs(speed(evaluation_seconds=0.2), evaluation_interval=25.0)
    steps = 100 * (0.001 + 6 * 0.0005)
    assert own.batch_seconds((Stage(100, 2),), 3) == pytest.approx((steps + 4 * 6 * 0.2) * (1 + RECORDING))
    # After 60 of 100 steps, two of four evaluations are left.
    rest = 40 * (0.001 + 6 * 0.0005) + 2 * 6 * 0.2
    assert own.batch_seconds((Stage(100, 2),), 3, 60) == pytest.approx(rest * (1 + RECORDING))
    assert costs(speed(evaluation_seconds=0.2)).batch_seconds((Stage(100, 2),), 3) == pytest.approx(
        steps * (1 + RECORDING)
    )


def test_evaluations_of_a_study_are_as_many_as_its_reports() -> None:
    study = StudySpec(name="s", agents="ppo", env="CartPole-v1", env_steps=1_000, n_reports=5, metric="greedy-return")
    assert costs().of_study(study).evaluation_interval == 200
    by_return = StudySpec(name="s", agents="ppo", env="CartPole-v1", env_steps=1_000, n_reports=5)
    assert costs().of_study(by_return).evaluation_interval == 0


def test_two_processes_take_half_of_the_runs_each() -> None:
    each = 100 * (0.001 + 3 * 0.0005) * (1 + LOST_AT_RUNGS) * (1 + RECORDING)
    assert costs(n_processes=2).batch_seconds((Stage(100, 2),), 3) == pytest.approx(each)


def test_more_processes_than_cores_are_slower() -> None:
    few, many = costs(n_processes=4, n_cores=4), costs(n_processes=4, n_cores=1)
    course = (Stage(100, 4),)
    assert many.batch_seconds(course, 1) == pytest.approx(4 * few.batch_seconds(course, 1))


def test_trials_of_their_own_train_their_seeds_together() -> None:
    own = costs(n_processes=2, together=False)
    expected = 100 * 2 * 0.002 * (1 + LOST_AT_RUNGS) * (1 + RECORDING)  # 2 trials of 2 seeds in a process
    assert own.batch_seconds((Stage(100, 3),), 2) == pytest.approx(expected)


def test_agents_in_processes_end_with_the_slowest() -> None:
    slow = speed(shared_seconds=0.0, run_seconds=0.01)
    own = costs(speed(), slow, n_processes=2, together=False)
    alone = costs(slow, n_processes=2, together=False)
    assert own.batch_seconds((Stage(10, 2),), 1) == pytest.approx(alone.batch_seconds((Stage(10, 2),), 1))


def test_structures_share_nothing_and_compile_one_after_another() -> None:
    own = costs(n_structures=2)
    assert own.batch_seconds((Stage(100, 2),), 3) == pytest.approx(100 * (0.002 + 6 * 0.0005) * (1 + RECORDING))
    assert own.start_seconds(1, 3) == 4.0


def test_processes_share_structures() -> None:
    own = costs(n_structures=10, n_processes=2)
    assert own.compile_seconds == 6 * 2.0  # five, and one that is in both
    assert own.later_start_seconds(3) == 2 * 2.0  # their code was not kept
    assert own.later_start_seconds(0) == costs(n_structures=4).later_start_seconds(3) == 0.0
    both = 100 * (2 * 0.001 + 2 * 3 * 0.0005) * (1 + LOST_AT_RUNGS) * (1 + RECORDING)
    assert own.batch_seconds((Stage(100, 4),), 3) == pytest.approx(both)


def test_only_processes_of_single_trials_are_started_again_for_the_confirmation() -> None:
    own = costs(own_processes=True)
    assert own.start_seconds(1, 0) == own.start_seconds(1, 3) == pytest.approx(2 + PROCESS_SECONDS)
    # A process a trial compiles for each batch of trials.
    alone = costs(own_processes=True, together=False)
    assert alone.start_seconds(3, 0) == pytest.approx(3 * 2 + PROCESS_SECONDS)
    assert alone.start_seconds(3, 3) == pytest.approx(3 * 2 + PROCESS_SECONDS + 3 * (2 + PROCESS_SECONDS))


def test_a_study_has_no_more_structures_than_trials() -> None:
    spec = StudySpec(name="s", agents="ppo", env="CartPole-v1", env_steps=100, n_trials=8)
    assert costs(n_structures=20).of_study(spec).n_structures == 8
    assert costs(n_structures=2).of_study(spec).n_structures == 2


@pytest.mark.parametrize(
    ("n_structures", "n_processes", "n_runs"), [(1, 1, 15), (1, 2, 8), (1, 4, 4), (2, 2, 10), (2, 4, 5)]
)
def test_seeds_of_finalists_of_one_structure_are_divided(n_structures: int, n_processes: int, n_runs: int) -> None:
    own = costs(n_processes=n_processes, n_cores=8, own_processes=True, n_structures=n_structures)
    n_own = min(n_structures, -(-3 // min(n_processes, 3)))
    lost = 1.0 if n_processes == 1 else 1 + LOST_AT_RUNGS
    expected = 100 * (n_own * 0.001 + n_runs * 0.0005) * lost * (1 + RECORDING)
    assert own.confirmation_seconds(100, 3, 5) == pytest.approx(expected)


class Together(Executor):
    """Runs two trials at once."""

    description = "together"

    def trials_at_once(self, n_seeds: int) -> int:
        return 2

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        raise NotImplementedError


def test_agents_are_measured_without_parameters_of_others() -> None:
    spec = StudySpec(
        name="s", agents=["ppo", "dqn"], env="CartPole-v1", env_steps=1_000, n_trials=4,
        params={
            "learning_rate": "1e-5:1e-2:log",
            "exploration_final_eps": {"low": 0.01, "high": 0.2, "when": {"agent": "dqn"}},
        },
        first=[{"agent": "dqn", "learning_rate": 1e-3, "exploration_final_eps": 0.05}],
    )  # fmt: skip
    trials = trials_to_measure(spec, ObjectResolver.of(spec).agent, Together())
    assert {trial.name: trial.agent.config.learning_rate for trial in trials} == {"ppo": 1e-3, "dqn": 1e-3}
    assert next(trial.agent.config.exploration_final_eps for trial in trials if trial.name == "dqn") == 0.05

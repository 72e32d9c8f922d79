"""Tests of what a study with population-based training needs, and of its scheduler's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from studies.errors import StudyError
from studies.population_based.by_name import population_based_of
from studies.population_based.pb2 import PB2
from studies.population_based.pbt import PBT
from studies.spec.compatibility import differences
from studies.spec.population_rules import exchange_marks, value_steps
from studies.spec.spec import StudySpec


def spec(**changes: Any) -> StudySpec:
    given: dict[str, Any] = {
        "name": "s", "agents": "ppo", "env": "CartPole-v1", "params": {"learning_rate": "1e-5:1e-2:log"},
        "env_steps": 1000, "n_trials": 8, "seeds": (0,), "pruner": "pbt",
    }  # fmt: skip
    return StudySpec(**{**given, **changes})


def test_members_exchange_after_every_tenth_of_the_budget() -> None:
    assert list(exchange_marks(spec())) == list(range(100, 1000, 100))
    assert list(exchange_marks(spec(pruner_kwargs={"perturb_steps": 300}))) == [300, 600]
    assert list(exchange_marks(spec(env_steps=1005))) == list(range(100, 1000, 100))  # 5 steps after 1,000 are too few
    assert list(exchange_marks(spec(pruner="median"))) == []


def test_trials_report_at_exchanges() -> None:
    assert set(exchange_marks(spec(n_reports=3))) < set(spec(n_reports=3).report_marks)
    assert spec(n_reports=3, pruner="median").report_marks == (333, 667, 1000)


def test_final_values_are_of_the_last_interval() -> None:
    assert value_steps(spec()) == 100
    assert value_steps(spec(pruner_kwargs={"perturb_steps": 300})) == 200  # no more than a fifth
    assert value_steps(spec(pruner_kwargs={"perturb_steps": 90})) == 100  # from 900 on
    assert value_steps(spec(pruner_kwargs={"perturb_steps": 600})) == 200  # no more than a fifth
    assert value_steps(spec(pruner_kwargs={"perturb_steps": 10})) == 50  # no less than a twentieth
    assert value_steps(spec(pruner="median")) is None


def test_the_scheduler_has_the_ranges_and_the_seed_of_the_study() -> None:
    found = population_based_of(spec(seed=7, pruner_kwargs={"quantile": 0.5, "factors": [0.5, 2.0]}))
    assert isinstance(found, PBT)
    assert (found.seed, found.perturb_steps, found.quantile, found.factors) == (7, 100, 0.5, (0.5, 2.0))
    assert list(found.spaces) == ["learning_rate"]
    assert isinstance(population_based_of(spec(pruner="pb2")), PB2)
    assert population_based_of(spec(pruner="median")) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_steps": None, "episodes": 10}, "budget is in episodes: give env_steps"),
        ({"minutes": 3.0}, "leave minutes and total_env_steps out"),
        ({"env_steps": None, "minutes": 3.0}, "of the whole search: give env_steps"),
        ({"agents": ("ppo", "dqn")}, "give one of them"),
        ({"sampler": "grid"}, "this study has a plan"),
        ({"trials": ({"learning_rate": 1e-3}, {"learning_rate": 1e-4}), "n_trials": 2}, "this study has a plan"),
        ({"n_trials": 1}, "n_trials is 1"),
        ({"metric": "auc"}, "metric is 'auc'"),
        ({"executor": "process"}, "executor is 'process'"),
        ({"n_jobs": 2}, "n_jobs is 2"),
        ({"strategy": "mirrored"}, "strategy is 'mirrored'"),
        ({"population": 4}, "give at least 8"),
        (
            {"params": {"optimizer": ["adam", "sgd"]}},
            r"optimizer is searched over the values .*fix it \(--set optimizer",
        ),
        ({"params": {"n_steps": "16:64"}}, "n_steps is searched over whole numbers from 16 to 64"),
        ({"params": {"learning_rate": {"low": 0.1, "high": 0.5, "step": 0.1}}}, "in steps of 0.1"),
        ({"params": {"gamma": {"value": 0.9}}}, "no number to change"),
        ({"pruner_kwargs": {"perturb_steps": 700}}, "to below 667, two thirds of the budget of a run"),
        ({"pruner_kwargs": {"perturb_steps": 0}}, "perturb_steps is 0"),
        ({"pruner_kwargs": {"perturb_steps": "often"}}, "perturb_steps is 'often'"),
    ],
)
def test_what_excludes_it_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        spec(**changes)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"quantil": 0.5}, "no argument 'quantil'. Did you mean 'quantile'"),
        ({"quantile": 0.9}, "quantile is 0.9"),
        ({"seed": 1}, "no argument 'seed'"),
        ({"n_candidates": 5}, "no argument 'n_candidates'"),
        ({"quantile": "a"}, "quantile of the scheduler 'pbt' is 'a': give a number"),
        ({"factors": 0.5}, "factors of the scheduler 'pbt' is 0.5: give a list of two numbers"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        population_based_of(spec(pruner_kwargs=kwargs))


def test_numbers_of_candidates_are_whole() -> None:
    with pytest.raises(StudyError, match=r"n_candidates of the scheduler 'pb2' is 1\.5: give a whole number"):
        population_based_of(spec(pruner="pb2", pruner_kwargs={"n_candidates": 1.5}))


def test_a_study_is_not_continued_with_another_scheduler() -> None:
    assert differences(spec(), spec(pruner="median")) == [("the scheduler pbt", "the scheduler median")]
    assert differences(spec(), spec(pruner_kwargs={"perturb_steps": 50})) != []
    assert differences(spec(), spec(n_trials=16)) == []
    assert differences(spec(pruner="race"), spec(pruner="median")) == []

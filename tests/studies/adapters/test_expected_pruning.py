"""Tests of expected pruning against the rules of the pruners, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from studies.adapters.expected_pruning import Course, Stage, expected_courses, kept_trials, run_steps
from studies.spec.spec import StudySpec


def spec(**fields: Any) -> StudySpec:
    given = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "params": {"gamma": "0.9:0.99"}, "env_steps": 50_000}
    return StudySpec(**{**given, **fields})


def shortened(course: Course) -> list[tuple[int, int]]:
    """Return the environment steps up to which each number of trials trains."""
    return [*((stage.until, stage.n_trials) for stage in _ends(course))]


def _ends(course: Course) -> list[Stage]:
    return [
        stage
        for index, stage in enumerate(course)
        if index + 1 == len(course) or course[index + 1].n_trials != stage.n_trials
    ]


def test_race_keeps_the_share_of_the_budget_that_is_left() -> None:
    [course] = expected_courses(spec(pruner="race"), 16)
    assert shortened(course) == [(5_000, 16), (10_000, 15), (15_000, 13), (25_000, 12), (35_000, 8), (50_000, 5)]
    assert run_steps(course) == 80_000 + 75_000 + 65_000 + 120_000 + 80_000 + 75_000
    kept = [(stage.until, stage.n_trials) for stage in kept_trials(course)]
    assert kept == [(5_000, 15), (10_000, 13), (15_000, 12), (25_000, 8), (35_000, 5)]


def test_race_per_optimizer_races_each_among_its_own() -> None:
    rows = [{"optimizer": name, "learning_rate": 10.0**-k} for name in ("adam", "sgd") for k in range(1, 6)]
    own = spec(params={}, trials=rows, pruner="race", pruner_kwargs={"per": "optimizer"})
    [course] = expected_courses(own, 10)
    # Of 5 trials each: 5, 4, 4, 3, 3.
    assert shortened(course) == [(10_000, 10), (25_000, 8), (50_000, 6)]


def test_median_keeps_half_of_a_batch_after_half_of_the_budget() -> None:
    [course] = expected_courses(spec(pruner="median"), 8)
    assert shortened(course) == [(25_000, 8), (50_000, 4)]


def test_baseline_comes_to_its_end() -> None:
    first = [{"learning_rate": rate} for rate in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)]
    spaces, own = {"params": {"learning_rate": "1e-5:1e-1:log"}, "first": first}, first[4]
    for pruner, fewer in (("median", 4), ("asha", 1)):
        counts = [
            [stage.n_trials for stage in expected_courses(spec(pruner=pruner, baseline=baseline, **spaces), 8)[0]]
            for baseline in (None, own)
        ]
        assert [course[-1] for course in counts] == [fewer, fewer + 1], "the fifth one has the lowest value"


def test_median_compares_with_the_trials_of_earlier_batches() -> None:
    first, second, last = expected_courses(spec(pruner="median"), 20, at_once=8)
    assert shortened(first) == [(25_000, 8), (50_000, 4)]
    assert [course[0].n_trials for course in (first, second, last)] == [8, 8, 4]
    kept = sum(course[-1].n_trials for course in (first, second, last))
    assert 7 <= kept <= 13  # the better half of those seen so far, in random order


def test_asha_promotes_a_quarter_of_a_batch_and_the_best_of_a_small_one() -> None:
    [course] = expected_courses(spec(pruner="asha"), 16)
    assert shortened(course) == [(2_500, 16), (10_000, 4), (50_000, 1)]  # the report nearest to 3,125, and 4 times that
    [course] = expected_courses(spec(pruner="asha"), 3)
    assert shortened(course) == [(2_500, 3), (50_000, 1)]


@pytest.mark.parametrize(("n_trials", "at_once"), [(201, 64), (1_000, 64), (1_000, 21), (1_000, 3), (1_000, None)])
def test_many_trials_are_all_counted(n_trials: int, at_once: int | None) -> None:
    courses = expected_courses(spec(pruner="none"), n_trials, at_once)
    assert sum(course[0].n_trials for course in courses) == n_trials
    assert sum(map(run_steps, courses)) == n_trials * 50_000
    assert max(course[0].n_trials for course in courses) == (at_once or 200)


def test_median_needs_other_trials() -> None:
    [course] = expected_courses(spec(pruner="median"), 4)
    assert shortened(course) == [(50_000, 4)]


def test_halving_keeps_a_quarter_at_each_rung() -> None:
    [course] = expected_courses(spec(pruner="successive-halving", env_steps=1_600), 16)
    assert shortened(course) == [(160, 16), (400, 4), (1_600, 1)]


def test_keep_top_keeps_three_after_30_percent() -> None:
    [course] = expected_courses(spec(pruner="keep-top"), 10)
    assert shortened(course) == [(15_000, 10), (50_000, 3)]


@pytest.mark.parametrize("pruner", ["none", "patient", "sequential-test"])
def test_nothing_is_counted_on_without_rules_for_ranks(pruner: str) -> None:
    [course] = expected_courses(spec(pruner=pruner), 5)
    assert shortened(course) == [(50_000, 5)]
    assert run_steps(course) == 250_000


def test_trials_beyond_the_simulated_ones_are_like_them() -> None:
    courses = expected_courses(spec(pruner="none"), 450, at_once=100)
    assert [course[0].n_trials for course in courses] == [100, 100, 100, 100, 50]

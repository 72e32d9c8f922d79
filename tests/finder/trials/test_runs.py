"""Tests of the values of runs from their episodes, with numbers worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from agents import AgentSpec
from agents.training.records import Episode
from finder.trials.runs import SeedRun, TrialRun
from finder.trials.trial import TrialSpec


def run_of(values: list[float], exchanged_at: int = 0, **fields: Any) -> SeedRun:
    """Return a run of 1,000 environment steps with an episode every ten steps, whose return and metric are given."""
    given = {"number": 0, "agent": AgentSpec.of("ppo", "CartPole-v1"), "seeds": (0,), "env_steps": 1_000}
    member = SimpleNamespace(env_steps=1_000, stop_reason=None, error=None)
    group: Any = SimpleNamespace(
        trainer=SimpleNamespace(runs=[member]), error=None, exchanged_at=exchanged_at, info_names=frozenset()
    )
    run = SeedRun(TrialRun(TrialSpec(**{**given, "report_marks": (500, 1_000), **fields})), 0, group, 0)
    for index, value in enumerate(values):
        run.add_episode(
            Episode(
                member=0, index=index, env_steps=10 * (index + 1), episode_return=value, length=10, loss=0.1,
                wall_seconds=0.0, custom_metrics={"score": value}, environment=0, user_data={},
            )
        )  # fmt: skip
    return run


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_of_a_metric_that_are_not_finite_are_left_out(bad: float) -> None:
    clean = run_of([1.0] * 99 + [50.0], metric="custom:score")
    assert clean.value_at(1_000) == pytest.approx((9 + 50) / 10)
    spoilt = run_of([1.0] * 95 + [bad] + [1.0] * 3 + [50.0], metric="custom:score")
    assert spoilt.value_at(1_000) == pytest.approx((8 + 50) / 9)
    assert spoilt.final_value() == pytest.approx((18 + 50) / 19)
    assert run_of([1.0] * 99 + [bad], metric="custom:score").final_value() == 1.0


def test_a_trial_whose_metric_is_never_finite_says_so() -> None:
    run = run_of([math.nan] * 100, metric="custom:score")
    assert math.isnan(run.final_value())
    assert str(run.trial.no_value()).startswith("Some run has no finite value of the metric 'score'")


def test_what_a_member_did_before_it_copied_another_one_is_left_out() -> None:
    # The interval ended at 700; the copy was made at the end of the rollout, at 800.
    course = [0.0] * 80 + [10.0] * 20
    assert run_of(course, exchanged_at=800, value_steps=300).final_value() == 10.0
    assert run_of(course, exchanged_at=400, value_steps=300).final_value() == pytest.approx(20 * 10 / 30)
    # Too few steps are left after these copies, or none.
    for exchanged_at in (860, 1_000, 1_006):
        assert run_of(course, exchanged_at=exchanged_at, value_steps=300).final_value() == pytest.approx(20 * 10 / 30)


def test_custom_metrics_of_a_pruned_trial_end_where_its_value_does() -> None:
    run = run_of([float(step) for step in range(1, 101)], metric="custom:score")
    [whole] = run.trial.custom_metrics().values()
    assert (whole.mean, whole.n_episodes) == (90.5, 20), "episodes 81 to 100"
    [pruned] = run.trial.custom_metrics(500).values()
    assert (pruned.mean, pruned.max, pruned.n_episodes) == (45.5, 50.0, 10), "41 to 50, as the rollout went on"

"""Tests of the plan of a search as text."""

from __future__ import annotations

from typing import Any

import pytest

from finder import dry_run, tune
from finder.budgets.plan_numbers import most_steps
from finder.budgets.search_plan import SearchPlan, TimeEstimate, chosen_text
from studies.adapters.expected_pruning import Stage
from studies.errors import StudyError
from studies.spec.spec import StudySpec


def spec(**fields: Any) -> StudySpec:
    rows = [{"learning_rate": 10.0**-k} for k in range(1, 9)]
    given: dict[str, Any] = {
        "name": "s", "kind": "lr", "agents": ["ppo"], "env": "CartPole-v1", "trials": rows, "env_steps": 1_000,
        "pruner": "race",
    }  # fmt: skip
    return StudySpec(**{**given, **fields})


def plan(own: StudySpec | None = None, **fields: Any) -> SearchPlan:
    given: dict[str, Any] = {
        "spec": own or spec(), "rungs": (Stage(200, 7), Stage(500, 4)), "n_batches": 1, "extends": True,
        "most_steps": 39_000, "expected_steps": 30_600, "executor": "populations of up to 64 runs in 2 processes",
        "n_processes": 2, "time": TimeEstimate(start_seconds=7.4, search_seconds=70.0, confirmation_seconds=12.0),
        "memory_bytes": 1.94e9, "free_bytes": 6_000_000_000, "measured": ("12 runs of ppo together for 2.0 s",),
        "notes": ("a note",),
    }  # fmt: skip
    return SearchPlan(**{**given, **fields})


def test_plan_has_a_line_for_each_part() -> None:
    assert plan().lines == [
        ("", "Which learning rate of ppo on CartPole-v1?"),
        ("Trials", "8 planned, 3 seeds each; more if the best rate is at the edge of the range"),
        ("Each run", "1,000 environment steps"),
        ("Judged by", "return: mean return of the episodes in the last fifth of training"),
        ("Pruning", "race: about 7 after 200, 4 after 500 steps continue"),
        ("Confirmation", "the best 3 again on 5 further seeds"),
        ("In total", "39,000 environment steps at most without further rates, about 30,600 with pruning"),
        ("Runs in", "populations of up to 64 runs in 2 processes"),
        ("Time", "about 1:29 min (start and compilation 7 s, search 1:10 min, confirmation 12 s)"),
        ("Memory", "about 1.9 GB (6.0 GB are free)"),
        ("Measured", "12 runs of ppo together for 2.0 s"),
        ("Note", "a note"),
    ]


def test_plan_says_what_is_not_known() -> None:
    episodes = spec(env_steps=None, episodes=20, pruner="none", confirm=0)
    without = plan(
        episodes, rungs=(), most_steps=None, expected_steps=None, time=None, memory_bytes=None, extends=False
    )  # fmt: skip
    lines = dict(without.lines)
    assert lines["Each run"] == "20 episodes"
    assert lines["Pruning"] == "none: all trials run to their end"
    assert lines["Confirmation"] == "none"
    assert lines["In total"].startswith("unknown environment steps: the budget is in episodes")
    assert dict(plan(extends=False).lines)["In total"] == "39,000 environment steps at most, about 30,600 with pruning"
    assert (lines["Time"], lines["Memory"]) == ("unknown", "unknown")


def test_plan_in_minutes_names_them() -> None:
    own = spec(minutes=1.5)
    time = TimeEstimate(start_seconds=0.0, search_seconds=80.0, confirmation_seconds=0.0, minutes=1.5)
    assert dict(plan(own, time=time).lines)["Time"] == "about 1:20 min of 1.5 minutes (search 1:20 min)"
    expected = "1.5 minutes: 8 trials of 3 seeds, 1,000 environment steps each, about 1:20 min from now"
    assert chosen_text(own, time) == expected


def test_total_steps_name_what_was_chosen() -> None:
    text = chosen_text(spec(total_env_steps=39_000), None)
    assert text == "39,000 environment steps in total: 8 trials of 3 seeds, 1,000 environment steps each"


def test_a_search_takes_at_most_its_total_steps() -> None:
    assert most_steps(spec()) == 39_000  # 8 trials of 3 seeds, 3 finalists on 5
    assert most_steps(spec(total_env_steps=32_000)) == 32_000
    assert most_steps(spec(total_env_steps=50_000)) == 39_000


def test_plan_is_json() -> None:
    found = plan().to_json()
    assert found["metrics"] == ["return"]
    assert found["total_env_steps"] == {"most": 39_000, "expected": 30_600}
    assert found["rungs"][0] == {"env_steps": 200, "trials_that_continue": 7}
    assert found["seconds"]["total_seconds"] == 89.4


def test_more_trials_than_can_be_planned_are_refused() -> None:
    with pytest.raises(StudyError, match="n_trials is 1,000,000,000: give at most 1,000,000"):
        dry_run(tune, "ppo", "CartPole-v1", {"learning_rate": "1e-5:1e-2"}, n_trials=1_000_000_000, storage=None)

"""Tests of trials whose seeds are divided among workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO, RecordingListener

from agents import AgentSpec, EnvironmentSpec
from agents.training.records import MetricSummary
from finder.executors.batches import Batching, split_into_batches
from finder.executors.choice import make_executor
from finder.executors.divided_trials import DividedTrials
from finder.trials.trial import FELL_BEHIND, Outcome, TrialSpec


def trial(number: int = 0, seeds: tuple[int, ...] = (0, 1, 2), **fields: Any) -> TrialSpec:
    agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO)
    given = {"agent": agent, "env_steps": 320, "report_marks": (160, 320), "seeds": seeds, **fields}
    return TrialSpec(number=number, **given)


def divided(*parts: tuple[int, ...]) -> DividedTrials:
    """Return a trial 7 in parts with these seeds, and a trial 8 that is whole."""
    trials = DividedTrials()
    trials.begin([[trial(7, seeds)] for seeds in parts] + [[trial(8)]])
    return trials


@pytest.mark.parametrize(
    ("n_trials", "n_workers", "expected"),
    [
        (3, 2, [{0: (0, 1, 2, 3, 4), 2: (0, 1, 2)}, {2: (3, 4), 1: (0, 1, 2, 3, 4)}]),
        (1, 3, [{0: (0, 1)}, {0: (2,)}, {0: (3, 4)}]),
        (2, 2, [{0: (0, 1, 2, 3, 4)}, {1: (0, 1, 2, 3, 4)}]),
        (1, 8, [{0: (0,)}, {0: (1,)}, {0: (2,)}, {0: (3,)}, {0: (4,)}]),
    ],
)
def test_batches_have_equally_many_runs(
    n_trials: int, n_workers: int, expected: list[dict[int, tuple[int, ...]]]
) -> None:
    batches = split_into_batches([trial(n, (0, 1, 2, 3, 4)) for n in range(n_trials)], n_workers, divides=True)
    assert [{each.number: each.seeds for each in batch} for batch in batches] == expected


def test_trials_of_two_structures_are_not_divided() -> None:
    other = AgentSpec.of("ppo", "fakes:TwoStep-v0", {**SMALL_PPO, "hidden_sizes": [16]})
    batches = split_into_batches([trial(0), replace(trial(1), agent=other), trial(2)], 2, divides=True)
    assert sorted(each.seeds for batch in batches for each in batch) == [(0, 1, 2)] * 3


def test_configuration_is_that_of_all_seeds_and_comes_once() -> None:
    trials = divided((0, 1), (2,))
    assert trials.built(7, {"seeds": [2], "agent": "ppo"}) == {"seeds": [0, 1, 2], "agent": "ppo"}
    assert trials.built(7, {"seeds": [0, 1], "agent": "ppo"}) is None
    assert trials.built(8, {"seeds": [5]}) == {"seeds": [5]}


def test_rung_waits_for_all_seeds() -> None:
    trials = divided((0, 1), (2,))
    assert trials.rung(100, {7: {2: 3.0}, 8: {0: 9.0}}) == {8: {0: 9.0}}
    assert trials.rung(200, {7: {2: 4.0}}) == {}  # workers that need no answer do not wait for each other
    assert trials.rung(100, {7: {0: 1.0, 1: 2.0}}) == {7: {0: 1.0, 1: 2.0, 2: 3.0}}


def test_rung_counts_seeds_whose_runs_were_stopped_by_their_final_values() -> None:
    trials = divided((0, 1), (2,))
    assert trials.ended(7, Outcome(state="complete", value=3.0, seed_values={2: 3.0}, env_steps=50)) is None
    assert trials.rung(100, {7: {0: 1.0, 1: 2.0}}) == {7: {0: 1.0, 1: 2.0, 2: 3.0}}


def test_outcomes_of_parts_are_joined() -> None:
    trials = divided((0, 1), (2,))
    second = Outcome(
        state="complete", value=9.0, env_steps=320, seed_values={2: 9.0}, wall_seconds=5.0,
        objectives={"return": {2: 9.0}, "auc": {2: 1.0}}, custom_metrics={"speed": MetricSummary(4.0, 2.0, 6.0, 3)},
        learned=False,
    )  # fmt: skip
    first = Outcome(
        state="complete", value=1.5, env_steps=336, seed_values={0: 1.0, 1: 2.0}, wall_seconds=4.0,
        objectives={"return": {0: 1.0, 1: 2.0}, "auc": {0: 3.0, 1: 4.0}},
        custom_metrics={"speed": MetricSummary(8.0, 1.0, 9.0, 1), "height": MetricSummary(1.0, 1.0, 1.0, 1)},
    )  # fmt: skip
    assert trials.ended(7, second) is None
    joined = trials.ended(7, first)
    assert joined is not None
    assert (joined.state, joined.value, joined.env_steps, joined.wall_seconds) == ("complete", 4.0, 320, 5.0)
    assert list(joined.seed_values.items()) == [(0, 1.0), (1, 2.0), (2, 9.0)]
    assert joined.objectives == {"return": {0: 1.0, 1: 2.0, 2: 9.0}, "auc": {0: 3.0, 1: 4.0, 2: 1.0}}
    assert joined.custom_metrics == {
        "height": MetricSummary(1.0, 1.0, 1.0, 1),
        "speed": MetricSummary(5.0, 1.0, 9.0, 4),
    }
    assert joined.learned
    assert trials.ended(7, first) == first  # a trial of that number that is resumed later is whole


@pytest.mark.parametrize("state", ["interrupted", "pruned", "paused", "complete"])
def test_failure_of_a_part_is_that_of_the_trial_and_stops_the_others(state: Any) -> None:
    trials = divided((0, 1), (2,))
    failed = Outcome(state="failed", reason="ValueError: no", traceback="...", failure="diverged", env_steps=100)
    assert trials.stopped([7, 8]) == {}
    assert trials.ended(7, failed) is None
    assert trials.stopped([7, 8]) == {7: FELL_BEHIND}
    joined = trials.ended(7, Outcome(state=state, value=1.0, seed_values={2: 1.0}, env_steps=200))
    assert joined is not None
    assert (joined.state, joined.reason, joined.failure, joined.env_steps) == (
        "failed", "ValueError: no", "diverged", 100
    )  # fmt: skip
    assert (joined.value, joined.seed_values) == (None, {})


@pytest.mark.parametrize("state", ["interrupted", "pruned", "paused"])
def test_part_stops_whose_other_part_was_stopped(state: Any) -> None:
    trials = divided((0, 1), (2,))
    assert trials.ended(7, Outcome(state=state, reason="why", value=1.0, seed_values={2: 1.0}, env_steps=50)) is None
    assert trials.stopped([7, 8]) == {7: "why"}


@pytest.mark.parametrize(
    ("members", "fields", "expected"),
    [(64, {}, [(0, 1, 2)]), (64, {"confirms": 1}, [(0, 1), (2,)]), (None, {"confirms": 1}, [(0, 1, 2)])],
)
def test_only_confirmations_in_populations_are_divided(
    members: int | None, fields: dict[str, Any], expected: list[tuple[int, ...]]
) -> None:
    waiting = iter([trial(**fields)])
    batches = Batching(members=members).next(lambda: next(waiting, None), 2, RecordingListener())
    assert [each.seeds for batch in batches for each in batch] == expected


@pytest.mark.parametrize("resumed", [False, True])
def test_interrupted_confirmations_resume_together(resumed: bool) -> None:
    waiting = iter([trial(number, confirms=number, resumed=resumed) for number in range(3)])
    listener = RecordingListener(prune_at=100)
    assert listener.prunes
    batches = Batching(members=64).next(lambda: next(waiting, None), 2, listener)
    assert {each.number for batch in batches for each in batch} == {0, 1, 2}


def searched(
    n_jobs: int, prune_at: int | None = None, n_trials: int = 1, kwargs: dict[str, Any] | None = None, **fields: Any
) -> RecordingListener:
    listener = RecordingListener(prune_at)
    if kwargs:
        fields["agent"] = AgentSpec.of("ppo", EnvironmentSpec.of("fakes:TwoStep-v0", kwargs), SMALL_PPO)
    waiting = iter([trial(number, confirms=100 + number, **fields) for number in range(n_trials)])
    executor = make_executor("population", n_jobs)
    try:
        executor.run(lambda: next(waiting, None), listener)
    finally:
        executor.close()
    return listener


@pytest.mark.real
@pytest.mark.parametrize("prune_at", [None, 160, 10_000])
@pytest.mark.parametrize("n_trials", [1, 3])
def test_divided_trials_have_the_results_of_whole_ones(prune_at: int | None, n_trials: int) -> None:
    whole, parts = searched(1, prune_at, n_trials), searched(2, prune_at, n_trials)
    assert parts.outcomes.keys() == whole.outcomes.keys()
    for number, outcome in whole.outcomes.items():
        other = parts.outcomes[number]
        assert (other.state, other.env_steps) == (outcome.state, outcome.env_steps)
        assert list(other.seed_values.items()) == list(outcome.seed_values.items())
        assert other.value == outcome.value
        assert parts.reports[number] == whole.reports[number]
        assert parts.configurations[number]["seeds"] == [0, 1, 2]
        by_seed = [sorted((each.seed, each.episode) for each in own.records[number]) for own in (whole, parts)]
        assert by_seed[0] == by_seed[1]


@pytest.mark.real
@pytest.mark.parametrize("prune_at", [None, 10_000])
def test_part_of_a_killed_process_resumes(prune_at: int | None, tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    kept = {"checkpoints": str(tmp_path / "kept"), "checkpoint_seconds": 1e-9, "env_steps": 640}
    listener = searched(2, prune_at, 3, {"kill_once": (250, str(mark))}, **kept)
    assert mark.exists()
    whole = searched(1, prune_at, 3, env_steps=640)
    for number in range(3):
        assert listener.outcomes[number].state == "complete"
        assert listener.outcomes[number].seed_values == whole.outcomes[number].seed_values


@pytest.mark.real
@pytest.mark.parametrize("prune_at", [None, 10_000])
def test_divided_trials_whose_environments_fail_fail_once(prune_at: int | None) -> None:
    listener = searched(2, prune_at, 3, {"fail_after": 100})
    assert {number: own.state for number, own in listener.outcomes.items()} == dict.fromkeys(range(3), "failed")
    assert {own.failure for own in listener.outcomes.values()} == {"environment"}

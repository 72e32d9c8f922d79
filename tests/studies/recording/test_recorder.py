"""Recorder: plans, resumed trials, failures, pruning, batched episodes, and closing."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from death import simulate_crash
from episode_count import n_episodes
from optuna.trial import TrialState

from studies.analysis.listing import list_studies
from studies.analysis.status import StudyStatus, study_status
from studies.coordination.lease_manager import LeaseManager
from studies.database.fencing import Fence
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.queue.trial_endings import TRACEBACK_BYTES
from studies.recording import writer
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.recording.writer import FLUSH_ROWS
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]
MakeEpisode = Callable[..., EpisodeRecord]
RATES = [float(rate) for rate in np.geomspace(1e-5, 1e-1, 7)]


def number_of(recorder: Recorder) -> int:
    ask = recorder.ask()
    assert ask is not None
    return ask.number


def run_all(recorder: Recorder, value: float = 1.0) -> list[dict[str, Any]]:
    seen = []
    while (ask := recorder.ask()) is not None:
        seen.append(ask.params)
        recorder.completed(ask.number, value)
    return seen


def states(study: OpenStudy) -> list[str]:
    return [trial.state.name for trial in study.trials()]


class TestEveryStorage:
    def test_episodes_have_numbers_of_any_type(
        self, storage: StudyStorage, make_spec: Make, episode: MakeEpisode
    ) -> None:
        numbers = [(9, 0, 1), (12.5, 0.25, 0.5), (np.float32(1.5), np.float64(0.5), np.float32(0.25)), (2.0, 1, None)]
        records = [
            episode(episode=k, episode_return=own, wall_seconds=seconds, loss=loss, env_steps=np.int32(k))
            for k, (own, seconds, loss) in enumerate(numbers)
        ]
        with Recorder(open_study(make_spec(), storage)) as recorder:
            number = number_of(recorder)
            recorder.episodes(number, records)
            recorder.flush()
            assert storage.episodes.curve(recorder.study.episodes_key, number) == records

    def test_trials_of_another_recorder_run_elsewhere(self, storage: StudyStorage, make_spec: Make) -> None:
        with (
            Recorder(open_study(make_spec(n_trials=2), storage)) as own,
            Recorder(join_study("a study", storage)) as other,
        ):
            first = number_of(own)
            assert (own.n_elsewhere, other.n_elsewhere) == (0, 1)
            own.completed(first, 1.0)
            assert (own.n_elsewhere, other.n_elsewhere) == (0, 0)

    def test_complete_pruned_and_failed_trials_are_recorded(
        self, storage: StudyStorage, make_spec: Make, episode: MakeEpisode
    ) -> None:
        study = open_study(make_spec(n_trials=3, fixed={"tau": 0.5}), storage)
        with Recorder(study) as recorder:
            first = recorder.ask()
            assert first is not None
            assert first.params["tau"] == 0.5
            assert 1e-5 <= first.params["learning_rate"] <= 1e-1
            recorder.started(first.number, {"agent": "ppo", "config": {"gamma": 0.99}})
            recorder.episodes(first.number, [episode(), episode(episode=1)])
            assert not recorder.report(first.number, 100, 5.0)
            assert not recorder.report(first.number, 200, 6.0)
            recorder.completed(first.number, 7.0, {0: 6.0, 1: 8.0}, {"wall_seconds": 1.5})
            second = number_of(recorder)
            recorder.report(second, 100, 1.0)
            recorder.pruned(second, 200, 2.0, {0: 2.0, 1: math.nan})
            third = number_of(recorder)
            recorder.failed(third, "the loss is NaN", "Traceback\n  boom")
            assert recorder.ask() is None
            assert recorder.stop_reason is None
        complete, pruned, failed = study.trials()
        assert states(study) == ["COMPLETE", "PRUNED", "FAIL"]
        assert complete.value == 7.0
        assert complete.intermediate_values == {100: 5.0, 200: 6.0}
        assert complete.user_attrs["configuration"] == {"agent": "ppo", "config": {"gamma": 0.99}}
        assert complete.user_attrs["seed_values"] == {"0": 6.0, "1": 8.0}
        assert complete.user_attrs["wall_seconds"] == 1.5
        assert pruned.value == 2.0
        assert pruned.user_attrs["pruned_at"] == 200
        assert pruned.user_attrs["reason"] == "it had fallen behind with 2 after 200 environment steps (scheduler none)"
        assert pruned.user_attrs["seed_values"] == {"0": 2.0}
        assert failed.value is None
        assert failed.user_attrs["reason"] == "the loss is NaN"
        assert failed.user_attrs["traceback"] == "Traceback\n  boom"
        assert storage.episodes.curve(study.episodes_key, 0) == [episode(), episode(episode=1)]

    def test_plan_is_run_in_order_with_exact_values(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [
            {"learning_rate": rate, "optimizer": name, "net": [64, 64]} for rate in RATES for name in ("adam", "sgd")
        ]
        params = {"learning_rate": "1e-5:1e-1:log", "optimizer": "adam,sgd", "net": [[64, 64], [32]], "one": 1}
        study = open_study(make_spec(params=params, trials=rows), storage)
        with Recorder(study) as recorder:
            assert run_all(recorder) == [{**row, "one": 1} for row in rows]
        assert [study.params(trial) for trial in study.trials()] == [{**row, "one": 1} for row in rows]

    def test_plan_resumes_with_the_remaining_rows(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [{"learning_rate": rate} for rate in RATES]
        spec = make_spec(trials=rows)
        with Recorder(open_study(spec, storage)) as recorder:
            recorder.completed(number_of(recorder), 1.0)
            recorder.pruned(number_of(recorder), 100, 0.5)
            recorder.failed(number_of(recorder), "it broke")
            number_of(recorder)  # left running: interrupted when the recorder closes
        with Recorder(open_study(spec, storage), retry_failed=False) as recorder:
            assert run_all(recorder) == rows[3:]
        with Recorder(open_study(spec, storage), retry_failed=False) as recorder:
            assert recorder.ask() is None
        with Recorder(open_study(spec, storage)) as recorder:
            assert run_all(recorder) == [rows[2]]
        with Recorder(open_study(spec, storage)) as recorder:
            assert (recorder.queue.n_left, recorder.ask()) == (0, None)

    def test_diverged_trials_do_not_stop_a_study_with_a_complete_trial(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        spec = make_spec(trials=[{"learning_rate": rate} for rate in RATES[:5]])
        with Recorder(open_study(spec, storage)) as recorder:
            recorder.completed(number_of(recorder), 1.0)
            for _ in range(4):
                recorder.failed(number_of(recorder), "the loss became nan", diverged=True)
            assert recorder.stop_reason is None

    def test_diverged_trials_stop_a_study_without_a_complete_trial(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        spec = make_spec(trials=[{"learning_rate": rate} for rate in RATES[:5]])
        with Recorder(open_study(spec, storage)) as recorder:
            for _ in range(3):
                recorder.failed(number_of(recorder), "the loss became nan", diverged=True)
            assert recorder.stop_reason == "3 trials failed in a row; the last one: the loss became nan"

    def test_failed_trials_are_retried_after_all_new_trials(self, storage: StudyStorage, make_spec: Make) -> None:
        rows = [{"learning_rate": rate} for rate in RATES[:5]]
        spec = make_spec(trials=rows, confirm=0)
        with Recorder(open_study(spec, storage)) as recorder:
            for _ in range(3):
                recorder.failed(number_of(recorder), "it broke")
            assert recorder.ask() is None
        study = open_study(spec, storage)
        assert study_status(study) == StudyStatus(n_total=5, n_ended=3, n_running=0, n_again=3)
        with Recorder(study) as recorder:
            assert recorder.queue.n_left == 5
            for _ in range(2):
                recorder.completed(number_of(recorder), 1.0)
            for _ in range(3):
                recorder.failed(number_of(recorder), "it broke again")
            assert recorder.stop_reason == "3 trials failed in a row; the last one: it broke again"
        assert study_status(study).complete
        with Recorder(open_study(spec, storage)) as recorder:
            assert run_all(recorder) == rows[:3]
        assert study_status(study) == StudyStatus(n_total=5, n_ended=5, n_running=0, n_again=0)
        (summary,) = list_studies(storage)
        assert (summary.n_trials, summary.n_ended, summary.n_complete, summary.n_failed) == (5, 5, 5, 6)

    def test_n_trials_is_the_total_over_sessions(self, storage: StudyStorage, make_spec: Make) -> None:
        with Recorder(open_study(make_spec(n_trials=3), storage)) as recorder:
            recorder.completed(number_of(recorder), 1.0)
            recorder.failed(number_of(recorder), "it broke")
            recorder.interrupted(number_of(recorder))
        with Recorder(open_study(make_spec(n_trials=3), storage)) as recorder:
            assert len(run_all(recorder)) == 2  # the interrupted one, and another in place of the failed one
        study = open_study(make_spec(n_trials=6), storage)
        with Recorder(study) as recorder:
            assert len(run_all(recorder)) == 3
        assert study_status(study) == StudyStatus(n_total=6, n_ended=6, n_running=0, n_again=0, n_unconfirmed=3)
        assert len(study.trials()) == 7

    def test_resumed_trial_keeps_its_parameters_and_replaces_its_reports(
        self, storage: StudyStorage, make_spec: Make, episode: MakeEpisode
    ) -> None:
        spec = make_spec(n_trials=2, pruner="none")
        study = open_study(spec, storage)
        recorder = Recorder(study)
        first = recorder.ask()
        assert first is not None
        recorder.report(first.number, 100, 1.0)
        recorder.report(first.number, 200, 2.0)
        recorder.episodes(first.number, [episode(episode=0), episode(episode=1)])
        recorder.flush()
        simulate_crash(study)
        study = open_study(spec, storage)
        with Recorder(study) as recorder:
            assert states(study) == ["WAITING"]
            again = recorder.ask()
            assert again == first
            recorder.started(again.number, {})
            recorder.episodes(again.number, [episode(episode=0)])  # up to its checkpoint
            recorder.report(again.number, 100, 1.5)
            recorder.completed(again.number, 3.0)
            assert [each.episode for each in storage.episodes.curve(study.episodes_key, 0)] == [0]
            assert len(run_all(recorder)) == 1
        assert states(study) == ["COMPLETE", "COMPLETE"]
        assert study.trials()[0].intermediate_values == {100: 1.5, 200: 2.0}

    def test_resumed_study_does_not_repeat_suggestions(self, storage: StudyStorage, make_spec: Make) -> None:
        rates = []
        for total in range(1, 6):
            with Recorder(open_study(make_spec(n_trials=total, sampler="random"), storage)) as recorder:
                rates += [params["learning_rate"] for params in run_all(recorder)]
        assert len(set(rates)) == 5

    def test_concurrent_trials_keep_separate_reports(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(n_trials=8), storage)
        with Recorder(study) as recorder:
            numbers = [number_of(recorder) for _ in range(8)]
            assert recorder.ask() is None
            for step in (100, 200):
                for number in reversed(numbers):
                    recorder.report(number, step, float(number * step))
            for number in reversed(numbers):
                recorder.completed(number, float(number))
        for trial in study.trials():
            assert trial.value == trial.number
            assert trial.intermediate_values == {100: trial.number * 100.0, 200: trial.number * 200.0}


@pytest.mark.slow
def test_equal_seeds_give_equal_suggestions(make_spec: Make, tmp_path: Path) -> None:
    seen = []
    for name in ("a", "b", "c"):
        spec = make_spec(storage=f"{tmp_path}/{name}.db", seed=int(name == "c"))
        with open_study(spec) as study, Recorder(study) as recorder:
            seen.append(run_all(recorder))
    assert seen[0] == seen[1] != seen[2]


def test_grid_is_a_plan_truncated_by_n_trials(storage: StudyStorage, make_spec: Make) -> None:
    spec = {"params": {"a": [1, 2, 3], "b": "x,y"}, "sampler": "grid"}
    with Recorder(open_study(make_spec(n_trials=4, **spec), storage)) as recorder:
        first = run_all(recorder)
        assert len(first) == 4
    with Recorder(open_study(make_spec(n_trials=100, **spec), storage)) as recorder:
        rows = first + run_all(recorder)
    assert sorted((row["a"], row["b"]) for row in rows) == [(a, b) for a in (1, 2, 3) for b in ("x", "y")]


def test_every_agent_of_a_spec_is_proposed(storage: StudyStorage, make_spec: Make) -> None:
    with Recorder(open_study(make_spec(agents=("dqn", "ppo"), n_trials=12, sampler="random"), storage)) as recorder:
        assert {params["agent"] for params in run_all(recorder)} == {"dqn", "ppo"}


def test_median_pruner_stops_a_trial_that_falls_behind(storage: StudyStorage, make_spec: Make) -> None:
    with Recorder(open_study(make_spec(n_trials=9, pruner="median"), storage)) as recorder:
        for _ in range(4):
            number = number_of(recorder)
            assert not any(recorder.report(number, step, 10.0) for step in range(100, 1100, 100))
            recorder.completed(number, 10.0)
        number = number_of(recorder)
        verdicts = [recorder.report(number, step, 1.0) for step in range(100, 1100, 100)]
        assert verdicts == [False] * 4 + [True] * 6


def test_ask_says_whether_it_is_the_baseline_also_beside_fixed_parameters(
    storage: StudyStorage, make_spec: Make
) -> None:
    trials = [{"learning_rate": rate} for rate in RATES[:3]]
    spec = make_spec(trials=trials, params={}, fixed={"gamma": 0.9}, baseline=trials[1])
    with Recorder(open_study(spec, storage)) as recorder:
        asks = [recorder.ask() for _ in trials]
        assert [ask is not None and ask.is_baseline for ask in asks] == [False, True, False]


@pytest.mark.parametrize("pruner", ["median", "asha", "percentile"])
def test_baseline_is_never_pruned(storage: StudyStorage, make_spec: Make, pruner: str) -> None:
    trials: Any = [{"learning_rate": rate} for rate in (1e-3, 1e-2, 1e-1, 1e-4, 1e-5, 2e-5)]
    spec = make_spec(trials=trials, params={}, pruner=pruner, baseline=trials[4], confirm=1, n_reports=10)
    with Recorder(study := open_study(spec, storage)) as recorder:
        for _ in range(4):
            number = number_of(recorder)
            recorder.decide(500, {number: {0: 10.0}})
            recorder.completed(number, 10.0)
        worse = [number_of(recorder) for _ in range(2)]
        decided = recorder.decide(500, {number: {0: 1.0} for number in worse})
        assert [decided[number].continues for number in worse] == [True, False]
        assert study.params(study.trials()[worse[0]]) == spec.baseline


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_value_fails_the_trial(storage: StudyStorage, make_spec: Make, bad: float) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.completed(number_of(recorder), bad, {0: 1.0}, {"wall_seconds": 2.0})
        recorder.completed(number_of(recorder), 1.0, {0: 1.0, 1: bad})
    assert states(study) == ["FAIL", "FAIL"]
    assert f"the value is {bad}" in study.trials()[0].user_attrs["reason"]
    assert study.trials()[0].user_attrs["wall_seconds"] == 2.0
    assert f"the value of seed 1 is {bad}" in study.trials()[1].user_attrs["reason"]


def test_non_finite_report_is_ignored(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(pruner="median", pruner_kwargs={"n_startup_trials": 0, "n_warmup_steps": 0}), storage)
    with Recorder(study) as recorder:
        recorder.report(first := number_of(recorder), 100, 5.0)
        recorder.completed(first, 5.0)
        number = number_of(recorder)
        assert not recorder.report(number, 100, math.nan)
        assert not recorder.report(number, 200, math.inf)
        recorder.pruned(number, 300, math.nan)
    assert study.trials()[1].intermediate_values == {}


def test_number_of_stored_reports_is_bounded(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(env_steps=1000, n_reports=10), storage)
    with Recorder(study) as recorder:
        number = number_of(recorder)
        for step in range(1, 1001):
            recorder.report(number, step, 1.0)
        recorder.report(number, 1000, 2.0)
        recorder.completed(number, 1.0)
    assert len(study.trials()[0].intermediate_values) <= 20
    episodes = open_study(make_spec(name="b", env_steps=None, episodes=100, n_reports=10), storage)
    with Recorder(episodes) as recorder:
        number = number_of(recorder)
        for step in range(1, 1001):
            recorder.report(number, step, 1.0)
    assert len(episodes.trials()[0].intermediate_values) <= 20


def test_three_consecutive_failures_stop_the_study(storage: StudyStorage, make_spec: Make) -> None:
    with Recorder(open_study(make_spec(n_trials=20), storage)) as recorder:
        for outcome in ("fail", "fail", "complete", "fail", "fail", "prune", "fail", "interrupt", "fail"):
            number = number_of(recorder)
            if outcome == "fail":
                recorder.failed(number, f"trial {number} broke")
            elif outcome == "complete":
                recorder.completed(number, 1.0)
            elif outcome == "prune":
                recorder.pruned(number, 100, 1.0)
            else:
                recorder.interrupted(number)
        assert recorder.stop_reason is None
        in_flight = number_of(recorder)
        recorder.failed(number_of(recorder), "the last straw")
        assert recorder.stop_reason == "3 trials failed in a row; the last one: the last straw"
        assert recorder.ask() is None
        recorder.completed(in_flight, 1.0)  # running trials may still end
        assert recorder.stop_reason is not None


def test_long_traceback_keeps_its_end(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.failed(number_of(recorder), "r" * 5000, "é" * 10_000 + "\nValueError: the cause")
    attrs = study.trials()[0].user_attrs
    assert len(attrs["traceback"].encode()) <= TRACEBACK_BYTES
    assert attrs["traceback"].startswith("... (beginning cut)")
    assert attrs["traceback"].endswith("ValueError: the cause")
    assert len(attrs["reason"]) == 1000


@pytest.mark.slow
def test_episodes_are_written_in_batches(storage: StudyStorage, make_spec: Make, episode: MakeEpisode) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        number = number_of(recorder)
        recorder.episodes(number, [episode()])
        assert n_episodes(storage, study.episodes_key) == 0
        recorder.episodes(number, [episode(episode=index) for index in range(FLUSH_ROWS)])
        assert n_episodes(storage, study.episodes_key) == FLUSH_ROWS
        recorder.episodes(number, [episode(episode=FLUSH_ROWS)])
        recorder.completed(number, 1.0)
        assert n_episodes(storage, study.episodes_key) == FLUSH_ROWS + 1
        recorder.episodes(number, [episode(episode=FLUSH_ROWS + 1)])  # reported after the end of the trial
    assert n_episodes(storage, study.episodes_key) == FLUSH_ROWS + 2


def test_one_call_writes_the_episodes_of_a_limited_number_of_trials(
    storage: StudyStorage, make_spec: Make, episode: MakeEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_FENCED", 2, raising=False)
    study = open_study(make_spec(), storage)
    fence, fenced_numbers = LeaseManager.fence, []

    def recorded(leases: LeaseManager, numbers: Iterable[int]) -> Fence | None:
        fenced_numbers.append(tuple(numbers))
        return fence(leases, fenced_numbers[-1])

    with Recorder(study) as recorder:
        for number in [number_of(recorder) for _ in range(5)]:
            recorder.episodes(number, [episode()])
        monkeypatch.setattr(LeaseManager, "fence", recorded)
        recorder.flush()
    assert max(map(len, fenced_numbers)) == 2
    assert [len(curve) for curve in storage.episodes.curves(study.episodes_key).values()] == [1] * 5


def test_episodes_are_flushed_one_second_after_the_last_write(
    storage: StudyStorage, make_spec: Make, episode: MakeEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        number = number_of(recorder)
        recorder.episodes(number, [episode()])
        monkeypatch.setattr(recorder._writer, "_flushed_at", -math.inf)
        recorder.episodes(number, [episode(episode=1)])
        assert n_episodes(storage, study.episodes_key) == 2


def test_calls_for_unknown_or_ended_trials_raise(storage: StudyStorage, make_spec: Make, episode: MakeEpisode) -> None:
    with Recorder(open_study(make_spec(), storage)) as recorder:
        calls: list[Callable[[int], object]] = [
            lambda number: recorder.episodes(number, [episode()]),
            lambda number: recorder.report(number, 10, 1.0),
            lambda number: recorder.started(number, {}),
            lambda number: recorder.completed(number, 1.0),
            lambda number: recorder.pruned(number, 10, 1.0),
            lambda number: recorder.failed(number, "x"),
            recorder.interrupted,
        ]
        for call in calls:
            with pytest.raises(StudyError, match="trial 7 was never handed out"):
                call(7)
        number = number_of(recorder)
        with pytest.raises(StudyError, match="env_steps is -1"):
            recorder.report(number, -1, 1.0)
        recorder.completed(number, 1.0)
        for call in calls[2:]:
            with pytest.raises(StudyError, match="trial 0 has ended already"):
                call(number)
        assert recorder.report(number, 10, 1.0)  # an ended trial that still reports has to stop


def test_values_that_are_not_json_raise_before_anything_is_written(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        number = number_of(recorder)
        for call in (
            lambda: recorder.started(number, {"x": object()}),
            lambda: recorder.completed(number, 1.0, None, {"x": math.nan}),
        ):
            with pytest.raises(StudyError):
                call()
        recorder.completed(number, 1.0)
    assert states(study) == ["COMPLETE"]


def test_close_requeues_running_trials_and_is_idempotent(
    storage: StudyStorage, make_spec: Make, episode: MakeEpisode
) -> None:
    study = open_study(make_spec(), storage)
    recorder = Recorder(study)
    number = number_of(recorder)
    recorder.episodes(number, [episode()])
    recorder.close()
    recorder.close()
    assert recorder.ask() is None
    assert study.trials()[0].state == TrialState.WAITING
    assert n_episodes(storage, study.episodes_key) == 1


def test_close_keeps_a_trial_that_is_complete_in_the_storage(storage: StudyStorage, make_spec: Make) -> None:
    # An interrupt between the write to the storage and the bookkeeping of the recorder.
    study = open_study(make_spec(), storage)
    recorder = Recorder(study)
    study.study.tell(number_of(recorder), 1.0)
    recorder.close()
    assert states(study) == ["COMPLETE"]
    assert "reason" not in study.trials()[0].user_attrs


def test_interrupted_plan_row_is_proposed_again(storage: StudyStorage, make_spec: Make) -> None:
    rows = [{"learning_rate": rate} for rate in RATES[:2]]
    with Recorder(open_study(make_spec(trials=rows), storage)) as recorder:
        recorder.interrupted(number_of(recorder))
        assert run_all(recorder) == rows


def test_interrupted_trial_is_resumed(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(n_trials=2), storage)
    with Recorder(study) as recorder:
        recorder.interrupted(number_of(recorder))
        assert len(run_all(recorder)) == 2
    assert states(study) == ["COMPLETE", "COMPLETE"]


def test_trial_with_missing_parameters_gets_the_others_when_resumed(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(n_trials=1, params={"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.99"})
    study = open_study(spec, storage)
    study.study.ask().suggest_float(
        "learning_rate", 1e-5, 1e-1, log=True
    )  # the process is killed before it draws gamma
    with Recorder(open_study(spec, storage)) as recorder:
        [params] = run_all(recorder)
    assert set(params) == {"learning_rate", "gamma"}
    assert states(study) == ["COMPLETE"]


def test_enqueued_trials_are_run_first(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(n_trials=2), storage)
    study.study.enqueue_trial({"learning_rate": 0.0123})
    with Recorder(open_study(make_spec(n_trials=1, name="b"), storage)) as recorder:
        assert len(run_all(recorder)) == 1
    with Recorder(study) as recorder:
        seen = run_all(recorder)
    assert seen[0] == {"learning_rate": 0.0123}
    assert len(seen) == 2


def test_threads_share_a_recorder(storage: StudyStorage, make_spec: Make, episode: MakeEpisode) -> None:
    study = open_study(make_spec(n_trials=40, sampler="random"), storage)
    errors: list[BaseException] = []
    with Recorder(study) as recorder:

        def work() -> None:
            try:
                while (ask := recorder.ask()) is not None:
                    recorder.episodes(ask.number, [episode()])
                    recorder.report(ask.number, 100, 1.0)
                    recorder.completed(ask.number, float(ask.number))
            except BaseException as error:  # noqa: BLE001 (any error in a thread fails the test)
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    assert [trial.value for trial in study.trials()] == [float(number) for number in range(40)]


def test_seconds_measures_the_time_inside_the_recorder(storage: StudyStorage, make_spec: Make) -> None:
    with Recorder(open_study(make_spec(n_trials=3), storage)) as recorder:
        before = recorder.seconds
        run_all(recorder)
        assert 0 < recorder.seconds - before < 30


def test_resumed_trial_is_compared_by_its_new_reports(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(
        trials=[{"learning_rate": rate} for rate in RATES[:3]], pruner="keep-top", pruner_kwargs={"at": 600, "keep": 1}
    )
    study = open_study(spec, storage)
    recorder = Recorder(study)
    for _ in range(3):
        number_of(recorder)
    assert recorder.rung(200, {number: {0: 1.0} for number in range(3)}) == set()
    recorder.report(0, 600, 3.0)
    simulate_crash(study)  # before the other trials have reported at 600
    with Recorder(open_study(spec, storage)) as recorder:
        for _ in range(3):
            number_of(recorder)
        assert recorder.rung(200, {number: {0: 1.0} for number in range(3)}) == set()
        assert recorder.rung(600, {0: {0: 3.0}, 1: {0: 2.0}, 2: {0: 9.0}}) == {0, 1}


def test_resumed_trial_is_not_judged_again_at_rungs_that_it_has_passed(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(
        trials=[{"learning_rate": rate} for rate in RATES[:3]], pruner="keep-top", pruner_kwargs={"at": 200, "keep": 1}
    )
    recorder = Recorder(open_study(spec, storage))
    slow = number_of(recorder)
    assert recorder.rung(200, {slow: {0: 1.0}}) == set()
    assert recorder.rung(800, {slow: {0: 1.5}}) == set()
    recorder.interrupted(slow)
    recorder.close()
    with Recorder(open_study(spec, storage)) as recorder:
        assert number_of(recorder) == slow
        recorder.started(slow, {})
        better = number_of(recorder)
        assert recorder.rung(200, {better: {0: 9.0}}) == set()
        assert recorder.rung(200, {slow: {0: 1.0}}) == set(), "it reports again what it has reported before"
        worse = number_of(recorder)
        assert recorder.rung(200, {worse: {0: 0.5}}) == {worse}


def test_worker_ends_when_the_study_is_continued_with_another_pruner(storage: StudyStorage, make_spec: Make) -> None:
    storage.shared = True
    with Recorder(open_study(make_spec(), storage)):
        worker = Recorder(join_study("a study", storage))
        worker.refresh()
    with (
        Recorder(open_study(make_spec(pruner="median"), storage)),
        pytest.raises(StudyError, match=r"continued with the scheduler median .* start the worker again"),
    ):
        worker.refresh()
    worker.close()


def test_trials_are_read_once_for_all_that_are_judged_at_a_rung(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = optuna.Study.get_trials, []

    def counted(study: optuna.Study, *args: Any, **kwargs: Any) -> Any:
        calls.append(study)
        return read(study, *args, **kwargs)

    spec = make_spec(n_trials=4, pruner="keep-top", pruner_kwargs={"at": 200, "keep": 1})
    with Recorder(open_study(spec, storage)) as recorder:
        numbers = [number_of(recorder) for _ in range(4)]
        monkeypatch.setattr(optuna.Study, "get_trials", counted)
        assert recorder.rung(200, {number: {0: float(number)} for number in numbers}) == {0, 1, 2}
        assert len(calls) == 1
        assert recorder.rung(300, {3: {0: 5.0}}) == set()
        assert len(calls) == 1, "nothing is judged there"

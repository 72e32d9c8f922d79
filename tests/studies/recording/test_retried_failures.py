"""Failed trials in the next run of a study: which are retried or replaced, by which process, and how they count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from studies.analysis.listing import list_studies
from studies.analysis.status import StudyStatus, study_status
from studies.queue.trial_states import abandon
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import with_counts

Make = Callable[..., StudySpec]
ROWS = [{"learning_rate": 10.0**-k} for k in range(1, 4)]


def fail(recorder: Recorder, **details: Any) -> None:
    ask = recorder.ask()
    assert ask is not None
    recorder.failed(ask.number, "it broke", **details)


def complete(recorder: Recorder, n: int | None = None) -> list[dict[str, Any]]:
    """Complete the next n trials, or all that are left, and return their parameters."""
    seen: list[dict[str, Any]] = []
    while len(seen) != n and (ask := recorder.ask()) is not None:
        seen.append(ask.params)
        recorder.completed(ask.number, 1.0)
    return seen


@pytest.fixture
def shared(storage: StudyStorage) -> StudyStorage:
    """Storage that several processes may use at the same time."""
    storage.shared = True
    return storage


class TestEveryStorage:
    def test_diverged_planned_trials_are_not_retried(self, storage: StudyStorage, make_spec: Make) -> None:
        spec = make_spec(trials=ROWS, confirm=0)
        with Recorder(open_study(spec, storage)) as recorder:
            complete(recorder, 1)
            fail(recorder, kind="diverged")
            fail(recorder, kind="killed")
        study = open_study(spec, storage)
        assert study_status(study) == StudyStatus(n_total=3, n_ended=3, n_running=0, n_again=1)
        with Recorder(study) as recorder:
            assert complete(recorder) == [ROWS[2]]
        with Recorder(open_study(spec, storage)) as recorder:
            assert recorder.queue.n_left == 0

    def test_failed_first_trials_are_retried_after_the_untried_ones(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        spec = make_spec(first=ROWS, baseline=ROWS[0], n_trials=4, confirm=0)
        with Recorder(open_study(spec, storage)) as recorder:
            fail(recorder, kind="killed")  # the baseline
            fail(recorder, kind="diverged")
        with Recorder(open_study(spec, storage)) as recorder:
            assert recorder.queue.n_left == 3
            again = recorder.ask()
            assert again is not None
            recorder.completed(again.number, 1.0)
            assert again.params == ROWS[2]
            again = recorder.ask()
            assert again is not None
            recorder.completed(again.number, 1.0)
            assert (again.params, again.is_baseline) == (ROWS[0], True)
            assert len(complete(recorder)) == 1, "one diverged: three others of four"

    def test_failures_of_earlier_runs_take_no_place_of_other_trials(
        self, storage: StudyStorage, make_spec: Make
    ) -> None:
        spec = make_spec(n_trials=5, confirm=0, sampler="random")

        def counts() -> tuple[int, int, int]:
            (summary,) = list_studies(storage)
            return summary.n_ended, summary.n_trials, summary.n_failed

        with Recorder(open_study(spec, storage)) as recorder:
            complete(recorder, 1)
            fail(recorder, kind="diverged")
            fail(recorder, kind="killed")
            fail(recorder, kind="environment")
            assert len(complete(recorder)) == 1, "within a run they do"
        assert counts() == (5, 5, 3)
        study = open_study(spec, storage)
        assert study_status(study) == StudyStatus(n_total=5, n_ended=5, n_running=0, n_again=2)
        with Recorder(study) as recorder:
            assert recorder.queue.n_left == 2
            assert len(complete(recorder, 1)) == 1
            fail(recorder, kind="killed")
            assert recorder.ask() is None, "a failure of this run takes a place"
        assert counts() == (5, 5, 4)
        with Recorder(open_study(spec, storage)) as recorder:
            assert len(complete(recorder)) == 1
            assert study_status(study) == StudyStatus(n_total=5, n_ended=5, n_running=0, n_again=0)
        assert counts() == (5, 5, 4)
        with Recorder(open_study(spec, storage)) as recorder:
            assert (recorder.queue.n_left, recorder.ask()) == (0, None)


@pytest.mark.parametrize(
    "changes", [{"trials": ROWS}, {"first": ROWS, "n_trials": 3}, {"n_trials": 3}], ids=["plan", "first", "sampler"]
)
def test_worker_that_joins_retries_nothing(shared: StudyStorage, make_spec: Make, changes: dict[str, Any]) -> None:
    spec = make_spec(confirm=0, **changes)
    with Recorder(open_study(spec, shared)) as recorder:
        fail(recorder, kind="killed")
        complete(recorder, 1)
        with join_study("a study", shared) as joined, Recorder(joined) as worker:
            assert worker.queue.n_left == 1
            assert study_status(joined).n_again == 0
            assert len(complete(worker)) == 1
        assert (recorder.queue.n_left, study_status(recorder.study).all_ended) == (0, True)
    with join_study("a study", shared) as joined, Recorder(joined) as worker:
        assert worker.queue.n_left == 1, "no other process runs the study: it is a new run"
        assert study_status(joined).n_again == 1
        again = worker.ask()
        assert again is not None
        with join_study("a study", shared) as other, Recorder(other) as second:
            assert (second.queue.n_left, second.ask()) == (0, None)
        worker.completed(again.number, 1.0)


def test_population_is_not_joined_by_new_members(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(pruner="pbt", n_trials=4, seeds=(0,), env_steps=10_000, confirm=0, first=[ROWS[1]])
    with Recorder(open_study(spec, storage)) as recorder:
        fail(recorder, kind="killed")
        complete(recorder)
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        assert (recorder.queue.n_left, study_status(study).n_again) == (0, 0)


def test_trials_that_a_budget_adds_are_beside_those_that_replace_failures(
    storage: StudyStorage, make_spec: Make
) -> None:
    spec = make_spec(n_trials=4, confirm=0)
    with Recorder(open_study(spec, storage)) as recorder:
        fail(recorder)
        fail(recorder)
        complete(recorder)
    with Recorder(open_study(spec, storage)) as recorder:
        assert len(complete(recorder)) == 2
        with_counts(recorder.study, n_trials=6)
        recorder.refresh()
        assert recorder.queue.n_left == 2
        assert len(complete(recorder)) == 2
        assert study_status(recorder.study).all_ended


@pytest.mark.parametrize(
    "fields", [{"trials": ROWS, "params": {}}, {"params": {"learning_rate": "1e-5:1e-1:log"}, "n_trials": 3}]
)
def test_trial_that_was_abandoned_at_its_start_is_replaced(make_spec: Make, fields: dict[str, Any]) -> None:
    with open_study(make_spec(confirm=0, **fields)) as study, Recorder(study) as recorder:
        source = recorder.queue.source
        with recorder._leases.planning():
            started = source.take(study.study.get_trials(deepcopy=False))
            assert started is not None
            abandon(study.study, started.trial, "abandoned at its start: the lease was lost")
            source.restore(started.trial)
        assert len(complete(recorder)) == 3

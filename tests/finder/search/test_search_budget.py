"""Tests of budgets of searches that other processes help with: a worker is a recorder that the test moves by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes import SMALL_PPO
from limits import Clock, time_meter

from finder.budgets.limit import Limit
from finder.budgets.meters import Meter, StepMeter
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.search import search as search_module
from finder.search import search_budget
from finder.search.object_resolver import ObjectResolver
from finder.search.search import Search
from finder.trials.trial import FOR_BUDGET, Outcome
from studies.database.records import EpisodeRecord
from studies.database.retries import StorageAwayError
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.spec.attributes import CONFIRMS_ATTR, is_confirmation
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage, open_storage
from studies.study.budget_attributes import has_ended, is_confirming
from studies.study.study import OpenStudy

RATES = [10.0**-k for k in range(1, 7)]


class Instant(Executor):
    """Completes each trial at once; `before` is called before each, `after` after it."""

    description = "instant"

    def __init__(self) -> None:
        self.before: Callable[[int], Any] = lambda number: None
        self.after: Callable[[int], Any] = lambda number: None

    def trials_at_once(self, n_seeds: int) -> int:
        return 1

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        while (trial := next_trial()) is not None:
            self.before(trial.number)
            listener.started(trial.number, {"seeds": list(trial.seeds)})
            listener.episodes({})
            values = {seed: trial.number + 0.1 * seed for seed in trial.seeds}
            outcome = Outcome(state="complete", value=trial.number, env_steps=trial.env_steps or 0, seed_values=values)
            listener.ended(trial.number, outcome)
            self.after(trial.number)


@pytest.fixture
def storage() -> Iterator[StudyStorage]:
    with open_storage("memory") as opened:
        opened.shared = True
        yield opened


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """Calls at each wait of a search, instead of the time."""
    calls: list[Callable[[], Any]] = []
    wait = Search._wait

    def called(self: Search) -> bool:
        for call in calls:
            call()
        return wait(self)

    monkeypatch.setattr(search_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Search, "_wait", called)
    return calls


def make_spec(**changes: Any) -> StudySpec:
    fields: dict[str, Any] = {
        "name": "s", "agents": ("ppo",), "env": "fakes:TwoStep-v0", "env_steps": 1_000, "n_reports": 10, "seeds": (0,),
        "fixed": SMALL_PPO, "trials": tuple({"learning_rate": rate} for rate in RATES), "confirm": 1,
        "confirm_seeds": 2, "pruner": "race", "minutes": 1,
    }  # fmt: skip
    return StudySpec(**{**fields, **changes})


def make_search(study: OpenStudy, executor: Executor, meter: Meter | None, *, adjusts_seeds: bool = False) -> Search:
    limit = None if meter is None else Limit(study.spec, meter, together=False, adjusts_seeds=adjusts_seeds)
    return Search(study, ObjectResolver.of(study.spec), executor, limit=limit)


def confirmed(study: OpenStudy) -> list[int]:
    return [trial.user_attrs[CONFIRMS_ATTR] for trial in study.all_trials() if is_confirmation(trial)]


def test_leader_waits_for_the_last_trial_of_a_worker_and_confirms_it(
    storage: StudyStorage, waits: list[Callable[[], Any]]
) -> None:
    clock, executor = Clock(), Instant()
    study = open_study(make_spec(env_steps=5_000), storage)
    worker = Recorder(join_study("s", storage))
    search = make_search(study, executor, time_meter(60, clock))
    taken: list[Any] = []

    def worker_begins(number: int) -> None:
        clock.now = 146.0  # of 60 s, 14 are left: a further trial of 5 s and the confirmation of 10 s do not fit
        taken.append(worker.ask())

    executor.after = lambda number: None if taken else worker_begins(number)
    seen: list[Any] = []

    def worker_ends() -> None:
        if not seen:
            seen.extend([has_ended(worker.refresh()), worker.queue.n_left, worker.ask()])
            worker.completed(taken[0].number, 9.0, {0: 9.0})

    waits.append(worker_ends)
    assert search.run() is None
    assert seen == [True, 0, None], "no process begins a further trial"
    assert confirmed(search.study) == [taken[0].number]
    worker.close()


def test_leader_waits_for_a_worker_only_while_the_confirmation_fits(
    storage: StudyStorage, waits: list[Callable[[], Any]]
) -> None:
    clock, executor = Clock(), Instant()
    study = open_study(make_spec(env_steps=5_000), storage)
    worker = make_search(join_study("s", storage), Instant(), None)
    search = make_search(study, executor, time_meter(60, clock))
    taken: list[Any] = []

    def worker_begins(number: int) -> None:
        clock.now = 146.0  # a trial takes 5 s and the confirmation 10 s of the 14 that are left
        taken.append(worker.recorder.ask())
        worker.recorder.started(taken[0].number, {})

    def second_passes() -> None:
        clock.now += 1

    decided: list[Any] = []

    def worker_reaches_a_rung(number: int) -> None:
        worker.recorder.refresh()
        decided.append(worker.listener.rung(1_500, {taken[0].number: {0: 0.5}}))
        worker.listener.ended(taken[0].number, Outcome(state="pruned", value=0.5, env_steps=1_500, reason=FOR_BUDGET))

    executor.after = lambda number: worker_begins(number) if number == 1 else None
    executor.before = lambda number: worker_reaches_a_rung(number) if taken and not decided else None
    waits.append(second_passes)
    assert search.run() is None
    assert clock.now == 149.0, "there are 11 s for the confirmation"
    assert decided == [{taken[0].number: FOR_BUDGET}]
    assert is_confirming(search.study)
    assert confirmed(search.study) == [1]
    assert [trial.state.name for trial in search.study.trials()] == ["COMPLETE", "COMPLETE", "PRUNED"]
    worker.recorder.close()


def test_steps_of_a_worker_are_those_of_the_budget(storage: StudyStorage) -> None:
    # Four trials of 1,000 steps and a confirmation of 2,000 fit.
    executor = Instant()
    study = open_study(make_spec(minutes=None, total_env_steps=6_000), storage)
    worker = Recorder(join_study("s", storage))
    search = make_search(study, executor, StepMeter(6_000))

    def worker_trains(number: int) -> None:
        asked = worker.ask()
        if asked is not None:
            worker.started(asked.number, {"seeds": [0]})
            worker.completed(asked.number, -1.0, {0: -1.0}, {"env_steps": 1_010})

    executor.after = lambda number: worker_trains(number) if number == 0 else None
    search.run()
    ended = [trial for trial in search.study.trials() if trial.state.is_finished()]
    assert len(ended) == 4, "a run counts 1,000 steps, though its last rollout may be longer"
    worker.close()


def test_running_trials_of_a_worker_count_as_expected(storage: StudyStorage, waits: list[Callable[[], Any]]) -> None:
    executor = Instant()
    study = open_study(make_spec(minutes=None, total_env_steps=5_000), storage)
    worker = Recorder(join_study("s", storage))
    search = make_search(study, executor, StepMeter(5_000))
    taken: list[Any] = []

    def worker_begins(number: int) -> None:
        taken.extend([worker.ask(), worker.ask()])

    def worker_ends() -> None:
        while taken:
            worker.completed(taken.pop().number, -1.0, {0: -1.0}, {"env_steps": 1_000})

    executor.after = lambda number: worker_begins(number) if number == 0 else None
    waits.append(worker_ends)
    search.run()
    assert [trial.number for trial in search.study.trials()] == [0, 1, 2], "1,000 each, and 2,000 to confirm"
    assert confirmed(search.study) == [0]
    worker.close()


def test_steps_that_running_trials_still_need_are_not_spare(storage: StudyStorage) -> None:
    spec = make_spec(minutes=None, total_env_steps=5_000)
    limit = Limit(spec, StepMeter(5_000), together=False, adjusts_seeds=False)
    assert limit.has_spare
    for number in range(3):  # 1,000 each, and 2,000 to confirm
        assert limit.request_trial()
        limit.begun(number, 1)
    assert not limit.has_spare
    limit.ended(2, 100)
    assert not limit.has_spare, "900 are left of it"
    limit.ended(1, 100)
    assert limit.has_spare


@pytest.mark.parametrize(("chooses_trials", "n_added"), [(True, 1), (False, 0)])
def test_trials_are_added_where_their_number_was_left_open(
    storage: StudyStorage, chooses_trials: bool, n_added: int
) -> None:
    spec = make_spec(params={"learning_rate": "1e-4:1e-1:log"}, trials=(), n_trials=2, minutes=None)
    with open_study(spec.model_copy(update={"total_env_steps": 5_000}), storage) as study:
        recorder = Recorder(study)
        limit = Limit(study.spec, StepMeter(5_000, 2_000), together=False, chooses_trials=chooses_trials)
        budget = search_budget.KeptBudget(recorder, limit)
        assert budget.add_trials(4) == n_added, "1,000 each, and 2,000 to confirm"
        assert recorder.study.spec.n_trials == 2 + n_added
        recorder.close()


@pytest.mark.parametrize(("optimizers", "n_added"), [("adam,sgd", 0), ("adam,sgd,rmsprop", 1)])
def test_no_more_trials_are_added_than_the_space_has(storage: StudyStorage, optimizers: str, n_added: int) -> None:
    spec = make_spec(params={"optimizer": optimizers}, trials=(), n_trials=2, minutes=None)
    with open_study(spec.model_copy(update={"total_env_steps": 50_000}), storage) as study:
        recorder = Recorder(study)
        limit = Limit(study.spec, StepMeter(50_000, 2_000), together=False, chooses_trials=True)
        budget = search_budget.KeptBudget(recorder, limit)
        assert budget.add_trials(4) == n_added
        assert budget.add_trials(4) == 0
        assert recorder.study.spec.n_trials == 2 + n_added
        recorder.close()


def test_baseline_of_a_worker_is_trained_to_its_end(storage: StudyStorage) -> None:
    baseline = {"learning_rate": RATES[0]}
    study = open_study(make_spec(baseline=baseline), storage)
    worker = make_search(join_study("s", storage), Instant(), None)
    numbers = [asked.number for _ in range(2) if (asked := worker.recorder.ask()) is not None]
    assert [worker.recorder.is_judged(number) for number in numbers] == [False, True]
    worker.recorder.close()
    study.close()


def test_search_goes_on_while_a_trial_of_a_worker_may_be_paused(storage: StudyStorage) -> None:
    study = open_study(make_spec(env_steps=640, pruner="asha", minutes=None, total_env_steps=900, confirm=0), storage)
    worker = Recorder(join_study("s", storage))
    search = make_search(study, Instant(), StepMeter(900))
    ask = worker.ask()
    assert ask is not None
    worker.report(ask.number, 160, 5.0)
    budget = search._budget
    search.recorder.refresh()
    assert (budget.request_trial(), budget.ended) == (False, False), "640 steps are promised to the worker"
    worker.paused(ask.number, 160, {0: 5.0})
    search.recorder.refresh()
    assert (budget.request_trial(), budget.ended) == (True, False)
    worker.close()
    search._checkpoints.close()
    search.recorder.close()


def test_storage_that_is_away_loses_no_reports(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_budget, "LOOK_SECONDS", 0.0)
    study = open_study(make_spec(), storage)
    search = make_search(study, Instant(), time_meter(60, Clock()))

    def away(*_: Any, **__: Any) -> None:
        raise StorageAwayError("the storage does not answer.")

    monkeypatch.setattr(search_budget, "store_ended", away)
    asked = search.recorder.ask()
    assert asked is not None
    search.recorder.started(asked.number, {})
    record = EpisodeRecord(
        seed=0, episode=0, env_steps=10, episode_return=1.0, length=10, loss=None, wall_seconds=1.0
    )  # fmt: skip
    search.listener.episodes({asked.number: [record]})
    search.recorder.flush()
    assert len(storage.episodes.curve(study.episodes_key, asked.number)) == 1
    search.recorder.close()
    study.close()


def test_worker_of_a_search_that_has_ended_begins_nothing(storage: StudyStorage) -> None:
    with open_study(make_spec(), storage) as study:
        clock = Clock()
        search = make_search(study, Instant(), time_meter(60, clock))
        clock.now = 158.5  # a trial does not fit any more
        search.run()
        assert study.all_trials() == []
    worker = make_search(join_study("s", storage), Instant(), None)
    assert worker.run() is None
    assert worker.study.all_trials() == []
    worker.study.close()


def test_time_that_is_left_goes_to_further_seeds_also_where_trials_did_not_fit(storage: StudyStorage) -> None:
    clock, executor = Clock(), Instant()
    study = open_study(make_spec(env_steps=5_000), storage)
    search = make_search(study, executor, time_meter(60, clock), adjusts_seeds=True)

    def trial_ends(number: int) -> None:
        if number == 1:
            clock.now = 146.0  # a trial takes 5 s and the confirmation 10 s of the 14 that are left

    executor.after = trial_ends
    search.run()
    assert len(search.study.trials()) == 2
    assert search.spec.confirm_seeds == 8, "four times as many as planned, as the clock has stopped"


def test_passing_estimate_ends_no_search(storage: StudyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_budget, "LOOK_SECONDS", 0.0)
    clock, executor = Clock(), Instant()
    study = open_study(make_spec(), storage)
    worker = Recorder(join_study("s", storage))
    search = make_search(study, executor, time_meter(60, clock))
    seen: list[Any] = []

    def slow_for_a_moment(number: int) -> None:
        clock.now = 159.0 if number == 1 else 105.0
        search._budget.look()
        seen.append(worker.queue.n_left)

    executor.before = slow_for_a_moment
    executor.after = lambda number: setattr(clock, "now", 105.0)
    search.run()
    assert seen[:3] == [5, 0, 3]
    assert len(search.study.trials()) == len(RATES)
    worker.close()


def test_larger_budget_continues_a_search_that_has_ended(storage: StudyStorage) -> None:
    with open_study(make_spec(), storage) as study:
        clock = Clock()
        clock_meter = time_meter(60, clock)
        search = make_search(study, Instant(), clock_meter)
        clock.now = 158.5
        search.run()
        assert has_ended(study)
    with open_study(make_spec(minutes=2), storage) as study:
        search = make_search(study, Instant(), time_meter(120, Clock()))
        assert not has_ended(study)
        search.run()
        assert len(search.study.trials()) == len(RATES)

"""Searches whose trials are paused and promoted: real agents, in every executor, interrupted and resumed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import trainings
from fakes import SMALL_PPO
from kills import PAUSED_VARIABLE
from optuna.trial import FrozenTrial, TrialState
from processes import end_session, wait_until_alone
from small_study import curves, start

from agents import AgentSpec, ConfigurationError
from finder import run_search, tune
from finder.budgets.limit import Limit
from finder.budgets.meters import StepMeter
from finder.executors.choice import make_executor
from finder.progress.tracker import Tracker
from finder.search.object_resolver import ObjectResolver
from finder.search.search import Search
from finder.trials.checkpoints import list_saved
from finder.trials.trial import Outcome
from studies import StudySpec
from studies.adapters import trial_sampler
from studies.analysis.listing import list_studies
from studies.analysis.recommendation import best
from studies.analysis.status import study_status
from studies.database.records import EpisodeRecord
from studies.recording.opening import join_study, open_study
from studies.recording.recorder import Recorder
from studies.reports.explanation import counts_text
from studies.schedulers.scheduler import Action
from studies.spec.attributes import PAUSED_ATTR, PROMOTED_ATTR, is_paused, never_learned, seed_values, state_word
from studies.study.checkpoint_folder import checkpoint_folder
from studies.study.study import OpenStudy, load_study

ENV = "CartPole-v1"
RATES = tuple(float(f"{10**power:.4g}") for power in (-5, -1, -3, -4, -2, -2.5, -3.5, -4.5))


def make_spec(**changes: Any) -> StudySpec:
    fields: dict[str, Any] = {
        "name": "asha", "storage": "memory", "agents": ("ppo",), "env": ENV, "env_steps": 640, "n_reports": 20,
        "seeds": (0, 1), "executor": "inline", "fixed": SMALL_PPO, "confirm": 0,
        "trials": tuple({"learning_rate": rate} for rate in RATES),
        "pruner": "asha", "pruner_kwargs": {"min_resource": 160, "reduction_factor": 2},
    }  # fmt: skip
    return StudySpec(**{**fields, **changes})


def numbers(trial: FrozenTrial) -> tuple[Any, ...]:
    return trial.state, trial.value, seed_values(trial), trial.intermediate_values


def episodes(study: OpenStudy, number: int) -> list[tuple[int, int, int, float, float | None]]:
    rows = study.storage.episodes.curve(study.episodes_key, number)
    return [(row.seed, row.episode, row.env_steps, row.episode_return, row.loss) for row in rows]


def never_paused() -> OpenStudy:
    study, _ = run_search(make_spec(pruner="none", pruner_kwargs={}), progress=False)
    return study


class Jobs(Tracker):
    """Records which trials begin or continue, and how they end."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[int, int | None]] = []
        self.ends: list[tuple[int, str]] = []

    def trial_started(self, trial: Any, params: Any) -> None:
        super().trial_started(trial, params)
        self.jobs.append((trial.number, trial.promoted_from))

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        super().trial_ended(number, outcome)
        self.ends.append((number, outcome.state))

    def budget_spent(self, text: str) -> None:
        """Of no interest here."""


EXECUTORS = [
    pytest.param("inline", 1, id="inline", marks=pytest.mark.slow),
    pytest.param("process", 2, id="process", marks=pytest.mark.slow),
    pytest.param("population", 1, id="population"),
    pytest.param("population", 2, id="populations in two processes", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("executor", "n_jobs"), EXECUTORS)
def test_promoted_trials_have_the_results_of_trials_that_were_never_paused(
    executor: str, n_jobs: int, storage: str
) -> None:
    observer = Jobs()
    # Three trials a population, so that trials of several batches meet.
    spec = make_spec(storage=storage, executor=executor, n_jobs=n_jobs)
    where = make_executor(executor, n_jobs, population=6 // n_jobs) if executor == "population" else None
    study, stopped = run_search(spec, executor=where, observer=observer)
    with study, never_paused() as whole:
        assert stopped is None
        trials, others = study.trials(), whole.trials()
        assert len(trials) == len(RATES)
        assert {trial.state for trial in trials} == {TrialState.COMPLETE, TrialState.PRUNED}
        promoted = [number for number, since in observer.jobs if since is not None]
        assert promoted, "some trial was paused first, and promoted then"
        for trial, other in zip(trials, others, strict=True):
            assert trial.params == other.params
            curve = episodes(whole, other.number)
            if trial.state == TrialState.COMPLETE:
                assert numbers(trial) == numbers(other)
                assert episodes(study, trial.number) == curve
            else:
                at = trial.user_attrs["pruned_at"]
                assert at in (160, 320)
                assert trial.value == trial.intermediate_values[at] == other.intermediate_values[at]
                assert "it was paused and never promoted with" in trial.user_attrs["reason"]
                assert set(episodes(study, trial.number)) <= set(curve)
                assert trial.user_attrs[PAUSED_ATTR] == at
        assert study_status(study).complete
        assert best(study).trial in {trial.number for trial in trials if trial.state == TrialState.COMPLETE}
        assert observer.n_done == len(RATES)
        folder = checkpoint_folder(study.storage.url, study.episodes_key)
        assert folder is not None
        assert not folder.exists()


def test_paused_trials_continue_where_the_budget_has_no_room_for_others() -> None:
    spec, observer = make_spec(seeds=(0,)), Jobs()
    with open_study(spec) as study:
        limit = Limit(spec, StepMeter(900), together=False)
        Search(study, ObjectResolver.of(spec), make_executor("inline"), observer=observer, limit=limit).run()
        # After 480 steps, there are 420 left: enough for the rest of the first trial, and for no further one.
        assert observer.jobs == [(0, None), (1, None), (0, 160), (0, 320)]
        ends = [(trial.state, trial.user_attrs["env_steps"]) for trial in study.trials()]
        assert ends == [(TrialState.COMPLETE, 640), (TrialState.PRUNED, 160)]


def test_promotion_that_does_not_fit_beside_running_trials_waits_for_them() -> None:
    spec, observer = make_spec(seeds=(0,), env_steps=1_600, n_reports=10), Jobs()
    with open_study(spec) as study:
        limit = Limit(spec, StepMeter(4_000), together=False)
        executor = make_executor("process", 2)
        Search(study, ObjectResolver.of(spec), executor, observer=observer, limit=limit).run()
        assert limit.spent + 640 > 4_000 or not any(is_paused(trial) for trial in study.trials())
        assert any(trial.state == TrialState.COMPLETE for trial in study.trials())


def test_trial_that_was_paused_before_its_first_update_counts_as_trained_after_it() -> None:
    trials = tuple({"learning_rate": rate} for rate in RATES[:4])
    study, _ = run_search(make_spec(seeds=(0,), trials=trials, fixed={**SMALL_PPO, "n_steps": 128}), progress=False)
    with study:
        complete = [trial for trial in study.trials() if trial.state == TrialState.COMPLETE]
        assert any(trial.user_attrs.get(PROMOTED_ATTR) for trial in complete)
        assert not any(map(never_learned, complete))


@pytest.mark.slow
def test_process_that_is_stopped_leaves_paused_trials_for_the_next_one(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted, _ = run_search(make_spec(), progress=False)

    spec = make_spec(storage=storage)
    with open_study(spec) as opened:
        search = Search(opened, ObjectResolver.of(spec), make_executor("inline"), report_interrupts=False)
        listen = search.listener.episodes

        def interrupted(records: Any) -> None:
            listen(records)
            if 4 in records:  # the fifth trial has an episode
                raise KeyboardInterrupt

        monkeypatch.setattr(search.listener, "episodes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search.run()
    with load_study("asha", storage) as study:
        words = [state_word(trial) for trial in study.trials()]
        n_paused = words.count("paused")
        assert n_paused > 0
        assert words[4] == "interrupted"
        assert study_status(study).n_paused == n_paused
        [summary] = list_studies(study.storage)
        assert summary.n_paused == n_paused
        assert f"{n_paused} paused" in counts_text(study)
        folder = checkpoint_folder(study.storage.url, study.episodes_key)
        assert folder is not None
        kept = {number for saved in list_saved(folder) for number, _ in saved.runs}
        assert {trial.number for trial in study.trials() if is_paused(trial)} <= kept
    resumed, _ = run_search(spec, progress=False)
    with resumed, uninterrupted:
        for trial, other in zip(resumed.trials(), uninterrupted.trials(), strict=True):
            assert numbers(trial) == numbers(other)
            assert episodes(resumed, trial.number) == episodes(uninterrupted, other.number)


def stored(url: str, name: str) -> dict[int, Any]:
    with load_study(name, url) as study:
        found = curves(study)
        return {trial.number: (*numbers(trial), found[trial.number]) for trial in study.all_trials()}


@pytest.mark.real
@pytest.mark.parametrize("executor", ["inline", pytest.param("population", marks=pytest.mark.slow)])
def test_killed_search_gives_the_results_of_an_uninterrupted_one(executor: str, tmp_path: Path) -> None:
    processes = []
    try:
        for name, variables, code in (
            ("whole", {}, 0),
            ("killed", {PAUSED_VARIABLE: "2"}, -signal.SIGKILL),
            ("killed", {}, 0),
        ):
            (tmp_path / name).mkdir(exist_ok=True)
            url = f"sqlite:///{tmp_path}/{name}/finder.db"
            processes.append(start(tmp_path / name, url, executor, name, "asha", **variables))
            assert processes[-1].wait() == code, (tmp_path / name / "output").read_text()
            wait_until_alone(processes[-1].pid)
            if code:
                with load_study(name, url) as study:
                    words = [state_word(trial) for trial in study.trials()]
                assert words.count("paused") >= 2
                assert "running" in words
    finally:
        for process in processes:
            end_session(process)
    whole, killed = (stored(f"sqlite:///{tmp_path}/{name}/finder.db", name) for name in ("whole", "killed"))
    assert {state for state, *_ in whole.values()} == {TrialState.COMPLETE, TrialState.PRUNED}
    assert killed == whole


@pytest.mark.slow
def test_proposed_trials_are_paused_too_and_the_sampler_learns_from_them(
    monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    seen: list[int] = []
    original = trial_sampler._as_pruned

    def as_pruned(trial: FrozenTrial) -> FrozenTrial:
        seen.append(trial.number)
        shown = original(trial)
        assert (shown.state, shown.value) == (TrialState.PRUNED, trial.intermediate_values[160])
        assert trial.state == TrialState.WAITING
        return shown

    monkeypatch.setattr(trial_sampler, "_as_pruned", as_pruned)
    result = tune(
        "ppo", ENV, {"learning_rate": "1e-5:1e-1:log"}, n_trials=6, seeds=1, env_steps=320, executor="inline",
        pruner="asha", pruner_kwargs={"min_resource": 160, "reduction_factor": 3}, confirm=0,
        sampler_kwargs={"n_startup_trials": 2}, fixed=SMALL_PPO, progress=False, storage=storage,
    )  # fmt: skip
    states = [trial.state for trial in result.study.trials()]
    assert len(states) == 6
    assert states.count(TrialState.COMPLETE) >= 1
    assert seen


def test_training_functions_are_refused_before_the_study_begins() -> None:
    with pytest.raises(ConfigurationError, match=r"'asha' pauses trials, and the training function 'train' cannot be"):
        tune(AgentSpec.of(trainings.train, ENV), ENV, {"learning_rate": "1e-3:1e-1"}, pruner="asha", env_steps=200)


# Recorders ------------------------------------------------------------------------------------------------------


def episode(number: int) -> EpisodeRecord:
    return EpisodeRecord(
        seed=0, episode=number, env_steps=160, episode_return=1.0, length=9, loss=0.1, wall_seconds=0.1
    )


def rung(recorder: Recorder, number: int, env_steps: int, value: float) -> Action:
    return recorder.decide(env_steps, {number: {0: value, 1: value}})[number]


def test_recorder_pauses_promotes_and_ends(storage: str) -> None:
    spec = make_spec(storage=storage, trials=tuple({"learning_rate": rate} for rate in RATES[:4]))
    with open_study(spec) as study, Recorder(study) as recorder:
        for value in (9.0, 1.0):
            asked = recorder.ask()
            assert asked is not None
            recorder.started(asked.number, {"agent": "ppo"})
            recorder.episodes(asked.number, [episode(0)])
            action = rung(recorder, asked.number, 160, value)
            assert action == Action.PAUSE  # the first one, and the worse one of two
            recorder.paused(asked.number, 160, {0: value, 1: value}, {"env_steps": 160})
        assert [state_word(trial) for trial in study.trials()] == ["paused", "paused"]
        assert not recorder.end_paused()  # two more are to be begun
        promoted = recorder.ask()
        assert promoted is not None
        assert (promoted.number, promoted.epoch, promoted.resumed, promoted.promoted_from) == (0, 2, True, 160)
        recorder.started(0, {"agent": "ppo"})
        assert rung(recorder, 0, 160, 9.0) == Action.CONTINUE  # it passes its rung again
        assert rung(recorder, 0, 320, 9.0) == Action.PAUSE
        recorder.paused(0, 320, {0: 9.0, 1: 9.0})
        third = recorder.ask()
        assert third is not None
        assert (third.number, third.promoted_from) == (2, None)
        assert rung(recorder, 2, 160, 10.0) == Action.PROMOTE
        assert study.trials()[2].user_attrs[PROMOTED_ATTR] == 160
        assert rung(recorder, 2, 320, 10.0) == Action.PROMOTE
        recorder.completed(2, 11.0, {0: 11.0, 1: 11.0})
        fourth = recorder.ask()
        assert fourth is not None
        assert rung(recorder, 3, 160, 0.0) == Action.PAUSE
        recorder.paused(3, 160, {0: 0.0, 1: 0.0})
        assert recorder.queue.n_left == 0
        assert recorder.ask() is None
        assert recorder.end_paused()
        assert not recorder.end_paused()
        assert [state_word(trial) for trial in study.trials()] == ["pruned", "pruned", "complete", "pruned"]
        assert [trial.value for trial in study.trials()] == [9.0, 1.0, 11.0, 0.0]
        assert [trial.user_attrs.get("pruned_at") for trial in study.trials()] == [320, 160, None, 160]


def test_divergences_among_paused_trials_do_not_stop_the_study(storage: str) -> None:
    pruner = {"min_resource": 160, "reduction_factor": 8}  # more than there are trials: none is promoted
    spec = make_spec(storage=storage, trials=tuple({"learning_rate": rate} for rate in RATES), pruner_kwargs=pruner)
    with open_study(spec) as study, Recorder(study) as recorder:
        for number in range(6):
            asked = recorder.ask()
            assert asked is not None
            if number % 2:
                recorder.failed(asked.number, "NaN", kind="diverged")
                continue
            assert rung(recorder, asked.number, 160, -float(number)) == Action.PAUSE
            recorder.paused(asked.number, 160, {0: 0.0, 1: 0.0})
        assert recorder.stop_reason is None


def test_divergences_count_for_the_share_that_is_promoted(storage: str) -> None:
    spec = make_spec(storage=storage, trials=tuple({"learning_rate": rate} for rate in RATES))
    with open_study(spec) as study, Recorder(study) as recorder:
        asked = [recorder.ask(), recorder.ask()]
        assert all(asked)
        assert rung(recorder, 0, 160, 1.0) == Action.PAUSE
        recorder.paused(0, 160, {0: 1.0, 1: 1.0})
        recorder.failed(1, "NaN", kind="diverged")  # the worse one of two
        promoted = recorder.ask()
        assert promoted is not None
        assert promoted.number == 0


def test_promoted_trial_knows_the_seconds_before_its_pause(storage: str) -> None:
    spec = make_spec(storage=storage, trials=tuple({"learning_rate": rate} for rate in RATES[:4]))
    with open_study(spec) as study, Recorder(study) as recorder:
        for value in (9.0, 1.0):
            asked = recorder.ask()
            assert asked is not None
            assert asked.wall_seconds == 0.0
            rung(recorder, asked.number, 160, value)
            recorder.paused(asked.number, 160, {0: value, 1: value}, {"wall_seconds": 2.5})
        assert recorder.queue.source.next_promotion == 160
        promoted = recorder.ask()
        assert promoted is not None
        assert (promoted.number, promoted.wall_seconds) == (0, 2.5)
        assert recorder.queue.source.next_promotion is None


@pytest.mark.real
def test_two_recorders_share_the_paused_trials(postgres: str) -> None:
    spec = make_spec(storage=postgres)
    with open_study(spec) as study, Recorder(study) as first:
        for value in (2.0, 1.0):
            asked = first.ask()
            assert asked is not None
            assert rung(first, asked.number, 160, value) == Action.PAUSE
            first.paused(asked.number, 160, {0: value, 1: value})
        with join_study("asha", postgres) as other, Recorder(other) as second:
            promoted = second.ask()
            assert promoted is not None
            assert (promoted.number, promoted.promoted_from) == (0, 160)
            begun = first.ask()
            assert begun is not None
            assert begun.number == 2, "the promoted trial is held by the other process"
            assert not first.end_paused(is_over=True)


@pytest.mark.slow
def test_another_pruner_resumes_paused_trials(storage: str) -> None:
    with open_study(make_spec(storage=storage)) as study, Recorder(study) as recorder:
        asked = recorder.ask()
        assert asked is not None
        assert rung(recorder, 0, 160, 1.0) == Action.PAUSE
        recorder.paused(0, 160, {0: 1.0, 1: 1.0})
    with open_study(make_spec(storage=storage, pruner="none", pruner_kwargs={})) as study, Recorder(study) as recorder:
        asked = recorder.ask()
        assert asked is not None
        assert asked.number == 0
        assert asked.promoted_from is None

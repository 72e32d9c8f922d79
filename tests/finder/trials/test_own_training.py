"""Tests of user-defined training functions, which are searched, evaluated, pruned and ended like agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trainings
from fakes import RecordingListener
from processes import running

import finder
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, NonFiniteError, RunEnded, TrainingRun
from agents.training.function_trainer import learner_of
from agents.training.run import Budget
from finder import LRFinder, OptFinder, ParallelFinder, tune
from finder.executors.choice import choose_executor
from finder.finders.declared_spaces import parse_spaces
from finder.trials.cohort import run_cohort
from finder.trials.trial import TrialSpec
from studies.errors import StudyError
from studies.study.study import load_study

CARTPOLE = EnvironmentSpec("CartPole-v1")
QUICK: dict[str, Any] = {"executor": "inline", "storage": None, "confirm": 0, "pruner": "none"}


def trial(function: Any, number: int = 0, seeds: tuple[int, ...] = (0,), **about: Any) -> TrialSpec:
    params = about.pop("params", {})
    budget = {"env_steps": 1_000, "report_marks": (250, 500, 750)} if "episodes" not in about else {}
    spec = AgentSpec.of(function, CARTPOLE, params)
    return TrialSpec(number=number, agent=spec, seeds=seeds, **{**budget, **about})


def run_trials(*trials: TrialSpec, prune_at: int | None = None) -> RecordingListener:
    listener = RecordingListener(prune_at)
    run_cohort(trials, listener)
    return listener


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("training of")]


def test_custom_metrics_of_a_training_function_reach_the_trial() -> None:
    result = tune(trainings.measured, "CartPole-v1", {"gain": [1.0, 3.0]}, env_steps=100, n_trials=2, seeds=1, **QUICK)
    assert list(result.table()["custom_metrics.height"]) == [2 * gain for gain in result.table()["gain"]]


class TestSearch:
    @pytest.mark.slow
    @pytest.mark.parametrize("executor", ["inline", "population", pytest.param("process", marks=pytest.mark.real)])
    def test_search_finds_the_best_rate(self, executor: str) -> None:
        space = {"learning_rate": "1e-4:1e-1:log"}
        options = {**QUICK, "executor": executor, "confirm": 1, "confirm_seeds": 2}
        result = tune(trainings.train, "CartPole-v1", space, env_steps=2_000, n_trials=30, seeds=2, **options)
        best = result.best
        # A random choice is this close in one of 15 cases; the worst of 30 has a value near 0.
        assert best.params["learning_rate"] == pytest.approx(trainings.BEST_RATE, rel=0.26)
        assert best.value > 85
        assert best.n_seeds == 2
        assert best.own_training
        table = result.table()
        assert table["learning_rate"][0] == 1e-4  # the defaults of the function come first
        assert table["value"].min() < 5
        assert not own_threads()

    def test_random_choice_rarely_finds_the_best_rate(self) -> None:
        values = [trainings.quality(10**exponent) for exponent in (-4, -3.5, -3, -2.5, -2, -1.5, -1)]
        assert sum(value > 0.85 for value in values) <= 1

    def test_learning_rates_are_pruned_by_the_race(self) -> None:
        result = LRFinder(trainings.train, "CartPole-v1").grid(
            1e-3, 1e-1, 9, env_steps=2_000, seeds=2, extend=False, **{**QUICK, "pruner": "race"}
        )
        assert result.best.params["learning_rate"] == pytest.approx(0.0178, rel=0.01)
        assert "PRUNED" in set(result.table()["state"])

    def test_declared_ranges_are_searched(self) -> None:
        result = tune(trainings.with_ranges, "CartPole-v1", env_steps=500, n_trials=12, seeds=1, **QUICK)
        tried = list(result.table()["rate"])
        assert tried[0] == 1e-2
        assert min(tried) >= 1e-3
        assert max(tried) <= 1e-1
        assert result.best.params["rate"] == pytest.approx(
            trainings.BEST_RATE, rel=0.5
        )  # although no loss was reported

    def test_parameters_of_any_name_and_type_are_searched(self) -> None:
        space = {"optimizer": "adam,mine", "gain": "1:2"}
        result = tune(
            trainings.counts,
            "CartPole-v1",
            space,
            env_steps=300,
            n_trials=8,
            seeds=1,
            fixed={"layers": [8, 8]},
            **QUICK,
        )
        assert result.best.params["optimizer"] == "mine"
        assert result.best.config["layers"] == [8, 8]
        assert result.best.config == {**result.best.config, **result.best.params}

    @pytest.mark.real
    def test_training_function_is_compared_with_an_agent(self, storage: str) -> None:
        agent = AgentSpec.of("ppo", CARTPOLE, {"n_envs": 2, "n_steps": 32, "n_epochs": 1, "jit_compile": False})
        own = AgentSpec.of(trainings.train, CARTPOLE, {"learning_rate": trainings.BEST_RATE})
        finder = ParallelFinder([agent, own])
        finder.find(env_steps=1_000, seeds=1, storage=storage)
        assert finder.logs["best_agent"] == "train"
        assert finder.logs["best_opt"] == ""
        assert len(finder.rewards["train"]) == 20

    def test_executor_of_a_training_function_uses_processes(self) -> None:
        from studies.spec.spec import StudySpec

        spec = StudySpec(
            name="s", kind="tune", agents=("train",), env="CartPole-v1", env_steps=100, seeds=(0,), n_trials=4,
            params={"width": "1:8"},
        )  # fmt: skip
        executor = choose_executor(spec, {"train": AgentSpec.of(trainings.train, CARTPOLE)})
        assert "process" in executor.description
        [note] = executor.notes
        assert note == (
            "train cannot be trained in a population (a process a trial instead): "
            "it is a training function, with a loop of its own."
        )


class TestRuns:
    def test_seeds_take_turns_and_report_at_equal_steps(self) -> None:
        recorded = run_trials(trial(trainings.train, seeds=(0, 1, 2), params={"learning_rate": 0.02}))
        assert recorded.outcomes[0].state == "complete"
        assert [at for at, _ in recorded.reports[0]] == [250, 500, 750, 1_000]
        assert {seed: len([r for r in recorded.records[0] if r.seed == seed]) for seed in (0, 1, 2)} == {
            0: 20,
            1: 20,
            2: 20,
        }
        assert recorded.records[0][0].env_steps == 50
        assert recorded.records[0][0].loss == pytest.approx(0.9)
        assert recorded.configurations[0]["config"] == {"learning_rate": 0.02, "width": 64}
        assert recorded.configurations[0]["own_training"]
        assert not own_threads()

    def test_run_depends_on_its_seed_and_not_on_parallel_runs(self) -> None:
        alone = run_trials(trial(trainings.by_global_generators, seeds=(1,)))
        again = run_trials(trial(trainings.by_global_generators, seeds=(1,)))
        beside = run_trials(
            trial(trainings.by_global_generators, seeds=(0, 1)), trial(trainings.by_global_generators, 1)
        )
        returns = [record.episode_return for record in alone.records[0]]
        assert len(set(returns)) == 100
        assert [record.episode_return for record in again.records[0]] == returns
        assert [record.episode_return for record in beside.records[0] if record.seed == 1] == returns
        assert [record.episode_return for record in beside.records[0] if record.seed == 0] != returns

    def test_global_random_generators_are_restored(self) -> None:
        import random

        import numpy as np

        before = (random.getstate(), np.random.get_state()[1].tolist())
        run_trials(trial(trainings.by_global_generators))
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before

    def test_training_function_ends_at_the_budget(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        recorded = run_trials(trial(trainings.tidy, seeds=(0, 1), params={"log": str(log)}))
        assert recorded.outcomes[0].state == "complete"
        assert recorded.outcomes[0].env_steps == 1_000
        assert log.read_text().splitlines() == ["1 0 RunEnded after 100", "1 1 RunEnded after 100"]

    def test_budget_in_episodes_is_exact(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        recorded = run_trials(trial(trainings.tidy, episodes=7, seeds=(0, 1), params={"log": str(log)}))
        assert recorded.outcomes[0].state == "complete"
        assert len(recorded.records[0]) == 14
        assert log.read_text().splitlines() == ["1 0 RunEnded after 7", "1 1 RunEnded after 7"]

    def test_pruned_training_function_runs_its_finally_block(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        recorded = run_trials(trial(trainings.tidy, seeds=(0, 1), params={"log": str(log)}), prune_at=500)
        assert recorded.outcomes[0].state == "pruned"
        assert recorded.outcomes[0].env_steps == 500
        assert sorted(log.read_text().splitlines()) == ["1 0 RunEnded after 50", "1 1 RunEnded after 50"]
        assert not own_threads()

    def test_function_that_returns_early_is_valued_by_its_reports(self) -> None:
        recorded = run_trials(trial(trainings.ends_early, seeds=(0, 1), params={"gain": 5.0}))
        assert recorded.outcomes[0].state == "complete"
        assert recorded.outcomes[0].value == 5.0 * 17.5  # of the last fifth of its 200 steps
        assert recorded.outcomes[0].env_steps == 200

    def test_function_that_never_reports_fails(self) -> None:
        outcome = run_trials(trial(trainings.silent)).outcomes[0]
        assert outcome.state == "failed"
        assert "so the trial has no value. silent must report each episode: run.report(" in outcome.reason

    def test_function_that_raises_fails_with_its_traceback(self) -> None:
        outcome = run_trials(trial(trainings.raises, seeds=(0, 1))).outcomes[0]
        assert outcome.state == "failed"
        assert outcome.failure == "error"
        assert outcome.reason == "RuntimeError: the arm fell off"
        assert "trainings.py" in outcome.traceback
        assert 'raise RuntimeError("the arm fell off")' in outcome.traceback

    def test_function_that_exits_fails_and_other_trials_continue(self) -> None:
        recorded = run_trials(trial(trainings.exits), trial(trainings.ends_early, 1))
        assert "SystemExit(3)" in recorded.outcomes[0].reason
        assert recorded.outcomes[1].state == "complete"

    def test_function_that_raises_in_its_cleanup_fails(self) -> None:
        recorded = run_trials(trial(trainings.untidy), trial(trainings.tidy, 1, params={"log": "/dev/null"}))
        assert (recorded.outcomes[0].state, recorded.outcomes[0].reason) == ("failed", "OSError: no space left")
        assert recorded.outcomes[1].state == "complete"

    @pytest.mark.parametrize("gain", [1.0, 2.0])
    def test_function_that_catches_its_divergence_fails(self, gain: float) -> None:
        outcome = run_trials(trial(trainings.nan, params={"gain": gain})).outcomes[0]
        assert outcome.state == "failed"
        assert outcome.failure == "diverged"
        assert outcome.reason.startswith("NonFiniteError: report(...) got episode_return=nan after 20 ")

    def test_hanging_function_is_ended(self, tmp_path: Path) -> None:
        mark = tmp_path / "ended"
        outcome = run_trials(trial(trainings.hangs, params={"mark": str(mark)}, hang_seconds=0.5)).outcomes[0]
        assert outcome.state == "failed"
        assert "Nothing came back for 0.5 s" in outcome.reason
        assert mark.exists()
        assert not own_threads()

    def test_waiting_callback_is_called_and_can_stop_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agents.training.function_trainer.LOOK_SECONDS", 0.05)
        mark = tmp_path / "ended"
        answers = iter([None, None, "interrupted"])
        spec = AgentSpec.of(trainings.hangs, CARTPOLE, {"mark": str(mark)})
        trainer = learner_of(spec, 0).trainer(waiting=lambda: next(answers))
        assert list(trainer.iterate(Budget(env_steps=100))) == [10]
        assert trainer.run.stop_reason == "interrupted"
        assert mark.exists()
        assert not own_threads()

    def test_closed_iterator_ends_the_run(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        trainer = learner_of(AgentSpec.of(trainings.tidy, CARTPOLE, {"log": str(log)}), 3).trainer()
        turns = trainer.iterate(Budget(env_steps=1_000))
        assert [next(turns), next(turns)] == [10, 20]
        assert own_threads()
        turns.close()
        assert log.read_text() == "1 3 RunEnded after 2\n"
        assert not own_threads()


class TestProcesses:
    @pytest.mark.real
    def test_killed_function_restarts_without_duplicate_episodes(self, tmp_path: Path, storage: str) -> None:
        params = {"mark": str(tmp_path / "died")}
        options = {**QUICK, "storage": storage, "executor": "process", "checkpoint_seconds": 0.01, "n_jobs": 1}
        result = tune(
            trainings.dies_once,
            "CartPole-v1",
            {"gain": "1:1.5"},
            env_steps=200,
            n_trials=1,
            seeds=2,
            params=params,
            **options,
        )
        assert (tmp_path / "died").exists()
        assert list(result.table()["state"]) == ["COMPLETE"]
        episodes = result.study.storage.episodes.curve(result.study.episodes_key, 0)
        recorded = sorted((each.seed, each.episode, each.episode_return) for each in episodes)
        assert recorded == [(seed, i, 1.0 + i) for seed in (0, 1) for i in range(20)]

    @pytest.mark.real
    def test_ctrl_c_ends_the_function_and_the_process(self, tmp_path: Path) -> None:
        script = (
            "import sys, finder, trainings\n"
            "finder.tune(trainings.hangs, 'CartPole-v1', {'gain': '1:2'}, fixed={'mark': sys.argv[1]}, env_steps=100,"
            " storage='sqlite:///finder.db', executor='inline', study_name='s')"
        )
        mark = tmp_path / "ended"
        path = os.pathsep.join([str(Path(trainings.__file__).parent), str(Path(finder.__file__).parents[1])])
        with running(
            [sys.executable, "-c", script, str(mark)],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            deadline = time.monotonic() + 90
            while not _has_episodes(tmp_path) and time.monotonic() < deadline:
                time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=600)
        assert "KeyboardInterrupt" in err
        assert mark.exists(), err
        with load_study("s", f"sqlite:///{tmp_path}/finder.db") as study:
            assert [each.state.name for each in study.all_trials()] == ["WAITING"]


def _has_episodes(folder: Path) -> bool:
    try:
        with load_study("s", f"sqlite:///{folder}/finder.db") as study:
            return bool(study.storage.episodes.curve(study.episodes_key, 0))
    except Exception:  # noqa: BLE001 - the study does not exist yet
        return False


class TestInvalidUse:
    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (trainings.no_default, "The parameter 'width' of the training function no_default has no default"),
            (trainings.misnamed, "The parameter 'structure' .* has a name that Finder reserves"),
            (trainings.begins_with_a_rate, "as the first argument, without a default, got 'learning_rate'"),
            (trainings.takes_no_run, "must take its run as the first argument: takes_no_run\\(run\\)"),
        ],
    )
    def test_invalid_signatures_are_refused(self, function: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            AgentSpec.of(function, CARTPOLE)

    def test_invalid_names_and_values_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"'learning_rat' of train\. Did you mean learn"):
            tune(trainings.train, "CartPole-v1", {"learning_rat": "1:2"}, **QUICK)
        with pytest.raises(ConfigurationError, match="width must be a whole number, got 'wide'"):
            AgentSpec.of(trainings.train, CARTPOLE, {"width": "wide"})
        with pytest.raises(ConfigurationError, match=r"train declares no ranges: .* learning_rate=low:high"):
            tune(trainings.train, "CartPole-v1", **QUICK)
        with pytest.raises(ConfigurationError, match="Unknown hyperparameter 'learning_rate' of with_ranges"):
            LRFinder(trainings.with_ranges, "CartPole-v1").grid(**QUICK)

    def test_features_that_need_an_agent_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="Make it a parameter"):
            OptFinder(trainings.train, environment="CartPole-v1")
        with pytest.raises(ConfigurationError, match="Train every rate by itself: grid"):
            LRFinder(trainings.train, "CartPole-v1").find(storage=None)
        with pytest.raises(ConfigurationError, match=r"the strategy mirrored:2 cannot be put on it"):
            tune(
                trainings.train,
                "CartPole-v1",
                {"width": "1:8"},
                **{**QUICK, "executor": "auto", "strategy": "mirrored"},
            )
        with pytest.raises(ConfigurationError, match="there is no agent to build"):
            AgentSpec.of(trainings.train, CARTPOLE).build()

    def test_learning_rate_is_searched_on_a_log_axis(self) -> None:
        spec = AgentSpec.of(trainings.train, CARTPOLE)
        assert str(parse_spaces(spec, {"learning_rate": "1e-4:1e-1"})["learning_rate"]).count("log=True") == 1

    def test_partial_function_is_a_training_function(self) -> None:
        spec = AgentSpec.of(partial(trainings.train, width=8), CARTPOLE)
        assert spec.label == "train"
        assert spec.config.to_dict() == {"learning_rate": 1e-4, "width": 8}


class TestTrainingRun:
    def test_training_run_works_outside_a_study(self) -> None:
        with TrainingRun("CartPole-v1", seed=4, env_steps=500) as run:
            trainings.train(run, learning_rate=0.02)
        assert len(run.history.returns) == 10
        assert run.environment.make().spec.id == "CartPole-v1"
        assert not issubclass(RunEnded, Exception)  # so that `except Exception` lets it through

    def test_reports_set_steps_and_lengths(self) -> None:
        run = TrainingRun("CartPole-v1", env_steps=100)
        run.report(1.0, length=8, env_steps=16)
        run.report(2.0, env_steps=20)
        run.report(3.0, 5)
        assert [(each.env_steps, each.length) for each in run.history.episodes] == [(16, 8), (20, 4), (25, 5)]
        with pytest.raises(RunEnded):
            run.report(4.0, env_steps=120)
        with pytest.raises(RunEnded):
            run.report(5.0, env_steps=130)
        assert len(run.history.returns) == 4

    @pytest.mark.parametrize("make", [np.int64, np.float32, np.array, float])
    def test_reports_may_have_numbers_of_other_libraries(self, make: Callable[[int], Any]) -> None:
        run = TrainingRun("CartPole-v1", env_steps=100)
        run.report(make(1), length=make(8), loss=make(2))
        (episode,) = run.history.episodes
        assert (episode.episode_return, episode.length, episode.env_steps, episode.loss) == (1.0, 8, 8, 2.0)
        assert type(episode.length) is type(episode.env_steps) is int

    @pytest.mark.parametrize(
        ("reported", "error", "message"),
        [
            ({"episode_return": 1.0}, ConfigurationError, "pass the episode's length, or env_steps"),
            ({"episode_return": 1.0, "env_steps": 5}, ConfigurationError, "env_steps=5 .* after env_steps=10"),
            ({"episode_return": 1.0, "length": -1}, ConfigurationError, "length=-1"),
            ({"episode_return": 1.0, "length": 10.5}, ConfigurationError, "length=10.5: give a whole number of steps"),
            ({"episode_return": 1.0, "length": "10"}, ConfigurationError, "length='10': give a number"),
            ({"episode_return": 1.0, "env_steps": 20.5}, ConfigurationError, "env_steps=20.5: give a whole number"),
            ({"episode_return": "3.0", "length": 1}, ConfigurationError, "episode_return='3.0': give a number"),
            ({"episode_return": None, "length": 1}, ConfigurationError, "episode_return=None: give a number"),
            ({"episode_return": 1.0, "length": 1, "loss": "0.1"}, ConfigurationError, "loss='0.1': give a number"),
            ({"episode_return": float("inf"), "length": 1}, NonFiniteError, "episode_return=inf after 11 "),
            ({"episode_return": 1.0, "length": 1, "loss": float("nan")}, NonFiniteError, "leave the loss out"),
        ],
    )
    def test_invalid_reports_are_refused(self, reported: dict[str, Any], error: type[Exception], message: str) -> None:
        run = TrainingRun("CartPole-v1", env_steps=100)
        run.report(1.0, length=10)
        with pytest.raises(error, match=message):
            run.report(**reported)
        with pytest.raises(RunEnded):
            run.report(1.0, length=10)


class TestCallbacks:
    def test_metrics_of_callbacks_are_recorded(self) -> None:
        result = tune(
            trainings.steady, "CartPole-v1", {"gain": [1.0]}, env_steps=100, n_trials=1, seeds=1,
            callbacks=[trainings.Doubles], **QUICK,
        )  # fmt: skip
        assert list(result.table()["custom_metrics.doubled"]) == [2.0]

    def test_callbacks_of_unsupported_events_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="Steps receives no on_step_end, only on_train_begin"):
            tune(trainings.steady, "CartPole-v1", {"gain": [1.0]}, env_steps=100, callbacks=[trainings.Steps], **QUICK)


def test_curriculum_fails_for_a_training_function() -> None:
    options = {**QUICK, "env_steps": 100, "n_trials": 1, "seeds": 1, "callbacks": [trainings.phases]}
    result = tune(trainings.steady, "CartPole-v1", {"gain": [1.0]}, **options)
    (trial,) = result.study.trials()
    assert "its environments belong to it, and their 'has_wrapper_attr' cannot be called" in trial.user_attrs["reason"]


def test_other_arguments_of_a_partial_function_are_refused_in_a_study(storage: str) -> None:
    options = {**QUICK, "storage": storage, "study_name": "a", "env_steps": 100, "n_trials": 1, "seeds": 1}
    space = {"gain": [1.0]}
    tune(partial(trainings.steady, width=1), "CartPole-v1", space, **options)
    with pytest.raises(StudyError, match="width"):
        tune(partial(trainings.steady, width=2), "CartPole-v1", space, **options)


def test_decorated_function_keeps_its_parameter_annotations() -> None:
    assert AgentSpec.of(trainings.decorated, CARTPOLE).config.describe()["gain"].search == (0.5, 2.0)

"""Tests of user-defined callbacks in the runs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

import agents
import finder
from agents import ConfigurationError
from agents.training.records import MetricSummary
from finder.long_run.recommendation import recommended_callbacks
from finder.trials.runs import _over_seeds
from studies.errors import StudyError
from studies.study.study import load_study

ENV = "CartPole-v1"
QUICK: dict[str, Any] = {"env_steps": 200, "seeds": 2, "fixed": SMALL_PPO, "confirm": 0}
PLACE = f"{Path(__file__)}:Lengths"


class Lengths(agents.Callback):
    """Adds a metric with a known value."""

    of_members = True

    def on_episode_end(self, trainer: agents.Trainer, episode: agents.Episode) -> None:
        episode.custom_metrics["twice"] = 2.0 * episode.length


class Raises(agents.Callback):
    """Raises an error."""

    def on_episode_end(self, trainer: agents.Trainer, episode: agents.Episode) -> None:
        raise RuntimeError("a fault of the callback's")


@pytest.mark.parametrize("executor", ["inline", "process", "population"])
@pytest.mark.parametrize("callback", [Lengths, PLACE])
@pytest.mark.slow
def test_custom_metrics_of_every_trial_reach_the_study(executor: str, callback: Any, storage: str):
    space = {"learning_rate": [1e-3, 1e-2]}
    result = finder.tune(
        "ppo", ENV, space, n_trials=2, callbacks=[callback], executor=executor, storage=storage, **QUICK
    )
    study = result.study
    for trial in study.trials():
        episodes = study.storage.episodes.curve(study.episodes_key, trial.number)
        last = [episode for episode in episodes if episode.env_steps > 0.8 * 200]
        by_seed = [[2 * each.length for each in last if each.seed == seed] for seed in {each.seed for each in last}]
        lengths = [length for own in by_seed for length in own]
        metric = trial.user_attrs["custom_metrics"]["twice"]
        assert metric["mean"] == pytest.approx(sum(sum(own) / len(own) for own in by_seed) / len(by_seed))
        assert (metric["min"], metric["max"], metric["n_episodes"]) == (min(lengths), max(lengths), len(lengths))
    assert list(result.table()["custom_metrics.twice"]) == [
        trial.user_attrs["custom_metrics"]["twice"]["mean"] for trial in result.study.trials()
    ]


def test_metrics_of_several_seeds_are_means_over_seeds_as_values_are() -> None:
    of_seeds = [MetricSummary(1.0, 0.0, 2.0, 30), MetricSummary(4.0, 3.0, 5.0, 10)]
    assert _over_seeds(of_seeds) == MetricSummary(2.5, 0.0, 5.0, 40)


class StopsAtSix(agents.Callback):
    """Counts episodes in its own state, and stops the run after the sixth."""

    def __init__(self) -> None:
        self.episodes = 0

    def on_episode_end(self, trainer: agents.Trainer, episode: agents.Episode) -> None:
        self.episodes += 1
        if self.episodes == 6:
            trainer.stop("six")


@pytest.mark.slow
def test_every_run_has_its_own_callbacks_in_all_executors():
    space = {"learning_rate": [1e-4, 1e-3, 1e-2]}
    seen = []
    for executor in ("population", "inline"):
        options = {**QUICK, "env_steps": 400, "executor": executor, "storage": None, "sampler": "grid"}
        result = finder.tune("ppo", ENV, space, callbacks=[StopsAtSix], **options)
        trials = result.study.trials()
        seen.append([(trial.params, trial.value, trial.user_attrs["env_steps"]) for trial in trials])
        curves = [result.study.storage.episodes.curve(result.study.episodes_key, trial.number) for trial in trials]
        assert [len([e for e in curve if e.seed == seed]) for curve in curves for seed in (0, 1)] == [6] * 6
    assert seen[0] == seen[1]


class RaisesForOne(agents.Callback):
    """Raises an error for one of the seeds."""

    of_members = True

    def on_episode_end(self, trainer: agents.Trainer, episode: agents.Episode) -> None:
        if trainer.runs[episode.member].seed == 1:
            raise RuntimeError("not this one")


@pytest.mark.slow
def test_callback_error_for_one_member_fails_only_that_member():
    space = {"learning_rate": [1e-4, 1e-3]}
    options = {**QUICK, "executor": "population", "storage": None, "seeds": [0, 2]}
    good = finder.tune("ppo", ENV, space, callbacks=[RaisesForOne], n_trials=2, **options)
    assert [trial.state.name for trial in good.study.trials()] == ["COMPLETE"] * 2
    options["seeds"] = [1]
    bad = finder.tune("ppo", ENV, space, callbacks=[RaisesForOne], n_trials=2, max_failures_in_a_row=9, **options)
    assert [trial.state.name for trial in bad.study.trials()] == ["FAIL"] * 2


def test_callback_without_a_name_is_refused():
    with pytest.raises(ConfigurationError, match="has no name that identifies it"):
        finder.tune("ppo", ENV, callbacks=[lambda: None], storage=None, **QUICK)


@pytest.mark.slow
def test_worker_needs_the_callbacks_of_a_script(storage: str):
    finder.tune(
        "ppo", ENV, {"learning_rate": [1e-3]}, n_trials=1, callbacks=[Lengths], study_name="a", storage=storage, **QUICK
    )
    with pytest.raises(ConfigurationError, match=r"runs have the callbacks .*Lengths: give 1 callbacks"):
        finder.work("a", storage, callbacks=[Lengths, Lengths])
    assert finder.work("a", storage, callbacks=[Lengths]).study.trials()


@pytest.mark.slow
def test_different_callbacks_are_refused_under_the_same_name(storage: str):
    space = {"learning_rate": [1e-3, 1e-2]}
    named: dict[str, Any] = {**QUICK, "study_name": "a", "storage": storage}
    finder.tune("ppo", ENV, space, n_trials=1, callbacks=[Lengths], **named)
    with pytest.raises(StudyError, match="callbacks"):
        finder.tune("ppo", ENV, space, n_trials=2, **named)


@pytest.mark.slow
def test_callback_that_raises_fails_its_trials(storage: str):
    space = {"learning_rate": [1e-3]}
    result = finder.tune("ppo", ENV, space, n_trials=1, callbacks=[Raises], executor="inline", storage=storage, **QUICK)
    (trial,) = result.study.trials()
    assert trial.state.name == "FAIL"
    assert "a fault of the callback's" in trial.user_attrs["reason"]


def test_unknown_callback_is_refused_before_anything_runs(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        finder.tune("ppo", ENV, callbacks=["nowhere:Class"], storage=f"sqlite:///{tmp_path}/a.db", **QUICK)
    assert not (tmp_path / "a.db").exists()


@pytest.mark.slow
def test_study_file_names_callbacks(tmp_path: Path):
    path = tmp_path / "study.toml"
    path.write_text(
        f'name = "a"\nstorage = "memory"\nagents = ["ppo"]\nenv = "{ENV}"\nenv_steps = 200\nseeds = 1\n'
        f'confirm = 0\nn_trials = 1\ncallbacks = ["{PLACE}"]\n[fixed]\nn_steps = 16\n[params]\ngamma = "0.9:0.99"\n'
    )
    result = finder.run_file(path)
    assert "twice" in result.study.trials()[0].user_attrs["custom_metrics"]
    path.write_text(path.read_text().replace(":Lengths", ":Widths"))
    with pytest.raises(StudyError, match="has nothing called 'Widths'"):
        finder.run_file(path)


@pytest.mark.slow
def test_pick_is_trained_with_the_callbacks_of_the_study(storage: str):
    for name, callback in (("found", PLACE), ("lost", Lengths)):
        finder.tune(
            "ppo", ENV, {"learning_rate": [1e-3]}, n_trials=1, callbacks=[callback], study_name=name,
            storage=storage, **QUICK,
        )  # fmt: skip
    with load_study("found", storage) as study:
        assert recommended_callbacks(study) == (PLACE,)
        with pytest.raises(ConfigurationError, match=r"had 1 callbacks .*: give all of them again"):
            recommended_callbacks(study, [])
    with load_study("lost", storage) as study:
        assert recommended_callbacks(study, [PLACE]) == [PLACE]

"""Proposals are a function of the seed and the trial number, however often a study is resumed or killed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import optuna
import pytest
from death import simulate_crash
from optuna.distributions import FloatDistribution
from optuna.samplers import NSGAIISampler, TPESampler
from optuna.samplers._tpe.sampler import _split_trials
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sampler_packages import runnable, skip_without_package

from studies.adapters.prior_trials import prior_trials
from studies.adapters.trial_sampler import TrialSampler
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.spec.warm_start import PriorTrial, WarmStart
from studies.storage.storage import StudyStorage

Make = Callable[..., StudySpec]
SPACE = {"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.99", "gae_lambda": "0.8:1.0"}


def run(make_spec: Make, storage: StudyStorage, name: str, sampler: str, sessions: list[int]) -> list[dict[str, Any]]:
    """Return the parameters proposed by sessions up to these numbers of trials; the rate of a trial is its value."""
    for total in sessions:
        spec = make_spec(name=name, params=SPACE, n_trials=total, sampler=sampler, seed=7)
        with open_study(spec, storage) as study, Recorder(study) as recorder:
            while (ask := recorder.ask()) is not None:
                rate = ask.params["learning_rate"]
                assert isinstance(rate, float)
                recorder.completed(ask.number, rate)
    with open_study(spec, storage) as study:
        return [study.params(trial) for trial in study.trials()]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe", "qmc", "nsgaii"])
def test_resumed_study_proposes_the_same_parameters_as_an_uninterrupted_one(
    sampler: str, storage: StudyStorage, make_spec: Make
) -> None:
    whole = run(make_spec, storage, "whole", sampler, [14])
    parts = run(make_spec, storage, "parts", sampler, [1, 2, 9, 14])
    assert parts == whole
    assert len({params["learning_rate"] for params in whole}) == 14


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe"])
@pytest.mark.parametrize("n_set", [1, 2])
def test_crash_between_two_parameters_changes_no_proposal(
    sampler: str, n_set: int, storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(make_spec, storage, "whole", sampler, [14])
    run(make_spec, storage, "killed", sampler, [12])
    suggest, names = Trial._suggest, list[str]()

    def killed(self: Trial, name: str, distribution: Any) -> Any:
        if len(names) == n_set:
            raise KeyboardInterrupt
        names.append(name)
        return suggest(self, name, distribution)

    monkeypatch.setattr(Trial, "_suggest", killed)
    spec = make_spec(name="killed", params=SPACE, n_trials=14, sampler=sampler, seed=7)
    with open_study(spec, storage) as study:
        with pytest.raises(KeyboardInterrupt):
            Recorder(study).ask()
        monkeypatch.undo()
        assert len(study.trials()[12].params) == n_set
        simulate_crash(study)
    assert run(make_spec, storage, "killed", sampler, [14]) == whole


CLIFF = 10**-2.5
"""Learning rate above which training diverges, a decade above the best one."""


def outcomes(make_spec: Make, storage: StudyStorage, n_trials: int, **settings: Any) -> list[bool]:
    """Return whether each trial of a study diverged; the best learning rate is a decade below the cliff."""
    skip_without_package(settings["sampler"])
    spec = make_spec(params=SPACE, n_trials=n_trials, max_failures_in_a_row=n_trials, **settings)
    diverged = []
    with open_study(spec, storage) as study, Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            rate = ask.params["learning_rate"]
            assert isinstance(rate, float)
            diverged.append(rate > CLIFF)
            if diverged[-1]:
                recorder.failed(ask.number, "the loss is NaN", kind="diverged")
            else:
                recorder.completed(ask.number, -abs(math.log10(rate / CLIFF) + 1))
    return diverged


@pytest.mark.parametrize("sampler", ["tpe", *runnable(["gp"])])
@pytest.mark.parametrize("seed", range(3))
def test_sampler_learns_where_training_diverges(
    sampler: str, seed: int, storage: StudyStorage, make_spec: Make
) -> None:
    diverged = outcomes(make_spec, storage, 30, sampler=sampler, seed=seed)
    assert any(diverged[:10])
    assert sum(diverged[-10:]) <= 4


@pytest.mark.parametrize("sampler", ["random", "qmc", "nsgaii", "nsgaiii", *runnable(["cmaes"])])
def test_other_samplers_work_where_many_trials_diverge(sampler: str, storage: StudyStorage, make_spec: Make) -> None:
    assert len(outcomes(make_spec, storage, 12, sampler=sampler)) == 12


def view(
    trials: list[FrozenTrial], make: type[TPESampler | NSGAIISampler], directions: list[str], prior: Any = ()
) -> Any:
    """Return the view that a sampler has of a study with these trials."""
    study = optuna.create_study(directions=directions)
    study.add_trials(trials)
    return TrialSampler(lambda seed: make(seed=seed), 0, prior)._view(study)


def diverged(rate: float) -> FrozenTrial:
    return trial_of(rate, state=TrialState.FAIL, user_attrs={"failure": "diverged"}, intermediate_values={5: 9.0})


def trial_of(rate: float, **given: Any) -> FrozenTrial:
    return create_trial(params={"rate": rate}, distributions={"rate": FloatDistribution(0, 1)}, **given)


def test_tpe_ranks_diverged_trials_behind_pruned_ones() -> None:
    pruned = trial_of(0.1, state=TrialState.PRUNED, intermediate_values={10: 1.0})
    failed = trial_of(0.3, state=TrialState.FAIL, user_attrs={"failure": "environment"})
    seen = view([diverged(0.9), pruned, failed], TPESampler, ["maximize"])
    shown = seen._get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    assert [(trial.params["rate"], trial.intermediate_values) for trial in shown] == [(0.9, {}), (0.1, {10: 1.0})]
    below, above = _split_trials(seen, shown, 1)
    assert [trial.params["rate"] for trial in (*below, *above)] == [0.1, 0.9]


@pytest.mark.parametrize(("direction", "worst"), [("maximize", -3.0), ("minimize", 8.0)])
def test_diverged_trials_have_the_worst_value_for_samplers_that_see_complete_ones_only(
    direction: str, worst: float
) -> None:
    trials = [trial_of(0.1, value=8.0), diverged(0.9), trial_of(0.2, value=2.0)]
    seen = view(trials, NSGAIISampler, [direction], prior=[trial_of(0.5, value=-3.0)])
    complete = seen._get_trials(states=(TrialState.COMPLETE,))
    assert [trial.value for trial in complete] == [-3.0, 8.0, worst, 2.0]


def test_diverged_trials_are_worst_in_every_objective() -> None:
    trials = [trial_of(0.1, values=(8.0, 1.0)), diverged(0.9), trial_of(0.2, values=(2.0, 5.0))]
    for sampler in (TPESampler, NSGAIISampler):
        seen = view(trials, sampler, ["maximize", "minimize"])
        assert seen._get_trials()[1].values == [2.0, 5.0]


def test_diverged_trials_alone_say_nothing() -> None:
    for sampler in (TPESampler, NSGAIISampler):
        assert [trial.state for trial in view([diverged(0.9)], sampler, ["maximize"])._get_trials()] == [
            TrialState.FAIL
        ]


def test_diverged_trials_of_a_warm_start_are_seen(make_spec: Make) -> None:
    prior = [
        PriorTrial(params={"learning_rate": 0.05}, value=None),
        PriorTrial(params={"learning_rate": 1e-3}, value=7.0),
    ]
    warm_start = WarmStart(study="before", storage="memory", note="", trials=prior)
    spec = make_spec(params={"learning_rate": "1e-5:1e-1:log"}, warm_start=warm_start)
    shown = view([], NSGAIISampler, ["maximize"], prior_trials(spec))._get_trials(states=(TrialState.COMPLETE,))
    assert [(trial.params["learning_rate"], trial.value) for trial in shown] == [(0.05, 7.0), (1e-3, 7.0)]

"""Proposals are a function of the seed and the trial number, however often a study is resumed or killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from death import simulate_crash
from optuna.trial import Trial

from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
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

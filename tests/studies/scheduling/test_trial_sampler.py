from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from death import die
from optuna.trial import Trial

from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage

Make = Callable[..., StudySpec]
SPACE = {"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.99", "gae_lambda": "0.8:1.0"}


def run(make_spec: Make, storage: StudyStorage, name: str, sampler: str, sessions: list[int]) -> list[dict[str, Any]]:
    """What is proposed, by sessions that end after so many trials in all; a trial's value follows from its rate."""
    for total in sessions:
        spec = make_spec(name=name, params=SPACE, n_trials=total, sampler=sampler, seed=7)
        with open_study(spec, storage) as study, Recorder(study) as recorder:
            while (ask := recorder.ask()) is not None:
                rate = ask.params["learning_rate"]
                assert isinstance(rate, float)
                recorder.completed(ask.number, rate)
    with open_study(spec, storage) as study:
        return [study.params(trial) for trial in study.trials()]


@pytest.mark.parametrize("sampler", ["random", "tpe", "qmc", "nsgaii"])
def test_a_study_that_goes_on_proposes_what_it_would_have_proposed(
    sampler: str, storage: StudyStorage, make_spec: Make
) -> None:
    whole = run(make_spec, storage, "whole", sampler, [14])
    parts = run(make_spec, storage, "parts", sampler, [1, 2, 9, 14])
    assert parts == whole
    assert len({params["learning_rate"] for params in whole}) == 14


@pytest.mark.parametrize("sampler", ["random", "tpe"])
@pytest.mark.parametrize("n_set", [1, 2])
def test_a_process_that_dies_between_two_parameters_changes_none_of_them(
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
        die(study)
    assert run(make_spec, storage, "killed", sampler, [14]) == whole

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from studies.opening import open_study
from studies.recorder import Recorder
from studies.spec import StudySpec
from studies.storage import StudyStorage

Make = Callable[..., StudySpec]
SPACE = {"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.99"}


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

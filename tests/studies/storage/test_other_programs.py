"""Trials of other Optuna programs in a study: they are not touched, and a warning names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from studies.adapters.trial_sampler import TrialSampler
from studies.analysis.listing import list_studies
from studies.analysis.recommendation import best
from studies.analysis.status import study_status
from studies.coordination.lease_manager import PLANNING
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.schedulers.scheduler import Action
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]
ROWS = [{"learning_rate": 1e-3}, {"learning_rate": 1e-2}]
RATE = FloatDistribution(1e-5, 1e-1, log=True)


def opened_by_another_program(study: OpenStudy) -> optuna.Study:
    return optuna.load_study(study_name=study.name, storage=study.storage.optuna)


class TestEveryStorage:
    def test_trial_run_by_another_program_is_not_touched(
        self, storage: StudyStorage, make_spec: Make, caplog: pytest.LogCaptureFixture
    ) -> None:
        study = open_study(make_spec(n_trials=1, confirm=0), storage)
        foreign = opened_by_another_program(study)
        trial = foreign.ask({"learning_rate": RATE})
        with Recorder(study) as recorder:
            ask = recorder.ask()
            assert ask is not None
            assert ask.number != trial.number
            assert foreign.get_trials()[trial.number].state == TrialState.RUNNING
            recorder.completed(ask.number, 2.0)
            assert recorder.ask() is None
            assert recorder.n_elsewhere == 0
        assert study_status(study).all_ended, "a trial of another program must not count as running"
        assert caplog.text.count(f"Trial {trial.number} is left alone: another Optuna program runs it.") == 1
        foreign.tell(trial, 5.0)
        assert foreign.get_trials()[trial.number].value == 5.0

    def test_queued_trial_taken_by_another_program_belongs_to_it(self, storage: StudyStorage, make_spec: Make) -> None:
        spec = make_spec(n_trials=1)
        with open_study(spec, storage) as study, Recorder(study) as recorder:
            recorder.ask()
        foreign = opened_by_another_program(study)
        assert foreign.ask().number == 0
        with open_study(spec, storage) as study, Recorder(study) as recorder:
            ask = recorder.ask()
            assert ask is not None
            assert ask.number == 1
            foreign.tell(0, 5.0)
        assert study.all_trials()[0].value == 5.0

    def test_trial_with_an_unknown_parameter_is_not_a_candidate(
        self, storage: StudyStorage, make_spec: Make, caplog: pytest.LogCaptureFixture
    ) -> None:
        study = open_study(
            make_spec(params={}, trials=[{"learning_rate": 1e-3}, {"learning_rate": 1e-2}], confirm=1), storage
        )
        foreign = opened_by_another_program(study)
        foreign.tell(foreign.ask({"momentum": FloatDistribution(0.0, 1.0)}), 1e9)
        with Recorder(study) as recorder:
            asks = [ask for _ in range(2) if (ask := recorder.ask()) is not None]
            for value, ask in enumerate(asks, start=1):
                recorder.completed(ask.number, value, dict.fromkeys(ask.seeds, value))
            confirmation = recorder.ask_confirmation()
            assert confirmation is not None
            assert confirmation.confirms == asks[1].number
            assert confirmation.params == asks[1].params
            recorder.completed(confirmation.number, 2.0, dict.fromkeys(confirmation.seeds, 2.0))
            assert len(recorder.to_confirm()) == 0
        assert [trial.number for trial in study.trials()] == [ask.number for ask in asks]
        assert list_studies(storage)[0].best_value == 2.0
        message = "it has the parameter momentum, which is not searched here (searched: learning_rate)"
        assert caplog.text.count(message) == 1


@pytest.mark.parametrize(
    ("value", "params", "reason"),
    [
        (float("inf"), {"learning_rate": 1e-3}, "its value is not a finite number"),
        (1e9, {}, "it has none of the parameters that are searched here (learning_rate)"),
    ],
)
def test_complete_trial_that_says_nothing_is_left_alone(
    make_spec: Make, caplog: pytest.LogCaptureFixture, value: float, params: dict[str, float], reason: str
) -> None:
    study = open_study(make_spec(n_trials=3))
    distributions = dict.fromkeys(params, RATE)
    added = optuna.trial.create_trial(value=value, params=params, distributions=distributions)
    opened_by_another_program(study).add_trial(added)
    with Recorder(study) as recorder:
        for each in (1.0, 3.0, 2.0):
            recorder.completed(recorder.ask().number, each)  # type: ignore[union-attr]
    assert best(study).value == 3.0
    assert [trial.number for trial in study.trials()] == [1, 2, 3]
    assert f"Trial 0 is left alone: {reason}." in caplog.text


def test_trials_of_other_programs_prune_nothing(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(n_trials=4, pruner="keep-top", pruner_kwargs={"at": 300, "keep": 2}), storage)
    momentum = {"momentum": FloatDistribution(0.0, 1.0)}
    for _ in range(2):
        added = optuna.trial.create_trial(
            value=1e6, params={"momentum": 0.5}, distributions=momentum, intermediate_values={300: 1e6}
        )
        opened_by_another_program(study).add_trial(added)
    with Recorder(study) as recorder:
        asks = [recorder.ask() for _ in range(4)]
        decided = recorder.decide(300, {ask.number: {0: float(i)} for i, ask in enumerate(asks) if ask is not None})
    assert decided == {2: Action.STOP, 3: Action.STOP, 4: Action.CONTINUE, 5: Action.CONTINUE}


def test_sampler_runs_without_the_planning_lease(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study(make_spec(n_trials=2, sampler="tpe"), storage)
    held: list[set[int]] = []
    sample = TrialSampler.sample_independent

    def record_leases(self: TrialSampler, *arguments: Any) -> Any:
        held.append(set(storage.leases.held(study.episodes_key)))
        return sample(self, *arguments)

    monkeypatch.setattr(TrialSampler, "sample_independent", record_leases)
    with Recorder(study) as recorder:
        for number in range(2):
            ask = recorder.ask()
            assert ask is not None
            assert 1e-5 <= ask.params["learning_rate"] <= 1e-1  # type: ignore[operator]
            assert held[-1] >= {number}
    assert len(held) == 2
    assert not any(PLANNING in each for each in held)

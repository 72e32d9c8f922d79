"""QuickStorage reads the same trials as the RDBStorage of Optuna."""

from __future__ import annotations

import math
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from studies.storage.quick_storage import QuickStorage

SPACES = {
    "rate": FloatDistribution(1e-5, 1e-1, log=True),
    "layers": IntDistribution(1, 4),
    "optimizer": CategoricalDistribution(["adam", None, True]),
}


def trials() -> list[FrozenTrial]:
    params = {"rate": 1e-3, "layers": 2, "optimizer": None}
    made = [
        create_trial(params=params, distributions=SPACES, value=3.0, intermediate_values={10: 1.0, 5: math.inf}),
        create_trial(state=TrialState.PRUNED, params=params, distributions=SPACES, intermediate_values={1: -math.inf}),
        create_trial(state=TrialState.FAIL, user_attrs={"reason": "ü", "deep": {"a": [1, None]}}),
        create_trial(state=TrialState.WAITING, system_attrs={"fixed_params": {"rate": 0.01}}),
        create_trial(state=TrialState.RUNNING, params={"layers": 4}, distributions={"layers": SPACES["layers"]}),
    ]
    made[1].intermediate_values[2] = math.nan
    return made


def canonical(trial: FrozenTrial) -> str:
    """Return all fields of a trial as text, with sorted attributes."""
    return repr({name: sorted(each.items()) if isinstance(each, dict) else each for name, each in vars(trial).items()})


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def test_trials_equal_those_of_rdb_storage(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else request.getfixturevalue("postgres")
    quick, reference = QuickStorage(url), RDBStorage(url)
    study = optuna.create_study(storage=quick, study_name="quick")
    other = optuna.create_study(storage=quick, study_name="another")
    try:
        study.add_trials(trials())
        other.add_trials(trials()[:1])
        study.add_trials(trials()[:1])
        infinite = quick.create_new_trial(study._study_id)
        quick.set_trial_state_values(infinite, TrialState.COMPLETE, [-math.inf])
        ids = [trial._trial_id for trial in reference.get_all_trials(study._study_id)]
        for states in (None, (TrialState.RUNNING, TrialState.FAIL), ()):
            for named, after in ((set(), -1), ({ids[0], ids[3]}, ids[4]), (set(), ids[2]), (set(ids), ids[-1])):
                wanted = reference._get_trials(study._study_id, states, named, after)
                found = quick._get_trials(study._study_id, states, named, after)
                assert [canonical(each) for each in found] == [canonical(each) for each in wanted]
        for trial_id in ids:
            assert canonical(quick.get_trial(trial_id)) == canonical(reference.get_trial(trial_id))
        with pytest.raises(KeyError):
            quick.get_trial(10**6)
        with pytest.raises(KeyError):
            quick._get_trials(10**6, None, set(), -1)
    finally:
        for made in (study, other):
            quick.delete_study(made._study_id)
        quick.engine.dispose()
        reference.engine.dispose()


@pytest.mark.slow
def test_more_trial_ids_than_fit_in_a_query(tmp_path: Path) -> None:
    storage = QuickStorage(f"sqlite:///{tmp_path}/s.db")
    study = optuna.create_study(storage=storage)
    study.add_trials([create_trial(value=float(number)) for number in range(600)])
    ids = [trial._trial_id for trial in storage.get_all_trials(study._study_id)]
    found = storage._get_trials(study._study_id, None, set(ids[:550]), ids[580])
    assert [trial.number for trial in found] == [*range(550), *range(581, 600)]

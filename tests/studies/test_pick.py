from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from studies.errors import StudyError
from studies.pick import best, best_optimizer
from studies.recorder import Recorder
from studies.spec import StudySpec
from studies.storage import StudyStorage
from studies.study import OpenStudy, open_study

Make = Callable[..., StudySpec]


def record(study: OpenStudy, values: Sequence[Sequence[float]], **configuration: Any) -> OpenStudy:
    with Recorder(study) as recorder:
        for seeds in values:
            ask = recorder.ask()
            assert ask is not None
            recorder.started(ask.number, {"agent": "ppo", "config": {"gamma": 0.9}, "env": "E-v0", **configuration})
            recorder.completed(ask.number, sum(seeds) / len(seeds), dict(enumerate(seeds)))
    return study


def test_the_best_mean_is_picked_in_its_direction(storage: StudyStorage, make_spec: Make) -> None:
    values = [(1.0, 3.0), (5.0, 7.0), (4.0, 4.0)]
    pick = best(record(open_study(make_spec(name="up"), storage), values))
    assert (pick.trial, pick.value, pick.n_seeds, pick.seed_values) == (1, 6.0, 2, {0: 5.0, 1: 7.0})
    assert pick.spread == math.sqrt(2.0)
    assert best(record(open_study(make_spec(name="down", metric="loss"), storage), values)).trial == 0


def test_equal_means_go_to_the_lower_spread_then_to_the_earlier_trial(storage: StudyStorage, make_spec: Make) -> None:
    study = record(open_study(make_spec(), storage), [(1.0, 9.0), (4.0, 6.0), (6.0, 4.0), (4.9, 4.9)])
    assert best(study).trial == 1


def test_pruned_and_failed_trials_are_never_picked(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.pruned(recorder.ask().number, 100, 99.0)  # type: ignore[union-attr]
        recorder.failed(recorder.ask().number, "it diverged")  # type: ignore[union-attr]
        with pytest.raises(StudyError, match=r"1 pruned, 1 failed.*it diverged"):
            best(study)
        recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
    assert best(study).trial == 2


def test_a_pick_is_json(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(params={"net": [[64], [32, 32]]})
    pick = best(record(open_study(spec, storage), [(2.0,)], env_kwargs={"g": 1}, optimizers={"default": {"x": 1}}))
    data = json.loads(json.dumps(pick.to_json(), allow_nan=False))
    assert data["spread"] is None  # one seed has no spread
    assert data["seed_values"] == {"0": 2.0}
    assert data["params"]["net"] in ([64], [32, 32])
    assert (data["agent"], data["env"], data["env_kwargs"]) == ("ppo", "E-v0", {"g": 1})
    assert (data["config"], data["optimizers"]) == ({"gamma": 0.9}, {"default": {"x": 1}})
    assert (data["study"], data["trial"], data["value"], data["n_seeds"]) == ("a study", 0, 2.0, 1)


def test_a_trial_without_a_configuration_is_still_a_pick(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.completed(recorder.ask().number, 3.0)  # type: ignore[union-attr]
    pick = best(study)
    assert (pick.agent, pick.env, pick.value, pick.n_seeds, pick.configuration) == ("ppo", "CartPole-v1", 3.0, 1, {})


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")  # importing Keras's backend warns of its own affairs
def test_the_optimizer_of_the_pick_is_fresh_and_has_its_learning_rate(storage: StudyStorage, make_spec: Make) -> None:
    keras = pytest.importorskip("keras")
    serialized = {
        "default": keras.optimizers.serialize(keras.optimizers.AdamW(0.0123, weight_decay=0.02)),
        "critic": keras.optimizers.serialize(keras.optimizers.SGD(0.5, momentum=0.9)),
        "actor": keras.optimizers.serialize(keras.optimizers.Lamb(0.25)),  # keras.optimizers.deserialize gives a text
    }
    record(open_study(make_spec(), storage), [(1.0,)], optimizers=serialized)
    optimizer = best_optimizer("a study", storage)
    assert type(optimizer).__name__ == "AdamW"
    assert float(optimizer.learning_rate) == pytest.approx(0.0123)
    assert optimizer.weight_decay == 0.02
    assert not optimizer.built
    assert optimizer is not best_optimizer("a study", storage)
    assert best_optimizer("a study", storage, "critic").momentum == 0.9
    assert float(best_optimizer("a study", storage, "actor").learning_rate) == 0.25
    with pytest.raises(StudyError, match=r"'critci'.*'critic'"):
        best_optimizer("a study", storage, "critci")
    with pytest.raises(StudyError, match="'a stuyd'"):
        best_optimizer("a stuyd", storage)

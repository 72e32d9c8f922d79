"""The recommendation of a study: best trial, refusals, range tests, and the optimizer of the pick."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from studies.analysis.recommendation import best, best_optimizer
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.judging.missing_pick import why_no_pick
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.study import OpenStudy

Make = Callable[..., StudySpec]


def record(study: OpenStudy, values: Sequence[Sequence[float]], **configuration: Any) -> OpenStudy:
    with Recorder(study) as recorder:
        for seeds in values:
            ask = recorder.ask()
            assert ask is not None
            recorder.started(ask.number, {"agent": "ppo", "config": {"gamma": 0.9}, "env": "E-v0", **configuration})
            recorder.completed(ask.number, sum(seeds) / len(seeds), dict(enumerate(seeds)))
    return study


def test_best_picks_the_best_value_in_the_direction_of_the_metric(storage: StudyStorage, make_spec: Make) -> None:
    values = [(1.0, 3.0), (25.0, 27.0), (14.0, 14.0)]
    pick = best(record(open_study(make_spec(name="up"), storage), values))
    assert (pick.trial, pick.value, pick.n_seeds, pick.seed_values) == (1, 26.0, 2, {0: 25.0, 1: 27.0})
    assert pick.spread == math.sqrt(2.0)
    assert best(record(open_study(make_spec(name="down", metric="loss"), storage), values)).trial == 0


def test_equal_values_pick_the_lower_spread_then_the_earlier_trial(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(params={"gamma": "0.9:0.99"})
    study = record(open_study(spec, storage), [(1.0, 9.0), (4.0, 6.0), (6.0, 4.0), (4.9, 4.9)])
    assert best(study).trial == 1


def test_last_failure_has_its_place(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n  File "{}", line 7, in g\n'
    with Recorder(study) as recorder:
        recorder.failed(recorder.ask().number, "KeyError: 'x'", traceback.format("agent.py"))  # type: ignore[union-attr]
        with pytest.raises(StudyError, match=r"The last failure: KeyError: 'x' \(agent\.py, line 7, trial #0\)\. Mend"):
            best(study)
        recorder.failed(recorder.ask().number, "KeyError: 'x'", traceback.format("<dynamic-code>"))  # type: ignore[union-attr]
        with pytest.raises(StudyError, match=r"\(line 7 of the script, trial #1\)\. Mend"):
            best(study)


def test_pruned_and_failed_trials_are_not_picked(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.pruned(recorder.ask().number, 100, 99.0)  # type: ignore[union-attr]
        recorder.failed(recorder.ask().number, "it diverged.")  # type: ignore[union-attr]
        recorder.interrupted(recorder.ask().number)  # type: ignore[union-attr]
        with pytest.raises(
            StudyError, match=r"\(1 pruned, 1 failed, 1 interrupted\)\. The last failure: it diverged\. Mend"
        ):
            best(study)
        recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
    assert best(study).trial == 2  # the interrupted and resumed trial


def test_pick_is_json(storage: StudyStorage, make_spec: Make) -> None:
    spec = make_spec(params={"net": [[64], [32, 32]]})
    pick = best(record(open_study(spec, storage), [(2.0,)], env_kwargs={"g": 1}, optimizers={"default": {"x": 1}}))
    data = json.loads(json.dumps(pick.to_json(), allow_nan=False))
    assert data["spread"] is None  # one seed has no spread
    assert data["seed_values"] == {"0": 2.0}
    assert data["params"]["net"] in ([64], [32, 32])
    assert (data["agent"], data["env"], data["env_kwargs"]) == ("ppo", "E-v0", {"g": 1})
    assert (data["config"], data["optimizers"]) == ({"gamma": 0.9}, {"default": {"x": 1}})
    assert (data["study"], data["trial"], data["value"], data["n_seeds"]) == ("a study", 0, 2.0, 1)


def test_trial_without_configuration_can_be_picked(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    with Recorder(study) as recorder:
        recorder.completed(recorder.ask().number, 3.0)  # type: ignore[union-attr]
    pick = best(study)
    assert (pick.agent, pick.env, pick.value, pick.n_seeds, pick.configuration) == ("ppo", "CartPole-v1", 3.0, 1, {})


def test_pick_json_has_every_setting_once(storage: StudyStorage, make_spec: Make) -> None:
    settings = {"optimizers": {"default": {"x": 1}}, "seeds": [0], "versions": {"keras": "3"}, "env_steps": 1000}
    data = best(record(open_study(make_spec(), storage), [(2.0,)], **settings)).to_json()
    assert "configuration" not in data
    assert (data["seeds"], data["versions"], data["env_steps"]) == ([0], {"keras": "3"}, 1000)
    assert json.dumps(data).count('"x"') == json.dumps(data).count('"gamma"') == 1
    assert (data["kind"], data["metric"]) == ("tune", "return")


def test_pick_repr_is_one_line(storage: StudyStorage, make_spec: Make) -> None:
    several = record(open_study(make_spec(trials=[{"learning_rate": 1e-3}], params={}), storage), [(482.6, 504.7)])
    estimate = "return 494 ± 16 over 2 seeds; expected 350 to 630 (95%)"
    assert repr(best(several)) == f"learning_rate 1e-3: {estimate} (trial #0 of a study)"
    one = record(open_study(make_spec(name="one", trials=[{"learning_rate": 1.0}], params={}), storage), [(21.56,)])
    assert str(best(one)) == "learning_rate 1: return 21.56 over 1 seed (trial #0 of one)"


class TestNoPick:
    """Studies whose values do not depend on the searched parameters give no pick."""

    def trials(
        self, study: OpenStudy, curves: Sequence[Sequence[float]], losses: Sequence[float | None], value: float = 2.0
    ) -> OpenStudy:
        """Record trials with these returns and losses of episodes, all with the same value."""
        with Recorder(study) as recorder:
            for returns, loss in zip(curves, losses, strict=True):
                ask = recorder.ask()
                assert ask is not None
                records = [
                    EpisodeRecord(
                        seed=0, episode=n, env_steps=10 * n + 10, episode_return=each, length=10, loss=loss,
                        wall_seconds=0.0,
                    )
                    for n, each in enumerate(returns)
                ]  # fmt: skip
                recorder.episodes(ask.number, records)
                recorder.completed(ask.number, value, {0: value})
        return study

    def test_identical_trials_raise(self, storage: StudyStorage, make_spec: Make) -> None:
        study = self.trials(open_study(make_spec(), storage), [(1.0, 2.0)] * 3, [0.5, 0.4, 0.3])
        with pytest.raises(StudyError, match=r"exactly the same: what was varied \(learning_rate\) had no effect"):
            best(study)

    def test_equal_values_of_different_curves_are_a_tie(self, storage: StudyStorage, make_spec: Make) -> None:
        study = self.trials(open_study(make_spec(), storage), [(1.0, 2.0), (0.5, 2.0)], [0.5, 0.5])
        assert best(study).trial == 0

    @pytest.mark.slow
    def test_metric_loss_compares_losses(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(metric="loss"), storage)
        assert why_no_pick(self.trials(study, [(1.0,), (1.0,)], [0.5, 0.4])) == ""

    def test_trials_without_gradient_step_raise(self, storage: StudyStorage, make_spec: Make) -> None:
        study = self.trials(open_study(make_spec(), storage), [(1.0, 2.0), (3.0, 4.0)], [None, None])
        with pytest.raises(
            StudyError, match=r"no gradient step was made within this budget.*give each run more environment steps"
        ):
            best(study)
        by_episodes = open_study(make_spec(name="episodes", env_steps=None, episodes=2), storage)
        assert why_no_pick(self.trials(by_episodes, [(1.0,)], [None])).endswith("give each run more episodes.")

    def test_one_trial_with_gradient_steps_suffices(self, storage: StudyStorage, make_spec: Make) -> None:
        study = self.trials(open_study(make_spec(), storage), [(1.0, 2.0), (3.0, 4.0)], [None, 0.5])
        assert why_no_pick(study) == ""

    def test_trial_without_learning_is_not_picked(self, storage: StudyStorage, make_spec: Make) -> None:
        study = open_study(make_spec(), storage)
        with Recorder(study) as recorder:
            for value, extra in ((1.0, {}), (9.0, {"learned": False}), (2.0, {})):
                ask = recorder.ask()
                assert ask is not None
                recorder.completed(ask.number, value, {0: value, 1: value, 2: value + 0.1}, extra)
        assert best(study).trial == 2

    def test_value_without_recorded_episodes_is_accepted(self, storage: StudyStorage, make_spec: Make) -> None:
        assert why_no_pick(record(open_study(make_spec(), storage), [(1.0,)])) == ""


class TestRangeTest:
    def study(self, storage: StudyStorage, make_spec: Make, *tests: dict[str, Any]) -> OpenStudy:
        study = open_study(make_spec(kind="range-test", params={}, n_trials=len(tests)), storage)
        with Recorder(study) as recorder:
            for test in tests:
                ask = recorder.ask()
                assert ask is not None
                recorder.completed(ask.number, 9.0, {0: 9.0}, {"range_test": test})
        return study

    def test_pick_is_the_suggested_rate(self, storage: StudyStorage, make_spec: Make) -> None:
        pick = best(self.study(storage, make_spec, {"suggestion": 1e-3, "optimizer": "all"}, {"suggestion": None}))
        assert (pick.trial, pick.params) == (0, {"learning_rate": 1e-3})
        assert repr(pick) == "learning_rate 1e-3: suggested by the range test (trial #0 of a study)"
        data = json.loads(json.dumps(pick.to_json(), allow_nan=False))
        assert (data["params"], data["value"], data["seed_values"]) == ({"learning_rate": 1e-3}, None, {})

    def test_suggested_rate_belongs_to_its_optimizer(self, storage: StudyStorage, make_spec: Make) -> None:
        pick = best(self.study(storage, make_spec, {"suggestion": 0.1, "optimizer": "critic"}))
        assert pick.params == {"critic.learning_rate": 0.1}

    def test_range_test_without_suggestion_raises(self, storage: StudyStorage, make_spec: Make) -> None:
        with pytest.raises(StudyError, match="suggests no learning rate"):
            best(self.study(storage, make_spec, {"suggestion": None, "optimizer": "all"}))


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")  # importing the Keras backend raises unrelated warnings
def test_best_optimizer_is_new_and_has_the_learning_rate_of_the_pick(storage: StudyStorage, make_spec: Make) -> None:
    keras = pytest.importorskip("keras")
    serialized = {
        "default": keras.optimizers.serialize(keras.optimizers.AdamW(0.0123, weight_decay=0.02)),
        "critic": keras.optimizers.serialize(keras.optimizers.SGD(0.5, momentum=0.9)),
        "actor": keras.optimizers.serialize(keras.optimizers.Lamb(0.25)),  # keras.optimizers.deserialize returns a str
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


def test_corrected_rate_replaces_that_of_its_own_name(storage: StudyStorage, make_spec: Make) -> None:
    rates = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    for name in ("policy_learning_rate", "learning_rate", "actor.learning_rate"):
        spec = make_spec(
            name=name, kind="tune", params={name: "1e-5:1e-1:log"}, trials=[{name: rate} for rate in rates],
            horizon=10_000, env_steps=1_000, confirm=0,
        )  # fmt: skip
        study = open_study(spec, storage)
        with Recorder(study) as recorder:
            for value in (10.0, 60.0, 100.0, 50.0, 5.0):
                ask = recorder.ask()
                assert ask is not None
                rate = ask.params[name]
                own = {"optimizers": {"actor": {"learning_rate": rate}}} if "." in name else {name: rate}
                recorder.started(ask.number, {"agent": "train", "config": own, "env": "E-v0"})
                recorder.completed(ask.number, value, {0: value - 1, 1: value, 2: value + 1})
        pick = best(study)
        assert pick.rate is not None
        assert pick.rate.suggested < 1e-3 == pick.params[name]
        if "." in name:
            assert pick.config == {"optimizers": {"actor": {"learning_rate": pick.rate.suggested}}}
        else:
            assert pick.config == {name: pick.rate.suggested}


def complete_with_an_episode(recorder: Recorder, values: Sequence[float]) -> None:
    """Complete a trial whose only episode returned the number of the trial."""
    ask = recorder.ask()
    assert ask is not None
    episode = EpisodeRecord(
        seed=0, episode=0, env_steps=10, episode_return=float(ask.number), length=10, loss=0.5, wall_seconds=1.0
    )
    recorder.episodes(ask.number, [episode])
    recorder.completed(ask.number, sum(values) / len(values), dict(enumerate(values)))


@pytest.mark.parametrize(
    ("metric", "values", "reason"),
    [
        ("success-rate", [(0.0, 0.0)] * 3, "no episode succeeded, so that nothing tells the trials apart"),
        ("success-rate", [(1.0, 1.0)] * 3, ""),
        ("success-rate", [(0.0, 0.0), (0.0, 0.5), (0.0, 0.0)], ""),
        ("custom:speed", [(1.0, 1.0)] * 3, "speed was 1 in every run, so that nothing tells the trials apart"),
        ("custom:speed", [(1.0, 1.0), (1.0, 2.0), (1.0, 1.0)], ""),
    ],
)
def test_metric_of_one_value_has_no_pick(
    metric: str, values: list[tuple[float, ...]], reason: str, storage: StudyStorage, make_spec: Make
) -> None:
    study = open_study(make_spec(metric=metric), storage)
    with Recorder(study) as recorder:
        for own in values:
            complete_with_an_episode(recorder, own)
    assert why_no_pick(study).startswith(reason)
    assert bool(why_no_pick(study)) == bool(reason)


def test_metric_that_was_lower_before_its_end_has_a_pick(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(metric="success-rate"), storage)
    with Recorder(study) as recorder:
        for _ in range(2):
            complete_with_an_episode(recorder, (0.0, 0.0))
        recorder.pruned(recorder.ask().number, 100, 0.5)  # type: ignore[union-attr]
    assert not why_no_pick(study)


def test_view_by_the_only_metric_is_the_study(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(), storage)
    assert study.by_objective("return") is study
    with pytest.raises(StudyError, match="has no objective 'loss'"):
        study.by_objective("loss")

"""Warm starts: what is taken over from another study, and what the sampler makes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from optuna.trial import TrialState

from studies.adapters.prior_trials import NUMBER, prior_trials
from studies.analysis import warm_start
from studies.analysis.warm_start import start_from
from studies.errors import StudyError
from studies.recording.opening import delete_study, join_study, open_study
from studies.recording.recorder import Recorder
from studies.spec.attributes import has_diverged
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import VERSION_ATTR, stored_attributes
from studies.storage.storage import StudyStorage
from studies.study.study import load_study

Make = Callable[..., StudySpec]
RATES = (1e-4, 1e-3, 1e-2, 1e-1)
OPPOSITES = {"gamma": "one_minus_gamma", "one_minus_gamma": "gamma"}


def value_at(rate: float) -> float:
    """Return a value that is best at 1e-3: 10 there, 9 a decade away, 8 two decades away."""
    return 10.0 - abs(math.log10(rate) + 3)


def finish(study: Any, config: dict[str, Any], *, pruned: tuple[int, ...] = (), diverged: tuple[int, ...] = ()) -> None:
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            recorder.started(ask.number, {"config": {**config, **ask.params}, "agent": "ppo"})
            value = value_at(float(ask.params["learning_rate"]))
            recorder.report(ask.number, 500, value - 1)
            if ask.number in pruned:
                recorder.pruned(ask.number, 500, value - 1)
            elif ask.number in diverged:
                recorder.failed(ask.number, "the loss is NaN", kind="diverged")
            else:
                recorder.completed(ask.number, value, {seed: value + 0.01 * seed for seed in ask.seeds})


@pytest.fixture
def source(storage: StudyStorage, make_spec: Make) -> Callable[..., Any]:
    """A study of four learning rates, 1e-4 to 1e-1; further fields of its spec and the config of its trials."""

    def make(
        config: dict[str, Any] | None = None,
        pruned: tuple[int, ...] = (),
        diverged: tuple[int, ...] = (),
        **changes: Any,
    ) -> Any:
        rows = [{"learning_rate": rate, **changes.pop(f"row{i}", {})} for i, rate in enumerate(RATES)]
        fields = {"name": "before", "params": {}, "trials": rows, "seeds": (0, 1), "confirm": 0, **changes}
        with open_study(make_spec(**fields), storage) as study:
            finish(study, config or {}, pruned=pruned, diverged=diverged)
        return load_study("before", storage)

    return make


def target(make_spec: Make, **changes: Any) -> StudySpec:
    params = {"learning_rate": "1e-5:1:log"}
    return make_spec(**{"name": "after", "params": params, "seeds": (0, 1), "confirm": 0, **changes})


def taken(source: Any, spec: StudySpec, n_best: int = 2) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    start = start_from(source, spec, n_best, OPPOSITES)
    return start.first, [trial.params for trial in start.warm_start.trials], start.warm_start.note


def test_best_trials_come_first_and_all_inform_the_sampler(source: Any, make_spec: Make) -> None:
    first, prior, note = taken(source(), target(make_spec), 3)
    assert first[0] == {"learning_rate": 1e-3}
    assert sorted(row["learning_rate"] for row in first) == [1e-4, 1e-3, 1e-2]
    assert prior == [{"learning_rate": rate} for rate in RATES]
    assert note == (
        "Warm start from before: its best 3 trials are tried first and 4 of its 4 finished trials inform the sampler."
    )


def test_trials_that_failed_on_further_seeds_come_last(source: Any, make_spec: Make) -> None:
    study = source(seeds=(0,), confirm=2, confirm_seeds=3)
    with join_study("before", study.storage) as joined, Recorder(joined) as recorder:
        while (ask := recorder.ask_confirmation()) is not None:
            if ask.params["learning_rate"] == 1e-3:  # the best of the search
                recorder.failed(ask.number, "NaN", diverged=True)
            else:
                recorder.completed(ask.number, 9.0, dict.fromkeys(ask.seeds, 9.0))
    first, _, _ = taken(load_study("before", study.storage), target(make_spec, seeds=(0,)), 4)
    assert [row["learning_rate"] for row in first][-1] == 1e-3


def test_trials_with_another_optimizer_are_not_tried(source: Any, make_spec: Make) -> None:
    optimizers = ("sgd(momentum=0.9)", "adam", "adam", "sgd(momentum=0.9)")
    rows = {f"row{i}": {"optimizer": optimizer, "gamma": 0.9} for i, optimizer in enumerate(optimizers)}
    before = source(**rows)
    start = start_from(before, target(make_spec), 4, OPPOSITES, {"ppo": "adam"})
    assert start.first == [{"learning_rate": 1e-3}, {"learning_rate": 1e-2}]
    assert start.warm_start.note.endswith(
        " Its trials with sgd(momentum=0.9) are not tried: this study uses adam. Values of gamma are left out, as this "
        "study does not search it."
    )
    ppo = {"ppo": "adam(epsilon=1e-05)"}
    assert start_from(before, target(make_spec), 4, OPPOSITES, ppo).first == start.first
    fixed = target(make_spec, fixed={"gamma": 0.9, "optimizer": "adam"})
    assert "left out" not in start_from(before, fixed, 2, OPPOSITES, {"ppo": "adam"}).warm_start.note
    every = target(make_spec, params={"learning_rate": "1e-5:1:log", "optimizer": ["adam", "sgd(momentum=0.9)"]})
    assert len(start_from(before, every, 4, OPPOSITES, {"ppo": "adam"}).first) == 4
    with pytest.raises(
        StudyError, match=r"nothing can be taken over: .* with adam and sgd\(momentum=0.9\) are not tried"
    ):
        start_from(before, target(make_spec), 4, OPPOSITES, {"ppo": "lion"})


@pytest.mark.parametrize(
    ("config", "labels", "expected"),
    [
        ({"optimizer_kwargs": {"epsilon": 1e-5}}, ["sgd(momentum=0.9)", "adam(epsilon=1e-5)"], "adam(epsilon=1e-5)"),
        ({"optimizer_kwargs": {"epsilon": 1e-5}}, ["adam(epsilon=1e-8)", "adam(epsilon=1e-05)"], "adam(epsilon=1e-05)"),
        ({"optimizer_kwargs": {"epsilon": 1e-5}}, ["sgd", "adam"], "adam"),
        ({}, ["sgd", "adam(epsilon=1e-5)"], "adam(epsilon=1e-5)"),
        ({"optimizer_kwargs": {"amsgrad": True}}, ["adam", "adam(amsgrad=True)"], "adam(amsgrad=True)"),
        ({"optimizer_kwargs": {"epsilon": 1e-5}}, ["adam(epsilon=1e-8)", "adam(epsilon=1e-7)"], None),
        ({}, ["sgd", "lion"], None),
    ],
)
def test_searched_optimizer_is_that_of_the_trials(
    source: Any, make_spec: Make, config: dict[str, Any], labels: list[str], expected: str | None
) -> None:
    spec = target(make_spec, params={"learning_rate": "1e-5:1:log", "optimizer": labels})
    first, prior, _ = taken(source({"optimizer": "adam", **config}), spec, 4)
    assert {row.get("optimizer") for row in first} == {expected}
    assert len(prior) == (0 if expected is None else len(RATES))


def test_values_and_pruned_trials_are_those_of_the_other_study(source: Any, make_spec: Make) -> None:
    before = source(pruned=(3,), n_jobs=1)
    trials = start_from(before, target(make_spec), 1, OPPOSITES).warm_start.trials
    values = [(trial.value, trial.pruned_at) for trial in trials]
    assert values == [(9.0, None), (10.0, None), (9.0, None), (7.0, 500)]


def test_diverged_trials_inform_the_sampler(source: Any, make_spec: Make) -> None:
    start = start_from(source(diverged=(3,)), target(make_spec), 2, OPPOSITES)
    assert [trial.value for trial in start.warm_start.trials][3:] == [None]
    assert "4 of its 4 finished trials" in start.warm_start.note
    shown = prior_trials(target(make_spec, warm_start=start.warm_start))
    assert [has_diverged(trial) for trial in shown] == [False, False, False, True]


def test_trials_outside_of_a_narrower_space_are_left_out(source: Any, make_spec: Make) -> None:
    spec = target(make_spec, params={"learning_rate": "5e-4:5e-2:log"})
    first, prior, note = taken(source(), spec, 4)
    assert first == [{"learning_rate": 1e-3}, {"learning_rate": 1e-2}]
    assert prior == [{"learning_rate": 1e-3}, {"learning_rate": 1e-2}]
    assert "its best 2 trials are tried first and 2 of its 4 finished trials inform" in note


def test_parameter_that_only_this_study_searches_comes_from_the_configuration(source: Any, make_spec: Make) -> None:
    spec = target(make_spec, params={"learning_rate": "1e-5:1:log", "gamma": "0.9:0.999", "optimizer": "adam,sgd"})
    config = {"gamma": 0.97, "optimizer": "sgd", "optimizer_kwargs": {}}
    first, prior, _ = taken(source(config), spec, 1)
    assert first == [{"learning_rate": 1e-3, "gamma": 0.97, "optimizer": "sgd"}]
    assert len(prior) == 4


def test_optimizer_with_arguments_is_not_the_optimizer_without(source: Any, make_spec: Make) -> None:
    spec = target(make_spec, params={"learning_rate": "1e-5:1:log", "optimizer": "adam,sgd"})
    first, prior, note = taken(source({"optimizer": "sgd", "optimizer_kwargs": {"momentum": 0.9}}), spec, 1)
    assert (first, prior) == ([{"learning_rate": 1e-3}], [])
    assert "outside of this search space, or another setting" in note


def test_discount_is_converted_to_its_complement_and_back(source: Any, make_spec: Make) -> None:
    rows = {f"row{i}": {"one_minus_gamma": 0.01 * (i + 1)} for i in range(4)}
    before = source(**rows)
    spec = target(make_spec, params={"learning_rate": "1e-5:1:log", "gamma": "0.9:0.999"})
    first, prior, _ = taken(before, spec, 1)
    assert first == [{"learning_rate": 1e-3, "gamma": 0.98}]
    assert [row["gamma"] for row in prior] == [0.99, 0.98, 0.97, 0.96]


def test_condition_that_does_not_hold_leaves_a_value_out(source: Any, make_spec: Make) -> None:
    params = {"learning_rate": "1e-5:1:log", "gamma": "0.9:0.99@optimizer=sgd", "optimizer": "adam,sgd"}
    config = {"gamma": 0.97, "optimizer": "adam"}
    first, prior, _ = taken(source(config), target(make_spec, params=params), 1)
    assert first == [{"learning_rate": 1e-3, "optimizer": "adam"}]
    assert prior[0] == {"learning_rate": 1e-4, "optimizer": "adam"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"env_steps": 2000}, ["1,000 environment steps", "2,000 environment steps"]),
        ({"env": "Acrobot-v1"}, ["CartPole-v1", "Acrobot-v1"]),
        ({"env_kwargs": {"g": 1}}, ["no g for the environment"]),
        ({"metric": "loss"}, ["the metric loss"]),
        ({"max_episode_steps": 7}, ["at most 7 steps an episode"]),
        ({"sampler": "random"}, ["the sampler 'random' cannot use them (tpe and gp can)"]),
        ({"sampler": "cmaes"}, ["'cmaes'"]),
        ({"fixed": {"n_envs": 4}}, ["another setting"]),
        ({"agent_params": {"ppo": {"n_steps": 7}}}, ["another setting"]),
        ({"agents": "a2c"}, ["another setting"]),
    ],
)
def test_trials_that_cannot_be_compared_are_only_tried_first(
    source: Any, make_spec: Make, changes: dict[str, Any], words: list[str]
) -> None:
    first, prior, note = taken(source(), target(make_spec, **changes), 1)
    assert (first, prior) == ([{"learning_rate": 1e-3}], [])
    assert "its best trial is tried first. Its trials do not inform the sampler: " in note
    assert all(word in note for word in words)


def test_value_that_was_fixed_there_and_is_searched_here_counts(source: Any, make_spec: Make) -> None:
    spec = target(make_spec, params={"learning_rate": "1e-5:1:log", "gamma": "0.9:0.999"})
    first, prior, _ = taken(source(fixed={"gamma": 0.95}), spec, 1)
    assert first == [{"learning_rate": 1e-3, "gamma": 0.95}]
    assert [row["gamma"] for row in prior] == [0.95] * 4


def test_parameter_that_was_searched_there_and_is_not_here_prevents_a_comparison(source: Any, make_spec: Make) -> None:
    _, prior, _ = taken(source(row0={"gamma": 0.9}, row1={"gamma": 0.95}), target(make_spec))
    assert prior == [{"learning_rate": 1e-2}, {"learning_rate": 1e-1}], "those that left it as it was"


def test_other_seeds_do_not_prevent_a_comparison(source: Any, make_spec: Make) -> None:
    assert len(taken(source(), target(make_spec, seeds=(5, 6, 7)))[1]) == 4


def test_nothing_in_common_is_refused_with_the_difference(source: Any, make_spec: Make) -> None:
    with pytest.raises(StudyError, match="'before' searched learning_rate; this one searches gamma: they have no"):
        start_from(source(), target(make_spec, params={"gamma": "0.9:0.99"}), 5, {})


def test_nothing_inside_the_space_is_refused(source: Any, make_spec: Make) -> None:
    with pytest.raises(StudyError, match=r"nothing can be taken over: .* outside of this search space"):
        start_from(source(), target(make_spec, params={"learning_rate": "1:2"}), 5, {})


def test_study_without_results_is_refused(storage: StudyStorage, make_spec: Make) -> None:
    with open_study(make_spec(name="empty"), storage) as study, pytest.raises(StudyError, match="'empty' has no pick"):
        start_from(study, target(make_spec), 5, {})


def started(source: Any, make_spec: Make, **changes: Any) -> StudySpec:
    spec = target(make_spec, **changes)
    start = start_from(source, spec, 2, OPPOSITES)
    return StudySpec.from_json_dict(
        {**spec.to_json_dict(), "first": start.first, "warm_start": start.warm_start.model_dump(mode="json")}
    )


def test_warm_start_is_stored_with_the_spec(source: Any, make_spec: Make) -> None:
    spec = started(source(pruned=(3,)), make_spec)
    assert StudySpec.from_json_dict(json.loads(json.dumps(spec.to_json_dict()))) == spec
    assert stored_attributes(spec, "memory")[VERSION_ATTR] == 2
    assert "warm_start" not in target(make_spec).to_json_dict()
    trials = prior_trials(spec)
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 3 + [TrialState.PRUNED]
    assert {trial.number for trial in trials} == {NUMBER}
    assert trials[0].params == {"learning_rate": 1e-4}
    assert trials[3].intermediate_values == {500: 7.0}
    assert prior_trials(spec.model_copy(update={"sampler": "nsgaii"})) == []
    with pytest.raises(StudyError, match="warm_start is for samplers"):
        StudySpec.from_json_dict(
            {**spec.to_json_dict(), "first": [], "sampler": "grid", "sampler_kwargs": {"points": 3}}
        )


def propose(spec: StudySpec, storage: StudyStorage, total: int) -> list[float]:
    with open_study(spec.model_copy(update={"n_trials": total}), storage) as study:
        assert all(trial.number >= 0 for trial in study.study.trials), "trials of others do not join the study"
        finish(study, {})
        assert len(study.trials()) == total
        return [float(study.params(trial)["learning_rate"]) for trial in study.trials()]


@pytest.mark.slow
def test_sampler_proposes_near_the_best_trials_of_the_other_study(storage: StudyStorage, make_spec: Make) -> None:
    long = make_spec(
        name="before", params={"learning_rate": "1e-5:1:log"}, n_trials=60, seeds=(0, 1), confirm=0, seed=5
    )
    with open_study(long, storage) as study:
        finish(study, {})
    before = load_study("before", storage)
    cold = propose(target(make_spec), storage, 9)
    warm = propose(started(before, make_spec, name="warm"), storage, 11)[2:]
    near = [sum(abs(math.log10(rate) + 3) < 1 for rate in rates) for rates in (cold, warm)]
    assert near[1] >= 7 > near[0], "the first ten trials without a warm start are random: two of five decades are near"


@pytest.mark.slow
def test_continued_study_keeps_the_trials_that_it_started_with(
    storage: StudyStorage, make_spec: Make, source: Any
) -> None:
    spec = started(source(), make_spec)
    whole = propose(spec.model_copy(update={"name": "whole"}), storage, 14)
    parts = propose(spec, storage, 5)
    delete_study("before", storage)
    again = target(make_spec)  # the call without its warm start
    with open_study(again.model_copy(update={"n_trials": 14}), storage) as study:
        assert study.spec.warm_start == spec.warm_start
        finish(study, {})
    with load_study("after", storage) as study:
        assert [study.params(trial)["learning_rate"] for trial in study.trials()] == whole
    assert parts == whole[:5]
    with join_study("after", storage) as study:
        assert study.spec.warm_start == spec.warm_start


@pytest.mark.parametrize("is_given", [True, False], ids=["given again", "left out"])
def test_continued_study_keeps_its_first_trials(
    storage: StudyStorage, make_spec: Make, source: Any, is_given: bool
) -> None:
    own = {"learning_rate": 3e-4}
    spec = started(source(), make_spec)
    kept = spec.model_copy(update={"first": (*spec.first, own)})
    with open_study(kept, storage):
        grown = source(row1={"learning_rate": 2e-3})  # the second-best rate by now
    new = started(grown, make_spec) if is_given else target(make_spec)
    assert new.first != spec.first
    further = () if is_given else ({"learning_rate": 7e-3},)
    new = new.model_copy(update={"first": (*new.first, *further, own), "baseline": own})
    with open_study(new, storage) as study:
        assert study.spec.first == (*kept.first, *further)
        assert (study.spec.baseline, study.spec.warm_start) == (own, spec.warm_start)
    with load_study("after", storage) as study:
        assert study.spec.first == (*kept.first, *further)


def test_another_warm_start_replaces_the_first_with_a_note(storage: StudyStorage, make_spec: Make, source: Any) -> None:
    spec = started(source(), make_spec)
    with open_study(spec, storage) as study:
        assert spec.warm_start is not None
        assert spec.warm_start.note in study.notes
    with open_study(spec, storage) as study:
        assert not study.notes
    other = spec.model_copy(update={"warm_start": spec.warm_start.model_copy(update={"study": "x", "note": "From x."})})
    with open_study(other, storage) as study:
        assert (study.spec.warm_start, study.notes) == (other.warm_start, ("From x.",))


def test_most_trials_are_kept_evenly(storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "MOST_PRIOR_TRIALS", 8)
    rates = [10 ** (-4 + 3 * i / 24) for i in range(24)]
    fields = {"params": {}, "trials": [{"learning_rate": rate} for rate in rates], "confirm": 0, "seeds": (0, 1)}
    with open_study(make_spec(name="long", **fields), storage) as study:
        finish(study, {})
        start = warm_start.start_from(study, target(make_spec), 1, {})
    kept = [trial.params["learning_rate"] for trial in start.warm_start.trials]
    # The best four, and each fifth of the other 20 by rank; of equal values the earlier trial comes first.
    by_rank = sorted(rates, key=lambda rate: (-round(value_at(rate), 9), rate))
    assert kept == sorted([*by_rank[:4], *by_rank[4::5]])
    assert "8 of its 24 finished trials" in start.warm_start.note


def test_diverged_trials_are_the_worst_of_those_that_are_kept(
    source: Any, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_start, "MOST_PRIOR_TRIALS", 2)
    _, prior, _ = taken(source(pruned=(0,), diverged=(1, 2)), target(make_spec))
    assert [row["learning_rate"] for row in prior] == [1e-4, 1e-1]

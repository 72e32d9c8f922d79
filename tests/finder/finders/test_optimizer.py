"""Tests of `OptFinder`, which compares optimizers."""

from __future__ import annotations

import re
import warnings
from typing import Any

import keras
import numpy as np
import pytest
from fakes import SMALL_PPO
from recorded_losses import recorded

from agents import AgentSpec, ConfigurationError, OptimizerSpec
from finder import LRFinder, OptFinder, dry_run, tune
from finder.finders.optimizer import _rates, optimizers_by_label
from finder.range_test.arguments import given_rates
from finder.results.search_result import OptimizerResult

ENV = "fakes:TwoStep-v0"
QUICK: dict[str, Any] = {"env_steps": 160, "seeds": 2, "executor": "inline", "fixed": SMALL_PPO, "pruner": "none"}


def test_names_objects_and_configs_are_accepted_as_optimizers():
    given = [
        "adamw",
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.optimizers.serialize(keras.optimizers.RMSprop(0.01)),
    ]
    finder = OptFinder("ppo", [*given, keras.optimizers.AdamW(0.1)], ENV)
    assert list(finder.optimizers) == ["adamw", "sgd(momentum=0.9)", "rmsprop", "adamw #2"]


def test_equal_optimizers_count_once():
    finder = OptFinder("ppo", ["adam", "adam(beta_1=0.9)", "adam(beta_1=0.5)", "adam", keras.optimizers.Adam()], ENV)
    assert list(finder.optimizers) == ["adam", "adam(beta_1=0.5)"]
    assert given_rates("learning_rates", np.array([1e-3, 1e-2, 1e-3])) == [1e-3, 1e-2]
    assert _rates("adam", finder.optimizers["adam"], {"adam": [1e-2, 1e-2]}, 5) == [1e-2]


@pytest.mark.slow
def test_each_optimizer_is_compared_at_its_own_best_rate(storage: str):
    finder = OptFinder("ppo", ["adam", keras.optimizers.SGD(momentum=0.9)], ENV)
    result = finder.find(n_rates=3, extend=False, storage=storage, **QUICK)
    table = result.table()
    rates = table.groupby("optimizer").learning_rate.agg(sorted).to_dict()
    assert rates == {"adam": [1e-5, 1e-3, 1e-1], "sgd(momentum=0.9)": [1e-4, 1e-2, 1.0]}
    assert finder.rewards == table.groupby("optimizer").value.max().to_dict()
    assert finder.best_reward == result.best.value
    picked = (table.optimizer == finder.best_opt) & (table.learning_rate == result.best.params["learning_rate"])
    assert table[picked].value.tolist() == [result.best.tuning_value]
    assert finder.best_opt == result.best.params["optimizer"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a search this short may give no safe pick
        best = finder.best_optimizer()
    assert float(best.learning_rate.numpy()) == pytest.approx(finder.best_learning_rate)
    assert finder.plot_reward().data


@pytest.mark.parametrize(
    ("n_rates", "rates"), [(1, [1e-3]), (2, [1e-4, 1e-2]), (3, [1e-5, 1e-3, 1e-1]), (5, [1e-5, 1e-4, 1e-3, 1e-2, 1e-1])]
)
def test_few_rates_lie_inside_the_range(n_rates: int, rates: list[float]):
    assert _rates("adam", OptimizerSpec.of("adam"), "search", n_rates) == rates


@pytest.mark.slow
def test_arguments_of_an_optimizer_object_reach_the_agent(storage: str):
    finder = OptFinder("ppo", [keras.optimizers.SGD(0.5, momentum=0.25)], ENV)
    result = finder.find(learning_rates="own", storage=storage, **QUICK)
    config = result.best.optimizers["default"]["config"]
    assert (config["momentum"], config["learning_rate"]) == (0.25, 0.5)


@pytest.mark.slow
def test_compared_optimizers_replace_the_one_set_in_the_agent(storage: str):
    agent = AgentSpec.of("ppo", ENV, {"default.optimizer": "lion", "default.learning_rate": 0.5})
    result = OptFinder(agent, ["adam", "sgd"]).find(learning_rates=[1e-3], storage=storage, **QUICK)
    ran = [trial.user_attrs["configuration"]["optimizers"]["default"] for trial in result.study.trials()]
    assert [each["class_name"] for each in ran] == ["Adam", "SGD"]
    assert [each["config"]["learning_rate"] for each in ran] == [1e-3, 1e-3]


@pytest.mark.slow
def test_learning_rate_schedule_is_kept(storage: str):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.5)
    finder = OptFinder("ppo", [keras.optimizers.Adam(schedule)], ENV)
    result = finder.find(storage=storage, **QUICK)
    assert result.best.optimizers["default"]["config"]["learning_rate"]["class_name"] == "ExponentialDecay"


def test_optimizer_with_a_schedule_runs_once_and_a_note_says_so():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.5)
    finder = OptFinder("ppo", ["adam", keras.optimizers.Adam(schedule)], ENV)
    plan = dry_run(finder.find, learning_rates=[1e-3, 1e-2], storage=None, **QUICK)
    assert plan.n_trials == 3
    assert plan.notes[-1] == "adam(ExponentialDecay(0.01, 100, 0.5)) runs once: its learning rate is a schedule"


def test_plan_names_schedules_that_end_early():
    finder = OptFinder("ppo", ["adam(CosineDecay(0.001, 2))", "adam(CosineDecay(0.001, 100000))"], ENV)
    plan = dry_run(finder.find, storage=None, **QUICK)
    early = [note for note in plan.notes if "ends after" in note]
    assert len(early) == 1
    assert re.fullmatch(
        r"adam\(CosineDecay\(0.001, 2\)\): CosineDecay ends after 2 of about \d+ gradient steps: the learning rate is "
        "0 from then on",
        early[0],
    )


def test_labels_name_the_schedules_of_learning_rates():
    schedules = keras.optimizers.schedules
    given = [
        keras.optimizers.Adam(0.01),
        keras.optimizers.Adam(schedules.CosineDecay(0.01, 1000)),
        keras.optimizers.Adam(schedules.CosineDecay(0.01, 2000, alpha=0.1)),
        keras.optimizers.SGD(schedules.PolynomialDecay(0.5, 1000, 0.0), momentum=0.9),
        "adam(CosineDecay(0.01, 1000))",  # the second one
    ]
    assert list(optimizers_by_label(given)) == [
        "adam", "adam(CosineDecay(0.01, 1000))", "adam(CosineDecay(0.01, 2000, 0.1))",
        "sgd(PolynomialDecay(0.5, 1000, 0.0), momentum=0.9)",
    ]  # fmt: skip


def test_figures_tell_apart_optimizers_whose_labels_begin_alike():
    finder = OptFinder("ppo", [f"adam(CosineDecay(0.001, {steps}))" for steps in (1000, 2000)], ENV)
    rows = tuple({"optimizer": label} for label in finder.optimizers)
    options: Any = {"storage": "memory", "pruner": "none", "confirm": 0, "seeds": 2}
    with recorded("opt", [finder.spec], options, rows, (3.0, 1.0)) as study:
        finder.result = OptimizerResult(study)
        names = finder.plot_reward().layout.yaxis.ticktext
        assert sorted(name.partition("</b>")[0].rpartition("<br>")[2] for name in names) == ["1000))", "2000))"]


@pytest.mark.parametrize("plot", ["of OptFinder", "of LRFinder"])
def test_losses_are_drawn_for_a_search_by_losses_only(plot: str):
    finder: Any = OptFinder("ppo", ["adam"], ENV) if plot == "of OptFinder" else LRFinder("ppo", ENV)
    rows = tuple({"optimizer": "adam", "learning_rate": rate} for rate in (1e-3, 1e-2))
    for metric in ("loss", "return"):
        options: Any = {"storage": "memory", "pruner": "none", "confirm": 0, "seeds": 2}
        with recorded("opt", [finder.spec], options, rows, (3.0, 1.0), metric=metric) as study:
            finder.result = OptimizerResult(study)
            if metric == "loss":
                assert finder.plot_loss().data
                continue
            with pytest.raises(ConfigurationError, match=r"by return, not by losses: call plot_reward\(\)"):
                finder.plot_loss()


@pytest.mark.slow
def test_optimizers_can_be_compared_by_losses(storage: str):
    finder = OptFinder("ppo", ["adam"], ENV)
    finder.find(metrics="loss", n_rates=2, storage=storage, **QUICK)
    assert finder.best_loss == finder.result.best.value
    assert set(finder.losses) == {"adam"}


def test_lowest_loss_of_each_optimizer_and_of_all_is_best():
    finder = OptFinder("ppo", ["adam", "sgd"], ENV)
    # Losses: adam 3 and 1, sgd 2 and 5.
    rows = tuple({"optimizer": label, "learning_rate": rate} for label in ("adam", "sgd") for rate in (1e-3, 1e-2))
    options: Any = {"storage": "memory", "pruner": "none", "confirm": 0, "seeds": 2}
    with recorded("opt", [finder.spec], options, rows, (3.0, 1.0, 2.0, 5.0)) as study:
        finder._set_results(OptimizerResult(study))
    assert finder.losses == {"adam": 1.0, "sgd": 2.0}
    assert (finder.best_opt, finder.best_loss) == ("adam", 1.0)
    assert (finder.best_reward, finder.rewards) == (None, {})


@pytest.mark.parametrize(
    ("optimizers", "arguments", "message"),
    [
        ([], {}, "at least one optimizer"),
        ("adam", {}, "Give a list"),
        (5, {}, "Give a list"),
        (np.array([]), {}, "Give a list"),
        (["adma"], {}, "Did you mean adam"),
        ([42], {}, "must be a name"),
        (["adam"], {"n_rates": 0}, "n_rates must be >= 1"),
        (["adam", "sgd"], {"learning_rates": {"sgd": [0.1]}}, "no rates for 'adam'"),
        (["adam"], {"learning_rates": "all"}, "'search', 'own'"),
        (["adam(momentun=0.9)"], {}, "momentun"),
        (["adam"], {"learning_rates": {"adamm": [0.1], "adam": [0.1]}}, "'adamm' of learning_rates. Did you mean adam"),
        (["sgd", "adam(use_ema=true)"], {}, "averages weights that nothing uses"),
    ],
)
def test_invalid_input_is_refused(optimizers: Any, arguments: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        OptFinder("ppo", optimizers, ENV).find(storage=None, **{**QUICK, **arguments})


@pytest.mark.parametrize(
    ("params", "is_possible"),
    [
        ({"optimizer": ["adam", "adam(use_ema=true)"]}, False),
        ({"optimizer.use_ema": [True], "gamma": [0.9, 0.99]}, False),
        ({"optimizer.use_ema": [True], "optimizer.ema_overwrite_frequency": [5, 10]}, True),
    ],
)
def test_settings_of_optimizers_without_effect_are_refused_before_the_search(params: Any, is_possible: bool):
    def plan() -> Any:
        return dry_run(tune, "ppo", ENV, params, storage=None, **QUICK)

    if is_possible:
        assert plan().n_trials
        return
    with pytest.raises(ConfigurationError, match="averages weights that nothing uses"):
        plan()


def test_environment_in_the_place_of_the_optimizers_is_refused():
    with pytest.raises(ConfigurationError, match=f"give the environment by its name, environment='{ENV}'"):
        OptFinder("ppo", ENV)


def test_vary_applies_to_every_optimizer_with_the_argument():
    finder = OptFinder(
        "ppo", ["adam", "sgd", "sgd(momentum=0.5)"], ENV, vary={"momentum": (0.0, 0.9), "weight_decay": (0.0, 1e-4)}
    )
    assert list(finder.optimizers) == [
        "adam",
        "adam(weight_decay=0.0001)",
        "sgd",
        "sgd(weight_decay=0.0001)",
        "sgd(momentum=0.9)",
        "sgd(momentum=0.9, weight_decay=0.0001)",
    ]


def test_default_argument_of_an_optimizer_can_be_varied():
    finder = OptFinder("ppo", ["adamw"], ENV, vary={"weight_decay": (0.0, 0.004)})
    assert [spec.arguments for spec in finder.optimizers.values()] == [{"weight_decay": 0.0}, {"weight_decay": 0.004}]


def test_argument_of_no_optimizer_is_refused():
    with pytest.raises(ConfigurationError, match="takes 'momentum'"):
        OptFinder("ppo", ["adam"], ENV, vary={"momentum": (0.9,)})
    with pytest.raises(ConfigurationError, match=r"vary has \(\) for 'weight_decay': give a list"):
        OptFinder("ppo", ["adam"], ENV, vary={"weight_decay": ()})


@pytest.mark.slow
def test_rates_race_within_their_optimizer_only(storage: str):
    finder = OptFinder("ppo", ["adam", "sgd"], ENV)
    options = {key: value for key, value in QUICK.items() if key != "pruner"}
    result = finder.find(learning_rates=[1e-3, 1e-2], storage=storage, **options)
    assert (result.study.spec.pruner, result.study.spec.pruner_kwargs) == ("race", {"per": "optimizer"})
    assert set(result.table()[result.table().state == "COMPLETE"].optimizer) == {"adam", "sgd"}


def test_optimizers_and_variations_must_be_lists():
    with pytest.raises(ConfigurationError, match="Give a list with at least one optimizer, got 'adam'"):
        OptFinder("ppo", "adam", ENV, vary={"weight_decay": (0.0, 1e-4)})
    with pytest.raises(ConfigurationError, match=r"vary has 0\.0001 for 'weight_decay': give a list"):
        OptFinder("ppo", ["adam"], ENV, vary={"weight_decay": 1e-4})


def test_optimizers_may_be_an_array():
    assert list(OptFinder("ppo", np.array(["adam", "sgd"]), ENV).optimizers) == ["adam", "sgd"]

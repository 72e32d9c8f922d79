"""Tests that deprecated names of arguments, functions and metrics work and give warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

import finder
from agents.errors import ConfigurationError
from agents.renamed import renamed_arguments
from finder import LRFinder, RangeTestResult
from finder.finders.tuning import _with_deprecated_names
from finder.range_test.metric import curve_metric
from finder.range_test.suggestion import Suggestion
from finder.range_test.sweep import Sweep

pytestmark = pytest.mark.filterwarnings("error::DeprecationWarning")


ENV = "fakes:TwoStep-v0"
TANH = {"policy": {"activation": "tanh"}}


@_with_deprecated_names
def tuned(agent: str, environment: str | None = None, params: Any = None, **options: Any) -> Any:
    return params, options


@pytest.mark.parametrize(
    ("args", "kwargs", "searched", "options"),
    [
        (("ppo", "E", {"gamma": "0.9:1"}), {"params": {"n_envs": 2}}, {"gamma": "0.9:1"}, {"fixed": {"n_envs": 2}}),
        (("ppo",), {"space": {"gamma": None}, "params": {"n_envs": 2}}, {"gamma": None}, {"fixed": {"n_envs": 2}}),
        (("ppo",), {"space": {"gamma": None}}, {"gamma": None}, {}),
        (("ppo", ENV), {"params": {"hidden_sizes": [8, 8]}}, None, {"fixed": {"hidden_sizes": [8, 8]}}),
        (("ppo", ENV), {"params": {"networks": TANH}}, None, {"fixed": {"networks": TANH}}),
        ((), {"agent": "ppo", "environment": ENV, "params": {"gamma": 0.9}}, None, {"fixed": {"gamma": 0.9}}),
        (("ppo",), {"metrics": "loss"}, None, {"metric": "loss"}),
    ],
)  # fmt: skip
def test_deprecated_arguments_of_tune_are_translated(args: Any, kwargs: Any, searched: Any, options: Any) -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert tuned(*args, **kwargs) == (searched, options)


@pytest.mark.parametrize(
    "params",
    [
        {"gamma": "0.9:0.99"},
        {"gamma": None, "n_envs": 2},
        {"gamma": [0.9, 0.99]},
        {"gama": 0.9},
        {"learning_rate": [0.1, 0.01]},
        {"learning_rate": {"low": 1e-5, "high": 1e-3}},
        {"gamma": "0.99:0.9:0.8:0.7"},
        {},
        None,
    ],
)
def test_params_with_search_values_stay_params(params: Any) -> None:
    assert tuned("ppo", ENV, params=params) == (params, {})


def test_positional_single_value_is_a_search_space() -> None:
    assert tuned("ppo", None, {"gamma": 0.9}) == ({"gamma": 0.9}, {})


def test_deprecated_and_new_name_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="metrics is the deprecated name of metric"):
        tuned("ppo", metrics="loss", metric="loss")


def test_deprecation_warning_names_the_line_of_the_caller() -> None:
    @renamed_arguments(old="new")
    def function(*, new: int) -> int:
        return new

    with pytest.warns(DeprecationWarning, match="the argument old is deprecated.*: use new") as caught:
        assert function(old=1) == 1  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
        tuned("ppo", space={"gamma": None})
    assert caught[0].filename == __file__


@pytest.mark.slow
def test_grid_accepts_deprecated_names(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        result = LRFinder("ppo", ENV).grid(
            rates=[1e-3], env_steps=64, seeds=1, confirm=0, executor="inline", metrics="reward", params=SMALL_PPO,
            storage=f"sqlite:///{tmp_path}/s.db", progress=False,
        )  # fmt: skip
    with result.study as study:
        assert (study.spec.metric, study.spec.fixed) == ("return", SMALL_PPO)


def test_deprecated_public_names_give_warnings() -> None:
    with pytest.warns(DeprecationWarning, match="use finder.recommended_agent"):
        assert finder.picked_agent is finder.recommended_agent
    nothing = Suggestion(None, None, "none", "")
    result = RangeTestResult(
        metric="return", optimizer="all", rewards=Sweep(), losses=Sweep(), normalized=[], suggestion=nothing, reason=""
    )
    with pytest.warns(DeprecationWarning, match="use metric"):
        assert result.metrics == "reward"


def test_metric_accepts_return_and_reward() -> None:
    assert curve_metric("reward") == curve_metric("return") == "return"
    assert curve_metric("loss") == "loss"
    with pytest.raises(ConfigurationError, match=r"metric must be 'return' \(or 'reward'\) or 'loss', got 'los'"):
        curve_metric("los")

"""Tests of the parameter sets that a search tries first."""

from __future__ import annotations

from typing import Any

import pytest

from agents import AgentSpec, ConfigurationError
from finder.finders.first_trials import current_params, first_trials, with_current_params
from studies.spaces.space_notation import parse_space
from studies.spec.spec import StudySpec

PPO = AgentSpec.of("ppo", "CartPole-v1")
SPACES = {
    name: parse_space(space)
    for name, space in {"learning_rate": "1e-5:1e-1:log", "one_minus_gamma": "1e-4:0.1:log"}.items()
}


def rows(*given: Any, fixed: Any = None) -> list[dict[str, Any]]:
    return first_trials(PPO, SPACES, fixed or {}, given, 5)


def test_discount_becomes_its_complement() -> None:
    assert rows({"gamma": 0.99, "learning_rate": 1e-3}) == [{"one_minus_gamma": 0.01, "learning_rate": 1e-3}]
    spaces = {"gamma": parse_space("0.9:0.999")}
    assert first_trials(PPO, spaces, {}, [{"one_minus_gamma": 0.05}], 1) == [{"gamma": 0.95}]


def test_value_that_is_fixed_anyway_is_left_out() -> None:
    assert rows({"n_steps": 64, "learning_rate": 1e-3}, {"n_steps": 64}, fixed={"n_steps": 64}) == [
        {"learning_rate": 1e-3}
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"gama": 0.9}], "Did you mean gamma"),
        ([{"n_epochs": 3}], "n_epochs is not searched: give it a space .* or fix it in every trial .--set n_epochs=3;"),
        ([{"optimizer.momentum": 0.9}], "optimizer.momentum is not searched"),
        ([{"n_steps": 32}], "n_steps is fixed to 64"),
        ([{}], "each with a parameter"),
        (["zo"], "first has 'zo'"),
        ([{"gamma": 0.9}, {"one_minus_gamma": 0.1}], "twice"),
    ],
)
def test_mistake_names_the_value_and_the_remedy(given: list[Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        rows(*given, fixed={"n_steps": 64})


def test_more_sets_than_trials_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="2 parameter sets, but n_trials is 1: give at least 2"):
        first_trials(PPO, SPACES, {}, [{"gamma": 0.9}, {"gamma": 0.91}], 1)


def test_present_values_follow_unless_they_were_given() -> None:
    one, other = {"learning_rate": 1e-3}, {"learning_rate": 3e-4}
    params = {"learning_rate": SPACES["learning_rate"]}
    study = StudySpec(name="s", agents="ppo", env="E", env_steps=10, params=params, first=(one,))
    assert with_current_params(study, other, PPO).first == (one, other)
    assert with_current_params(study, one, PPO).first == with_current_params(study, {}, PPO).first == (one,)


def test_present_values_are_the_baseline_if_the_space_contains_them() -> None:
    def baseline(agent: str, spaces: dict[str, str], **changes: Any) -> Any:
        spec = AgentSpec.of(agent, "Pendulum-v1")
        parsed = {name: parse_space(space) for name, space in spaces.items()}
        study = StudySpec(name="s", agents=agent, env="E", env_steps=1000, params=parsed, **changes)
        return with_current_params(study, current_params(spec, parsed), spec).baseline

    present = {"learning_rate": 3e-4}
    assert baseline("ppo", {"learning_rate": "1e-5:1e-1:log"}) == present
    assert baseline("ppo", {"learning_rate": "1e-3:1e-1:log"}) is None  # its end is another rate
    assert baseline("ppo", {"learning_rate": "1e-5:1e-1:log"}, pruner="pbt") is None  # which changes while it trains
    assert baseline("ppo", {"learning_rate": "1e-5:1e-1:log"}, metric=("return", "auc")) is None  # there is no pick
    assert baseline("ppo", {"learning_rate": "1e-5:1e-1:log", "n_steps": "7,9"}) is None
    assert baseline("ppo", {"ent_coef": "1e-8:0.1:log"}) == {"ent_coef": 1e-8}  # in place of 0
    assert baseline("ppo", {"ent_coef": "0.01:0.1:log"}) is None
    first = ({"learning_rate": 1e-3}, {"learning_rate": 2e-3})
    for n_trials, expected in ((2, None), (3, present)):  # the present values are tried last
        assert baseline("ppo", {"learning_rate": "1e-5:1e-1:log"}, first=first, n_trials=n_trials) == expected
    conditional = {"optimizer": "adam,sgd", "optimizer.momentum": "0.5:0.9@optimizer=sgd"}
    assert baseline("sac", conditional) == {"optimizer": "adam"}
    for own in ("adam(epsilon=1e-5)", "Adam( epsilon=0.00001 )"):  # as it was written
        assert baseline("ppo", {"optimizer": f"{own},sgd"}) == {"optimizer": own}
    assert baseline("ppo", {"optimizer": "adam,sgd"}) is None

"""Tests of what `finder.tune` tries first and searches by default; no search is run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import finder
from agents import PPO, AgentSpec
from finder.finders import tuning
from finder.finders.tuned_values import has_tuned_values, tuned_values
from studies.spaces.spaces import Choice
from studies.spec.spec import StudySpec

ENV = "MountainCarContinuous-v0"


class PlannedError(Exception):
    """Ends a call of `tune` with its study and its notes."""


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    def stop(study: StudySpec, *, notes: Any, **_: Any) -> None:
        raise PlannedError(study, notes)

    monkeypatch.setattr(tuning, "run_search", stop)

    def plan(agent: Any = "ppo", *given: Any, env: str | None = ENV, **options: Any) -> tuple[StudySpec, Any]:
        with pytest.raises(PlannedError) as ended:
            finder.tune(agent, env, *given, env_steps=1_000, storage="memory", progress=False, **options)
        return ended.value.args

    return plan


def test_tuned_values_are_first_then_the_agent_as_it_is(planned: Any) -> None:
    study, notes = planned()
    assert [row["n_envs"] for row in study.first] == [1, 8]
    assert study.params["n_envs"] == Choice((8, 1))
    assert "--first none leaves them out" in notes[0]


@pytest.mark.parametrize("options", [{"first": ()}, {"first": []}, {"scheduler": "pbt"}, {"sampler": "grid"}])
def test_no_tuned_values(planned: Any, options: dict[str, Any]) -> None:
    given = [{"gamma": [0.9, 0.99]}] if options.get("sampler") == "grid" else []
    study, notes = planned("ppo", *given, **options)
    assert "n_envs" not in study.params
    assert not notes


def test_own_first_trials_replace_the_tuned_values_in_the_same_space(planned: Any) -> None:
    study, notes = planned(first=[{"learning_rate": 1e-3}])
    assert study.params == planned()[0].params
    assert study.first[0] == {"learning_rate": 1e-3}
    assert not notes


def test_given_space_is_kept(planned: Any) -> None:
    study, notes = planned("ppo", {"learning_rate": "1e-4:1e-2:log"})
    assert set(study.params) == {"learning_rate"}
    assert not notes


def test_what_was_set_for_an_agent_is_not_searched(planned: Any) -> None:
    study, _ = planned(AgentSpec.of("ppo", ENV, {"n_envs": 4}))
    assert "n_envs" not in study.params
    assert "normalize_rewards" in study.params
    study, _ = planned(fixed={"n_envs": 4})
    assert "n_envs" not in study.params


def test_no_tuned_values_where_all_of_them_are_fixed(planned: Any) -> None:
    known = AgentSpec.of("ppo", ENV).config.describe()
    fixed = {name: value for name, value in tuned_values("ppo", ENV).items() if name in known and name != "ent_coef"}
    study, notes = planned(fixed={**fixed, "ent_coef": 1e-3})
    assert len(study.first) == 1
    assert not notes


def test_own_classes_and_functions_and_trained_agents_have_no_tuned_values() -> None:
    def ppo(run: Any, learning_rate: float = 3e-4) -> None:
        """A training function with the name of an algorithm."""

    assert has_tuned_values(AgentSpec.of(PPO, ENV))
    assert not has_tuned_values(AgentSpec.of(ppo, ENV))
    assert not has_tuned_values(replace(AgentSpec.of("ppo", ENV), state={}))


@pytest.mark.parametrize("agent", ["dqn", "td3", "ddpg", "sac", "ppo"])
def test_agent_as_it_is_is_the_baseline_of_the_widened_space(planned: Any, agent: str) -> None:
    env = "LunarLander-v3" if agent == "dqn" else "Pendulum-v1"
    study, _ = planned(AgentSpec.of(agent, env), env=None)
    assert study.baseline is not None
    assert "hidden_sizes" not in study.params or study.baseline["hidden_sizes"] in study.params["hidden_sizes"].values
    own = AgentSpec.of(agent, env).config
    for network in ("actor", "critic", "q"):
        assert own.replace(dict(study.baseline)).layers(network)["hidden_sizes"] == own.layers(network)["hidden_sizes"]


def test_sizes_of_layers_are_compared_as_a_study_has_them(planned: Any) -> None:
    agent = AgentSpec.of("ppo", ENV, {"hidden_sizes": (64, 64)})
    study, _ = planned(agent, {"hidden_sizes": [(32, 32), (64, 64)], "gae_lambda": "0.8:1:0.05", "n_epochs": "2:20:2"})
    assert study.baseline == {"hidden_sizes": [64, 64], "gae_lambda": 0.95, "n_epochs": 10}
    assert "n_epochs" not in planned(agent, {"n_epochs": "3:21:3", "gae_lambda": "0.8:1"})[0].first[-1]


def test_all_given_sets_and_the_agent_as_it_is_are_tried(planned: Any) -> None:
    sets = [{"gamma": 0.9 + 0.001 * k} for k in range(23)]
    study, _ = planned("ppo", {"gamma": "0.8:0.9999"}, first=sets)
    assert (study.n_trials, len(study.first)) == (24, 24)
    assert study.baseline == {"gamma": 0.99}


def test_options_may_be_none(planned: Any) -> None:
    study, _ = planned("ppo", {"gamma": "0.8:0.9999"}, fixed=None)
    assert not study.fixed

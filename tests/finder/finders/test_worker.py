"""Tests of `finder.work`: required arguments and refusals."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from fakes import SMALL_PPO, TwoStep

from agents import AgentSpec, ConfigurationError, EnvironmentSpec
from finder import work
from finder.finders.declared_spaces import parse_spaces
from finder.finders.worker import _resolver
from finder.search.object_resolver import check_plan
from finder.search.options import make_spec
from studies.recording.opening import open_study
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage


def mine() -> gym.Env[Any, Any]:
    """A user's environment, of which a study stores only the name."""
    return TwoStep()


def another() -> gym.Env[Any, Any]:
    return TwoStep()


def begin(storage: str, **changes: Any) -> None:
    fields: dict[str, Any] = {
        "name": "theirs", "storage": storage, "agents": ("ppo",), "env": "mine", "env_steps": 160, "seeds": (0,),
        "executor": "inline", "params": {"learning_rate": "1e-4:1e-1:log"}, "fixed": SMALL_PPO, "n_trials": 2,
        "confirm": 0, "pruner": "none",
    }  # fmt: skip
    open_study(StudySpec(**{**fields, **changes})).close()


@pytest.mark.slow
@pytest.mark.parametrize("agents", [(), ("ppo",)])
def test_environment_without_an_id_is_given_by_the_caller(storage: str, agents: tuple[str, ...]) -> None:
    begin(storage)
    result = work("theirs", storage, agents=agents, environment=mine)
    assert list(result.table().state) == ["COMPLETE"] * 2


@pytest.mark.parametrize("agents", [(), ("ppo",)])
@pytest.mark.parametrize(
    ("environment", "message"), [(another, "not another"), (EnvironmentSpec(mine, {"gravity": 1.0}), "gravity")]
)
def test_different_environment_is_refused(
    storage: str, agents: tuple[str, ...], environment: Any, message: str
) -> None:
    begin(storage)
    with pytest.raises(ConfigurationError, match=f"The study has the environment mine.*{message}"):
        work("theirs", storage, agents=agents, environment=environment)


def test_second_agent_of_a_class_is_found_by_its_label() -> None:
    rows = ({"agent": "ppo"}, {"agent": "ppo-2"})
    fields: dict[str, Any] = {"name": "s", "storage": "memory", "env": "CartPole-v1", "env_steps": 160, "trials": rows}
    spec = StudySpec(agents=("ppo", "ppo-2"), agent_params={"ppo-2": {"gamma": 0.8}}, **fields)
    first, second = _resolver(spec, (), (), None, ()).agents.values()
    assert (first.label, second.label) == ("ppo", "ppo")
    assert (first.config.to_dict()["gamma"], second.config.to_dict()["gamma"]) == (0.99, 0.8)


def test_complement_may_be_searched_where_the_hyperparameter_is_not() -> None:
    params = {"gamma": "0.9:0.99@agent=dqn", "one_minus_gamma": "0.001:0.1@agent=ppo"}
    fields: dict[str, Any] = {"name": "s", "storage": "memory", "env": "CartPole-v1", "env_steps": 160}
    spec = StudySpec(agents=("dqn", "ppo"), params=params, **fields)
    check_plan(spec, _resolver(spec, (), (), None, ()))


def test_missing_environment_is_refused(storage: str) -> None:
    begin(storage)
    with pytest.raises(ConfigurationError, match="mine"):
        work("theirs", storage)


def test_code_named_in_a_shared_storage_must_be_allowed(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(storage, env="fakes:TwoStep", callbacks=("os:getcwd",))
    monkeypatch.setattr("studies.storage.storage.StudyStorage.__init__", _shared(StudyStorage.__init__))
    with pytest.raises(ConfigurationError, match="--allow-module fakes"):
        work("theirs", storage)
    with pytest.raises(ConfigurationError, match="--allow-module os"):
        work("theirs", storage, allow_modules=["fakes"])


def test_agent_with_a_value_of_its_own_for_a_conditional_parameter_is_accepted() -> None:
    params = {"optimizer": "adam,sgd", "clip_range": "0.1:0.3@optimizer=adam"}

    def agent(**own: float) -> AgentSpec:
        return AgentSpec.of("ppo", "CartPole-v1", own)

    mine = agent(clip_range=0.25, gamma=0.98)
    spaces = parse_spaces(mine, params)
    spec = make_spec("tune", [mine], {}, env_steps=160, episodes=None, metric="return", params=spaces)
    assert spec.agent_params == {"ppo": {"clip_range": 0.25, "gamma": 0.98}}
    assert _resolver(spec, [mine], (), None, ()).agents["ppo"] == mine
    for other in (agent(gamma=0.98), agent(clip_range=0.25)):
        with pytest.raises(ConfigurationError, match="The study's ppo has"):
            _resolver(spec, [other], (), None, ())


@pytest.mark.parametrize(
    ("stored", "given", "expected"),
    [
        ({"executor": "population", "population": 8}, {"executor": "process"}, "a trial each in 1 process"),
        ({"executor": "auto", "population": 8, "n_jobs": 2}, {"executor": "inline"}, "inline"),
        ({"executor": "ray", "trial_cpus": 2.0}, {"executor": "process", "n_jobs": 1}, "a trial each in 1 process"),
        ({"executor": "process"}, {"executor": "population", "population": 4}, "populations of up to 4 runs"),
    ],
)
def test_another_executor_leaves_out_settings_that_it_does_not_have(
    storage: str, monkeypatch: pytest.MonkeyPatch, stored: dict[str, Any], given: dict[str, Any], expected: str
) -> None:
    begin(storage, env="CartPole-v1", **{"n_jobs": 1, **stored})
    seen = []

    def search(study: Any, resolver: Any, executor: Any, *_: Any, **__: Any) -> None:
        seen.append(executor.description)
        executor.close()
        raise RuntimeError("no search")

    monkeypatch.setattr("finder.finders.worker.Search", search)
    with pytest.raises(RuntimeError, match="no search"):
        work("theirs", storage, **given)
    assert seen == [expected]


def test_population_and_an_executor_without_one_are_refused(storage: str) -> None:
    begin(storage, env="CartPole-v1")
    with pytest.raises(ConfigurationError, match="population is 8, but with the executor 'process'"):
        work("theirs", storage, executor="process", population=8)


def _shared(init: Any) -> Any:
    """Return an initializer that marks every storage as shared."""

    def shared(self: StudyStorage, **fields: Any) -> None:
        init(self, **{**fields, "shared": True})

    return shared

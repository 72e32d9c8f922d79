"""Tests of `finder.work`: required arguments and refusals."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from fakes import SMALL_PPO, TwoStep

from agents import ConfigurationError, EnvironmentSpec
from finder import work
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


def _shared(init: Any) -> Any:
    """Return an initializer that marks every storage as shared."""

    def shared(self: StudyStorage, **fields: Any) -> None:
        init(self, **{**fields, "shared": True})

    return shared

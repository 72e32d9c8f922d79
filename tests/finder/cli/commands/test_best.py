"""Tests of the Python code that `finder best` prints, on studies whose results are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium as gym
import pytest

from agents.errors import ConfigurationError
from finder.long_run.recommendation import recommended_agent
from studies.analysis.python_code import python_lines
from studies.analysis.recommendation import best, best_optimizer
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.reports.html import report_html
from studies.spec.spec import StudySpec
from studies.study.study import OpenStudy

VALUES = (0.0, 10.0, 100.0, 20.0, 0.0)
"""Values of five trials of which the third one is the best."""


def finished(configuration: dict[str, Any], **fields: Any) -> OpenStudy:
    """Return a study whose trials have `VALUES`, and this configuration."""
    given = {
        "name": "s",
        "storage": "memory",
        "env": "Pendulum-v1",
        "env_steps": 10_000,
        "pruner": "none",
        "confirm": 0,
    }
    study = open_study(StudySpec(**{**given, **fields}))
    with Recorder(study) as recorder:
        for value in VALUES:
            ask = recorder.ask()
            if ask is None:
                break
            recorder.started(ask.number, {"config": {}, "env": "Pendulum-v1", **configuration})
            recorder.completed(ask.number, value, {seed: value + seed - 1 for seed in ask.seeds})
    return study


def test_code_of_an_agent_with_several_optimizers_has_the_rate_for_the_long_run() -> None:
    rates = tuple({"learning_rate": rate} for rate in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1))
    serialised = {name: {"config": {"learning_rate": 1e-3}} for name in ("actor", "critic", "ent_coef")}
    agent = {"agent": "sac", "optimizers": serialised}
    study = finished(agent, kind="lr", agents=("sac",), trials=rates, horizon=1_000_000)
    pick = best(study)
    assert pick.params == {"learning_rate": 1e-3}
    assert pick.rate is not None
    assert pick.rate.suggested < 1e-3
    assert f"agents.make('sac', 'Pendulum-v1', learning_rate={pick.rate.suggested!r})" in python_lines(study, pick)


def test_class_with_the_name_of_a_built_in_agent_is_not_mistaken_for_it() -> None:
    configuration = {"agent": "PPO", "built_in": False, "optimizers": {"default": {}}}
    study = finished(configuration, kind="lr", agents=("PPO",), trials=({"learning_rate": 1e-3},), fixed={"gamma": 0.9})
    pick = best(study)
    assert python_lines(study, pick) == (
        "import agents\n"
        "# PPO: the agent of your script\n\n"
        "agent = agents.make(PPO, 'Pendulum-v1', gamma=0.9, learning_rate=0.001)\n"
        "agents.Trainer(agent).train(env_steps=1_000_000)"
    )
    with pytest.raises(ConfigurationError, match=r"was defined in a script: give .*file\.py:PPO"):
        recommended_agent(study, pick)
    page = report_html(study)
    assert "agents.make(PPO, &#x27;Pendulum-v1&#x27;, gamma=0.9, learning_rate=0.001)" in page
    assert "finder best" not in page  # nothing can read a study in memory


def test_code_trains_as_long_as_the_study_was_told(tmp_path: Path) -> None:
    configuration = {"agent": "ppo", "built_in": True, "optimizers": {"default": {}}}
    where = f"sqlite:///{tmp_path}/s.db"
    with finished(
        configuration, kind="lr", agents=("ppo",), trials=({"learning_rate": 1e-3},), horizon=2_000_000, storage=where
    ) as study:
        assert python_lines(study, best(study)) == (
            "import agents, studies\n\n"
            f"optimizer = studies.best_optimizer('s', '{where}')\n"
            "agent = agents.make('ppo', 'Pendulum-v1', optimizer=optimizer)\n"
            "agents.Trainer(agent).train(env_steps=2_000_000)"
        )
        assert f"finder best s --storage {where}" in report_html(study)


COSINE = {
    "module": "keras.optimizers.schedules", "class_name": "CosineDecay", "registered_name": None,
    "config": {"initial_learning_rate": 1e-3, "decay_steps": 200, "alpha": 0.0, "warmup_target": None,
               "warmup_steps": 0, "name": "CosineDecay"},
}  # fmt: skip


def test_schedules_of_learning_rates_are_stretched_to_the_long_run(tmp_path: Path) -> None:
    configuration = {
        "agent": "ppo", "built_in": True, "env": "CartPole-v1",
        "config": {"learning_rate": COSINE, "n_steps": 100, "n_envs": 1},
        "optimizers": {"default": {"module": "keras.optimizers", "class_name": "Adam",
                                   "config": {"learning_rate": COSINE}}},
    }  # fmt: skip
    where = f"sqlite:///{tmp_path}/s.db"
    rows = ({"optimizer": "adam(CosineDecay(0.001, 200))"},)
    with finished(configuration, kind="opt", agents=("ppo",), trials=rows, storage=where) as study:
        pick = best(study)
        code = python_lines(study, pick)
        assert (
            "# The schedule CosineDecay is stretched from 10,000 to 1,000,000 environment steps: decay_steps 200 → "
            f"20,000 gradient steps.\noptimizer = studies.best_optimizer('s', '{where}', env_steps=1_000_000)\n"
        ) in code
        agent = recommended_agent(study, pick, env_steps=50_000)
        assert agent.config.learning_rate["config"]["decay_steps"] == 1000
        assert recommended_agent(study, pick).config.learning_rate == COSINE
    optimizer = best_optimizer("s", where, env_steps=1_000_000)
    assert optimizer.get_config()["learning_rate"]["config"]["decay_steps"] == 20_000
    assert best_optimizer("s", where).get_config()["learning_rate"]["config"]["decay_steps"] == 200


@pytest.mark.parametrize(
    ("fields", "module", "why"),
    [
        ({"env_steps": None, "episodes": 20}, COSINE["module"], "as a budget in episodes does not tell a ratio"),
        ({}, "mine", "since it is none of Keras's"),
    ],
)
def test_schedules_that_cannot_be_stretched_are_warned_about(
    tmp_path: Path, fields: dict[str, Any], module: str, why: str
) -> None:
    own = {**COSINE, "module": module}
    adam = {"module": "torch.optim", "class_name": "Adam", "config": {"learning_rate": own}}
    configuration = {
        "agent": "ppo", "built_in": True, "env": "CartPole-v1", "config": {"learning_rate": own},
        "optimizers": {"default": adam},
    }  # fmt: skip
    where = f"sqlite:///{tmp_path}/s.db"
    rows = ({"optimizer": "adam"},)
    said = f"The schedule CosineDecay keeps its gradient steps, {why}"
    with finished(configuration, kind="opt", agents=("ppo",), trials=rows, storage=where, **fields) as study:
        if module != "mine":
            with pytest.warns(UserWarning, match=said):
                agent = recommended_agent(study, best(study), env_steps=50_000)
            assert agent.config.learning_rate == own
            recommended_agent(study, best(study))
    with pytest.warns(UserWarning, match=said):
        assert best_optimizer("s", where, env_steps=50_000, allow_modules=["mine", "torch"]) == adam
    assert best_optimizer("s", where, allow_modules=["mine", "torch"]) == adam


@pytest.mark.parametrize("env_steps", [0, -5, 0.5, 1000.5, float("nan"), float("inf"), "1000"])
def test_environment_steps_of_the_long_run_are_checked(tmp_path: Path, env_steps: Any) -> None:
    configuration = {
        "agent": "ppo", "built_in": True, "env": "CartPole-v1", "config": {"learning_rate": 1e-3},
        "optimizers": {"default": {"module": "keras.optimizers", "class_name": "SGD", "config": {}}},
    }  # fmt: skip
    where = f"sqlite:///{tmp_path}/s.db"
    rows = ({"learning_rate": 1e-3},)
    with finished(configuration, kind="lr", agents=("ppo",), trials=rows, storage=where) as study:
        with pytest.raises(ConfigurationError, match="env_steps must be"):
            recommended_agent(study, best(study), env_steps=env_steps)
        assert recommended_agent(study, best(study), env_steps=int(1e6)).label == "ppo"
    with pytest.raises(StudyError, match=r"env_steps is .*: give a whole number from 1\."):
        best_optimizer("s", where, env_steps=env_steps)


def test_stretched_schedules_of_several_optimizers_are_in_the_code() -> None:
    optimizers = {"actor": {"optimizer": "adam", "learning_rate": COSINE}}
    configuration = {
        "agent": "sac", "built_in": True, "config": {"learning_rate": 1e-3, "optimizers": optimizers},
        "optimizers": {"actor": {}, "critic": {}},
    }  # fmt: skip
    study = finished(configuration, kind="tune", agents=("sac",), trials=({"gamma": 0.9},), horizon=20_000)
    code = python_lines(study, best(study))
    assert "'decay_steps': 400" in code
    assert "# The schedule CosineDecay of actor is stretched from 10,000 to 20,000 environment steps" in code


def test_code_reads_a_storage_with_a_password_from_the_environment(tmp_path: Path) -> None:
    study = finished(
        {"agent": "ppo", "optimizers": {"default": {}}}, kind="lr", agents=("ppo",), trials=({"learning_rate": 1e-3},)
    )
    away = SimpleNamespace(label="postgresql://me:***@host/db", url="postgresql+psycopg://me:secret@host/db")
    code = python_lines(replace(study, storage=cast("Any", away)), best(study))
    assert code.startswith("import os, agents, studies\n")
    assert "studies.best_optimizer('s', os.environ[\"OPTUNA_STORAGE\"])" in code


def test_second_agent_of_a_class_has_its_own_settings() -> None:
    own = {"sac": {"gamma": 0.9}, "sac-2": {"gamma": 0.8}}
    rows = ({"agent": "sac"}, {"agent": "sac-2"})
    study = finished({"agent": "sac"}, kind="agents", agents=("sac", "sac-2"), trials=rows, agent_params=own)
    pick = best(study)
    assert (pick.agent, pick.name_in_study) == ("sac", "sac-2")
    assert "agents.make('sac', 'Pendulum-v1', gamma=0.8)" in python_lines(study, pick)


def test_weights_of_the_second_agent_of_a_class_are_its_own() -> None:
    rows = ({"agent": "sac"}, {"agent": "sac-2"})
    study = finished(
        {"agent": "sac"}, kind="agents", agents=("sac", "sac-2"), trials=rows, agent_weights={"sac-2": "a"}
    )
    with pytest.raises(ConfigurationError, match="started from trained weights: give these"):
        recommended_agent(study, best(study))


class Line(gym.Env[Any, Any]):
    """Environment that a study can only name."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (1,)), gym.spaces.Discrete(2)


@pytest.mark.parametrize(("env", "name"), [("Line", "Line"), ("<lambda>", "make_env")])
def test_environment_from_python_is_named_by_the_code_and_given_for_the_long_run(env: str, name: str) -> None:
    study = finished(
        {"agent": "ppo", "env": env}, kind="lr", agents=("ppo",), env=env, trials=({"learning_rate": 1e-3},)
    )
    pick = best(study)
    code = python_lines(study, pick)
    assert f"\n# {name}: the environment of your script\n" in code
    assert f"agents.make('ppo', {name}, " in code
    with pytest.raises(
        ConfigurationError, match=rf"was a class or function in Python: give its place, module:{name} or"
    ):
        recommended_agent(study, pick)
    spec = recommended_agent(study, pick, environment=Line)
    assert spec.environment.id is Line
    if env == "Line":
        with pytest.raises(
            ConfigurationError, match="is for the environment 'Line', not 'CartPole-v1': give the place of"
        ):
            recommended_agent(study, pick, environment="CartPole-v1")


def test_environment_of_a_study_with_an_id_remains() -> None:
    study = finished({"agent": "ppo"}, kind="lr", agents=("ppo",), trials=({"learning_rate": 1e-3},))
    with pytest.raises(ConfigurationError, match="is for the environment 'Pendulum-v1', not 'Acrobot-v1': leave the"):
        recommended_agent(study, best(study), environment="Acrobot-v1")


def test_code_has_the_callbacks_of_the_study() -> None:
    places = ("shaping:Scaled", "callbacks.py:Own.Nested", "__main__:Here", "a/b-c.py:Far")
    study = finished({"agent": "ppo"}, kind="lr", agents=("ppo",), trials=({"learning_rate": 1e-3},), callbacks=places)
    lines = python_lines(study, best(study)).splitlines()
    assert lines[1:5] == [
        "from shaping import Scaled",
        "from callbacks import Own",
        "# Here: a callback of your script",
        "# Far: a callback of a/b-c.py",
    ]
    assert "callbacks=[Scaled(), Own.Nested(), Here(), Far()]" in lines[-1]

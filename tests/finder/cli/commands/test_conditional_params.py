"""Tests of searches whose parameters exist only with certain values of others, from the command to the long run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import studies

PPO = ("tune", "ppo", "--env", "CartPole-v1", "--study-name", "c", "--executor", "inline", "--confirm", "0", "--quiet")
SPACE = ("-p", "optimizer=adam,sgd", "-p", "optimizer.momentum=0.5:0.95@optimizer=sgd", "-p", "gamma")
AGENTS = """
name = "both"
agents = ["ppo", "dqn"]
env = "CartPole-v1"
env_steps = 400
seeds = 1
n_trials = 6
confirm = 0
sampler = "random"
executor = "inline"

[params]
clip_range = "0.1:0.3@agent=ppo"

[params.exploration_final_eps]
low = 0.02
high = 0.2
when = { agent = "dqn" }

[fixed]
jit_compile = false

[agent_params.ppo]
n_steps = 32
n_epochs = 1

[agent_params.dqn]
learning_starts = 100
"""


def trials_of(finder: Any, name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return parameters and configuration of each trial."""
    with studies.load_study(name, f"{finder.folder}/finder.db") as study:
        return [(study.params(trial), trial.user_attrs["configuration"]["config"]) for trial in study.trials()]


@pytest.mark.slow
def test_momentum_is_searched_for_sgd_only_and_reaches_the_long_run(finder: Any) -> None:
    first = ("--first", "optimizer=sgd,optimizer.momentum=0.75,gamma=0.97")
    ran = finder.small(*PPO, *SPACE, *first, "--n-trials", "8", "--sampler", "random")
    assert ran.code == 0, ran.err
    found = trials_of(finder, "c")
    assert found[0][0] == {"optimizer": "sgd", "optimizer.momentum": 0.75, "gamma": 0.97}
    assert found[1][0]["gamma"] == 0.99, "the agent as it is, whose optimizer is not among the choices"
    for params, config in found:
        expected = {"momentum": params["optimizer.momentum"]} if params["optimizer"] == "sgd" else {}
        assert (config["optimizer"], config["optimizer_kwargs"]) == (params["optimizer"], expected)
        assert ("optimizer.momentum" in params) == (params["optimizer"] == "sgd")
    assert {params["optimizer"] for params, _ in found} == {"adam", "sgd"}

    again = finder.small(*PPO, *SPACE, "--n-trials", "9", "--sampler", "random", "--json")
    assert again.code == 0, again.err
    assert again.json["trials"]["complete"] == 9
    shown = finder("show", "c")
    assert (shown.code, "optimizer.momentum" in shown.out) == (0, True)
    assert finder("report", "c", "--output", "c.html").code == 0
    trained = finder("train", "--from", "c", "--env-steps", "300", "--folder", "long", "--quiet")
    assert trained.code == 0, trained.err
    config = json.loads((finder.folder / "long" / "run.json").read_text())["settings"]["config"]
    pick = finder("best", "c", "--json").json
    assert config["optimizer_kwargs"] == pick["config"]["optimizer_kwargs"]


@pytest.mark.slow
def test_parameters_of_one_agent_are_searched_with_that_agent_only(finder: Any) -> None:
    (finder.folder / "study.toml").write_text(AGENTS)
    ran = finder("run", "study.toml", "--quiet")
    assert ran.code == 0, ran.err
    found = trials_of(finder, "both")
    own = {"ppo": {"agent", "clip_range"}, "dqn": {"agent", "exploration_final_eps"}}
    assert all(set(params) == own[params["agent"]] for params, _ in found)
    assert {params["agent"] for params, _ in found} == {"ppo", "dqn"}


@pytest.mark.slow
def test_name_alone_has_its_usual_range_under_a_condition(finder: Any) -> None:
    ran = finder.small(*PPO, "-p", "optimizer=adam,sgd", "-p", "learning_rate@optimizer=sgd", "--n-trials", "4")
    assert ran.code == 0, ran.err
    for params, config in trials_of(finder, "c"):
        assert ("learning_rate" in params) == (params["optimizer"] == "sgd")
        assert config["learning_rate"] == params.get("learning_rate", 3e-4)


@pytest.mark.slow
def test_another_condition_is_another_study(finder: Any) -> None:
    assert finder.small(*PPO, *SPACE, "--n-trials", "1").code == 0
    other = (*SPACE[:-1], "gamma@optimizer=sgd")
    ran = finder.small(*PPO, *other, "--n-trials", "2")
    assert ran.code == 2
    assert re.search(r"the search space gamma=\S+ ?; now the search space gamma=\S+@optimizer=sgd", ran.err), ran.err
    assert "--study-name c-2" in ran.err

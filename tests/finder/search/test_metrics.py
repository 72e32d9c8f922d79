"""Searches by other metrics than the return: what counts, in which direction, and what is said about it."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_PPO

import agents
import finder
from agents import TrainingRun
from finder.results.search_result import SearchResult
from studies import StudyError
from studies.figures.learning_curves import learning_curves_data
from studies.judging.missing_pick import why_no_pick
from studies.judging.return_bounds import return_bounds
from studies.reports.explanation import explain

QUICK: dict[str, Any] = {"executor": "inline", "storage": None, "confirm": 0, "pruner": "none", "seeds": 1}


def learns(run: TrainingRun, course: str = "500 10", energy: float = 1.0) -> None:
    """Report a return of 0 until a step, and another from then on ("STEP RETURN"), in episodes of 10 steps."""
    at, height = map(float, course.split())
    for steps in itertools.count(10, 10):
        run.report(height if steps > at else 0.0, length=10, custom_metrics={"energy": energy})


def search(metric: str, **space: list[Any]) -> SearchResult:
    return finder.tune(learns, "CartPole-v1", space, env_steps=1_000, metric=metric, sampler="grid", **QUICK)


def values_of(found: SearchResult, name: str) -> dict[Any, Any]:
    return {trial.params[name]: trial.value for trial in found.study.trials()}


def test_the_last_part_prefers_the_higher_run_and_the_area_the_earlier_one() -> None:
    early, high = "300 10", "800 12"
    assert search("return", course=[early, high]).best.value == 12.0
    found = search("auc", course=[early, high])
    assert found.best.params["course"] == early
    # 0 for 300 of 1,000 steps, 10 for the others; 0 for 800, 12 for 200.
    assert values_of(found, "course") == {early: pytest.approx(7.0), high: pytest.approx(2.4)}
    assert "return over the whole training 7" in str(found)
    assert "over the last part of training" not in explain(found.study)


def test_steps_to_a_threshold_are_minimized() -> None:
    found = search("steps-to:9", course=["300 10", "500 12", "100 4"])
    # The mean of 20 episodes of 10 steps reaches 9: with 18 of them at 10, with 15 at 12; the last never does.
    assert values_of(found, "course") == {"300 10": 480.0, "500 12": 650.0, "100 4": 1_000.0}
    assert found.best.params["course"] == "300 10"
    assert found.study.direction == "minimize"
    assert return_bounds(found.study) == (0.0, 1_000)
    assert "environment steps to a return of 9" in explain(found.study)
    assert "environment steps to a return of 9: 480 in the search" in str(found)


def test_a_threshold_that_no_run_reaches_gives_no_pick_and_says_what_to_do() -> None:
    found = search("steps-to:100", course=["300 10", "500 12"])
    assert why_no_pick(found.study)
    assert "no run reached a return of 100 within 1,000 environment steps: give a lower threshold" in str(found)


def test_custom_metrics_in_both_directions() -> None:
    assert search("custom:energy", energy=[3.0, 1.0, 2.0]).best.params["energy"] == 3.0
    found = search("custom:energy:minimize", energy=[3.0, 1.0, 2.0])
    assert found.best.params["energy"] == found.best.value == 1.0
    assert found.best.direction == "minimize"
    assert "energy 1" in str(found)


def test_a_metric_that_no_episode_reports_fails_early_and_says_where_it_is_reported() -> None:
    found = search("custom:speed", energy=[1.0, 2.0])
    trials = found.study.trials()
    assert {trial.state.name for trial in trials} == {"FAIL"}
    assert all(trial.user_attrs["env_steps"] < 1_000 for trial in trials)
    assert "No episode reported the metric 'speed'" in trials[0].user_attrs["reason"]
    assert "custom_metrics" in trials[0].user_attrs["reason"]
    misspelt = search("custom:enrgy", energy=[1.0]).study.trials()[0]
    assert misspelt.user_attrs["reason"].endswith(
        "run.report(..., custom_metrics={'enrgy': ...}). Did you mean 'energy'? Its episodes reported energy."
    )


class Measured(gym.Env[Any, Any]):
    """Episodes of 10 steps whose `info` has numbers, and other things."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        info = {"error": 0.5, "level": np.float32(2.0), "done": True, "name": "tank", "levels": np.zeros(2)}
        return np.zeros(1, np.float32), 1.0, False, self.at >= 10, info


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "meant"), [("eror", " Did you mean 'error'?"), ("speed", "")])
def test_numbers_of_the_environment_are_named_beside_a_misspelled_one(metric: str, meant: str) -> None:
    found = finder.tune(
        "ppo", Measured, {"learning_rate": [1e-3]}, env_steps=4_000, metric=f"custom:{metric}", sampler="grid",
        fixed={**SMALL_PPO, "jit_compile": False}, **{**QUICK, "n_reports": 100, "seeds": 2},
    )  # fmt: skip
    [trial] = found.study.trials()
    assert trial.user_attrs["reason"].endswith(f"of the episode.{meant} Its episodes reported done, error, level.")
    assert trial.user_attrs["env_steps"] <= 400


def test_unknown_metrics_are_refused_before_anything_runs() -> None:
    with pytest.raises(StudyError, match=r"there is no metric 'sucess-rate'. .*'success-rate'"):
        search("sucess-rate", energy=[1.0])


class Corridor(gym.Env[Any, Any]):
    """A corridor of four cells, of which the last is the goal: action 1 goes there, action 0 ends the episode."""

    observation_space = gym.spaces.Box(0.0, 4.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 0
        return np.array([0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.cell += int(action)
        at_goal = self.cell == 4
        info = {"is_success": at_goal, "cell": self.cell}
        return np.array([self.cell], np.float32), float(at_goal), at_goal or not action, False, info


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "population"])
def test_success_rate_is_read_from_the_info_of_the_last_step(executor: str) -> None:
    found = finder.tune(
        "ppo", Corridor, {"learning_rate": [1e-9, 3e-2]}, env_steps=2_000, metric="success-rate",
        sampler="grid", fixed={**SMALL_PPO, "jit_compile": False}, **{**QUICK, "executor": executor, "seeds": 2},
    )  # fmt: skip
    values = {trial.params["learning_rate"]: trial.value for trial in found.study.trials()}
    assert values[1e-9] == pytest.approx(1 / 16, abs=0.06)  # four right actions of random ones
    assert values[3e-2] > 0.5
    assert found.best.params["learning_rate"] == 3e-2
    assert return_bounds(found.study) == (0.0, 1.0)
    curves = learning_curves_data(found.study)
    assert curves.metric == "return"
    assert found.study.trials()[0].user_attrs["custom_metrics"]["is_success"]["max"] == 1.0


@pytest.mark.slow
def test_other_numbers_of_info_are_metrics_too() -> None:
    found = finder.tune(
        "ppo", Corridor, {"learning_rate": [1e-9]}, env_steps=500, metric="custom:cell", n_trials=1,
        sampler="grid", fixed={**SMALL_PPO, "jit_compile": False}, **QUICK,
    )  # fmt: skip
    assert 0.5 < found.study.trials()[0].value < 2  # 15 / 16 cells in the mean


def test_info_metrics_reach_the_callbacks_of_a_single_run() -> None:
    class Keeps(agents.Callback):
        info_metrics = ("cell",)

        def __init__(self) -> None:
            self.cells: list[float] = []

        def on_episode_end(self, trainer: agents.Trainer, episode: agents.Episode) -> None:
            self.cells.append(episode.custom_metrics["cell"])

    keeps = Keeps()
    agent = agents.make("ppo", Corridor, **{**SMALL_PPO, "jit_compile": False})
    with agents.Trainer(agent, callbacks=[keeps]) as trainer:
        trainer.train(env_steps=100)
        returns = trainer.history.returns
    assert len(keeps.cells) == len(returns) > 5
    assert [cell == 4 for cell in keeps.cells] == [value == 1.0 for value in returns]
    with pytest.raises(agents.ConfigurationError, match="the metric 'cell' of a callback needs the info"):
        agents.Trainer(agent, callbacks=[Keeps()], pool=2)


@pytest.mark.slow
def test_greedy_returns_are_the_same_wherever_trials_run() -> None:
    values = {}
    for executor in ("inline", "process", "population"):
        found = finder.tune(
            "ppo", "CartPole-v1", {"learning_rate": [1e-9, 1e-2]}, env_steps=600, metric="greedy-return:3",
            sampler="grid", fixed={**SMALL_PPO, "jit_compile": False},
            **{**QUICK, "executor": executor, "seeds": 2, "confirm": 1, "confirm_seeds": 2, "n_reports": 4},
        )  # fmt: skip
        trials = found.study.trials()
        assert all(list(trial.intermediate_values) == [150, 300, 450, 600] for trial in trials)
        values[executor] = [trial.user_attrs["seed_values"] for trial in found.study.all_trials()]
    assert values["inline"] == values["process"] == values["population"]
    assert len(values["inline"]) == 3
    assert found.study.spec.metric == "greedy-return:3"
    assert "greedy return " in str(found)
    assert "confirmed over 2 further seeds" in str(found)
    assert "greedy return on CartPole-v1: 3 episodes without exploration at each report" in explain(found.study)
    assert return_bounds(found.study).most == 500


def test_greedy_returns_need_an_agent_and_a_time_limit() -> None:
    with pytest.raises(agents.ConfigurationError, match=r"learns is a training function.*greedy-return plays episodes"):
        search("greedy-return", energy=[1.0])
    with pytest.raises(agents.ConfigurationError, match=r"Corridor, which has no time limit.*--max-episode-steps N"):
        finder.tune("ppo", Corridor, {"gamma": [0.9]}, env_steps=500, metric="greedy-return", sampler="grid", **QUICK)
    limited = agents.EnvironmentSpec(Corridor, max_episode_steps=5)
    found = finder.tune(
        "ppo", limited, {"gamma": [0.9]}, env_steps=200, metric="greedy-return:2", sampler="grid",
        fixed={**SMALL_PPO, "jit_compile": False}, **{**QUICK, "n_reports": 2},
    )  # fmt: skip
    assert found.study.trials()[0].value in (0.0, 0.5, 1.0)


def self_play() -> agents.Callback:
    return agents.SelfPlay()


def test_greedy_episodes_in_environments_that_a_callback_does_not_change_are_refused() -> None:
    with pytest.raises(agents.ConfigurationError, match="which the callback SelfPlay does not change"):
        finder.tune(
            "ppo", "CartPole-v1", {"learning_rate": [1e-3]}, env_steps=500, metric="greedy-return",
            callbacks=[self_play], **QUICK,
        )  # fmt: skip

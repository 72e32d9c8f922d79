"""The metric of studies where none is given: greedy returns for agents that explore with noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import finder
from agents import AgentSpec, Callback, EnvironmentSpec, TrainingRun
from finder.finders.tuning import _read
from finder.search.default_metric import default_metric
from finder.search.options import default_pruner
from studies.spec.compatibility import continuation_error, differences
from studies.spec.spec import StudySpec


class Elsewhere(Callback):
    changes_environments = True


def without_limit() -> gym.Env[Any, Any]:
    return gym.make("Pendulum-v1").unwrapped


def learns(run: TrainingRun) -> None:
    run.report(1.0, length=10)


@pytest.mark.parametrize(
    ("agent", "metric"),
    [
        ("sac", "greedy-return"),
        ("td3", "greedy-return"),
        ("ddpg", "greedy-return"),
        ("ppo", "return"),
        ("a2c", "return"),
    ],
)
def test_agents_that_explore_with_noise_are_judged_by_greedy_episodes(agent: str, metric: str) -> None:
    assert default_metric([AgentSpec.of(agent, "Pendulum-v1")]) == metric


def test_agents_are_compared_by_greedy_episodes_if_one_of_them_explores_with_noise() -> None:
    assert default_metric([AgentSpec.of(name, "Pendulum-v1") for name in ("ppo", "sac")]) == "greedy-return"


def test_returns_of_training_count_where_greedy_episodes_cannot_be_played() -> None:
    sac = AgentSpec.of("sac", "Pendulum-v1")
    assert default_metric([sac, AgentSpec.of(learns, "Pendulum-v1")]) == "return"
    assert default_metric([sac], [Elsewhere]) == "return"
    assert default_metric([sac], total_env_steps=100_000) == "return"  # of which they would take more
    assert default_metric([AgentSpec.of("sac", EnvironmentSpec(without_limit))]) == "return"


def test_greedy_returns_race_too() -> None:
    assert [default_pruner(metric, None) for metric in ("return", "greedy-return:5", "auc")] == [
        "race",
        "race",
        "median",
    ]


def test_a_file_without_a_metric_has_that_of_its_agent(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    text = 'kind = "tune"\nagents = "sac"\nenv = "Pendulum-v1"\nname = "s"\nenv_steps = 1000\n'
    text += 'params.gamma = "0.9:0.99"\n'
    path.write_text(text)
    assert _read(path, {}).metric == "greedy-return"
    assert _read(path, {"metric": "auc"}).metric == "auc"
    assert _read(path, {"env_steps": None, "total_env_steps": 10_000}).metric == "return"
    path.write_text(f'metric = "return"\n{text}')
    assert _read(path, {}).metric == "return"
    path.write_text(f'metric = ["auc", "return"]\n{text}')
    assert _read(path, {}).metrics == ("auc", "return")


def test_a_study_from_before_is_continued_with_its_metric(tmp_path: Path) -> None:
    old, new = (
        StudySpec(name="s", agents="sac", env="Pendulum-v1", env_steps=1_000, metric=metric)  # type: ignore[arg-type]
        for metric in ("return", "greedy-return")
    )
    error = continuation_error(old, differences(old, new), ["s"], "finder delete s")
    assert "was made with the metric return; now the metric greedy-return is requested" in str(error)
    advice = (
        "Continue it with --metric return (in Python and in files metric = 'return'), give the new study another name"
    )
    assert advice in str(error)


@pytest.mark.slow
def test_the_best_reward_is_the_greedy_return_of_the_pick() -> None:
    small = {"hidden_sizes": [8], "batch_size": 8, "learning_starts": 20, "buffer_size": 1_000, "train_freq": 20}
    options: dict[str, Any] = {
        "env_steps": 420, "seeds": 2, "n_reports": 2, "executor": "inline", "storage": None, "confirm": 0,
        "fixed": small,
    }  # fmt: skip
    rates = finder.LRFinder("sac", "Pendulum-v1")
    found = rates.grid(rates=[1e-4, 1e-2], extend=False, **options)
    assert (found.study.spec.metric, found.study.spec.pruner) == ("greedy-return", "race")
    assert rates.best_reward == found.best.value < 0
    assert sorted(rates.rewards) == [1e-4, 1e-2]
    optimizers = finder.OptFinder("sac", environment="Pendulum-v1", optimizers=["adam", "sgd"])
    found = optimizers.find(learning_rates="own", **options)
    assert found.study.spec.metric == "greedy-return"
    assert optimizers.best_reward == found.best.value

"""Searches of classes and functions that share a name."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_PPO, TwoStep

import agents
from agents import ConfigurationError
from finder import LRFinder, work
from finder.results.search_result import SearchResult
from studies.errors import StudyError

OPTIONS: dict[str, Any] = {"env_steps": 160, "seeds": 1, "executor": "inline", "confirm": 0, "fixed": SMALL_PPO}


def maker(bonus: float) -> Callable[[], gym.Env[Any, Any]]:
    def make() -> gym.Env[Any, Any]:
        return gym.wrappers.TransformReward(TwoStep(), lambda reward: float(reward) + bonus)

    return make


def search(bonus: float, storage: str, **options: Any) -> SearchResult:
    return LRFinder("ppo", maker(bonus)).grid(1e-3, 1e-2, 2, storage=storage, **{**OPTIONS, **options})


def values_of(result: SearchResult) -> list[float]:
    return [float(trial.value or 0.0) for trial in result.study.trials()]


def test_another_environment_of_the_same_name_is_another_study(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 's.db'}"
    first = search(0.0, storage)
    other = search(100.0, storage)
    again = search(0.0, storage)
    assert other.study.name == f"{first.study.name}-2"
    assert min(values_of(other)) > 400.0 > max(values_of(first))  # of five steps with a bonus
    assert again.study.name == first.study.name
    assert len(again.study.trials()) == 2
    search(0.0, storage, study_name="mine").study.close()
    with pytest.raises(StudyError, match=r"was made with .*maker.* as environment; now .*maker.* as environment"):
        search(100.0, storage, study_name="mine")
    with pytest.raises(ConfigurationError, match=r"The study's environment is .*: give the same class or function"):
        work("mine", storage, environment=maker(100.0))


def test_searches_in_threads_have_the_values_of_searches_one_by_one() -> None:
    def values(_: int) -> list[float]:
        return values_of(LRFinder("ppo", "CartPole-v1").grid(1e-3, 1e-2, 2, storage=None, progress=False, **OPTIONS))

    alone = values(0)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(values, range(4))) == [alone] * 4


def test_numpy_seeds_can_be_saved(tmp_path: Path) -> None:
    [seed] = np.arange(1)
    agent = agents.make("ppo", "CartPole-v1", seed=seed, **SMALL_PPO)
    with agents.Trainer(agent, callbacks=[agents.Checkpoint(tmp_path, every="32 steps")]) as trainer:
        trainer.train(env_steps=64)
    assert list(tmp_path.iterdir())

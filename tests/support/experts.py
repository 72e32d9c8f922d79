"""Demonstrations for tests: datasets of Minari that a rule recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np


def record_rule(
    folder: Path,
    env_id: str,
    rule: Callable[[Any], Any],
    monkeypatch: Any,
    *,
    n_episodes: int = 3,
    name: str = "rule-v0",
) -> str:
    """Record episodes in which a rule acts, in a folder of datasets that the process then uses; return the id."""
    import minari
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    environment, episodes = gym.make(env_id), []
    for number in range(n_episodes):
        observation, _ = environment.reset(seed=number)
        steps: dict[str, list[Any]] = {"actions": [], "rewards": [], "terminations": [], "truncations": []}
        observations, over = [observation], False
        while not over:
            action = rule(observation)
            observation, reward, terminated, truncated, _ = environment.step(action)
            observations.append(observation)
            for values, value in zip(steps.values(), (action, float(reward), terminated, truncated), strict=True):
                values.append(value)
            over = terminated or truncated
        arrays = {"observations": np.array(observations), "actions": np.array(steps.pop("actions"))}
        episodes.append(EpisodeBuffer(id=number, seed=number, **arrays, **steps))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about authors and code that are not given
        minari.create_dataset_from_buffers(name, episodes, env=environment)
    return name


def balance(observation: Any) -> int:
    """Push the cart of CartPole-v1 to where its pole falls: 500 steps from nearly every start."""
    position, velocity, angle, turning = observation
    return int(3.0 * angle + turning + 0.05 * position + 0.1 * velocity > 0.0)


def swing(observation: Any) -> Any:
    """Push the pendulum of Pendulum-v1 as it moves."""
    return np.array([np.clip(2.0 * observation[2], -2.0, 2.0)], np.float32)

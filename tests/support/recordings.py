"""Datasets of demonstrations for tests, written by Minari itself."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

CARTPOLE = gym.spec("CartPole-v1")


def episode(environment: gym.Env[Any, Any], n: int, seed: int = 0, *, truncated: bool | None = None) -> dict[str, Any]:
    """Return up to n random steps of an episode, as the arguments of Minari's `EpisodeBuffer`.

    Args:
        environment: The environment.
        n: Largest number of steps.
        seed: Seed of the environment and the actions.
        truncated: Flag of the last step where it did not terminate. Defaults to None: as the environment returned it.
    """
    environment.action_space.seed(seed)
    observation, _ = environment.reset(seed=seed)
    made: dict[str, Any] = {name: [] for name in ("actions", "rewards", "terminations", "truncations")}
    made["observations"] = [observation]
    for _ in range(n):
        action = environment.action_space.sample()
        observation, reward, terminated, cut, _ = environment.step(action)
        for name, value in zip(made, (action, float(reward), terminated, cut, observation), strict=True):
            made[name].append(value)
        if terminated or cut:
            break
    if truncated is not None and not made["terminations"][-1]:
        made["truncations"][-1] = truncated
    return made


def random_episodes(n: int = 3, steps: int = 8) -> list[dict[str, Any]]:
    """Return episodes of CartPole-v1, each with another seed."""
    with gym.make("CartPole-v1", disable_env_checker=True) as environment:
        return [episode(environment, steps, seed, truncated=True) for seed in range(n)]


def write(id: str, episodes: list[dict[str, Any]], env: Any = CARTPOLE, **options: Any) -> Path:
    """Write a dataset into the folder of local datasets; return its folder."""
    import minari
    from minari.data_collector import EpisodeBuffer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on authors and permalinks
        made = minari.create_dataset_from_buffers(id, [EpisodeBuffer(**each) for each in episodes], env=env, **options)
    return Path(made.storage.data_path).parent


class Several(gym.Env[Any, Any]):
    """An environment of random observations and any spaces, which terminates after five steps."""

    def __init__(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps == 5, False, {}


def stacked(values: list[Any], space: gym.Space[Any]) -> Any:
    """Return values of a space as one batch, as Minari stores them in each of its parts."""
    if isinstance(space, gym.spaces.Dict):
        return {name: stacked([value[name] for value in values], part) for name, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(stacked([value[i] for value in values], part) for i, part in enumerate(space.spaces))
    return np.stack(values)

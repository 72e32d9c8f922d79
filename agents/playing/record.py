"""Recording: episodes of a trained agent as a dataset of demonstrations, in the spaces of the environment."""

from __future__ import annotations

import copy
import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from agents.contract.agent import Agent, require_built
from agents.demonstrations.checks import check_single_agent
from agents.demonstrations.writing import DatasetWriter, EpisodeRecord
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, check_at_least
from agents.playing.play import PlayedEpisode, play


class Recorded(NamedTuple):
    """A dataset that was recorded."""

    dataset: str  # its id, such as "CartPole/expert-v0"
    folder: Path
    episodes: list[PlayedEpisode]


def record(
    agent: Agent,
    name: str,
    environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
    *,
    n_episodes: int = 10,
    explore: bool = False,
    seed: int = 1_000_000,
    max_steps: int | None = None,
    on_episode: Callable[[PlayedEpisode], None] | None = None,
) -> Recorded:
    """Record episodes of an agent as a dataset of Minari: ``agents.record(agents.load_agent("runs/x"), "expert")``.

    Observations, actions and rewards are those of the environment with its wrappers, so that other libraries can use
    the dataset; `load_demonstrations` reads it. The dataset appears in the folder of Minari's datasets
    (``MINARI_DATASETS_PATH``) when recording ends; Ctrl-C or an error keeps the complete episodes.

    Args:
        agent: The agent. Its state does not change, except for its exploration stream if `explore` is set.
        name: Name of the dataset, which gets the next free version (``"CartPole/expert"`` becomes
            ``"CartPole/expert-v0"``); or a name with a version that is free.
        environment: The environment: an id, a function that makes one, or a spec. Defaults to that of the agent.
        n_episodes: Number of complete episodes, >= 1. Defaults to 10.
        explore: Whether actions are drawn as in training. Defaults to False: the greedy ones.
        seed: Seed of the environment; training does not use the default.
        max_steps: Steps after which an episode is truncated, >= 1. Defaults to None: the environment's limit.
        on_episode: Called with every episode at its end.

    Returns:
        The dataset and its episodes.

    Raises:
        ConfigurationError: Minari is not installed; a name that is none, or whose version exists; no environment, one
            of several agents, or a bad number.
    """
    require_built(agent, "record()")
    spec = agent.environment if environment is None else EnvironmentSpec.of(environment)
    if spec is None:
        raise ConfigurationError("record() needs an environment: the agent was made without one. Pass environment.")
    check_at_least(1, n_episodes=n_episodes, max_steps=max_steps)
    about = about_agent(agent, spec, explore=explore, seed=seed)
    with Recording(spec, name, about, max_steps=max_steps) as recording:
        played = play(
            agent,
            recording.environment,
            n_episodes=n_episodes,
            max_steps=max_steps,
            explore=explore,
            seed=seed,
            on_episode=on_episode,
        )
    return Recorded(recording.dataset, recording.folder, played)


def about_agent(agent: Agent, environment: EnvironmentSpec, *, explore: bool, seed: int) -> dict[str, Any]:
    """Return the metadata of a dataset that an agent records; see `record` for the arguments."""
    name, how = type(agent).__name__, "actions drawn as in training" if explore else "greedy actions"
    description = f"{name} in {environment.label}, {how}, seed {seed}."
    return {"algorithm_name": name, "description": description, "explore": bool(explore), "seed": int(seed)}


class Recording:
    """A dataset of the complete episodes that are played in an environment within the block.

    Args:
        environment: The environment.
        name: See `record`.
        about: Entries of the metadata of the dataset, such as ``algorithm_name`` and ``description``.
        max_steps: Steps after which an episode is truncated. Defaults to None: the environment's limit.

    Attributes:
        environment: The environment to play in.

    Raises:
        ConfigurationError: See `record`.
    """

    def __init__(
        self, environment: EnvironmentSpec, name: str, about: Mapping[str, Any], *, max_steps: int | None = None
    ) -> None:
        self._spec, self._max_steps = environment, max_steps
        made = self._make_limited()
        try:
            observations, actions, spec = made.observation_space, made.action_space, made.spec
        finally:
            made.close()
        check_single_agent(observations, environment.label)
        version = importlib.metadata.version("agentfinder")
        self._writer = DatasetWriter(name, observations, actions, spec, {**about, "agentfinder_version": version})

        def make(**arguments: Any) -> gym.Env[Any, Any]:
            return _Recorder(self._make_limited(**arguments), self._writer.add)

        make.__name__ = environment.label  # the name in error messages
        self.environment = EnvironmentSpec(make, vectorization="sync")

    @property
    def dataset(self) -> str:
        """Id of the dataset; "" as long as the block runs, and where no episode was complete."""
        return self._writer.id

    @property
    def folder(self) -> Path:
        """Folder of the dataset."""
        return self._writer.folder

    @property
    def n_episodes(self) -> int:
        """Number of complete episodes so far."""
        return self._writer.n_episodes

    @property
    def n_steps(self) -> int:
        """Number of their steps."""
        return self._writer.n_steps

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, traceback)

    def _make_limited(self, **arguments: Any) -> gym.Env[Any, Any]:
        made = self._spec.make_plain(**arguments)
        return made if self._max_steps is None else TimeLimit(made, self._max_steps)


class _Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Pass on every complete episode."""

    def __init__(self, environment: gym.Env[Any, Any], on_episode: Callable[[EpisodeRecord], None]) -> None:
        super().__init__(environment)
        self._on_episode = on_episode
        self._episode: EpisodeRecord | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        began = self.env.reset(seed=seed, options=options)
        self._episode = EpisodeRecord(seed, [copy.deepcopy(began[0])])
        return began

    def step(self, action: Any) -> Any:
        taken = copy.deepcopy(action)
        stepped = observation, reward, terminated, truncated, _ = self.env.step(action)
        episode = self._episode
        if episode is not None:
            episode.observations.append(copy.deepcopy(observation))  # environments may change it at the next step
            episode.actions.append(taken)
            episode.rewards.append(float(reward))
            episode.terminations.append(bool(terminated))
            episode.truncations.append(bool(truncated))
            if terminated or truncated:
                self._episode = None
                self._on_episode(episode)
        return stepped

"""Demonstrations as arrays, in the spaces of an agent: what imitation learns from."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from agents.demonstrations.checks import check_recorded_in, check_same_spaces, check_single_agent
from agents.demonstrations.episodes import RecordedDataset, RecordedEpisode
from agents.demonstrations.folders import data_folder, require_minari
from agents.environments.interface import Interface
from agents.environments.spec import EnvironmentSpec
from agents.errors import ConfigurationError, check_whole
from agents.short_repr import short_repr

Array = np.ndarray[Any, Any]
Source = str | os.PathLike[str]

KEPT = 4
"""Demonstrations that stay in memory for the next agent of this process that asks for the same ones."""


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Steps of complete episodes of an expert, in the spaces of an agent; the arrays cannot be written.

    Attributes:
        observations: [M, ...] float32 vectors or uint8 images, as the agent sees them.
        actions: As `Agent.act` returns them: [M] int64, [M, D] int64, or [M, D] float32 within [-1, 1] (with an
            infinite bound of the environment's actions, as they are).
        next_observations: [M, ...] the successors, also of the last step of an episode.
        terminated: [M] bool: the episode ended there, by the rules of the environment.
        truncated: [M] bool: the last step of an episode that did not terminate.
        returns: [E] float64, sum of the rewards of each episode.
        lengths: [E] int64, steps of each episode; the episodes follow one another in the other arrays.
        label: Ids of the datasets, for messages.
    """

    observations: Array
    actions: Array
    next_observations: Array
    terminated: Array
    truncated: Array
    returns: Array
    lengths: Array
    label: str

    __repr__ = short_repr

    def __len__(self) -> int:
        """Return the number of steps, M."""
        return len(self.actions)


def load_demonstrations(
    source: Source | Sequence[Source],
    interface: Interface,
    environment: EnvironmentSpec | None = None,
    *,
    n_episodes: int | None = None,
) -> Demonstrations:
    """Load demonstrations from datasets of Minari.

    An episode whose last step neither terminated nor was truncated, for example because its recording was stopped, is
    truncated there: its successor was recorded. The same demonstrations are read once in a process, as long as their
    files do not change.

    Args:
        source: The id of a local dataset (``"CartPole/expert-v0"``), a name (``"CartPole/expert"``: its newest local
            version) or the folder of a dataset; or several of these, whose episodes follow one another.
        interface: The agent's, `Agent.interface`: the spaces of the environment and those of the agent.
        environment: The environment that the agent learns in. A dataset that was recorded in another one is refused;
            different arguments are logged. Defaults to None: only spaces are compared.
        n_episodes: The first so many episodes of all, >= 1. Defaults to None: all.

    Returns:
        The demonstrations.

    Raises:
        ConfigurationError: Minari is not installed; there is no such dataset; one of them is damaged, empty, of another
            environment or of other spaces; an episode has no steps, goes on after its end, or has an action outside of
            the action space or an observation that is not finite; or there are fewer episodes.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise ConfigurationError("Demonstrations need the name of a dataset, or several; got none.")
    check_whole(1, n_episodes=n_episodes)
    check_single_agent(interface.observations, interface.label)
    require_minari()
    datasets = [RecordedDataset.open(data_folder(each)) for each in sources]
    for dataset in datasets:
        check_same_spaces(dataset, interface, datasets[0])
        if environment is not None:
            check_recorded_in(dataset, environment)
    return _loaded(_Request.of(datasets, interface, n_episodes))


@dataclass(frozen=True)
class _Request:
    """Demonstrations that are asked for: equal as long as the files on disk are the same."""

    files: tuple[tuple[Path, int, int], ...]  # path, time of the last change in ns, size in bytes
    spaces: tuple[str, str]
    n_episodes: int | None
    datasets: Sequence[RecordedDataset] = field(compare=False)
    interface: Interface = field(compare=False)

    @classmethod
    def of(cls, datasets: Sequence[RecordedDataset], interface: Interface, n_episodes: int | None) -> Self:
        from minari.serialization import serialize_space

        files = [path for dataset in datasets for path in sorted(dataset.folder.rglob("*"))]
        about = [(path, path.stat()) for path in files]
        return cls(
            tuple((path.resolve(), stat.st_mtime_ns, stat.st_size) for path, stat in about),
            (serialize_space(interface.observations), serialize_space(interface.actions)),
            n_episodes,
            datasets,
            interface,
        )


@functools.lru_cache(maxsize=KEPT)
def _loaded(request: _Request) -> Demonstrations:
    interface, datasets, n = request.interface, request.datasets, request.n_episodes
    available = sum(dataset.n_episodes for dataset in datasets)
    label = ", ".join(dataset.id for dataset in datasets)
    if n is not None and n > available:
        raise ConfigurationError(f"{label} has {available} episodes; n_episodes is {n}.")
    converted: list[_Converted] = []
    for dataset in datasets:
        take = dataset.n_episodes if n is None else min(dataset.n_episodes, n - len(converted))
        converted += [_Converted.of(episode, interface) for episode in dataset.episodes(take)]
    return _joined(converted, label)


@dataclass(frozen=True, eq=False)
class _Converted:
    """An episode in the spaces of the agent."""

    states: Array  # [L + 1, ...]
    actions: Array  # [L, ...]
    terminated: bool
    episode_return: float

    @classmethod
    def of(cls, episode: RecordedEpisode, interface: Interface) -> Self:
        try:
            states, _ = interface.convert_observation(episode.observations)
            actions = interface.invert_actions(episode.actions)
        except ConfigurationError as error:
            raise ConfigurationError(f"{episode.label} cannot be used: {error}") from error
        if len(states) != len(actions) + 1:
            raise ConfigurationError(
                f"{episode.label} is damaged: {len(actions)} actions have {len(actions) + 1} observations, before and "
                f"after each; it has {len(states)}."
            )
        finite = np.isfinite(states).reshape(len(states), -1).all(axis=1)
        if not finite.all():
            raise ConfigurationError(
                f"{episode.label} cannot be used: observation {int(np.argmin(finite))} is not finite (NaN or infinite)."
            )
        return cls(states, actions, episode.terminated, episode.episode_return)


def _joined(episodes: list[_Converted], label: str) -> Demonstrations:
    """Return the steps of all episodes; each episode is removed when it is copied, as images fill the memory."""
    lengths = np.array([len(episode.actions) for episode in episodes], np.int64)
    last = np.zeros(int(lengths.sum()), bool)
    last[np.cumsum(lengths) - 1] = True
    terminated = last & np.repeat([episode.terminated for episode in episodes], lengths)
    returns = np.array([episode.episode_return for episode in episodes], np.float64)
    actions = np.concatenate([episode.actions for episode in episodes])
    shape, kind = (len(last), *episodes[0].states.shape[1:]), episodes[0].states.dtype
    observations, following = np.empty(shape, kind), np.empty(shape, kind)
    for end, length in zip(np.cumsum(lengths)[::-1], lengths[::-1], strict=True):
        states = episodes.pop().states
        observations[end - length : end], following[end - length : end] = states[:-1], states[1:]
    made = Demonstrations(observations, actions, following, terminated, last & ~terminated, returns, lengths, label)
    for array in vars(made).values():
        if isinstance(array, np.ndarray):
            array.flags.writeable = False  # agents of this process share them
    return made

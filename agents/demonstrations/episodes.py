"""Datasets of Minari as they were recorded: their metadata and episodes, in the spaces of their environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np

from agents.demonstrations.folders import METADATA
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class RecordedEpisode:
    """One episode of L >= 1 steps, as the environment gave it.

    Attributes:
        label: The episode and its dataset, for messages.
        observations: L + 1 values of the environment's observation space, or such a batch in each of its parts.
        actions: [L, ...] values of the environment's action space.
        terminated: Whether the episode terminated; otherwise it was truncated.
        episode_return: Sum of its rewards.
    """

    label: str
    observations: Any
    actions: Array
    terminated: bool
    episode_return: float

    @classmethod
    def of(cls, recorded: Any, label: str) -> Self:
        """Make an episode from Minari's `EpisodeData`.

        Raises:
            ConfigurationError: The episode has no steps, is incomplete, or goes on after its end.
        """
        names = ("actions", "rewards", "terminations", "truncations")
        counts = {name: len(getattr(recorded, name)) for name in names}
        n = counts["actions"]
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{count} {name}" for name, count in counts.items())
            raise ConfigurationError(f"{label} is damaged: it has {found}. Record it again.")
        if n == 0:
            raise ConfigurationError(f"{label} has no steps: remove it from the dataset, or record it again.")
        ends = np.asarray(recorded.terminations, bool) | np.asarray(recorded.truncations, bool)  # [L]
        if ends[:-1].any():
            raise ConfigurationError(
                f"{label} goes on after its end: step {int(np.argmax(ends))} of {n} is marked as terminated or "
                f"truncated. Record every episode as one of its own."
            )
        total = float(np.sum(recorded.rewards, dtype=np.float64))
        return cls(label, recorded.observations, recorded.actions, bool(recorded.terminations[-1]), total)


@dataclass(frozen=True, eq=False)
class RecordedDataset:
    """A dataset on disk.

    Attributes:
        folder: The folder of its files.
        id: Its name and version, as Minari has it.
        n_episodes: Number of its episodes, >= 1.
        observations: Observation space of the environment.
        actions: Action space of the environment.
        environment: Specification of the environment as Gymnasium stores it; without id where none was recorded.
        minari: The dataset as Minari reads it.
    """

    folder: Path
    id: str
    n_episodes: int
    observations: gym.Space[Any]
    actions: gym.Space[Any]
    environment: dict[str, Any]
    minari: Any

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a dataset.

        Raises:
            ConfigurationError: The dataset is damaged or has no episodes.
        """
        import minari

        try:
            about = json.loads((folder / METADATA).read_text(encoding="utf-8"))
            for name in (
                "observation_space",
                "action_space",
            ):  # where one is missing, Minari would make the environment
                if name not in about:
                    raise ValueError(f"{METADATA} has no {name}")
            data = minari.MinariDataset(folder)
            found = dict(json.loads(about.get("env_spec") or "{}"))
            found["kwargs"] = dict(found.get("kwargs") or {})
            made = cls(folder, data.id, len(data), data.observation_space, data.action_space, found, data)
        except Exception as error:
            raise ConfigurationError(_unreadable(folder, error)) from error
        if not made.n_episodes:
            raise ConfigurationError(f"The dataset {made.id!r} has no episodes: record some ({folder}).")
        return made

    def episodes(self, n: int) -> Iterator[RecordedEpisode]:
        """Yield the first `n` episodes.

        Raises:
            ConfigurationError: The files are damaged, or an episode is; see `RecordedEpisode.of`.
        """
        recorded = self.minari.iterate_episodes(range(n))
        for i in range(n):
            try:
                data = next(recorded)
            except Exception as error:
                raise ConfigurationError(_unreadable(self.folder, error)) from error
            yield RecordedEpisode.of(data, f"Episode {i} of {self.id!r}")


def _unreadable(folder: Path, error: Exception) -> str:
    return (
        f"The dataset in {folder} cannot be read; its files are damaged, or of another version of Minari "
        f"({type(error).__name__}: {error}). Record or download it again."
    )

"""Plain facts that travel from a trial to its study."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """One finished episode of one seed of a trial.

    Attributes:
        seed: The seed, out of the study's seeds, that the episode belongs to.
        episode: The episode's number within its seed, from 0.
        env_steps: Environment steps that the seed had taken when the episode ended.
        episode_return: Sum of the episode's rewards, undiscounted.
        length: The episode's length in environment steps.
        loss: The loss of the latest update when the episode ended; None before the first update.
        wall_seconds: Seconds since the trial's start when the episode ended.
    """

    seed: int
    episode: int
    env_steps: int
    episode_return: float
    length: int
    loss: float | None
    wall_seconds: float

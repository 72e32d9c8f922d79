"""Plain facts that travel between a study and its trials."""

from __future__ import annotations

from dataclasses import dataclass, field

from studies.spec.spaces import Json


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


@dataclass(frozen=True, slots=True)
class Ask:
    """The next trial to run.

    Attributes:
        number: Its number in the study.
        params: What it sets: the spec's fixed parameters and the proposed ones.
        seeds: The seeds to train with.
        confirms: The trial that it runs again on further seeds, None for a trial of the search.
        epoch: How often it was begun or resumed; its checkpoints are told apart by that.
        resumed: Whether it was trained before, and continues.
    """

    number: int
    params: dict[str, Json]
    seeds: tuple[int, ...]
    confirms: int | None = None
    epoch: int = field(default=1, compare=False)
    resumed: bool = field(default=False, compare=False)

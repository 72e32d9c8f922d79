"""Records that studies and trials exchange."""

from __future__ import annotations

from dataclasses import dataclass, field

from studies.spaces.spaces import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """Finished episode of one seed of a trial.

    Attributes:
        seed: Seed of the study that the episode belongs to.
        episode: Number of the episode within its seed, from 0.
        env_steps: Environment steps that the seed had taken when the episode ended.
        episode_return: Undiscounted sum of rewards.
        length: Length in environment steps.
        loss: Loss of the latest update when the episode ended; None before the first update.
        wall_seconds: Seconds since the start of the trial when the episode ended.
    """

    seed: int
    episode: int
    env_steps: int
    episode_return: float
    length: int
    loss: float | None
    wall_seconds: float

    def as_python(self) -> EpisodeRecord:
        """Return the record with numbers of Python: those of NumPy cannot be sent or kept as JSON."""
        return EpisodeRecord(
            seed=int(self.seed),
            episode=int(self.episode),
            env_steps=int(self.env_steps),
            episode_return=float(self.episode_return),
            length=int(self.length),
            loss=None if self.loss is None else float(self.loss),
            wall_seconds=float(self.wall_seconds),
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """Next trial to run.

    Attributes:
        number: Number of the trial in the study.
        params: Fixed parameters of the spec and the proposed ones.
        seeds: Seeds to train with.
        confirms: Trial that it confirms on further seeds, None for a trial of the search.
        epoch: Number of times that the trial was started or resumed, which distinguishes its checkpoints.
        resumed: Whether the trial was trained before, and continues.
        promoted_from: Environment steps after which it was paused until now; None if it was not.
        wall_seconds: Seconds that it was trained before its pauses.
        was_paused: Whether it has been paused, before an interruption perhaps.
        is_baseline: Whether it has the parameters of the baseline of the study.
    """

    number: int
    params: dict[str, Json]
    seeds: tuple[int, ...]
    confirms: int | None = None
    epoch: int = field(default=1, compare=False)
    resumed: bool = field(default=False, compare=False)
    promoted_from: int | None = field(default=None, compare=False)
    wall_seconds: float = field(default=0.0, compare=False)
    was_paused: bool = field(default=False, compare=False)
    is_baseline: bool = field(default=False, compare=False)

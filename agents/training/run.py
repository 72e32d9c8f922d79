"""One run: what belongs to a single training of one agent, whether it is trained alone or in a population."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import cloudpickle

from agents.errors import ConfigurationError, NonFiniteError
from agents.training.records import Episode, Evaluation, History

log = logging.getLogger(__name__)


@dataclass
class RunningEpisode:
    """What callbacks know of an episode that has not ended.

    Attributes:
        custom_metrics: Numbers that are kept with the episode, by name.
        user_data: Whatever a callback wants to remember until the episode has ended.
    """

    custom_metrics: dict[str, float] = field(default_factory=dict)
    user_data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """The counters and the fate of one run.

    Attributes:
        member: Its number in the population; 0 for an agent alone. It stays the same when others leave.
        seed: Of its environments and its memory.
        env_steps: Environment steps made.
        history: Its episodes.
        newest_loss: Loss of its newest update, or None before the first.
        stop_reason: Why it was asked to stop, or None.
        error: Why it cannot go on, or None. Only in populations: an agent alone raises.
        running: What callbacks know of the episodes that run, by copy of the environment.
    """

    member: int = 0
    seed: int = 0
    env_steps: int = 0
    history: History = field(default_factory=History)
    newest_loss: float | None = None
    stop_reason: str | None = None
    error: Exception | None = None
    running: dict[int, RunningEpisode] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether it was stopped or has failed."""
        return self.stop_reason is not None or self.error is not None

    def episode(self, environment: int = 0) -> RunningEpisode:
        """What callbacks know of the episode that runs in a copy of the environment."""
        return self.running.setdefault(environment, RunningEpisode())

    def end_episode(self, environment: int, episode_return: float, length: int, wall_seconds: float) -> Episode:
        """Note that the episode in a copy of the environment has ended."""
        known = self.running.pop(environment, None) or RunningEpisode()
        index, own = len(self.history.returns), (known.custom_metrics, known.user_data)
        numbers = (index, self.env_steps, episode_return, length, self.newest_loss, wall_seconds)
        episode = Episode(*numbers, environment, self.member, *own)
        self.history.add(episode)
        return episode

    def get_state(self) -> dict[str, Any]:
        """Everything of the run, as plain values; of an error only what it said."""
        return {
            "member": self.member,
            "seed": self.seed,
            "env_steps": self.env_steps,
            "episodes": list(self.history.episodes),
            "evaluations": list(self.history.evaluations),
            "newest_loss": self.newest_loss,
            "stop_reason": self.stop_reason,
            "error": None if self.error is None else (type(self.error).__name__, str(self.error)),
            "running": {at: (dict(own.custom_metrics), _kept(own.user_data)) for at, own in self.running.items()},
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """The run that `get_state` told of."""
        own = dict(state)
        episodes, evaluations, error = own.pop("episodes"), own.pop("evaluations", ()), own.pop("error")
        running = {at: RunningEpisode(*known) for at, known in own.pop("running", {}).items()}
        run = cls(**own, error=None if error is None else _error_of(*error), running=running)
        for episode in episodes:  # those of older checkpoints have nothing of callbacks
            run.history.add(Episode(*episode[:8], *(episode[8:] or ({}, {}))))
        run.history.evaluations.extend(Evaluation(*evaluation) for evaluation in evaluations)
        return run


def _kept(user_data: Mapping[str, Any]) -> dict[str, Any]:
    """What can go into another process. The rest is gone there, and an episode that runs is without it."""
    kept = {}
    for name, value in user_data.items():
        try:
            kept[name] = cloudpickle.loads(cloudpickle.dumps(value))
        except Exception as error:  # noqa: BLE001 - whatever a user's object raises
            log.warning("user_data[%r] is not kept in checkpoints: %s", name, error)
    return kept


def _error_of(name: str, told: str) -> Exception:
    return NonFiniteError(told) if name == NonFiniteError.__name__ else RuntimeError(f"{name}: {told}")


class TrainingResult(NamedTuple):
    """How a call of `Trainer.train` ended."""

    reason: str  # why it stopped
    env_steps: int  # of the whole run so far
    gradient_steps: int
    history: History
    wall_seconds: float


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train; counted from the beginning of the run. None means without limit."""

    env_steps: int | None = None
    episodes: int | None = None

    def __post_init__(self) -> None:
        """Refuse budgets below one."""
        for name in ("env_steps", "episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} must be >= 1, got {value}.")

    def after(self, run: Run) -> Budget:
        """The same, counted from where a run is."""
        return Budget(
            env_steps=None if self.env_steps is None else run.env_steps + self.env_steps,
            episodes=None if self.episodes is None else len(run.history.returns) + self.episodes,
        )

    def steps_reached(self, env_steps: int) -> bool:
        """Whether these environment steps are all of it."""
        return self.env_steps is not None and env_steps >= self.env_steps

    def episodes_reached(self, run: Run) -> bool:
        """Whether the episodes of a run are all of it."""
        return self.episodes is not None and len(run.history.returns) >= self.episodes

    def is_over(self, run: Run) -> bool:
        """Whether a run is over, by its episodes or because it was stopped or failed."""
        return run.over or self.episodes_reached(run)

    def steps_ahead(self, env_steps: int, n_envs: int, wanted: int) -> int:
        """Steps of each of `n_envs` copies: those that are wanted, or fewer where the budget is used before."""
        if self.env_steps is None:
            return wanted
        return min(wanted, -(-(self.env_steps - env_steps) // n_envs))

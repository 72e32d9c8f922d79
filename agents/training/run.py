"""A run: the state of a training of one agent, either alone or in a population."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import cloudpickle

from agents.errors import Cause, NonFiniteError, cause_of, whole_number, with_cause
from agents.training.records import Episode, Evaluation, History

log = logging.getLogger(__name__)


@dataclass
class RunningEpisode:
    """Data of callbacks for an episode that has not ended.

    Attributes:
        custom_metrics: Numbers that are stored with the episode, by name.
        user_data: Any notes of a callback until the end of the episode.
    """

    custom_metrics: dict[str, float] = field(default_factory=dict)
    user_data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """Counters and status of one run.

    Attributes:
        member: Its number in the population, which does not change when others leave; 0 for a single agent.
        seed: Seed of its environments and its buffer.
        env_steps: Environment steps so far.
        history: Its episodes.
        newest_loss: Loss of its newest update, or None before the first.
        stop_reason: Reason of a requested stop, or None.
        error: Error that ended the run, or None. Only in populations: a single agent raises it.
        running: Data of callbacks for the running episodes, by index of the environment.
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
        """True if the run was stopped or has failed."""
        return self.stop_reason is not None or self.error is not None

    def episode(self, environment: int = 0) -> RunningEpisode:
        """Return the data of callbacks for the running episode of an environment."""
        return self.running.setdefault(environment, RunningEpisode())

    def end_episode(
        self,
        environment: int,
        episode_return: float,
        length: int,
        wall_seconds: float,
        metrics: Mapping[str, float] | None = None,
    ) -> Episode:
        """Record the end of the episode in an environment; `metrics` are further numbers that the collector counted."""
        known = self.running.pop(environment, None) or RunningEpisode()
        if metrics:
            known.custom_metrics = {**metrics, **known.custom_metrics}
        index, own = len(self.history.returns), (known.custom_metrics, known.user_data)
        numbers = (index, self.env_steps, episode_return, length, self.newest_loss, wall_seconds)
        episode = Episode(*numbers, environment, self.member, *own)
        self.history.add(episode)
        return episode

    def get_state(self) -> dict[str, Any]:
        """Return the state of the run as plain values; of an error only its message and cause."""
        return {
            "member": self.member,
            "seed": self.seed,
            "env_steps": self.env_steps,
            "episodes": list(self.history.episodes),
            "evaluations": list(self.history.evaluations),
            "newest_loss": self.newest_loss,
            "stop_reason": self.stop_reason,
            "error": None if self.error is None else _error_state(self.error),
            "running": {at: (dict(own.custom_metrics), _picklable(own.user_data)) for at, own in self.running.items()},
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the run of a state of `get_state`."""
        own = dict(state)
        episodes, evaluations, error = own.pop("episodes"), own.pop("evaluations", ()), own.pop("error")
        running = {at: RunningEpisode(*known) for at, known in own.pop("running", {}).items()}
        run = cls(**own, error=None if error is None else _error_of(*error), running=running)
        for episode in episodes:  # older checkpoints have no data of callbacks
            run.history.add(Episode(*episode[:8], *(episode[8:] or ({}, {}))))
        run.history.evaluations.extend(Evaluation(*evaluation) for evaluation in evaluations)
        return run


def _picklable(user_data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notes that can be pickled; all others are dropped from the checkpoint, with a warning."""
    kept = {}
    for name, value in user_data.items():
        try:
            kept[name] = cloudpickle.loads(cloudpickle.dumps(value))
        except Exception as error:  # noqa: BLE001 - a user's object may raise anything
            log.warning("user_data[%r] is not kept in checkpoints: %s", name, error)
    return kept


def _error_state(error: Exception) -> tuple[str, str, Cause | None]:
    return type(error).__name__, str(error), cause_of(error)


def _error_of(name: str, message: str, cause: Cause | None = None) -> Exception:
    error = NonFiniteError(message) if name == NonFiniteError.__name__ else RuntimeError(f"{name}: {message}")
    return error if cause is None else with_cause(error, cause)


class TrainingResult(NamedTuple):
    """Result of a call of `Trainer.train`."""

    reason: str  # reason of the end
    env_steps: int  # of the complete run so far
    gradient_steps: int
    history: History
    wall_seconds: float


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Length of a training, counted from the beginning of the run. None means no limit."""

    env_steps: int | None = None
    episodes: int | None = None

    def __post_init__(self) -> None:
        """Refuse budgets below one."""
        for name, value in (("env_steps", self.env_steps), ("episodes", self.episodes)):
            object.__setattr__(self, name, whole_number(1, name, value))

    def after(self, run: Run) -> Budget:
        """Return the same budget, counted from the current state of a run."""
        return Budget(
            env_steps=None if self.env_steps is None else run.env_steps + self.env_steps,
            episodes=None if self.episodes is None else len(run.history.returns) + self.episodes,
        )

    def steps_reached(self, env_steps: int) -> bool:
        """Return whether these environment steps use up the budget."""
        return self.env_steps is not None and env_steps >= self.env_steps

    def episodes_reached(self, run: Run) -> bool:
        """Return whether the episodes of a run use up the budget."""
        return self.episodes is not None and len(run.history.returns) >= self.episodes

    def is_over(self, run: Run) -> bool:
        """Return whether a run is over, by its episodes or because it was stopped or has failed."""
        return run.over or self.episodes_reached(run)

    def steps_ahead(self, env_steps: int, n_envs: int, wanted: int) -> int:
        """Return the steps per environment: `wanted`, or fewer if the budget ends before."""
        if self.env_steps is None:
            return wanted
        return min(wanted, -(-(self.env_steps - env_steps) // n_envs))

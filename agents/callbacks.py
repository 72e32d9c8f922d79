"""Callbacks: how the rest of the world hears of a run and takes part in it.

Progress, early stopping, finders and recorders are all callbacks. A callback may ask the loop to stop
(`trainer.stop(reason)`) and may change a live hyperparameter (`trainer.set_hyperparameter(name, value)`); in a
population both may be meant for one member. What concerns one member says which; what does not (a step of all
environments, a rollout) concerns them all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from agents.agent import UpdateMetrics
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.run import Run
    from agents.trainer import Trainer


class Episode(NamedTuple):
    """One episode that has ended."""

    # 0, 1, 2, ... in the order in which episodes of this run ended. (It hides tuple.index, which nobody misses.)
    index: int  # type: ignore[assignment]
    env_steps: int  # environment steps of the whole run when it ended
    episode_return: float  # sum of the environment's rewards
    length: int  # steps
    loss: float | None  # loss of the newest update when it ended; None before the first
    wall_seconds: float  # since training began
    environment: int  # which of its copies of the environment
    member: int = 0  # which member of a population


class Callback:
    """Override what you need; every method gets the trainer. Methods that are not overridden cost nothing."""

    every_gradient_step: bool = False
    """Whether `on_update_begin` and `on_update_end` are wanted around every single gradient step."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Training begins, or goes on."""

    def on_train_end(self, trainer: Trainer) -> None:
        """Training has ended, also when it ended by an error."""

    def on_run_end(self, trainer: Trainer, run: Run) -> None:
        """A run is over: its budget is used up, it was stopped, or (in a population) it failed.

        In a population a member leaves with this; now is the last time to take its agent, by
        ``trainer.agent.extract(trainer.position(run.member))``.
        """

    def on_episode_begin(self, trainer: Trainer, environment: int, member: int) -> None:
        """A copy of the environment begins an episode; `environment` counts the copies of that member."""

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        """An episode has ended."""

    def on_step_end(self, trainer: Trainer) -> None:
        """All copies of the environment were stepped once."""

    def on_rollout_begin(self, trainer: Trainer) -> None:
        """Steps are about to be collected for the next update."""

    def on_rollout_end(self, trainer: Trainer) -> None:
        """Enough was collected; an update follows."""

    def on_update_begin(self, trainer: Trainer) -> None:
        """An update is about to be made, of all members."""

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        """An update was made; in a population it is told of each member (`update.member`)."""


EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class LambdaCallback(Callback):
    """A callback from functions: ``LambdaCallback(on_episode_end=lambda trainer, episode: ...)``."""

    def __init__(self, **functions: Callable[..., None]) -> None:
        """Args: functions: event name (`on_episode_end`, ...) -> function with that event's arguments."""
        unknown = sorted(set(functions) - set(EVENTS))
        if unknown:
            raise ConfigurationError(f"Unknown events {unknown}; events are {', '.join(EVENTS)}.")
        for name, function in functions.items():
            setattr(self, name, function)


class CallbackList:
    """Calls, for every event, the callbacks that care about it, in order."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = list(callbacks)
        self._listeners = {
            event: [getattr(callback, event) for callback in self.callbacks if _listens(callback, event)]
            for event in EVENTS
        }
        self.every_gradient_step = any(callback.every_gradient_step for callback in self.callbacks)

    def wants(self, event: str) -> bool:
        """Whether anybody listens to the event."""
        return bool(self._listeners[event])

    def call(self, event: str, *arguments: Any) -> None:
        """Tells everybody who listens to the event."""
        for listener in self._listeners[event]:
            listener(*arguments)


def _listens(callback: Callback, event: str) -> bool:
    return event in vars(callback) or getattr(type(callback), event) is not getattr(Callback, event)


class Progress(Callback):
    """Prints a line now and then: time, steps, episodes, steps a second, mean and best return.

    Args:
        every_seconds: Seconds between lines. Defaults to 5.
        stream: Where to. Defaults to standard error.
        window: Episodes that the mean is taken over. Defaults to 100.
    """

    def __init__(self, every_seconds: float = 5.0, stream: TextIO | None = None, window: int = 100) -> None:
        self.every_seconds = every_seconds
        self.stream = stream
        self.window = window
        self._next = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        self._next = time.monotonic() + self.every_seconds

    def on_step_end(self, trainer: Trainer) -> None:
        if time.monotonic() >= self._next:
            self._print(trainer)
            self._next = time.monotonic() + self.every_seconds

    def on_train_end(self, trainer: Trainer) -> None:
        self._print(trainer)

    def _print(self, trainer: Trainer) -> None:
        seconds = max(trainer.wall_seconds, 1e-9)
        runs = trainer.runs
        steps, episodes = sum(run.env_steps for run in runs), sum(len(run.history.returns) for run in runs)
        means = [run.history.mean_return(self.window) for run in runs if run.history.returns]
        mean = f"{sum(means) / len(means):.1f}" if means else "-"
        best = f"{max(max(run.history.returns) for run in runs if run.history.returns):.1f}" if means else "-"
        print(
            f"{seconds:7.1f} s  {steps:>9,} steps  {episodes:>6,} episodes  "
            f"{steps / seconds:>8,.0f} steps/s  mean return {mean}  best {best}",
            file=self.stream or sys.stderr,
            flush=True,
        )


class StopAtReturn(Callback):
    """Stops once the mean return of the last `trial_count` episodes reaches `criterion`."""

    def __init__(self, criterion: float, trial_count: int = 100) -> None:
        if trial_count < 1:
            raise ConfigurationError(f"trial_count must be >= 1, got {trial_count}.")
        self.criterion = criterion
        self.trial_count = trial_count

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        history = trainer.runs[episode.member].history
        if len(history.returns) >= self.trial_count and history.mean_return(self.trial_count) >= self.criterion:
            told = f"mean return of the last {self.trial_count} episodes reached {self.criterion:g}"
            trainer.stop(told, episode.member)

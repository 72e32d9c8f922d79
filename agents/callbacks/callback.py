"""Callbacks: how the rest of the world hears of a run and takes part in it.

Progress, early stopping, finders and recorders are all callbacks. A callback may ask the loop to stop
(`trainer.stop(reason)`) and may change a live hyperparameter (`trainer.set_hyperparameter(name, value)`); in a
population both may be meant for one member. What concerns one member says which; what does not (a step of all
environments, a rollout) concerns them all.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from agents.contract.agent import Agent, UpdateMetrics
from agents.errors import ConfigurationError
from agents.trust.loading import loaded, place_of

if TYPE_CHECKING:
    from agents.buffers import Trajectory
    from agents.training.run import Run
    from agents.training.trainer import Trainer


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
    member: int  # which member of a population; 0 for an agent alone
    custom_metrics: dict[str, float]  # what callbacks measured of it, by name
    user_data: dict[str, Any]  # what callbacks noted while it ran; empty when all were told that it has ended


class Evaluation(NamedTuple):
    """How good the agent was at one moment of its training; see `agents.callbacks.evaluate.Evaluate`."""

    env_steps: int  # environment steps of training by then
    n_training_episodes: int  # episodes of training that had ended by then
    mean_return: float
    std_return: float  # sample standard deviation; NaN of a single episode
    min_return: float
    max_return: float
    n_episodes: int  # episodes that were played for it
    is_best: bool  # its mean is above those of all evaluations before it
    metrics: dict[str, float]  # what else a function of the user's told
    n_cut: int = 0  # episodes that were cut after the evaluation's limit of steps; these are among `n_episodes`


class Callback:
    """Override what you need; every method gets the trainer. Methods that are not overridden cost nothing."""

    last: bool = False
    """Whether it is told of everything after the callbacks that are not, because it keeps or shows what these did."""

    of_members: bool = False
    """Whether one object may hear of all members of a population: it keeps what it knows of each apart, and stops and
    changes them by their numbers. Runs of a study whose callbacks cannot are trained each by itself."""

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
        """An episode has ended.

        It has the `custom_metrics` and `user_data` that callbacks gave it while it ran
        (``trainer.runs[episode.member].episode(episode.environment)``), and what they add to `custom_metrics` now.
        """

    def on_step_end(self, trainer: Trainer) -> None:
        """All copies of the environment were stepped once."""

    def on_trajectory(self, trainer: Trainer, trajectory: Trajectory) -> None:
        """Steps of one episode are about to be learned from: now their `rewards` may be changed.

        Nothing is learned from before it was handed out here, once. An agent with a replay gets whole episodes, each
        when it has ended (or was cut off); until then it does not learn from them, nor from what other copies of the
        environment (of all members, in a population) did at the same times. One that learns from rollouts gets episodes
        that are still going on in pieces, just before the update: see `begins` and `ends`.

        What is learned from changes, and nothing else: returns of episodes stay those of the environment, so that a
        study judges by these. Told before `on_episode_end`. Refused where rewards cannot be rewritten: with a pool,
        with hindsight replay, with EnvPool by name; the callback must be given to the trainer when that is made.
        """

    def on_rollout_begin(self, trainer: Trainer) -> None:
        """Steps are about to be collected for the next update."""

    def on_rollout_end(self, trainer: Trainer) -> None:
        """Enough was collected; an update follows."""

    def on_update_begin(self, trainer: Trainer) -> None:
        """An update is about to be made, of all members."""

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        """An update was made; in a population it is told of each member (`update.member`)."""

    def on_evaluation_begin(self, trainer: Trainer) -> None:
        """The agent is about to be evaluated."""

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """The agent was evaluated, by a callback that does so now and then."""

    def get_state(self) -> dict[str, Any]:
        """What it must know again when a training goes on in another process, as plain values."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on where `get_state` was called."""


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
    """Calls, for every event, the callbacks that care about it, in order.

    Attributes:
        callbacks: In the order in which they are told.
        error: What one of them raised, or None.
    """

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.callbacks = sorted(callbacks, key=lambda callback: callback.last)
        self.error: Exception | None = None
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
            try:
                listener(*arguments)
            except Exception as error:
                self.error = error
                raise

    def call_each(self, event: str, *arguments: Any) -> None:
        """Tells everybody who listens to the event, also those after one that raises; what it raised comes then."""
        errors: list[Exception] = []
        for listener in self._listeners[event]:
            try:
                listener(*arguments)
            except Exception as error:  # noqa: BLE001 - raised again below
                self.error = error
                errors.append(error)
        if errors:
            raise errors[0]

    def get_state(self) -> dict[str, dict[str, Any]]:
        """What each of them must know again, by its name; those that need nothing are left out."""
        return {name: state for name, callback in self._named() if (state := callback.get_state())}

    def set_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Gives each its own back; one that was not there begins afresh."""
        for name, callback in self._named():
            if name in state:
                callback.set_state(state[name])

    def _named(self) -> list[tuple[str, Callback]]:
        """Their classes' names, with a number behind the second of a class."""
        seen: Counter[str] = Counter()
        named = []
        for callback in self.callbacks:
            name = type(callback).__name__
            seen[name] += 1
            named.append((name if seen[name] == 1 else f"{name}-{seen[name]}", callback))
        return named


def make_callbacks(makers: Iterable[Any]) -> list[Callback]:
    """New callbacks.

    Args:
        makers: What makes each when it is called without arguments: a class, a function, or the place of one,
            ``"module:Class"`` or ``"file.py:Class"``.

    Raises:
        ConfigurationError: There is nothing in that place, or it makes no callback; what it raised is the cause.
    """
    return [_made(maker) for maker in makers]


def find_maker(maker: Any) -> Callable[[], Any]:
    """What makes a callback, found but not called.

    Raises:
        ConfigurationError: See `make_callbacks`.
    """
    try:
        found = loaded(maker) if isinstance(maker, str) else maker
    except ConfigurationError as error:
        raise ConfigurationError(f"The callback {maker!r} cannot be loaded: {error}") from error
    if isinstance(found, Callback) or not callable(found):
        raise ConfigurationError(
            f"{maker!r} makes no callback: give a subclass of agents.Callback, or a function without arguments that "
            f"makes one; every run has callbacks of its own."
        )
    return found  # type: ignore[no-any-return]


def why_alone(callbacks: Iterable[Callback]) -> str:
    """Why runs with such callbacks cannot be members of a population; empty where they can."""
    for callback in callbacks:
        name = type(callback).__name__
        if _listens(callback, "on_trajectory"):
            return f"its callback {name} rewrites rewards, which it may do by what it knows of others of the same run."
        if not callback.of_members:
            return f"its callback {name} is one run's (its class does not say of_members = True)."
    return ""


def events_of(callback: Callback) -> list[str]:
    """The events that a callback listens to."""
    return [event for event in EVENTS if _listens(callback, event)]


def _made(maker: Any) -> Callback:
    found = find_maker(maker)
    try:
        made = found()
    except Exception as error:
        raise ConfigurationError(f"The callback {place_of(maker)!r} cannot be made: {error}") from error
    if not isinstance(made, Callback):
        raise ConfigurationError(f"{place_of(maker)!r} must make an agents.Callback, it made {made!r}.")
    return made


def require_alone(trainer: Trainer, what: str) -> Agent:
    """The agent of a trainer, for callbacks that know of one.

    Args:
        trainer: The trainer.
        what: The callback, for the message.

    Raises:
        ConfigurationError: It trains a population.
    """
    if not isinstance(trainer.agent, Agent):
        raise ConfigurationError(f"{what} is for an agent alone, and this trainer has a population.")
    return trainer.agent


def _listens(callback: Callback, event: str) -> bool:
    return event in vars(callback) or getattr(type(callback), event) is not getattr(Callback, event)


class Progress(Callback):
    """Prints a line now and then: time, steps, episodes, steps a second, mean and best return, learning rate.

    Args:
        every_seconds: Seconds between lines. Defaults to 5.
        stream: Where to. Defaults to standard error.
        window: Episodes that the mean is taken over. Defaults to 100.
    """

    last = True

    def __init__(self, every_seconds: float = 5.0, stream: TextIO | None = None, window: int = 100) -> None:
        self.every_seconds = every_seconds
        self.stream = stream
        self.window = window
        self._next = 0.0
        self._began = (0.0, 0)  # seconds and steps when this training began or went on

    def on_train_begin(self, trainer: Trainer) -> None:
        self._next = time.monotonic() + self.every_seconds
        self._began = (trainer.wall_seconds, sum(run.env_steps for run in trainer.runs))

    def on_step_end(self, trainer: Trainer) -> None:
        if time.monotonic() >= self._next:
            self.show(trainer)
            self._next = time.monotonic() + self.every_seconds

    def on_train_end(self, trainer: Trainer) -> None:
        self.show(trainer)

    def show(self, trainer: Trainer) -> None:
        """Prints a line."""
        print(self.line(trainer), file=self.stream or sys.stderr, flush=True)

    def line(self, trainer: Trainer) -> str:
        """What is to be told at this moment."""
        runs = trainer.runs
        steps, episodes = sum(run.env_steps for run in runs), sum(len(run.history.returns) for run in runs)
        seconds = trainer.wall_seconds
        speed = (steps - self._began[1]) / max(seconds - self._began[0], 1e-9)
        means = [run.history.mean_return(self.window) for run in runs if run.history.returns]
        mean = f"{sum(means) / len(means):.1f}" if means else "-"
        rates = rates_text(trainer)
        best = f"{max(max(run.history.returns) for run in runs if run.history.returns):.1f}" if means else "-"
        return (
            f"{seconds:7.1f} s  {steps:>9,} steps  {episodes:>6,} episodes  {speed:>8,.0f} steps/s  "
            f"mean return {mean}  best {best}{f'  {rates}' if rates else ''}"
        )


def rates_text(trainer: Trainer) -> str:
    """The learning rates in force; nothing for a population, whose members have their own."""
    agent = trainer.agent
    if not isinstance(agent, Agent):
        return ""
    rates = {name: f"{agent.get_learning_rate(name):.3g}" for name in agent.optimizers}
    if len(set(rates.values())) > 1:
        return f"learning rate {', '.join(f'{name} {rate}' for name, rate in rates.items())}"
    return f"learning rate {next(iter(rates.values()))}" if rates else ""


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

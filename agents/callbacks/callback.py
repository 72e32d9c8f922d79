"""Callbacks: how the rest of the world hears of a run and takes part in it.

Progress, early stopping, finders and recorders are all callbacks. A callback may ask the loop to stop
(`trainer.stop(reason)`) and may change a live hyperparameter (`trainer.set_hyperparameter(name, value)`); in a
population both may be meant for one member. What concerns one member says which; what does not (a step of all
environments, a rollout) concerns them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from agents.errors import ConfigurationError
from agents.training.listeners import EVENTS, Listener
from agents.training.records import Episode as Episode  # noqa: PLC0414 - for `agents.callbacks`
from agents.training.records import Evaluation as Evaluation  # noqa: PLC0414
from agents.trust.loading import loaded, place_of

if TYPE_CHECKING:
    from agents.buffers import Trajectory
    from agents.contract.agent import UpdateMetrics
    from agents.training.run import Run
    from agents.training.trainer import Trainer


class Callback(Listener):
    """Override what you need; every method gets the trainer. Methods that are not overridden cost nothing."""

    def listens_to(self, event: str) -> bool:
        return event in vars(self) or getattr(type(self), event) is not getattr(Callback, event)

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


class LambdaCallback(Callback):
    """A callback from functions: ``LambdaCallback(on_episode_end=lambda trainer, episode: ...)``."""

    def __init__(self, **functions: Callable[..., None]) -> None:
        """Args: functions: event name (`on_episode_end`, ...) -> function with that event's arguments."""
        unknown = sorted(set(functions) - set(EVENTS))
        if unknown:
            raise ConfigurationError(f"Unknown events {unknown}; events are {', '.join(EVENTS)}.")
        for name, function in functions.items():
            setattr(self, name, function)


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
        if callback.listens_to("on_trajectory"):
            return f"its callback {name} rewrites rewards, which it may do by what it knows of others of the same run."
        if not callback.of_members:
            return f"its callback {name} is one run's (its class does not say of_members = True)."
    return ""


def _made(maker: Any) -> Callback:
    found = find_maker(maker)
    try:
        made = found()
    except Exception as error:
        raise ConfigurationError(f"The callback {place_of(maker)!r} cannot be made: {error}") from error
    if not isinstance(made, Callback):
        raise ConfigurationError(f"{place_of(maker)!r} must make an agents.Callback, it made {made!r}.")
    return made

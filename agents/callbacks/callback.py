"""Base class for callbacks, which observe a training and take part in it.

Progress, early stopping, finders and recorders are callbacks. A callback may request the end of the loop
(`trainer.stop(reason)`) and change a mutable hyperparameter (`trainer.set_hyperparameter(name, value)`); in a
population both may be for one member. Events of one member name that member; all other events (a step of all
environments, a rollout) concern all members.
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
    """Base class for callbacks; every method gets the trainer. Methods that are not overridden cost nothing."""

    def listens_to(self, event: str) -> bool:
        return event in vars(self) or getattr(type(self), event) is not getattr(Callback, event)

    def on_train_begin(self, trainer: Trainer) -> None:
        """Called when training begins or is resumed."""

    def on_train_end(self, trainer: Trainer) -> None:
        """Called when training ends, also after an error."""

    def on_run_end(self, trainer: Trainer, run: Run) -> None:
        """Called when a run is over: its budget is used up, it was stopped, or (in a population) it failed.

        In a population the member leaves with this event; this is the last moment to extract its agent, by
        ``trainer.agent.extract(trainer.position(run.member))``.
        """

    def on_episode_begin(self, trainer: Trainer, environment: int, member: int) -> None:
        """Called when an environment begins an episode; `environment` is its index among the member's environments."""

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        """Called when an episode has ended.

        The episode has the `custom_metrics` and `user_data` that callbacks recorded during it
        (``trainer.runs[episode.member].episode(episode.environment)``); callbacks may add to its `custom_metrics` here.
        """

    def on_step_end(self, trainer: Trainer) -> None:
        """Called after one step of all environments."""

    def on_trajectory(self, trainer: Trainer, trajectory: Trajectory) -> None:
        """Called before steps of one episode are used for updates: their `rewards` may be changed here.

        Every step is passed to this event exactly once, before any update uses it. An agent with a replay buffer gets
        complete episodes, each when it has ended (or was truncated); until then the episode is not used, nor are the
        steps of other environments (of all members, in a population) at the same times. An on-policy agent gets
        unfinished episodes in pieces, just before the update: see `begins` and `ends`.

        Only the data of updates change: returns of episodes stay those of the environment, so that a study judges by
        these. Called before `on_episode_end`. Refused if rewards cannot be rewritten: with a pool, with hindsight
        replay, with EnvPool by name; the callback must be passed to the trainer's constructor.
        """

    def on_rollout_begin(self, trainer: Trainer) -> None:
        """Called before steps are collected for the next update."""

    def on_rollout_end(self, trainer: Trainer) -> None:
        """Called after the collection, before the update."""

    def on_update_begin(self, trainer: Trainer) -> None:
        """Called before an update, of all members."""

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        """Called after an update; in a population once per member (`update.member`)."""

    def on_evaluation_begin(self, trainer: Trainer) -> None:
        """Called before an evaluation of the agent."""

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Called after an evaluation of the agent by another callback."""


class LambdaCallback(Callback):
    """A callback from functions: ``LambdaCallback(on_episode_end=lambda trainer, episode: ...)``."""

    def __init__(self, **functions: Callable[..., None]) -> None:
        """Args: functions: event name (`on_episode_end`, ...) -> function with the arguments of that event."""
        unknown = sorted(set(functions) - set(EVENTS))
        if unknown:
            raise ConfigurationError(f"Unknown events {unknown}; events are {', '.join(EVENTS)}.")
        for name, function in functions.items():
            setattr(self, name, function)


def make_callbacks(makers: Iterable[Any]) -> list[Callback]:
    """Make new callbacks.

    Args:
        makers: Callables without arguments: classes, functions, or their paths, ``"module:Class"`` or
            ``"file.py:Class"``.

    Raises:
        ConfigurationError: A path does not exist, or the result is not a callback; the cause is the original error.
    """
    return [_make(maker) for maker in makers]


def find_maker(maker: Any) -> Callable[[], Any]:
    """Return the callable that makes a callback, without calling it.

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
            f"makes one; every run has its own callbacks."
        )
    return found  # type: ignore[no-any-return]


def why_alone(callbacks: Iterable[Callback]) -> str:
    """Return why runs with such callbacks cannot be members of a population; empty if they can."""
    for callback in callbacks:
        name = type(callback).__name__
        if callback.listens_to("on_trajectory"):
            return f"its callback {name} rewrites rewards, possibly from other data of the same run."
        if not callback.of_members:
            return f"its callback {name} is for a single run (its class does not set of_members = True)."
    return ""


def _make(maker: Any) -> Callback:
    found = find_maker(maker)
    try:
        made = found()
    except Exception as error:
        raise ConfigurationError(f"The callback {place_of(maker)!r} cannot be made: {error}") from error
    if not isinstance(made, Callback):
        raise ConfigurationError(
            f"{place_of(maker)!r} returns {type(made).__name__}, which is no callback: derive its class from "
            "agents.Callback."
        )
    return made

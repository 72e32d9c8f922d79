"""Listeners of a training: the events, the base class of objects that receive them, and their dispatch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

EVENTS = (
    "on_train_begin",
    "on_train_end",
    "on_run_end",
    "on_episode_begin",
    "on_episode_end",
    "on_step_end",
    "on_trajectory",
    "on_rollout_begin",
    "on_rollout_end",
    "on_update_begin",
    "on_update_end",
    "on_evaluation_begin",
    "on_evaluation_end",
)
"""Names of the methods that a training calls; `agents.Callback` documents each."""


class Listener:
    """Base class of objects that receive events of a training; subclass `agents.Callback`, which declares them."""

    last: bool = False
    """Whether it is called after the listeners that are not, because it stores or displays what these did."""

    of_members: bool = False
    """Whether one object may receive the events of all members of a population: its state is separate for each member,
    and it stops and changes members by their numbers. Runs of a study with other callbacks are trained one by one."""

    every_gradient_step: bool = False
    """Whether `on_update_begin` and `on_update_end` are wanted around every single gradient step."""

    shows_progress: bool = False
    """Whether it displays the progress of a training, so that `Trainer.train` prints none."""

    @property
    def state_name(self) -> str:
        """Name of its state in checkpoints. Defaults to the name of its class."""
        return type(self).__name__

    def listens_to(self, event: str) -> bool:
        """Return whether it receives an event."""
        return hasattr(self, event)

    def get_state(self) -> dict[str, Any]:
        """Return what is needed to resume in another process, as plain values."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""


class CallbackList:
    """Calls, for every event, the callbacks that care about it, in order.

    Attributes:
        callbacks: In the order in which they are told.
        error: What one of them raised, or None.
    """

    def __init__(self, callbacks: Iterable[Listener]) -> None:
        self.callbacks = sorted(callbacks, key=lambda callback: callback.last)
        self.error: Exception | None = None
        self._listeners = {
            event: [getattr(callback, event) for callback in self.callbacks if callback.listens_to(event)]
            for event in EVENTS
        }
        self.every_gradient_step = any(callback.every_gradient_step for callback in self.callbacks)

    def wants(self, event: str) -> bool:
        """Whether anybody listens to the event."""
        return bool(self._listeners[event])

    def call(self, event: str, *arguments: Any) -> None:
        """Tell everybody who listens to the event."""
        for listener in self._listeners[event]:
            try:
                listener(*arguments)
            except Exception as error:
                self.error = error
                raise

    def call_each(self, event: str, *arguments: Any) -> None:
        """Tell everybody who listens to the event, also those after one that raises; what it raised comes then."""
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
        """Give each its own back; one that was not there begins afresh."""
        for name, callback in self._named():
            if name in state:
                callback.set_state(state[name])

    def _named(self) -> list[tuple[str, Listener]]:
        """Their classes' names, with a number behind the second of a class."""
        seen: Counter[str] = Counter()
        named = []
        for callback in self.callbacks:
            name = callback.state_name
            seen[name] += 1
            named.append((name if seen[name] == 1 else f"{name}-{seen[name]}", callback))
        return named

"""Base class of objects that receive events of a training, the names of the events, and their dispatch."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from agents.errors import ConfigurationError

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

_ELSEWHERE = {
    "on_epoch_begin": ["on_update_begin"],
    "on_epoch_end": ["on_update_end"],
    "on_batch_begin": ["on_update_begin"],
    "on_batch_end": ["on_update_end"],
    "on_train_batch_begin": ["on_update_begin"],
    "on_train_batch_end": ["on_update_end"],
    "on_training_start": ["on_train_begin"],
    "on_rollout_start": ["on_rollout_begin"],
    "on_reset": ["on_episode_begin"],
    "on_test_begin": ["on_evaluation_begin"],
    "on_test_end": ["on_evaluation_end"],
    "on_validation_begin": ["on_evaluation_begin"],
    "on_validation_end": ["on_evaluation_end"],
}
"""Names of similar events in other libraries -> events."""

RAISED_IN = "Raised in"
"""Beginning of the note of an error of a callback, with the name of the callback and the event."""

_END = "on_train_end"


class Listener:
    """Base class for objects that receive events of a training; subclass `agents.Callback`, which declares them."""

    last: bool = False
    """True if it is called after all other listeners, because it stores or displays their results."""

    stores_states: bool = False
    """True if it stores the states of the other listeners, and so is called after all of them."""

    ends_last: bool = False
    """True if its `on_train_end` is called after those of all others, because it stores files that they write."""

    of_members: bool = False
    """True if one object may receive the events of all members of a population: its state is separate for each member,
    and it stops and changes members by their numbers. Runs of a study with other callbacks are trained one by one."""

    changes_environments: bool = False
    """True if it changes the environments of the training as it goes on, such as their phase or their opponents: other
    environments, such as those of evaluations, are another task."""

    every_gradient_step: bool = False
    """True if `on_update_begin` and `on_update_end` are called around every single gradient step."""

    shows_progress: bool = False
    """True if it displays the progress of a training, so that `Trainer.train` prints none."""

    info_metrics: tuple[str, ...] = ()
    """Names of numbers in the `info` of an episode's last step, which become custom metrics of the episode."""

    state_name: str | None = None
    """Name of its state in checkpoints; the name of its class if None, and for subclasses."""

    def listens_to(self, event: str) -> bool:
        """Return whether it receives an event."""
        return hasattr(self, event)

    def reset_state(self) -> None:
        """Forget an earlier training: a new one begins. Called before its `on_train_begin`."""
        return

    def get_state(self) -> dict[str, Any]:
        """Return the state for resuming in another process, as plain values."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`."""


class CallbackList:
    """Call callbacks for every event that they receive, in order.

    Attributes:
        callbacks: The callbacks, in the order of their calls.
        error: The error of a callback in this training, or None.
        raised: The error that ended this training, or None.
    """

    def __init__(self, callbacks: Iterable[Listener]) -> None:
        """Args: callbacks: see the attribute.

        Raises:
            ConfigurationError: One is not a callback.
        """
        callbacks = _checked(callbacks)
        self.callbacks = sorted(callbacks, key=lambda callback: (callback.last, callback.stores_states))
        self.error: Exception | None = None
        self.raised: Exception | None = None
        self._listeners = {
            event: [getattr(callback, event) for callback in self.callbacks if callback.listens_to(event)]
            for event in EVENTS
        }
        self.every_gradient_step = any(callback.every_gradient_step for callback in self.callbacks)
        self.info_metrics = tuple(dict.fromkeys(name for each in self.callbacks for name in each.info_metrics))

    def wants(self, event: str) -> bool:
        """Return whether any callback receives the event."""
        return bool(self._listeners[event])

    def reset_state(self) -> None:
        """Let all callbacks forget an earlier training."""
        for callback in self.callbacks:
            callback.reset_state()

    def call(self, event: str, *arguments: Any) -> None:
        """Call all callbacks that receive the event."""
        for listener in self._listeners[event]:
            self._notify(listener, event, *arguments)

    @contextmanager
    def during(self, trainer: Any) -> Generator[None]:
        """Call `on_train_begin` before the block and `on_train_end` after it, in spite of errors.

        If `on_train_begin` of one raises an error, `on_train_end` is called for those before it. Errors of
        `on_train_end` are notes of the error that ended the training; otherwise the first is raised.
        """
        self.error = self.raised = None
        begun: list[Listener] = []
        try:
            for callback in self.callbacks:
                self._call(callback, "on_train_begin", trainer)
                begun.append(callback)
            yield
        except Exception as error:
            self.raised = error
            raise
        finally:
            self._end(begun, trainer)

    def _end(self, begun: list[Listener], trainer: Any) -> None:
        first: Exception | None = None
        for callback in sorted(begun, key=lambda callback: callback.ends_last):
            try:
                self._call(callback, _END, trainer)
            except Exception as error:  # noqa: BLE001 - raised below
                first = first or error
                if self.raised is not None:
                    self.raised.add_note(f"After that, {_END} raised {type(error).__name__}: {error}")
        if self.raised is None and first is not None:
            raise first

    def _call(self, callback: Listener, event: str, trainer: Any) -> None:
        if callback.listens_to(event):
            self._notify(getattr(callback, event), event, trainer)

    def _notify(self, listener: Any, event: str, *arguments: Any) -> None:
        try:
            listener(*arguments)
        except Exception as error:
            self._take(error, listener, event)
            raise

    def _take(self, error: Exception, listener: Any, event: str) -> None:
        """Keep the error of a callback, with a note of its place."""
        self.error = self.error or error
        owner = getattr(listener, "__self__", None)  # functions of a `LambdaCallback` have none, or that of the user
        note = f"{RAISED_IN} {f'{type(owner).__name__}.{event}' if isinstance(owner, Listener) else event}."
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def get_state(self) -> dict[str, dict[str, Any]]:
        """Return the states of callbacks by name; callbacks without a state are left out."""
        return {name: state for name, callback in self._named() if (state := callback.get_state())}

    def set_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore the state of each callback; one without a stored state begins afresh."""
        for name, callback in self._named():
            if name in state:
                callback.set_state(state[name])

    def _named(self) -> list[tuple[str, Listener]]:
        """Return callbacks by class name, with a number from the second of a class on."""
        seen: Counter[str] = Counter()
        named = []
        for callback in self.callbacks:
            name = vars(type(callback)).get("state_name") or type(callback).__name__
            seen[name] += 1
            named.append((name if seen[name] == 1 else f"{name}-{seen[name]}", callback))
        return named


def _check_names(callback: type[Listener]) -> None:
    """Refuse a method whose name is nearly that of an event, or that of another library; it would not be called."""
    own = [name for kind in callback.__mro__ if issubclass(kind, Listener) for name in vars(kind)]
    for name in own:
        if name.startswith("on_") and name not in EVENTS and callable(getattr(callback, name)):
            stems = [event for event in EVENTS if event.startswith(f"{name}_")] or _ELSEWHERE.get(name, [])
            if near := stems or difflib.get_close_matches(name, EVENTS, n=1, cutoff=0.85):
                raise ConfigurationError(
                    f"{callback.__name__}.{name} is no event, so a training does not call it: did you mean "
                    f"{' or '.join(near)}? Events are {', '.join(EVENTS)}."
                )


def _checked(callbacks: Any) -> list[Listener]:
    """Return callbacks as a list."""
    if isinstance(callbacks, Listener) or not isinstance(callbacks, Iterable):
        raise ConfigurationError(f"callbacks must be a list of callbacks, got {callbacks!r}.")
    found = list(callbacks)
    for each in found:
        if isinstance(each, type) and issubclass(each, Listener):
            raise ConfigurationError(f"A callback must be an object, got the class: write {each.__name__}(...).")
        if not isinstance(each, Listener):
            raise ConfigurationError(f"A callback must be an agents.Callback (or agents.LambdaCallback), got {each!r}.")
        _check_names(type(each))
    return found

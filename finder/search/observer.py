"""Observers: the events that a search reports while it runs."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, cast

from agents.errors import ConfigurationError
from finder.executors.executor import Executor
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord
from studies.study.study import OpenStudy

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Receives the progress of a search, such as a display. Its errors do not end the search (`guarded`).

    Every event is optional: an observer needs only the methods of the events that it uses.
    """

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        """Called when the study is open, with the number of remaining trials and the executor."""

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Called when trials are added because the best learning rate was at the edge of the range."""

    def trials_added(self, n_trials: int) -> None:
        """Called when trials are added because the budget of the whole search has room for them."""

    def confirmation_begins(self, n_finalists: int) -> None:
        """Called when the search is done and its best trials are repeated on further seeds."""

    def others_run(self, n_trials: int) -> None:
        """Called when this process waits for trials of other processes."""

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        """Called when a trial is passed to the executor."""

    def trial_built(self, number: int) -> None:
        """Called when the agents of a trial are built, before the compilation in their first update."""

    def measuring_begins(self) -> None:
        """Called before the speed of the search is measured, for its budget in minutes or for a plan."""

    def budget_chosen(self, text: str) -> None:
        """Called before the study is opened with what was chosen for the budget of the whole search."""

    def time_limited(self, seconds: float) -> None:
        """Called before the study is opened with the seconds until running trials are stopped, if there is a limit."""

    def budget_spent(self, text: str) -> None:
        """Called at the end if trials were not run because of the budget of the whole search."""

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Called when episodes of a trial have ended."""

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        """Called when a trial has ended, or was paused: it is started again when it is promoted."""

    def paused_ended(self) -> None:
        """Called when all paused trials have ended as pruned, because none of them is promoted any more."""


class RunOptions(TypedDict):
    """The arguments of `run_search` that are among the options of a study."""

    progress: bool | Observer
    observer: Observer | None
    is_named: bool


def check_observer(observer: object) -> None:
    """Raise `ConfigurationError` for an object without any event of an `Observer`; None is no observer."""
    events = [name for name in vars(Observer) if not name.startswith("_")]
    if observer is not None and not any(hasattr(observer, event) for event in events):
        raise ConfigurationError(
            f"progress is {observer!r}: give True or False, or an observer, which has some of the methods of "
            f"finder.search.observer.Observer, such as trial_ended."
        )


def guarded(observer: Observer | None) -> Observer:
    """Return an observer that catches the exceptions of another one: the first is printed to stderr, all are logged.

    Args:
        observer: The observer; None for none.
    """
    return cast("Observer", _GuardedObserver(observer))


class _GuardedObserver:
    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._noted = False

    def __getattr__(self, event: str) -> Any:
        return functools.partial(self._call, event)

    def _call(self, event: str, *arguments: Any) -> None:
        try:
            if (method := getattr(self._observer, event, None)) is not None:
                method(*arguments)
        except Exception as error:
            log.debug("an observer failed", exc_info=True)
            self._note(error)

    def _note(self, error: Exception) -> None:
        if self._noted:
            return
        self._noted = True
        with contextlib.suppress(OSError, ValueError):  # stderr may be closed
            print(
                f"Note: the progress display failed ({type(error).__name__}: {error}); the search continues.",
                file=sys.stderr,
            )

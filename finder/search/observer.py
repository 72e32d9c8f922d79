"""What a search reports while it runs, and the arguments by which a caller chooses who receives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict

from finder.executors import Executor
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord
from studies.study.study import OpenStudy


class Observer(Protocol):
    """A progress display, say. It cannot change a search, and what it raises does not end one (`GuardedObserver`)."""

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        """The study is open, and so many trials of it are left to run, on this executor."""

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The best learning rate was at the edge of those that were tried: these trials come on top."""

    def confirmation_begins(self, n_finalists: int) -> None:
        """The search is done: so many of its best trials are run again, on further seeds."""

    def others_run(self, n_trials: int) -> None:
        """Nothing is left to begin here, while so many trials run in other processes."""

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        """A trial was handed to the executor."""

    def trial_built(self, number: int) -> None:
        """A trial's agents are built; their first update compiles. Observers may be without this."""

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        """Episodes of a trial have ended."""

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        """A trial has ended."""


class ObserverOptions(TypedDict):
    """Who watches a search, as `run_search` takes it."""

    progress: bool | Observer
    observer: Observer | None

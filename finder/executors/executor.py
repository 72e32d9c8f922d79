"""The base class of all executors, and the events that they report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from finder.trials.trial import TrialListener, TrialSpec
from studies.database.records import EpisodeRecord

NextTrial = Callable[[], TrialSpec | None]


class StudyListener(TrialListener, Protocol):
    """Receives the events of all trials, in the parent process and from one thread."""

    @property
    def prunes(self) -> bool:
        """True if `rung` may stop or pause trials. If False, workers do not wait for its result."""

    @property
    def pauses(self) -> bool:
        """True if trials may be paused, so that there may be a next trial after there was none."""

    @property
    def share(self) -> int | None:
        """Most trials to request at a time, to leave some to other processes; None for no limit."""

    @property
    def n_to_resume(self) -> int:
        """Number of trials that wait to be resumed, before new ones."""

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
        """Called when episodes have ended, or without episodes as a heartbeat."""


class Executor(ABC):
    """Base class for executors, which run trials until there are no more.

    A trial is requested only when it can run at once, so that the sampler proposes it with all results so far.

    Attributes:
        notes: Reasons for the choice of this executor, shown to the user.
    """

    notes: Sequence[str] = ()

    @property
    @abstractmethod
    def description(self) -> str:
        """Description in a few words."""

    @property
    def n_processes(self) -> int:
        """Number of other processes that run trials; 0 if this process runs them."""
        return 0

    @property
    def trains_together(self) -> bool:
        """True if a process trains many trials at the same time."""
        return False

    @abstractmethod
    def trials_at_once(self, n_seeds: int) -> int:
        """Return about how many trials with `n_seeds` seeds run at the same time."""

    @abstractmethod
    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        """Run the trials that `next_trial` returns, until it returns None and every trial has ended.

        Raises:
            KeyboardInterrupt: Raised again after every running trial has ended as interrupted.
        """

    def close(self) -> None:  # noqa: B027 - most executors keep nothing
        """End what is kept from one call of `run` to the next, such as processes."""

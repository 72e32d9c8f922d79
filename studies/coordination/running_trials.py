"""Trials that this process runs: running ones, ended ones, and those that another process took over."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial

from studies.database.fencing import LeaseLostError
from studies.errors import StudyError

log = logging.getLogger(__name__)

_TAKEN = "Trial %d continues in another process, because the lease of this one expired."
_ENDED = "Trial %d was ended by another program: its further events are not recorded."


class RunningTrials:
    """Trials that a recorder has handed out.

    A trial that another process took over has ended here, but is still executed until its executor reports the end.
    Until then it is not started here again: two executions of one trial would report events for it.

    Args:
        forget: Called with the number of a trial of which nothing more is recorded.

    Attributes:
        running: Number -> trial, of those that this process alone runs.
    """

    def __init__(self, forget: Callable[[int], None]) -> None:
        self._forget = forget
        self.running: dict[int, Trial] = {}
        self._over: set[int] = set()  # ended, or taken over
        self._taken: set[int] = set()  # taken over, and still executed here

    @property
    def busy(self) -> set[int]:
        """Numbers of the trials that are executed here, including those taken over."""
        return {*self.running, *self._taken}

    def start(self, trial: Trial) -> None:
        """Record the start of a trial, for the first time or again."""
        self.running[trial.number] = trial
        self._over.discard(trial.number)

    def running_trial(self, number: int) -> Trial:
        """Return a running trial.

        Raises:
            StudyError: If it is not running.
        """
        try:
            return self.running[number]
        except KeyError:
            state = "has ended already" if number in self._over else "was never handed out by this recorder"
            raise StudyError(f"trial {number} {state}: running are {sorted(self.running)}.") from None

    def end(self, number: int) -> None:
        """Record the end of a trial."""
        del self.running[number]
        self._over.add(number)

    def requeue(self, number: int) -> None:
        """Record that a trial was requeued."""
        del self.running[number]

    def drop(self, number: int, message: str = _TAKEN) -> None:
        """Stop recording a trial that another process took over, or another program ended."""
        log.warning(message, number)
        self.end(number)
        self._taken.add(number)
        self._forget(number)

    @contextlib.contextmanager
    def unless_lost(self, trial: Trial) -> Iterator[None]:
        """Drop a trial if a write in the block is rejected because its lease was lost."""
        try:
            yield
        except LeaseLostError:
            self.drop(trial.number)
        except UpdateFinishedTrialError:
            self.drop(trial.number, _ENDED)

    def is_over(self, number: int) -> bool:
        """Return whether a trial has ended, or was taken over."""
        return number in self._over

    def is_taken(self, number: int) -> bool:
        """Return whether a trial was taken over and is still executed here."""
        return number in self._taken

    def discard_taken(self, number: int) -> bool:
        """Record that a trial is not executed here any more; return whether it had been taken over."""
        was_taken = number in self._taken
        self._taken.discard(number)
        return was_taken

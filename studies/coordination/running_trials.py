"""The trials that a process has handed out: which of them run, which are over, and which another process took."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial

from studies.database.fencing import LeaseLostError
from studies.errors import StudyError

log = logging.getLogger(__name__)

_TAKEN = "Trial %d goes on in another process, as this one was away for too long."
_ENDED = "Trial %d was ended by another program: what it does here is not recorded."


class RunningTrials:
    """The trials that a recorder has handed out.

    A trial that another process takes is over here, and yet something runs it until it is heard how that ended. Until
    then it is not begun here again: two that run one trial would tell what happens to it both.

    Args:
        forget: Called with the number of a trial of which nothing more is to be recorded.

    Attributes:
        running: Number -> trial, of those that this process runs and nobody else.
    """

    def __init__(self, forget: Callable[[int], None]) -> None:
        self._forget = forget
        self.running: dict[int, Trial] = {}
        self._over: set[int] = set()  # have ended, or were taken
        self._taken: set[int] = set()  # of these, those that were taken and are still run here

    @property
    def busy(self) -> set[int]:
        """Numbers of the trials that something runs here, whosever they are."""
        return {*self.running, *self._taken}

    def begin(self, trial: Trial) -> None:
        """A trial runs from now on, for the first time or again."""
        self.running[trial.number] = trial
        self._over.discard(trial.number)

    def running_trial(self, number: int) -> Trial:
        """Returns a trial that runs.

        Raises:
            StudyError: If it does not.
        """
        try:
            return self.running[number]
        except KeyError:
            state = "has ended already" if number in self._over else "was never handed out by this recorder"
            raise StudyError(f"trial {number} {state}: running are {sorted(self.running)}.") from None

    def end(self, number: int) -> None:
        """A trial has ended."""
        del self.running[number]
        self._over.add(number)

    def requeue(self, number: int) -> None:
        """A trial waits."""
        del self.running[number]

    def drop(self, number: int, why: str = _TAKEN) -> None:
        """Records nothing more of a trial that is another process's from now on, or was ended by another program."""
        log.warning(why, number)
        self.end(number)
        self._taken.add(number)
        self._forget(number)

    @contextlib.contextmanager
    def unless_lost(self, trial: Trial) -> Iterator[None]:
        """Drops a trial where a write in the block is refused, as it is not this process's any more."""
        try:
            yield
        except LeaseLostError:
            self.drop(trial.number)
        except UpdateFinishedTrialError:
            self.drop(trial.number, _ENDED)

    def is_over(self, number: int) -> bool:
        """Returns whether a trial has ended, or is another process's."""
        return number in self._over

    def is_taken(self, number: int) -> bool:
        """Returns whether a trial is another process's, while something still runs it here."""
        return number in self._taken

    def let_go(self, number: int) -> bool:
        """Nothing runs a trial here any more; returns whether it was another process's."""
        was_taken = number in self._taken
        self._taken.discard(number)
        return was_taken

"""The trials that a process has handed out: which of them run, which are over, and which another process took."""

from __future__ import annotations

from optuna.trial import Trial

from studies.errors import StudyError


class HandedOut:
    """The trials that a recorder has handed out.

    A trial that another process takes is over here, and yet something runs it until it is heard how that ended. Until
    then it is not begun here again: two that run one trial would tell what happens to it both.

    Attributes:
        running: Number -> trial, of those that this process runs and nobody else.
    """

    def __init__(self) -> None:
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

    def put_back(self, number: int) -> None:
        """A trial waits."""
        del self.running[number]

    def take_away(self, number: int) -> None:
        """A trial is another process's from now on."""
        self.end(number)
        self._taken.add(number)

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

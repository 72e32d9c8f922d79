"""Streak of consecutive failed trials, which stops a study when it reaches a limit."""

from __future__ import annotations

from optuna.trial import TrialState

from studies.queue.trial_endings import TrialEnding
from studies.spec.attributes import REASON_ATTR


class FailureStreak:
    """Number of trials that have failed since the last success.

    Attributes:
        stop_reason: Reason to stop the study, from the time when the streak reached its limit; None before.
    """

    def __init__(self) -> None:
        self._n_failures = 0
        self.stop_reason: str | None = None

    def interrupt(self) -> None:
        """End the streak: a trial has reached a rung, where it was paused."""
        self._n_failures = 0

    def add(self, ending: TrialEnding, limit: int, *, counts: bool = True) -> None:
        """Add the ending of a trial.

        Args:
            ending: The ending. Any state but FAIL ends the streak.
            limit: Length of the streak at which the study stops.
            counts: Whether a failure counts. Defaults to `True`.
        """
        if ending.state != TrialState.FAIL:
            self._n_failures = 0
            return
        self._n_failures += counts
        if self._n_failures >= limit and self.stop_reason is None:
            self.stop_reason = f"{self._n_failures} trials failed in a row; the last one: {ending.attrs[REASON_ATTR]}"

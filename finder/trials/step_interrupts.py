"""Exceptions that wait for the end of a step: errors of the listener; Ctrl-C and a spent budget if it is saved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from agents.processes.interrupts import defer_interrupts
from finder.trials.trial import INTERRUPTED, BudgetSpent


class StepInterrupts:
    """Exceptions of a training that wait for the end of a step, whose state is whole.

    Those of the listener would end the step as an error of the agent or of its environment does, and fail its trials.
    """

    def __init__(self) -> None:
        self.waiting: BaseException | None = None
        """The end of the budget of the whole search, or an error of the listener; None if the training continues."""

    @contextlib.contextmanager
    def after(self, saves: bool) -> Iterator[None]:
        """Let Ctrl-C wait for the end of the block, if its state is saved; a second one does not wait."""
        with defer_interrupts() if saves else contextlib.nullcontext():
            yield
        self.raise_waiting()

    def delayed(self, call: Callable[[], str | None], saves: bool) -> str | None:
        """Return the result of a call of the listener during a step: a reason to stop, or None.

        An error waits for the end of the step, and so does the end of the budget if the state is saved there. From then
        on this returns a reason without any call.
        """
        if self.waiting is None:
            try:
                return call()
            except BudgetSpent as spent:
                if not saves:
                    raise
                self.waiting = spent
            except Exception as error:  # noqa: BLE001 - whatever a storage raises
                self.waiting = error
        return INTERRUPTED

    def raise_waiting(self) -> None:
        """Raise what waits, if anything does."""
        if self.waiting is not None:
            raise self.waiting

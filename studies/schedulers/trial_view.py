"""A trial as schedulers see it: parameters, state, and values by environment steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ViewState = Literal["waiting", "running", "paused", "complete", "pruned", "diverged", "failed"]
"""State of a trial.

A waiting trial was queued or interrupted; a paused one waits at a rung until it is promoted; a diverged one failed
because of its parameters; a failed one for another reason, which says nothing about its parameters.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """Trial of a search.

    Attributes:
        number: Number of the trial.
        params: Its searched parameters.
        state: Its state.
        values: Environment steps of each report -> value of each seed, or the value over seeds alone; higher is better.
        promoted_from: Environment steps of the last report after which it was promoted; None if it never was.
    """

    number: int
    params: Mapping[str, Any]
    state: ViewState
    values: Mapping[int, tuple[float, ...]]
    promoted_from: int | None = None

    @property
    def last_step(self) -> int | None:
        """Environment steps of the last report, None before the first."""
        return max(self.values, default=None)

    @property
    def counts(self) -> bool:
        """Return whether the trial is compared with others: it did not fail, for whatever reason."""
        return self.state not in ("diverged", "failed")

    def first_at(self, rung: int) -> int | None:
        """Return the environment steps of the first report at or after a rung, None if there is none."""
        return min((step for step in self.values if step >= rung), default=None)

"""Range tests that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from finder.range_test.range_test import RangeTestResult
from finder.range_test.suggestion import Suggestion
from finder.range_test.sweep import Sweep


def range_test_of(losses: Sequence[float], rates: Sequence[float], diverged: bool = False) -> RangeTestResult:
    """Return a range test with these losses at the first of the rates."""
    return RangeTestResult(
        metric="loss",
        optimizer="all",
        rewards=Sweep(),
        losses=Sweep(list(rates[: len(losses)]), list(losses), list(range(len(losses)))),
        normalized=[],
        suggestion=Suggestion(None, None, "steepest", "not read"),
        reason="the loss diverged at 0.1" if diverged else "every rate was tried",
        diverged=diverged,
    )

"""Results of searches as numbers, without a storage."""

from __future__ import annotations

from typing import Any

import numpy as np

from studies.judging.search_history import TrialResult

FURTHER = (3, 4)
"""Further seeds, of confirmations."""


def complete(number: int, *values: float, confirms: int | None = None, **fields: Any) -> TrialResult:
    """Return a complete trial with these values of its seeds; its parameter `x` is its number."""
    seeds = FURTHER if confirms is not None else range(len(values))
    return TrialResult(
        number=number,
        params={"x": number if confirms is None else confirms},
        state="complete",
        value=float(np.mean(values)),
        seed_values=dict(zip(seeds, values, strict=True)),
        confirms=confirms,
        **fields,
    )


TRIALS = (complete(0, 1.0, 2.0, 3.0), complete(1, 9.0, 10.0, 11.0), complete(2, 8.0, 9.0, 10.0))

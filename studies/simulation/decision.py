"""Decision of a search over a table, and the form of the policies that make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from studies.judging.learning_rate_estimate import LearningRateEstimate
from studies.simulation.run_table import RunTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision of a search.

    Attributes:
        pick: Position of the recommended configuration.
        cost: Cost of the search in whole runs.
        interval: 95% interval of the value of the pick; None if the search has none.
        rate: Estimate of the best learning rate; None if there is none.
    """

    pick: int
    cost: float
    interval: tuple[float, float] | None = None
    rate: LearningRateEstimate | None = None


Policy = Callable[[RunTable, float, np.random.Generator], Decision]
"""Search policy: finished runs that it may see, budget in whole runs and source of its random numbers -> decision."""

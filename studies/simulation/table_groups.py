"""Groups of configurations of a table that differ in their learning rate only, and the best rates of each."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from studies.simulation.run_table import RunTable
from studies.statistics.rate_curve import log10_rate

Array = np.ndarray[Any, Any]

PLATEAU = 0.02
"""Share of the range of all candidates within which neighbouring learning rates are equally good."""


def groups_of(table: RunTable) -> tuple[tuple[Hashable, ...], tuple[float, ...]]:
    """Return the group of each config and the decimal logarithm of its learning rate; empty without that column."""
    positions = tuple(log10_rate(params.get("learning_rate")) for params in table.params)
    if not all(map(math.isfinite, positions)):
        return (), ()
    groups = tuple(
        tuple(sorted((name, str(value)) for name, value in params.items() if name != "learning_rate"))
        for params in table.params
    )
    return groups, positions


def plateau(table: RunTable, config: int, worth: Array) -> tuple[int, int]:
    """Return the first and the last config of the rates that are as good as the best of a group, to 2% of the range.

    Args:
        table: Finished runs, with learning rates.
        config: A config of the group.
        worth: [C] value of each config.
    """
    groups, positions = groups_of(table)
    same = sorted((i for i, group in enumerate(groups) if group == groups[config]), key=lambda i: positions[i])
    best = max(range(len(same)), key=lambda k: worth[same[k]])
    enough = worth[same[best]] - PLATEAU * (float(np.ptp(worth)) or 1.0)
    first = last = best
    while first > 0 and worth[same[first - 1]] >= enough:
        first -= 1
    while last + 1 < len(same) and worth[same[last + 1]] >= enough:
        last += 1
    return same[first], same[last]

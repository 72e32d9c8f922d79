"""Expected values of candidates with a single seed each, as pure functions over numbers.

A single value is partly luck: of the best of many more than of others, and of those in the middle, on average, nothing
(regression to the mean). How much it is of the best, their further seeds show.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.statistics.values import mean_of_seeds


def without_luck(
    values: Sequence[float], chosen: Sequence[tuple[float, float]], everyone: Sequence[float]
) -> list[float]:
    """Return the expected values of candidates with a single seed each, higher is better.

    Values up to the mean of everyone remain; those of the chosen candidates become, on average, the means of their
    further seeds; between the two they are interpolated. So none is above the mean of the chosen ones.

    Args:
        values: Their values, finite.
        chosen: Of each candidate that was chosen for its value: this value and the mean of its further seeds. If there
            is none, nothing is known of luck, and values remain.
        everyone: Values of all candidates, chosen ones included.
    """
    if not chosen:
        return list(values)
    before, after = (float(mean_of_seeds(each)) for each in zip(*chosen, strict=True))
    middle = min(float(mean_of_seeds(everyone)), after)
    if before <= middle:  # nothing lies between
        return list(values)
    between = np.interp(values, (middle, before), (middle, after))
    return [float(own) if value > middle else value for value, own in zip(values, between, strict=True)]

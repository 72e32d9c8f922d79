"""Expected values of candidates with a single seed each, as pure functions over numbers.

A single value contains luck. Candidates that are chosen because their values are the best were luckier than others, and
a candidate in the middle, on average, was not lucky at all (regression to the mean). Further seeds of the chosen
candidates show how lucky they were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.statistics.values import mean_of_seeds


def without_luck(
    values: Sequence[float], chosen: Sequence[tuple[float, float]], everyone: Sequence[float]
) -> list[float]:
    """Return the expected values of candidates with a single seed each, higher is better.

    `before` is the mean value for which candidates were chosen, `after` the mean of their further seeds, and `middle`
    the median of all candidates, or `after` if that is lower. Luck is `before - after`.

    - Values up to `middle` remain.
    - Values from `middle` to `before` are mapped linearly to `middle` ... `after`.
    - Values above `before` continue that line, whose slope is at most 1.

    Args:
        values: Their values, finite.
        chosen: Of each candidate that was chosen for its value: this value and the mean of its further seeds. If there
            is none, nothing is known of luck, and values remain.
        everyone: Values of all candidates, chosen ones included.
    """
    if not chosen:
        return list(values)
    before, after = (float(mean_of_seeds(each)) for each in zip(*chosen, strict=True))
    middle = min(float(np.median(everyone)), after)
    if before <= middle:  # nothing lies between
        return list(values)
    between = np.interp(values, (middle, before), (middle, after))
    slope = min(1.0, (after - middle) / (before - middle))
    beyond = [after + slope * (value - before) for value in values]
    return [
        value if value <= middle else float(own) if value <= before else above
        for value, own, above in zip(values, between, beyond, strict=True)
    ]

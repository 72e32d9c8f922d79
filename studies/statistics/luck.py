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

    The luck of the chosen candidates is the difference of the means of both their values. All of it is subtracted from
    values as good as theirs, nothing from those below the median of all candidates, and a share in between, which goes
    on to grow with values above theirs. Where the chosen ones fall below the median, the values between are equal to
    their mean.

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

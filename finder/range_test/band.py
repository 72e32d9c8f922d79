"""The band of several range tests: their mean curve, between the lowest and the highest of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from finder.range_test.curve import Numbers, centred_means, smoothing_window
from studies.figures.range_tests import Band

N_POINTS = 100
"""Rates of a band."""


def band_of(curves: Sequence[tuple[Numbers, Numbers]]) -> Band | None:
    """Return the band of several curves over the rates that all of them have, evenly spaced on a log axis.

    Each curve is a moving average over a tenth of its points, each mean at the middle of its rates, and interpolated
    linearly over the logarithm of the rate.

    Args:
        curves: Ascending rates and the value at each, of each run.

    Returns:
        The band, or None if there are fewer than two curves, or rates that all of them have.
    """
    smoothed = []
    for rates, values in curves:
        places, means = centred_means(rates, values, smoothing_window(int(np.isfinite(values).sum())))
        if len(means):
            smoothed.append((np.log10(places), means))
    if len(smoothed) < 2:
        return None
    first = max(logs[0] for logs, _ in smoothed)
    last = min(logs[-1] for logs, _ in smoothed)
    if first >= last:
        return None
    logs = np.linspace(first, last, N_POINTS)
    runs = np.array([np.interp(logs, *curve) for curve in smoothed])  # [R, B]
    rows = (10.0**logs, runs.min(axis=0), runs.mean(axis=0), runs.max(axis=0))
    return Band(*(tuple(float(f"{value:.6g}") for value in row) for row in rows))

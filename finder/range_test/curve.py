"""A curve over learning rates: its validation, its smoothing, and its change per decade."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np
import numpy.typing as npt

from agents.errors import ConfigurationError

Numbers = Sequence[float] | npt.NDArray[np.floating]
Floats = npt.NDArray[np.float64]

_SMOOTHING = 0.1
"""Length of the moving average for suggestions, as a share of the points."""


def smoothing_window(n_points: int) -> int:
    """Return the number of points of the moving average for a curve."""
    return max(1, round(n_points * _SMOOTHING))


def smooth(values: Numbers, sma: int) -> Floats:
    """Smooth by a simple moving average of the current and earlier values.

    Later values are not used, so that divergence does not affect the rates before it. At the beginning the average is
    over the available values, without padding. Values that are not finite are left out of the averages and become NaN.

    Args:
        values: [M].
        sma: Window length in points, >= 1; 1 only replaces infinities by NaN.

    Returns:
        Smoothed values, float64 [M].

    Raises:
        ValueError: `values` has another shape than [M], or `sma` < 1.
    """
    given = _vector("values", values)
    if sma < 1:
        raise ValueError(f"sma must be >= 1 point, got {sma!r}")
    finite = np.isfinite(given)
    if given.size == 0:
        return given
    width = min(int(sma), given.size)
    before = np.full(width - 1, np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([before, given]), width)  # [M, width]
    used = np.isfinite(windows)
    n_used = np.maximum(used.sum(axis=1, keepdims=True), 1)
    smoothed = np.where(used, windows, 0.0) / n_used  # divided before the sum, which could overflow: [M, width]
    return np.where(finite, smoothed.sum(axis=1), np.nan)


def centred_means(rates: Numbers, values: Numbers, sma: int) -> tuple[Floats, Floats]:
    """Return the moving average of the finite values of a curve, each mean at the middle of its rates on a log axis.

    Args:
        rates: Learning rates, ascending and > 0, [M].
        values: Losses or returns, [M]; NaN and infinities are left out.
        sma: Window length in points, >= 1. Incomplete windows have no mean.

    Returns:
        Rates and means, [F - sma + 1] of the F finite values.
    """
    checked, given = check_curve(rates, values)
    finite = np.isfinite(given)
    logs, means = (smooth(each[finite], sma)[sma - 1 :] for each in (np.log10(checked), given))
    return 10.0**logs, means


def changes(rates: Numbers, values: Numbers, sma: int = 1) -> Floats:
    """Compute the change of the smoothed value per decade of the learning rate.

    Each change is from the previous finite point to the current one; later values are not used.

    Args:
        rates: Learning rates, ascending and > 0, [M].
        values: Losses or returns, [M]; may hold NaN and infinities.
        sma: Window of `smooth`, >= 1.

    Returns:
        Changes in the unit of the values per factor 10 of the rate, [M]; NaN at the first finite point and where the
        value is not finite.

    Raises:
        ValueError: Shapes differ, rates do not ascend or are not > 0, or `sma` < 1.
    """
    checked, given = check_curve(rates, values)
    smoothed = smooth(given, sma)
    result = np.full(len(smoothed), np.nan)
    points = np.flatnonzero(np.isfinite(smoothed))
    with np.errstate(over="ignore"):  # values of opposite sign and huge size have an infinite change
        result[points[1:]] = np.diff(smoothed[points]) / np.diff(np.log10(checked[points]))
    return result


def check_curve(rates: Numbers, values: Numbers) -> tuple[Floats, Floats]:
    """Return both as float64 arrays of the same shape [M].

    Raises:
        ValueError: Shapes differ or are not [M], or rates do not ascend or are not finite and > 0.
    """
    checked, given = _vector("rates", rates), _vector("values", values)
    if len(checked) != len(given):
        raise ValueError(f"rates and values must be equally many, got {len(checked)} rates and {len(given)} values")
    allowed = np.isfinite(checked) & (checked > 0.0)
    if not allowed.all():
        raise ValueError(f"rates must be finite and > 0, got {float(checked[~allowed][0])!r}")
    steps = np.diff(np.log10(checked))  # steps below the precision of the log axis count as 0
    if (steps <= 0.0).any():
        at = int(np.flatnonzero(steps <= 0.0)[0])
        raise ValueError(f"rates must ascend, got {float(checked[at])!r} before {float(checked[at + 1])!r}")
    return checked, given


def trim(
    rates: Sequence[float], values: Sequence[float], n_beginning: int, n_end: int
) -> tuple[list[float], list[float]]:
    """Return a curve without its first and last points.

    Args:
        rates: Learning rates, [M].
        values: The value at each rate, [M].
        n_beginning: Number of points to leave out at the beginning, >= 0.
        n_end: Number of points to leave out at the end, >= 0.

    Raises:
        ConfigurationError: A number is negative or not whole, or more points are left out than there are.
    """
    are_whole = all(isinstance(number, Integral) for number in (n_beginning, n_end))
    if not are_whole or n_beginning < 0 or n_end < 0 or n_beginning + n_end > len(rates):
        raise ConfigurationError(
            f"n_skip_beginning and n_skip_end must be whole numbers >= 0 and leave some of the {len(rates)} points, "
            f"got {n_beginning!r} and {n_end!r}."
        )
    kept = slice(n_beginning, len(rates) - n_end)
    return list(rates[kept]), list(values[kept])


def _vector(name: str, numbers: Numbers) -> Floats:
    vector = np.asarray(numbers, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"{name} must have the shape [M], got {list(vector.shape)}")
    return vector

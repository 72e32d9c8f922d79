"""Arguments of learning-rate searches: seeds and rates as users give them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

from agents.errors import ConfigurationError
from finder.range_test.range_test import evenly_spaced
from studies.spaces.spaces import LARGEST
from studies.spec.fields import MOST_SEEDS

_N_RATES = 16
"""Default number of rates of a grid."""


def run_seeds(seeds: Any, first: int) -> tuple[int, ...]:
    """Return the seeds of the runs of a range test.

    Args:
        seeds: Number of seeds, or an iterable of them.
        first: The first seed, for a number of seeds.

    Raises:
        ConfigurationError: It is neither, or a seed is given twice or out of range.
    """
    several = seeds
    if not isinstance(seeds, bool) and isinstance(seeds, Integral):
        several = range(first, first + int(seeds)) if int(seeds) <= MOST_SEEDS else ()
    if isinstance(several, str | bytes) or not isinstance(several, Iterable):
        raise ConfigurationError(f"seeds is {seeds!r}: give how many seeds, or a list of them.")
    given = list(several)
    are_whole = all(isinstance(seed, Integral) and not isinstance(seed, bool) for seed in given)
    numbers = tuple(int(seed) for seed in given) if are_whole and len(given) <= MOST_SEEDS else ()
    if not numbers or min(numbers) < 0 or max(numbers) > LARGEST or len(set(numbers)) < len(numbers):
        raise ConfigurationError(
            f"seeds must be >= 1 (how many seeds, up to {MOST_SEEDS}), or a list of different ones from 0 to "
            f"{LARGEST}, got {seeds!r}."
        )
    return numbers


def refuse_after_grid(**given: Any) -> None:
    """Raise `ConfigurationError` for arguments that only range tests have, if any was given (is not None or 0)."""
    if names := [name for name, value in given.items() if value]:
        raise ConfigurationError(
            f"{' and '.join(names)}: the last search was a grid, which has no curve of a single run: leave this out."
        )


def rates_of_grid(
    start_lr: float | None, end_lr: float | None, n_rates: int | None, rates: Sequence[float] | None
) -> list[float]:
    """Return the rates of a grid in ascending order: the given ones, or evenly spaced ones on a log axis.

    Args:
        start_lr: Smallest rate. Defaults to 1e-5.
        end_lr: Largest rate. Defaults to 1e-1.
        n_rates: Number of rates. Defaults to 16.
        rates: The rates, instead of the others.

    Raises:
        ConfigurationError: Rates are out of range, or given in both ways.
    """
    if rates is None:
        return evenly_spaced(
            1e-5 if start_lr is None else start_lr,
            1e-1 if end_lr is None else end_lr,
            _N_RATES if n_rates is None else n_rates,
        )
    if (start_lr, end_lr, n_rates) != (None, None, None):
        raise ConfigurationError(
            "rates was given with start_lr, end_lr or n_rates: give either the rates or their range."
        )
    return sorted(given_rates("rates", rates))


def given_rates(name: str, rates: Any) -> list[float]:
    """Return learning rates as numbers of Python, each once, in their order.

    Args:
        name: Name of the argument.
        rates: Its value, an iterable of numbers.

    Raises:
        ConfigurationError: It is not.
    """
    try:
        if isinstance(rates, str | bytes):
            raise TypeError
        given = list(rates)
        found = list(dict.fromkeys(map(float, given)))
        if any(isinstance(rate, bool) for rate in given) or not all(map(math.isfinite, found)):
            raise ValueError
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"{name} is {rates!r}: give a list of learning rates, such as [1e-4, 1e-3, 1e-2]."
        ) from None
    return found

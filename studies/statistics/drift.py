"""Drift of the best learning rate with the length of a run, measured on finished runs (`benchmarks/pick.md`).

A high rate learns fast at first and is overtaken later, so a short run favours rates that are too high. The drift was
measured on four optimizers (`MEASURED`), with similar results; it is less certain for all others.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping

DRIFT = -0.75
"""Decades by which the best rate moves per decade of additional environment steps."""

DRIFT_ERROR = 0.5
"""Standard deviation of `DRIFT` over tasks and optimizers, from smoothed curves of the benchmark tables.

It is larger without smoothing, because best rates jump; intervals made with this value have the right coverage.
"""

UNMEASURED_ERROR = 1.0
"""Standard deviation for optimizers that were not measured: the best rate may not move, or move twice as much."""

MEASURED = ("adam", "rmsprop", "lion", "sgd with momentum")
"""Optimizers on which `DRIFT` was measured. Plain SGD (two tables, smaller drift) is not among them."""


def measured(optimizer: str, arguments: Mapping[str, object] | None = None) -> bool:
    """Return whether the drift was measured on an optimizer.

    Args:
        optimizer: A Keras name such as `adam`, in any case, with or without arguments, or the label of one of several
            equal ones: `sgd(momentum=0.9) #2`.
        arguments: Arguments of the optimizer that are not part of its name.
    """
    name, _, rest = optimizer.lower().partition(" #")[0].partition("(")
    if name.strip() != "sgd":
        return name.strip() in MEASURED
    momentum = (arguments or {}).get("momentum")
    if (named := re.search(r"\bmomentum=([^,)]+)", rest)) is not None:
        with contextlib.suppress(ValueError):
            momentum = float(named[1])
    return isinstance(momentum, int | float) and momentum > 0


def drift(share: float, *, known: bool = True) -> tuple[float, float]:
    """Return the expected drift of the best rate in decades, and its standard deviation.

    Args:
        share: Observed part of the run, above 0; above 1 if the run to predict is shorter than the observed one.
        known: Whether the drift was measured on the optimizer (`measured`). Defaults to `True`.
    """
    distance = -math.log10(share)
    return DRIFT * distance, (DRIFT_ERROR if known else UNMEASURED_ERROR) * abs(distance)

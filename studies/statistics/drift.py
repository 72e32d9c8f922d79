"""How the best learning rate moves as runs get longer. Measured on finished runs (`benchmarks/pick.md`).

A high rate learns fast at first and is overtaken later, so a short run favours rates that are too high. That was
measured on four optimizers (`MEASURED`), each of which moves about as much; for all others less is known.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping

DRIFT = -0.75
"""Decades that the best rate moves for each decade of environment steps more."""

DRIFT_ERROR = 0.5
"""Standard deviation of `DRIFT` over tasks and optimizers, from smoothed curves of the tables on which it was found.

Without smoothing it is larger, because best rates jump; intervals that are made with this one hold.
"""

UNMEASURED_ERROR = 1.0
"""The same for an optimizer that was not measured: its best rate may not move at all, or twice as much."""

MEASURED = ("adam", "rmsprop", "lion", "sgd with momentum")
"""Optimizers on which `DRIFT` was measured, two tables of plain SGD, where it was smaller, not among them."""


def measured(optimizer: str, arguments: Mapping[str, object] | None = None) -> bool:
    """Returns whether the drift was measured on an optimizer.

    Args:
        optimizer: A Keras name such as `adam`, in any case, or with its arguments: `sgd(momentum=0.9)`.
        arguments: Its arguments where they are not in the name.
    """
    name, _, rest = optimizer.lower().partition("(")
    if name.strip() != "sgd":
        return name.strip() in MEASURED
    momentum = (arguments or {}).get("momentum")
    if (named := re.search(r"\bmomentum=([^,)]+)", rest)) is not None:
        with contextlib.suppress(ValueError):
            momentum = float(named[1])
    return isinstance(momentum, int | float) and momentum > 0


def drift(share: float, *, known: bool = True) -> tuple[float, float]:
    """Returns by how many decades the best rate still moves, and the standard deviation of that.

    Args:
        share: How much of the run has been seen, above 0; more than 1 where the run that follows is the shorter one.
        known: Whether it was measured on the optimizer (`measured`). Defaults to `True`.
    """
    distance = -math.log10(share)
    return DRIFT * distance, (DRIFT_ERROR if known else UNMEASURED_ERROR) * abs(distance)

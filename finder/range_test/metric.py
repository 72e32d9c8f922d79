"""The metric of the curve of a range test."""

from __future__ import annotations

from typing import Literal

from agents.errors import ConfigurationError

Metric = Literal["return", "loss"]
"""The metric as studies record it: the mean return of episodes, or the mean loss."""

MetricName = Literal["return", "reward", "loss"]
"""The metric as callers may name it; ``"reward"`` means ``"return"``."""


def curve_metric(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        ConfigurationError: There is no such metric.
    """
    if name not in ("return", "reward", "loss"):
        raise ConfigurationError(f"metric must be 'return' (or 'reward') or 'loss', got {name!r}.")
    return "loss" if name == "loss" else "return"

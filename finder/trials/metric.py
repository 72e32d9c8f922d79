"""The metric of a study: what its trials are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agents.errors import ConfigurationError

Metric = Literal["return", "loss"]
"""The metric as studies record it: the mean return of episodes, or the mean loss."""

MetricName = Literal["return", "reward", "loss"]
"""The metric as callers may name it; ``"reward"`` means ``"return"``."""


def study_metric(name: str) -> str:
    """Return the metric of a study as specs name it (`studies.spec.metrics`): ``"reward"`` means ``"return"``."""
    return "return" if name == "reward" else name


def study_metrics(metric: str | Sequence[str]) -> tuple[str, ...]:
    """Return the metrics of a study as specs name them, one or several.

    Raises:
        ConfigurationError: There is none.
    """
    names = (metric,) if isinstance(metric, str) else tuple(metric)
    if not names:
        raise ConfigurationError("metric is empty: give one metric, or several, such as ['return', 'steps-to:475'].")
    return tuple(study_metric(name) for name in names)


def metric_of(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        ConfigurationError: There is no such metric.
    """
    if name not in ("return", "reward", "loss"):
        raise ConfigurationError(f"metric must be 'return' (or 'reward') or 'loss', got {name!r}.")
    return "loss" if name == "loss" else "return"

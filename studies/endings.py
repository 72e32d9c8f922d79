"""What is kept of a trial when it ends, in words and as attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from studies.pruners import canonical_pruner_name
from studies.spaces import Json

TRACEBACK_BYTES = 8_192


def why_pruned(pruner: str, env_steps: int, value: float) -> str:
    """Returns the reason of a trial that a pruner stopped after so many environment steps, with this value."""
    at = f" with {value:.4g}" if math.isfinite(value) else ""
    when = f"{at} after {env_steps:,} environment steps (pruner {pruner})"
    if canonical_pruner_name(pruner) == "race":  # it judges by neighbours too, and by where rates will have moved
        return f"others were expected to end better; it was stopped{when}"
    return f"it had fallen behind{when}"


def seed_attrs(seed_values: Mapping[int, float] | None, extra: Mapping[str, Json] | None) -> dict[str, Json]:
    """Returns the attributes of a trial with the value of each of its seeds."""
    attrs: dict[str, Json] = dict(extra or {})
    if seed_values:
        attrs["seed_values"] = {str(seed): float(value) for seed, value in seed_values.items()}
    return attrs


def end_of(traceback: str) -> str:
    """Returns the last `TRACEBACK_BYTES` of a traceback, where the cause is."""
    encoded = traceback.encode()
    if len(encoded) <= TRACEBACK_BYTES:
        return traceback
    mark = "... (beginning cut)\n"
    return mark + encoded[-(TRACEBACK_BYTES - len(mark)) :].decode(errors="ignore")

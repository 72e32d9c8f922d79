"""Metrics of a study by name: what a run is judged by, in which direction, and how it is called in texts.

- `return`: mean return of the episodes in the last part of training.
- `greedy-return`: mean return of greedy episodes, which are played at every report with the agent as it is then, in
  environments of their own; the reports in the last part of training count. `greedy-return:20` plays 20 episodes at
  each report instead of 10.
- `auc`: mean return over the whole of training, the area under the learning curve divided by the budget. It prefers
  runs that learn early.
- `steps-to:THRESHOLD`: environment steps after which the return reaches a threshold.
- `success-rate`: share of the episodes in the last part of training that succeed, by `is_success` in the `info` of
  their last step.
- `custom:NAME`: mean of a custom metric of callbacks, or of a number in the `info` of the last step, over the episodes
  in the last part of training. `custom:NAME:minimize` prefers small values.
- `loss`: mean loss of the updates in the last part of training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from studies.errors import StudyError, nearest
from studies.words import exact_text

Kind = Literal["return", "greedy-return", "loss", "auc", "steps-to", "success-rate", "custom"]
_KINDS: tuple[Kind, ...] = get_args(Kind)

SUCCESS = "is_success"
"""Number in the `info` of the last step of an episode that says whether it succeeded, as Gymnasium-Robotics and
Stable-Baselines3 name it."""

GREEDY_EPISODES = 10
"""Default number of episodes of a greedy evaluation."""

MOST_GREEDY_EPISODES = 1_000
"""Largest number of episodes of a greedy evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Metric of a study.

    Attributes:
        kind: What is measured.
        threshold: Return to reach, for `steps-to`; else NaN.
        name: Name of the custom metric, or of the number of `info`; else empty.
        minimize: Whether small values are better.
        n_episodes: Episodes of each evaluation, for `greedy-return`; else 0.
    """

    kind: Kind
    threshold: float = math.nan
    name: str = ""
    minimize: bool = False
    n_episodes: int = 0

    @property
    def is_return(self) -> bool:
        """Return whether it is a mean return, of the episodes of training or of greedy ones."""
        return self.kind in ("return", "greedy-return")

    @property
    def needs_episodes(self) -> bool:
        """Return whether a run in which no training episode ends has no value; losses are recorded with episodes."""
        return self.kind != "greedy-return"

    @property
    def text(self) -> str:
        """Name of the metric in texts, such as "environment steps to a return of 475"."""
        texts = {
            "auc": "return over the whole training",
            "success-rate": "success rate",
            "custom": self.name,
            "greedy-return": "greedy return",
        }
        if self.kind == "steps-to":
            return f"environment steps to a return of {exact_text(self.threshold)}"
        return texts.get(self.kind, self.kind)

    @property
    def description(self) -> str:
        """Description of the value of a run, such as "mean return of the episodes in the last fifth of training"."""
        when = "in the last fifth of training"
        texts = {
            "return": f"mean return of the episodes {when}",
            "greedy-return": f"mean return of greedy episodes, {self.n_episodes} at each report {when}",
            "auc": "mean return over the whole training",
            "steps-to": f"{self.text}, fewer are better",
            "success-rate": f"share of successful episodes {when}",
            "custom": f"mean of {self.name} over the episodes {when}{', lower is better' if self.minimize else ''}",
            "loss": f"mean loss of the updates {when}, lower is better",
        }
        return texts[self.kind]

    @property
    def of_last_part(self) -> bool:
        """Return whether only the last part of training counts."""
        return self.kind not in ("auc", "steps-to")


def metric_of(name: str) -> Metric:
    """Return the metric of a name.

    Args:
        name: A name, as in the first lines of this module.

    Raises:
        StudyError: If there is no such metric, or its threshold or name is missing or superfluous.
    """
    kind, separator, rest = name.partition(":")
    if kind not in _KINDS:
        raise StudyError(f"there is no metric {name!r}. {nearest(kind, _KINDS)}")
    if kind == "steps-to":
        return Metric(kind="steps-to", threshold=_threshold(name, rest), minimize=True)
    if kind == "greedy-return":
        return Metric(kind="greedy-return", n_episodes=_n_episodes(name, rest) if separator else GREEDY_EPISODES)
    if kind == "custom":
        own, _, direction = rest.partition(":")
        if not own.strip() or direction not in ("", "minimize", "maximize"):
            raise StudyError(
                f"the metric {name!r} is not understood: write custom:NAME, with the name of a custom metric, or "
                "custom:NAME:minimize if small values are better."
            )
        return Metric(kind="custom", name=own.strip(), minimize=direction == "minimize")
    if separator:
        raise StudyError(f"the metric {kind!r} takes nothing after a colon, but {rest!r} was given: leave it out.")
    return Metric(kind=kind, name=SUCCESS if kind == "success-rate" else "", minimize=kind == "loss")


def check_metric(name: Any) -> Any:
    """Return the canonical form of the name of a metric, for specs; other types are left to their validator.

    Raises:
        StudyError: See `metric_of`.
    """
    if not isinstance(name, str):
        return name
    metric = metric_of(":".join(part.strip() for part in name.split(":")))  # names of custom metrics may have spaces
    if metric.kind == "steps-to":
        return f"steps-to:{exact_text(metric.threshold)}"
    if metric.kind == "greedy-return":
        return metric.kind if metric.n_episodes == GREEDY_EPISODES else f"greedy-return:{metric.n_episodes}"
    if metric.kind == "custom":
        return f"custom:{metric.name}:minimize" if metric.minimize else f"custom:{metric.name}"
    return metric.kind


def _n_episodes(name: str, text: str) -> int:
    n = int(text) if text.isdecimal() else 0
    if not 1 <= n <= MOST_GREEDY_EPISODES:
        raise StudyError(
            f"the metric {name!r} needs a number of episodes from 1 to {MOST_GREEDY_EPISODES:,} after the colon: write "
            "greedy-return:20, for example, or greedy-return for 10."
        )
    return n


def _threshold(name: str, text: str) -> float:
    try:
        threshold = float(text)
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise StudyError(f"the metric {name!r} needs a return to reach: write steps-to:475, for example.")
    return threshold

"""Extends the range of learning rates if the best rate is the lowest or the highest one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from studies.judging.confirmation import verdict
from studies.judging.judgement import Verdict
from studies.judging.learning_rate_estimate import LearningRateEstimate, estimate_learning_rate
from studies.judging.missing_pick import why_no_pick
from studies.judging.ranking import rank
from studies.judging.robust_choice import rate_name, recommended
from studies.judging.search_history import SearchHistory, history_of
from studies.spaces.spaces import Json

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

LOWEST, HIGHEST = 1e-8, 10.0
"""Limits of automatic extensions."""

REACH = 2.0
"""Largest automatic extension on either side of the requested range, in decades."""

AT_A_TIME = 1.0
"""Decades of each extension."""


class RangeExtension:
    """Returns further rates for a study: a `finder.search.search.PlanExtension`.

    Rates with equal other parameters, such as one optimizer, form a group. If the best rate of a group is at an edge of
    the range, and other rates are significantly worse, the range is extended by a decade with the same spacing (a
    decade at most), up to `REACH`.

    Args:
        planned: The requested plan, with the parameter `name`.
        name: Name of the learning-rate parameter. Defaults to ``"learning_rate"``.
    """

    def __init__(self, planned: Sequence[Mapping[str, Json]], name: str = "learning_rate") -> None:
        self._name = name
        self._requested: dict[str, list[float]] = {}
        for row in planned:
            rate = row.get(name)
            if isinstance(rate, int | float):
                self._requested.setdefault(self._group_of(row), []).append(float(rate))

    def __call__(self, study: OpenStudy) -> list[dict[str, Json]]:
        """Return further trials; none if every best rate lies inside of the range."""
        return [] if why_no_pick(study) else self.further_rows(history_of(study), verdict(study))

    def further_rows(self, history: SearchHistory, found: Verdict) -> list[dict[str, Json]]:
        """Return further trials of a search with a pick; none if every best rate lies inside of the range.

        Args:
            history: The search, whose trials have ended.
            found: The verdict on it.
        """
        estimated = found.estimated
        if rate_name([*found.ranked, *estimated]) != self._name:
            return []
        rows = []
        for kind, asked in self._requested.items():
            # Rank within the group: beside a better optimizer, all rates of a worse one would be significantly worse.
            alike = [each for each in found.ranked if self._name in each.params and self._group_of(each.params) == kind]
            own = rank(alike, history.direction, history.reward_threshold)
            best = recommended(own, history.direction, estimated)
            if best is None:
                continue
            finding = estimate_learning_rate(
                own, estimated, best, history.direction, finalists_alone=found.finalists_alone
            )
            others = {key: value for key, value in best.params.items() if key != self._name}
            rows += [{**others, self._name: rate} for rate in _rates_beyond(finding, asked)]
        return rows

    def _group_of(self, params: Mapping[str, Json]) -> str:
        return json.dumps({key: value for key, value in params.items() if key != self._name}, sort_keys=True)


def _rates_beyond(finding: LearningRateEstimate | None, asked: Sequence[float]) -> list[float]:
    """Return the rates beyond the edge at which the best rate lies."""
    if finding is None or not finding.edge or not finding.told_apart:
        return []
    decades = math.log10(max(asked) / min(asked))
    step = min(max(decades / (len(asked) - 1), 0.05), 1.0) if len(asked) > 1 and decades > 0 else 0.5
    n = max(1, round(AT_A_TIME / step))
    if finding.edge == "lowest":
        end = max(LOWEST, min(asked) * 10**-REACH)
        rates = [finding.lowest * 10 ** -(step * k) for k in range(1, n + 1)]
    else:
        end = min(HIGHEST, max(asked) * 10**REACH)
        rates = [finding.highest * 10 ** (step * k) for k in range(1, n + 1)]
    low, high = min(end, finding.lowest), max(end, finding.highest)
    return [float(f"{rate:.4g}") for rate in rates if low * (1 - 1e-6) <= rate <= high * (1 + 1e-6)]

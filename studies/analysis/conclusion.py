"""Conclusion of a study in three lines: what to use, its value, and how certain that is.

The terminal, the report, notebooks and the dashboard show the same conclusion, made here:

1. the recommendation, with the interval of the best learning rate;
2. its value, confirmed on further seeds or from the search only, with its interval; and, in a line of its own, its gain
   over the agent as it was given, where that was a trial of the search;
3. *safe*, *tie* or *not safe*, with the reason.

A study with several objectives has a Pareto front instead: the status *front*, without a value.

*Safe*: the search is complete, the recommendation is confirmed, and no other candidate may be better by more than
`LITTLE`; no other finalist, where these alone are judged (`Verdict.finalists_alone`). *Tie*: a candidate that cannot be
distinguished from it may be better by more. *Not safe*: the data do not show which candidate is the best. Each reason
has a remedy, if a further search can remove it (`Remedy`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from optuna.trial import TrialState

from studies.analysis.doubts import Reason, doubts, others, tie, without_stop
from studies.analysis.gain import gain_line
from studies.analysis.recommendation import Recommendation, best, is_interval_known
from studies.analysis.remedies import Remedy, remedy_text, within_limit
from studies.analysis.status import study_status
from studies.judging.baseline import BaselineComparison, compared_with_baseline
from studies.judging.confirmation import Verdict, verdict
from studies.judging.learning_rate_estimate import LITTLE, cost_of_choice
from studies.judging.missing_pick import why_no_pick
from studies.judging.pareto_front import pareto_front
from studies.judging.ranking import Ranked
from studies.judging.search_history import history_of
from studies.spaces.spaces import Json
from studies.spec.metrics import metric_of
from studies.study.budget_attributes import given_fields
from studies.words import counted, interval_text, number_text, params_text, rate_text, spread_text, with_value

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

Status = Literal["safe", "tie", "not safe", "front", "no pick"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Conclusion of a study.

    Attributes:
        status: `safe`, `tie`, `not safe`, `front` (a Pareto front of several objectives), or `no pick`.
        pick: First line: what to use.
        value: Second line: its value, and on which seeds; "" without a value.
        certainty: Third line, without the status: why.
        reasons: All doubts about the recommendation, the most important first; empty if it is safe or missing. Of a
            front, why objectives tell no trials apart.
        gain: Line after the second one: the comparison with the baseline, that is the agent as it was given; "" without
            a baseline.
        baseline: This comparison as numbers; None without a baseline.
    """

    status: Status
    pick: str
    value: str
    certainty: str
    reasons: tuple[Reason, ...] = ()
    gain: str = ""
    baseline: BaselineComparison | None = None

    @property
    def safe(self) -> bool:
        """Return whether the status is `safe`."""
        return self.status == "safe"

    @property
    def lines(self) -> tuple[str, ...]:
        """The three lines, with the gain before the last one; without those that are empty."""
        return tuple(line for line in (self.pick, self.value, self.gain, f"{self.status}: {self.certainty}") if line)

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Remedies of all reasons, without duplicates."""
        return tuple(dict.fromkeys(reason.remedy for reason in self.reasons if reason.remedy is not None))

    @property
    def remedy_sentences(self) -> tuple[str, ...]:
        """Remedies as sentences that suit every interface."""
        return tuple(f"To be surer: {remedy_text(each)} ({each.purpose})." for each in self.remedies)

    def to_json(self) -> dict[str, Json]:
        """Return status, lines and reasons as JSON values."""
        return {
            "status": self.status,
            "safe": self.safe,
            "reasons": [reason.text for reason in self.reasons],
            "remedies": [remedy.to_json() for remedy in self.remedies],
            "baseline": None if self.baseline is None else self.baseline.to_json(),
            "conclusion": list(self.lines),
        }


def conclusion(study: OpenStudy) -> Conclusion:
    """Return the conclusion of a study, which may still be running."""
    if study.spec.metrics and study.trials(TrialState.COMPLETE):
        head, certainty = pareto_front(study).lines
        silent = tuple(Reason(text=text) for text in _objectives_without_a_result(study))
        return Conclusion(status="front", pick=head, value="", certainty=certainty, reasons=silent)
    if reason := why_no_pick(study):
        place = f"{' and '.join(study.spec.agents)} on {study.spec.env}"
        return Conclusion(status="no pick", pick=f"no pick for {place}", value="", certainty=without_stop(reason))
    pick = best(study)
    if study.spec.kind == "range-test":
        text = "a range test shows where learning is fast, not which rate ends best: confirm it with a grid"
        return Conclusion(
            status="not safe", pick=params_text(pick.params), value="", certainty=text, reasons=(Reason(text=text),)
        )
    found = verdict(study)
    against = doubts(study, pick, found)
    tied = [each for each in found.ranked if each.tied and each.number != pick.trial]
    cost = _cost(study, pick, found, tied)
    if not against and cost > LITTLE:
        level = tie(study, pick, found, tied, cost)
        return _conclusion(study, pick, "tie", level.text, (level,))
    if not against:
        return _conclusion(study, pick, "safe", _why_safe(others(found), tied, cost), ())
    return _conclusion(study, pick, "not safe", against[0].text, tuple(against))


def _objectives_without_a_result(study: OpenStudy) -> list[str]:
    """Return why objectives tell no trials apart, as sentences without full stops; none if each does."""
    silent: dict[str, list[str]] = {}
    for name in study.spec.metrics:
        if reason := why_no_pick(study.by_objective(name)):
            silent.setdefault(without_stop(reason), []).append(metric_of(name).text)
    texts = [metric_of(name).text for name in study.spec.metrics]
    known = [text for text in texts if not any(text in of_reason for of_reason in silent.values())]
    only = f"; the front is that of {' and '.join(known)} alone" if known else ""
    return [
        f"{' and '.join(names)} {'tells' if len(names) == 1 else 'tell'} nothing about the trials: {reason}{only}"
        for reason, names in silent.items()
    ]


def pick_json(study: OpenStudy, pick: Recommendation) -> dict[str, Json]:
    """Return the recommendation of a study as `finder best --json` prints it."""
    return {**pick.to_json(), **conclusion(study).to_json(), "complete": study_status(study).complete}


def _conclusion(
    study: OpenStudy, pick: Recommendation, status: Status, certainty: str, reasons: tuple[Reason, ...]
) -> Conclusion:
    has_baseline = study.spec.baseline is not None
    found = verdict(study)
    compared = compared_with_baseline(history_of(study), found) if has_baseline else None
    return Conclusion(
        status=status,
        pick=_pick_line(study, pick),
        value=value_line(study, pick),
        certainty=certainty,
        reasons=tuple(replace(reason, remedy=_remedy(study, reason)) for reason in reasons),
        gain="" if compared is None else gain_line(compared, found),
        baseline=compared,
    )


def _remedy(study: OpenStudy, reason: Reason) -> Remedy | None:
    """Return the remedy of a reason, within the budget of the study.

    A study that is seen by one of its objectives has none: remedies repeat the search, which has all of them.
    """
    if study.objective or reason.remedy is None:
        return None
    return within_limit(study.spec, reason.remedy, given_fields(study))


def _pick_line(study: OpenStudy, pick: Recommendation) -> str:
    several = len(study.spec.agents) > 1
    settings = params_text({name: value for name, value in pick.params.items() if name != "agent" or several})
    rate = pick.rate
    if rate is None:
        return pick.settings_text if pick.schedule else settings
    between = f"the best rate lies between {rate_text(rate.low)} and {rate_text(rate.high)} (95%)"
    if not is_interval_known(rate, pick.low):
        between = "no interval of the best rate is known"
    if rate.horizon is None or not rate.is_of_horizon:
        return f"{settings}; {between}"
    steps = f"for {rate.horizon:,} environment steps"
    if rate.corrected:
        return f"{settings}; {steps} {rate.name} {rate_text(rate.suggested)}: {between} there"
    return f"{settings}; {steps} {between}"


def value_line(study: OpenStudy, pick: Recommendation) -> str:
    """Return the line on the value of a recommendation: confirmed or from the search only, with its interval."""
    value = with_value(study.spec.metric_text, spread_text(pick.value, pick.spread))
    interval = interval_text(pick.low, pick.high, pick.value)
    expected = f"; expected {interval} (95%)" if interval else ""
    if pick.confirmed_by is None:
        return f"{value} in the search, over {pick.seeds_text}{expected}"
    if pick.value_env_steps != study.spec.env_steps:
        runs = f" in runs of {pick.value_env_steps:,} environment steps"
        return f"{value} confirmed over {pick.seeds_text}{runs}{expected}"
    return f"{value} confirmed over {pick.seeds_text}{expected}; in the search {number_text(pick.tuning_value)}"


def _cost(study: OpenStudy, pick: Recommendation, found: Verdict, tied: list[Ranked]) -> float:
    """Return how much better a tied candidate may be, as a share of the range of all candidates."""
    chosen = next(each for each in found.ranked if each.number == pick.trial)
    # Pruned candidates are part of the range: the survivors of a race lie close together.
    cost = cost_of_choice(chosen, tied, [*found.ranked, *found.estimated], study.direction)
    return math.inf if math.isnan(cost) else cost


def _why_safe(rivals: str, tied: list[Ranked], cost: float) -> str:
    if not tied:
        return f"no {rivals} may be as good, with 95% confidence"
    return (
        f"{counted(len(tied), rivals)} cannot be distinguished from it, and may be better by at most "
        f"{max(cost, 0.01):.0%} of the range of all trials"
    )

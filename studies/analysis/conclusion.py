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

from studies.analysis.gain import gain_line
from studies.analysis.recommendation import Recommendation, best
from studies.analysis.remedies import (
    Remedy,
    for_rate,
    for_tie,
    longer_runs,
    more_confirmed,
    more_further_seeds,
    more_seeds,
    remedy_text,
    repeat_search,
    within_limit,
)
from studies.analysis.status import StudyStatus, study_status
from studies.judging.baseline import BaselineComparison, compared_with_baseline
from studies.judging.confirmation import Verdict, verdict
from studies.judging.judgement import untried
from studies.judging.learning_rate_estimate import LITTLE, cost_of_choice, cost_text
from studies.judging.missing_pick import why_no_pick
from studies.judging.pareto_front import pareto_front
from studies.judging.ranking import Ranked
from studies.judging.robust_choice import kind_key
from studies.judging.search_history import history_of
from studies.spaces.spaces import Json
from studies.spec.run_length import least_useful_steps
from studies.spec.scheduler_names import is_population_based
from studies.words import (
    are,
    counted,
    interval_text,
    number_text,
    params_text,
    rate_text,
    spread_text,
    with_value,
)

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

FEW = 3
"""Number of complete trials up to which a missing confirmation raises no doubt: confirmation chooses among few, too."""

TESTED = 3
"""Number of further seeds after which trials of one seed raise no doubt."""

Status = Literal["safe", "tie", "not safe", "front", "no pick"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Reason why a recommendation is not safe, or a tie.

    Attributes:
        text: A sentence without its full stop.
        remedy: Search that would remove the reason; None if no search can.
    """

    text: str
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Conclusion of a study.

    Attributes:
        status: `safe`, `tie`, `not safe`, `front` (a Pareto front of several objectives), or `no pick`.
        pick: First line: what to use.
        value: Second line: its value, and on which seeds; "" without a value.
        certainty: Third line, without the status: why.
        reasons: All doubts about the recommendation, the most important first; empty if it is safe or missing.
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
        return Conclusion(status="front", pick=head, value="", certainty=certainty)
    if reason := why_no_pick(study):
        place = f"{' and '.join(study.spec.agents)} on {study.spec.env}"
        return Conclusion(status="no pick", pick=f"no pick for {place}", value="", certainty=_plain(reason))
    pick = best(study)
    if study.spec.kind == "range-test":
        text = "a range test shows where learning is fast, not which rate ends best: confirm it with a grid"
        return Conclusion(
            status="not safe", pick=params_text(pick.params), value="", certainty=text, reasons=(Reason(text=text),)
        )
    found = verdict(study)
    against = _reasons(study, pick, found)
    tied = [each for each in found.ranked if each.tied and each.number != pick.trial]
    cost = _cost(study, pick, found, tied)
    if not against and cost > LITTLE:
        tie = _tie(study, pick, found, tied, cost)
        return _conclusion(study, pick, "tie", tie.text, (tie,))
    if not against:
        return _conclusion(study, pick, "safe", _why_safe(_others(found), tied, cost), ())
    return _conclusion(study, pick, "not safe", against[0].text, tuple(against))


def pick_json(study: OpenStudy, pick: Recommendation) -> dict[str, Json]:
    """Return the recommendation of a study as `finder best --json` prints it."""
    return {**pick.to_json(), **conclusion(study).to_json(), "complete": study_status(study).complete}


def _conclusion(
    study: OpenStudy, pick: Recommendation, status: Status, certainty: str, reasons: tuple[Reason, ...]
) -> Conclusion:
    with_limit = tuple(
        replace(reason, remedy=None)  # remedies repeat the search, which has several objectives
        if study.objective
        else reason
        if reason.remedy is None
        else replace(reason, remedy=within_limit(study.spec, reason.remedy))
        for reason in reasons
    )
    has_baseline = study.spec.baseline is not None
    compared = compared_with_baseline(history_of(study), verdict(study)) if has_baseline else None
    return Conclusion(
        status=status,
        pick=_pick_line(study, pick),
        value=value_line(study, pick),
        certainty=certainty,
        reasons=with_limit,
        gain="" if compared is None else gain_line(compared),
        baseline=compared,
    )


def _pick_line(study: OpenStudy, pick: Recommendation) -> str:
    several = len(study.spec.agents) > 1
    settings = params_text({name: value for name, value in pick.params.items() if name != "agent" or several})
    rate = pick.rate
    if rate is None:
        return pick.settings_text if pick.schedule else settings
    between = f"the best rate lies between {rate_text(rate.low)} and {rate_text(rate.high)} (95%)"
    if not interval_text(pick.low, pick.high):  # of one seed: the interval is that of all rates that were tried
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
    interval = interval_text(pick.low, pick.high)
    expected = f"; expected {interval} (95%)" if interval else ""
    if pick.confirmed_by is None:
        return f"{value} in the search, over {pick.seeds_text}{expected}"
    if study.spec.confirms_longer:
        runs = f" in runs of {pick.value_env_steps:,} environment steps"
        return f"{value} confirmed over {pick.seeds_text}{runs}{expected}"
    return f"{value} confirmed over {pick.seeds_text}{expected}; in the search {number_text(pick.tuning_value)}"


def _reasons(study: OpenStudy, pick: Recommendation, found: Verdict) -> list[Reason]:
    """Return all doubts about a recommendation, the most important first."""
    now = study_status(study)
    found_reasons = [
        _unfinished(now),
        _too_few(study, found, now),
        _refuted(pick, found),
        _defeated(study, pick, found),
        _one_seed(study, found),
        _rate(study, pick, found),
        _short(study, pick),
        _unconfirmed(study, found),
    ]
    return [reason for reason in found_reasons if reason is not None]


def _unfinished(now: StudyStatus) -> Reason | None:
    if now.complete:
        return None
    if (n := now.n_unconfirmed) and now.n_ended >= now.n_total:
        text = f"{counted(n, 'finalist')} {are(n)} not confirmed on further seeds yet: this may change"
        return Reason(text=text, remedy=repeat_search("confirms them"))
    running = f", {now.n_running} running" if now.n_running else ""
    paused = f", {now.n_paused} paused" if now.n_paused else ""
    text = f"{now.n_ended} of {counted(now.n_total, 'trial')} done{running}{paused}: this may change"
    return Reason(text=text, remedy=None if now.n_running else repeat_search("runs the rest"))


def _too_few(study: OpenStudy, found: Verdict, now: StudyStatus) -> Reason | None:
    if len(found.tuning) < 2:
        return Reason(text="only one trial is complete, so there is nothing to compare it with")
    if not found.finalists_alone or now.n_unconfirmed:
        return None
    if (n := len({each.number for each in found.ranked} - found.beside)) < 2:
        which = "only one" if n else "none"
        runs = "the longer runs" if study.spec.confirms_longer else "the runs on further seeds"
        text = f"{which} of the best trials came to the end of {runs}, so there is nothing to compare it with"
        if n and study.spec.confirm == 1:
            text = "only one trial was confirmed, so there is nothing to compare it with"
        n_tried = len(found.confirmed) + len(found.refuted) - len(found.beside)
        can_help = bool(untried(history_of(study), found))
        return Reason(text=text, remedy=more_confirmed(study.spec, n_tried + 1) if can_help else None)
    return None


def _refuted(pick: Recommendation, found: Verdict) -> Reason | None:
    if pick.trial not in found.refuted:
        return None
    return Reason(text=f"on further seeds it failed, as all finalists did: {_plain(found.refuted[pick.trial])}")


def _defeated(study: OpenStudy, pick: Recommendation, found: Verdict) -> Reason | None:
    """Return the doubt that another candidate did clearly better on all its seeds, but was not confirmed."""
    chosen = next(each for each in found.ranked if each.number == pick.trial)
    if chosen.tied or len(found.ranked) < 2:
        return None
    better = [each for each in found.ranked if each.tied]
    n_tried = len(found.confirmed) - len(found.beside)
    text = (
        f"in the search trial #{better[0].number}, {params_text(dict(better[0].params))}, did clearly better than this "
        "on all its seeds, but it was not run on further ones"
    )
    return Reason(text=text, remedy=more_confirmed(study.spec, n_tried + len(better)))


def _rate(study: OpenStudy, pick: Recommendation, found: Verdict) -> Reason | None:
    if pick.rate is None or not pick.rate.why_unsafe or (pick.rate.cause == "one seed" and _one_seed(study, found)):
        return None
    name = pick.rate.name
    chosen = next(each for each in found.tuning if each.number == pick.trial)
    alike = [each.params[name] for each in found.tuning if kind_key(each, name) == kind_key(chosen, name)]
    tried = [float(rate) for rate in alike if isinstance(rate, int | float)]
    optimizer = chosen.params.get("optimizer")
    remedy = for_rate(
        study.spec,
        pick.rate,
        tried,
        pick.seeds_to_settle,
        optimizer=optimizer if isinstance(optimizer, str) else None,
        finalists_alone=found.finalists_alone,
    )
    return Reason(text=_plain(pick.rate.why_unsafe), remedy=remedy)


def _one_seed(study: OpenStudy, found: Verdict) -> Reason | None:
    """Return the doubt of a pick that no further seed has tested.

    Where three further seeds confirmed the pick, or two in longer runs, a safe one is hardly ever far from the best
    with one seed for each trial (benchmarks/results/designs.md). That was not replayed for population-based training.
    """
    can_exclude = study.spec.confirms_longer or not is_population_based(study.spec.pruner)
    if found.finalists_alone and can_exclude:
        least = 2 if study.spec.confirms_longer else TESTED
        n_further = min(each.held_out.n_seeds for each in found.confirmed)
        if n_further >= least:
            return None
        text = f"each finalist has {counted(n_further, 'further seed')}, which cannot exclude luck"
        is_planned = study.spec.confirm_seeds >= least  # some are still to be run
        return Reason(text=text, remedy=None if is_planned else more_further_seeds(study.spec, TESTED))
    if len(study.spec.seeds) > 1 or len(found.tuning) < 2:
        return None
    text = "each trial has one seed, which cannot exclude luck"
    return Reason(text=text, remedy=more_seeds(study.spec, 3))


def _short(study: OpenStudy, pick: Recommendation) -> Reason | None:
    """Return the doubt of runs that are much shorter than the long run.

    Safe picks of runs of an eighth of it are further than a tenth of the range from the best trial in 8 to 19% of the
    cases, those of runs of a quarter in 2 to 9% (benchmarks/results/designs.md). Searches of rates alone correct
    the rate for the length, and say by its interval whether they can.
    """
    spec = study.spec
    is_told = pick.rate is not None and pick.rate.cause == "short runs"
    if is_told or spec.kind == "lr" or spec.horizon is None or pick.value_env_steps is None:
        return None
    least = least_useful_steps(spec.horizon)
    longest = max(pick.value_env_steps, spec.confirm_budget if spec.confirm else 0)  # planned ones will decide
    if longest >= least:
        return None
    text = f"runs of {longest:,} environment steps are too short to predict one of {spec.horizon:,}"
    return Reason(text=text, remedy=longer_runs(spec, least))


def _unconfirmed(study: OpenStudy, found: Verdict) -> Reason | None:
    if found.confirmation is not None or len(found.tuning) <= FEW or study.spec.confirm:
        return None
    text = "it was not confirmed on further seeds, and the best of several values is optimistic"
    return Reason(text=text, remedy=more_confirmed(study.spec, 3))


def _cost(study: OpenStudy, pick: Recommendation, found: Verdict, tied: list[Ranked]) -> float:
    """Return how much better a tied candidate may be, as a share of the range of all candidates."""
    chosen = next(each for each in found.ranked if each.number == pick.trial)
    # Pruned candidates are part of the range: the survivors of a race lie close together.
    cost = cost_of_choice(chosen, tied, [*found.ranked, *found.left], study.direction)
    return math.inf if math.isnan(cost) else cost


def _tie(study: OpenStudy, pick: Recommendation, found: Verdict, tied: list[Ranked], cost: float) -> Reason:
    first = tied[0]
    others = f"{counted(len(tied), _others(found))}, " + ("first " if len(tied) > 1 else "")
    may_be = cost_text(cost, "one of them" if len(tied) > 1 else "it")
    text = f"with {others}#{first.number}, {params_text(dict(first.params))}; {may_be}"
    confirmed = {each.number for each in found.confirmed}
    remedy = for_tie(
        study.spec,
        pick.seeds_to_settle,
        n_tied=len(tied),
        all_confirmed=all(each.number in confirmed for each in tied),
        finalists_alone=found.finalists_alone,
    )
    return Reason(text=text, remedy=remedy)


def _others(found: Verdict) -> str:
    """Return the noun for what the pick is compared with."""
    return "other finalist" if found.finalists_alone else "other trial"


def _why_safe(others: str, tied: list[Ranked], cost: float) -> str:
    if not tied:
        return f"no {others} may be as good, with 95% confidence"
    return (
        f"{counted(len(tied), others)} cannot be distinguished from it, and may be better by at most "
        f"{max(cost, 0.01):.0%} of the range of all trials"
    )


def _plain(sentence: str) -> str:
    return sentence.rstrip(".")

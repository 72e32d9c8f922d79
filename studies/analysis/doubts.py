"""Doubts about a recommendation: why it is not safe, or a tie, each with the search that would remove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from studies.analysis.recommendation import Recommendation
from studies.analysis.remedies import (
    Remedy,
    for_rate,
    for_tie,
    longer_runs,
    more_confirmed,
    more_further_seeds,
    more_seeds,
    repeat_search,
)
from studies.analysis.status import StudyStatus, abandoned_trials, study_status
from studies.judging.confirmation import Verdict
from studies.judging.distinct_schedules import distinct_first
from studies.judging.judgement import finalists, untried
from studies.judging.learning_rate_estimate import cost_text
from studies.judging.ranking import Ranked
from studies.judging.robust_choice import kind_key
from studies.judging.search_history import history_of
from studies.spec.budget_rules import least_useful_steps
from studies.spec.metrics import metric_of
from studies.spec.scheduler_names import is_population_based
from studies.words import are, counted, params_text

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

FEW = 3
"""Number of complete trials up to which a missing confirmation raises no doubt: confirmation chooses among few, too."""

TESTED = 3
"""Number of further seeds after which trials of one seed raise no doubt."""

MISSING = 0.25
"""Share of the trials that may have failed without their parameters being the cause, before it raises a doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Reason why a recommendation is not safe, or a tie.

    Attributes:
        text: A sentence without its full stop.
        remedy: Search that would remove the reason; None if no search can.
    """

    text: str
    remedy: Remedy | None = None


def doubts(study: OpenStudy, pick: Recommendation, found: Verdict) -> list[Reason]:
    """Return all doubts about a recommendation, the most important first.

    Args:
        study: The study, which has a recommendation.
        pick: The recommendation.
        found: The judgement on the trials of the study.
    """
    now = study_status(study)
    found_reasons = [
        _unfinished(study, found, now),
        _of_different_losses(study),
        _too_few(study, found, now),
        _refuted(pick, found),
        _defeated(study, pick, found),
        _one_seed(study, found),
        _rate(study, pick, found),
        _short(study, pick),
        _unconfirmed(study, pick, found),
    ]
    return [reason for reason in found_reasons if reason is not None]


def _unfinished(study: OpenStudy, found: Verdict, now: StudyStatus) -> Reason | None:
    if now.complete and now.n_again <= MISSING * now.n_total:
        return None
    if now.complete:
        text = f"{now.n_again} of {counted(now.n_total, 'trial')} failed and will run again: this may change"
        return Reason(text=text, remedy=repeat_search("runs them again"))
    if found.by_stopped and now.n_unconfirmed:
        reached = f"{found.confirm_env_steps:,} of {study.spec.confirm_budget:,} environment steps"
        is_running = any(trial.state == TrialState.RUNNING for trial in study.confirmation_trials())
        text = f"the finalists were stopped after {reached}{' and run again' if is_running else ''}: this may change"
        return Reason(text=text, remedy=None if is_running else repeat_search("runs them to the end"))
    if (n := now.n_unconfirmed) and now.n_ended >= now.n_total:
        text = f"{counted(n, 'finalist')} {are(n)} not confirmed on further seeds yet: this may change"
        return Reason(text=text, remedy=repeat_search("confirms them"))
    n_interrupted = len(abandoned_trials(study)) if now.n_running else 0
    n_running = max(0, now.n_running - n_interrupted)
    counts = {"running": n_running, "interrupted": n_interrupted, "paused": now.n_paused}
    parts = "".join(f", {n} {word}" for word, n in counts.items() if n)
    text = f"{now.n_ended} of {counted(now.n_total, 'trial')} done{parts}: this may change"
    return Reason(text=text, remedy=None if n_running else repeat_search("runs the rest"))


def _of_different_losses(study: OpenStudy) -> Reason | None:
    if len(study.spec.agents) < 2 or metric_of(study.spec.metric).kind != "loss":
        return None
    return Reason(text="losses of different agents measure different things: compare their returns (--metric return)")


def _too_few(study: OpenStudy, found: Verdict, now: StudyStatus) -> Reason | None:
    if len(found.tuning) < 2:
        return Reason(text="only one trial is complete, so there is nothing to compare it with")
    if not found.finalists_alone or now.n_unconfirmed:
        return None
    if (n := len({each.number for each in found.ranked} - {found.baseline_only})) < 2:
        if n and different_schedules(study, found) == 1:
            return Reason(text="all complete trials have the same schedule, so there is nothing to compare it with")
        which = "only one" if n else "none"
        runs = "the longer runs" if study.spec.confirms_longer else "the runs on further seeds"
        text = f"{which} of the best trials came to the end of {runs}, so there is nothing to compare it with"
        if n and study.spec.confirm == 1:
            is_beside = any(each.number == found.baseline_only for each in found.ranked)
            beside = " beside the baseline" if is_beside else ""
            nothing = "nothing else" if beside else "nothing"
            text = f"only one trial was confirmed{beside}, so there is {nothing} to compare it with"
        n_tried = len(found.confirmed) + len(found.refuted) - (found.baseline_only is not None)
        can_help = bool(untried(history_of(study), found))
        if n and found.baseline_only is not None and not found.refuted and not can_help:
            return None  # all others were confirmed: there was the baseline only
        return Reason(text=text, remedy=more_confirmed(study.spec, n_tried + 1) if can_help else None)
    return None


def different_schedules(study: OpenStudy, found: Verdict) -> int | None:
    """Return the number of different schedules among which finalists are chosen, if there are too few for all of them.

    Of equal schedules one is confirmed (`distinct_first`), as their further runs would be the same.

    Args:
        study: The study, with or without population-based training.
        found: The judgement on its trials.
    """
    history = history_of(study)
    learned = {trial.number for trial in history.complete if trial.learned}
    candidates = [each for each in found.tuning if each.number in learned] or found.tuning
    n = len(distinct_first(candidates, history))
    return n if n < min(study.spec.confirm, len(candidates)) else None


def _refuted(pick: Recommendation, found: Verdict) -> Reason | None:
    if pick.trial not in found.refuted:
        return None
    return Reason(text=f"on further seeds it failed, as all finalists did: {without_stop(found.refuted[pick.trial])}")


def _defeated(study: OpenStudy, pick: Recommendation, found: Verdict) -> Reason | None:
    """Return the doubt that another candidate did clearly better on all its seeds, but was not confirmed."""
    chosen = next(each for each in found.ranked if each.number == pick.trial)
    confirmed = {each.number for each in found.confirmed}
    better = [each for each in found.ranked if each.tied and each.number not in confirmed]
    if chosen.tied or not better:
        return None
    n_tried = len(found.confirmed) - (found.baseline_only is not None)
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
    return Reason(text=without_stop(pick.rate.why_unsafe), remedy=remedy)


def _one_seed(study: OpenStudy, found: Verdict) -> Reason | None:
    """Return the doubt of a pick that no further seed has tested.

    Where three further seeds confirmed the pick, or two in longer runs, a safe one is hardly ever far from the best
    with one seed for each trial (benchmarks/results/designs.md). That was not replayed for population-based training.
    """
    can_exclude = study.spec.confirms_longer or not is_population_based(study.spec.pruner)
    if found.finalists_alone and can_exclude:
        least = 2 if study.spec.confirms_longer else TESTED
        n_seeds = [each.held_out.n_seeds for each in found.confirmed]
        if min(n_seeds) >= least:
            return None
        which = "each finalist has" if min(n_seeds) == max(n_seeds) else "a finalist has only"
        text = f"{which} {counted(min(n_seeds), 'further seed')}, which cannot exclude luck"
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


def _unconfirmed(study: OpenStudy, pick: Recommendation, found: Verdict) -> Reason | None:
    if found.confirmation is None and found.refuted and pick.trial not in found.refuted:
        n = len(found.refuted)
        text = f"it was not run on further seeds, on which all {counted(n, 'finalist')} failed"
        return Reason(text=text, remedy=more_confirmed(study.spec, n + 1))
    if found.confirmation is not None or len(found.tuning) <= FEW or study.spec.confirm:
        return None
    text = "it was not confirmed on further seeds, and the best of several values is optimistic"
    return Reason(text=text, remedy=more_confirmed(study.spec, 3))


def tie(study: OpenStudy, pick: Recommendation, found: Verdict, tied: list[Ranked], cost: float) -> Reason:
    """Return the reason why a recommendation is a tie: with which trials, and how much better one of them may be.

    Args:
        study: The study.
        pick: The recommendation.
        found: The judgement.
        tied: The other candidates that cannot be distinguished from it, best first, at least one.
        cost: How much better one of them may be, as a share of the range of all candidates.
    """
    first = tied[0]
    rivals = f"{counted(len(tied), others(found))}, " + ("first " if len(tied) > 1 else "")
    may_be = cost_text(cost, "one of them" if len(tied) > 1 else "it")
    text = f"with {rivals}#{first.number}, {params_text(dict(first.params))}; {may_be}"
    remedy = for_tie(
        study.spec,
        pick.seeds_to_settle,
        n_finalists=_finalists_with(study, tied, found),
        finalists_alone=found.finalists_alone,
    )
    return Reason(text=text, remedy=remedy)


def _finalists_with(study: OpenStudy, tied: Sequence[Ranked], found: Verdict) -> int:
    """Return how many finalists there must be for all of these trials to be confirmed: as many as now if they are."""
    n_now, confirmed = study.spec.confirm, {each.number for each in found.confirmed}
    if all(each.number in confirmed for each in tied):
        return n_now
    history = history_of(study)
    order = [each.number for each in finalists(replace(history, n_finalists=len(history.trials)))]
    return max([n_now + 1, *(1 + order.index(each.number) for each in tied if each.number in order)])


def others(found: Verdict) -> str:
    """Return the noun for what the pick is compared with."""
    return "other finalist" if found.finalists_alone else "other trial"


def without_stop(sentence: str) -> str:
    """Return a sentence without its full stop."""
    return sentence.rstrip(".")

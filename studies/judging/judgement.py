"""Judgement of a search: its finalists, the trial to use, ties, and results on further seeds. Pure functions.

They judge a study (`studies.judging.confirmation`) and a replayed search (`studies.simulation`) alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from studies.judging.distinct_schedules import distinct_first
from studies.judging.estimates import (
    at_confirmed_length,
    estimates_without_luck,
    pruned_estimates,
    with_search_as_rung,
)
from studies.judging.learning_rate_estimate import LearningRateEstimate, estimate_learning_rate
from studies.judging.ranking import Candidate, Ranked, rank, reach_above, within
from studies.judging.robust_choice import PrunedEstimate, recommended
from studies.judging.search_history import SearchHistory, TrialResult
from studies.statistics.bounds import NO_BOUNDS, Bounds
from studies.statistics.values import sign_of, usual_range

DEFEATED = 0.05
"""Share of another trial's probability of being the best, below which a confirmed finalist counts as defeated by it."""

CLEARLY = 0.05
"""Share of the range of all trials by which a pick is better than the baseline, where single seeds show no spread. With
smaller gains, the baseline remains the pick (benchmarks/results/baselines.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """Confirmed finalist.

    Attributes:
        number: Number of its trial.
        runs: Trials that ran it on further seeds.
        tuning: The finalist on the seeds of the search.
        held_out: The finalist on further seeds.
        bias: Difference by which its value in the search is better than on further seeds; negative if it is worse. NaN
            if its further runs were longer or shorter.
        reach: Largest bias that chance explains, with 95% confidence; NaN if unknown.
    """

    number: int
    runs: tuple[TrialResult, ...]
    tuning: Ranked
    held_out: Ranked
    bias: float
    reach: float

    @property
    def seed_values(self) -> dict[int, float]:
        """Value of each further seed."""
        return {seed: value for run in self.runs for seed, value in run.seed_values.items()}

    @property
    def beyond_noise(self) -> bool:
        """Return whether the bias exceeds the variation of seeds, with 95% confidence."""
        return self.bias > self.reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Judgement on the complete trials of a study.

    Attributes:
        pick: Trial to use, on the seeds of the search; None if no trial has a value.
        tuning: All complete trials on the seeds of the search, best first.
        ranked: The trials that learned and did not fail on further seeds (all trials if there are none), on all their
            seeds, best first, with ties. If `finalists_alone`, the confirmed trials, on their further seeds.
        estimated: Estimates of all other trials, at the length of the runs of `ranked`.
        confirmed: Confirmed finalists, the pick first, then the others, best first.
        refuted: Number of a finalist that failed on further seeds -> reason.
        rate: Estimate of the best learning rate, with all other parameters as in the pick; None if none was searched.
        finalists_alone: Whether confirmed finalists alone are judged, by their further runs
            (`SearchHistory.finalists_decide`).
        baseline_only: Number of the trial that is confirmed as the baseline only, not as one of the best; None without
            one.
        confirm_env_steps: Environment steps of the runs on further seeds: those before a spent budget stopped them, if
            none has ended. None if the budget is in episodes.
        confirms_apart: Whether these are more or fewer than those of the search, so that values differ.
        by_stopped: Whether finalists are judged by runs that a spent budget has stopped (`as_judged`).
    """

    pick: Ranked | None
    tuning: list[Ranked]
    ranked: list[Ranked]
    estimated: list[PrunedEstimate]
    confirmed: list[Confirmed]
    refuted: dict[int, str]
    rate: LearningRateEstimate | None
    finalists_alone: bool = False
    baseline_only: int | None = None
    confirm_env_steps: int | None = None
    confirms_apart: bool = False
    by_stopped: bool = False

    @property
    def confirmation(self) -> Confirmed | None:
        """Confirmation of the pick, None if it was not confirmed."""
        first = self.confirmed[0] if self.confirmed else None
        return first if first is not None and self.pick is not None and first.number == self.pick.number else None


def finalists(history: SearchHistory) -> list[Ranked]:
    """Return the trials that are to be confirmed, the recommended one first, then the best of the others.

    A trial that never learned is none of them, unless no trial learned. With population-based training, a trial with
    nearly the schedule of a better one is none of them while there are others (`distinct_first`). The baseline is
    confirmed beside them if it was completed, so that the pick can be compared with it. There are none if no other
    trial was complete, pruned or diverged: then there was nothing to choose.
    """
    sound, unsound = _sound(history)
    ranked = _with_value(rank(sound, history.direction, history.reward_threshold))
    estimated = pruned_estimates(history) + _failed(unsound)
    first = _recommended(history, ranked, estimated)
    if first is None or len(ranked) + len(estimated) < 2:
        return []
    best = distinct_first([first, *(each for each in ranked if each is not first)], history)
    baseline = history.baseline_trial if history.n_finalists else None
    return [
        each
        for place, each in enumerate(best)
        if place < history.n_finalists or (baseline is not None and each.number == baseline.number)
    ]


def untried(history: SearchHistory, verdict: Verdict) -> list[int]:
    """Return the numbers of the trials of the search that learned and were not confirmed, the next to confirm first."""
    learned = {trial.number for trial in history.complete if trial.learned}
    tried = {*(each.number for each in verdict.confirmed), *verdict.refuted}
    left = [each for each in verdict.tuning if each.number in learned - tried]
    return [each.number for each in distinct_first(left, history, tried)]


def unconfirmed(history: SearchHistory, verdict: Callable[[], Verdict]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the numbers of the finalists that are still to be confirmed, with their seeds.

    A finalist that diverged during its confirmation is not retried; one that was confirmed on fewer seeds is run on the
    others. If all confirmed finalists have become clearly worse than another trial, or much less likely to be the best
    (`DEFEATED`), that trial is confirmed too, and so on, up to as many further ones as were requested. Where finalists
    alone are judged, the next best trials of the search replace those that diverged, until there are two to compare.

    Args:
        history: The search, whose trials have ended, but for those that its budget allows no wait for.
        verdict: Returns the result of `judge`, which is needed only when every finalist was confirmed.
    """
    first = finalists(history)
    if not first:
        return []
    runs, refuted = _confirmations(history)
    numbers = list(dict.fromkeys([*(each.number for each in first), *runs]))  # those that replaced others, too
    left = _missing(history, numbers, runs, refuted)
    if left or len({*runs, *refuted}) >= history.n_finalists + len(first):
        return left
    found, needed = verdict(), min(2, history.n_finalists)
    if found.finalists_alone:
        compared = {each.number for each in found.ranked} - {found.baseline_only}
        return _missing(history, untried(history, found)[:1], runs, refuted) if len(compared) < needed else []
    confirmed = {each.number for each in found.confirmed}
    least = DEFEATED * found.ranked[0].probability_best if found.ranked else 0.0
    if found.ranked and not any(
        each.tied and each.number in confirmed and each.probability_best >= least for each in found.ranked
    ):
        return _missing(history, [found.ranked[0].number], runs, refuted)
    return []


def _recommended(
    history: SearchHistory,
    ranked: Sequence[Ranked],
    estimated: Sequence[PrunedEstimate],
    among: Collection[int] | None = None,
) -> Ranked | None:
    """Return the trial to use; see `recommended`. Where parameters changed during training, it is the best one."""
    if history.constant_params:
        return recommended(ranked, history.direction, estimated, among=among)
    allowed = [each for each in _with_value(ranked) if among is None or each.number in among]
    return allowed[0] if allowed else None


def _missing(
    history: SearchHistory,
    numbers: Sequence[int],
    runs: Mapping[int, Sequence[TrialResult]],
    refuted: Collection[int],
) -> list[tuple[int, tuple[int, ...]]]:
    """Return the trials with the seeds on which each is still to be run, if any."""
    left = []
    for number in numbers:
        known = {seed for run in runs.get(number, ()) for seed in run.seed_values}
        missing = tuple(seed for seed in history.further_seeds if seed not in known)
        if missing and number not in refuted:
            left.append((number, missing))
    return left


def as_judged(history: SearchHistory) -> SearchHistory:
    """Return the search that is judged: stopped finalists count as confirmed if all have a report at the same step.

    That is the end of their runs then. Once one of them has ended, the others do not count.
    """
    if not history.stopped or any(run.state == "complete" for run in history.confirmations):
        return history
    diverged = [run for run in history.confirmations if run.state == "diverged"]
    needed = {each.number for each in finalists(history)} - {run.confirms for run in diverged}
    steps = {run.left_at for run in history.stopped if run.confirms in needed}
    if len(steps) != 1 or not needed <= {run.confirms for run in history.stopped}:
        return history
    runs = [run for run in history.stopped if run.confirms in needed]
    return replace(history, confirmations=[*diverged, *runs], confirm_env_steps=steps.pop(), stopped=())


def judge(history: SearchHistory, bounds: Bounds = NO_BOUNDS, confirming_bounds: Bounds = NO_BOUNDS) -> Verdict:
    """Return the trial to use, ties, and results on further seeds.

    Args:
        history: The search.
        bounds: Bounds of the values, to which reported intervals are clipped. They do not affect decisions.
        confirming_bounds: The same for the values of the runs that confirm.
    """
    given, history = history, as_judged(history)
    direction = history.direction
    runs, refuted = _confirmations(history)
    further = {
        number: tuple({seed: value for run in own for seed, value in run.seed_values.items()}.values())
        for number, own in runs.items()
    }
    tuning = rank(_candidates(history), direction, history.reward_threshold)
    sound, unsound = _sound(history, refuted)
    failed = _failed(unsound)
    among = {each.number for each in sound} & set(further)
    finalists_alone = history.finalists_decide and bool(among)
    baseline_only: int | None = None
    if further and history.baseline is not None:
        baseline_only = next((each.number for each in finalists(history)[history.n_finalists :]), None)
    if finalists_alone:
        others = {each.number for each in unsound}
        if history.confirms_longer:  # the search was the first rung of these runs
            estimated = pruned_estimates(with_search_as_rung(history, further, others)) + failed
        else:
            alike, chosen = at_confirmed_length(history), set(further) - {baseline_only}
            estimated = estimates_without_luck(alike, further, chosen, others) + failed
        together = [replace(each, seed_values=further[each.number]) for each in sound if each.number in further]
    else:
        estimated = pruned_estimates(history) + failed
        together = [replace(each, seed_values=each.seed_values + further.get(each.number, ())) for each in sound]
    ranked = rank(together, direction, history.reward_threshold)
    if finalists_alone:  # neighbours in the search say less than further runs
        if not history.constant_params:
            ranked = [_by_itself(each, history) for each in ranked]
        held_out = ranked
        best = _best_or_baseline(history, ranked, estimated)
    else:
        # Among all others, whose spread informs its own.
        alone = [replace(each, seed_values=further.get(each.number, each.seed_values)) for each in sound]
        among_all = rank(alone, direction, history.reward_threshold) if further else []
        held_out = [each for each in among_all if each.number in further]
        best = _recommended(history, ranked, estimated, among or None)
    pick = None if best is None else next(each for each in tuning if each.number == best.number)
    searched = {each.number: each for each in tuning}
    confirmed = [
        _confirmed(history, searched[each.number], each, runs.get(each.number, []), (bounds, confirming_bounds))
        for each in held_out
    ]
    confirmed.sort(key=lambda each: pick is None or each.number != pick.number)
    rate = None
    if best is not None and history.constant_params:
        rate = estimate_learning_rate(
            ranked, estimated, best, direction,
            env_steps=history.confirm_budget if finalists_alone else history.env_steps, horizon=history.horizon,
            drift_known=history.of(best.number).drift_known, finalists_alone=finalists_alone,
            keeps_rate=finalists_alone and best is _baseline_beside_luck(history, _with_value(ranked)),
        )  # fmt: skip
    tuning, ranked = within(tuning, bounds), within(ranked, confirming_bounds if finalists_alone else bounds)
    shown = None if pick is None else next(each for each in tuning if each.number == pick.number)
    return Verdict(
        pick=shown, tuning=tuning, ranked=ranked, estimated=estimated, confirmed=confirmed, refuted=refuted, rate=rate,
        finalists_alone=finalists_alone, baseline_only=baseline_only, confirm_env_steps=history.confirm_budget,
        confirms_apart=history.confirms_apart, by_stopped=history is not given,
    )  # fmt: skip


def _by_itself(each: Ranked, history: SearchHistory) -> Ranked:
    """Return a finalist with the interval of its own seeds.

    Members of a population that copied each other have parts of their schedules in common, and so the same further runs
    up to there: their variances cannot inform each other.
    """
    [own] = rank([each], history.direction, history.reward_threshold)
    ends = {name: getattr(own, name) for name in ("low", "high", "compared_low", "compared_high")}
    return replace(each, **ends)


def _best_or_baseline(
    history: SearchHistory, ranked: Sequence[Ranked], estimated: Sequence[PrunedEstimate]
) -> Ranked | None:
    """Return the best finalist, or the baseline if one of both has a single seed and nothing shows that it is worse.

    It is worse if it can be distinguished from the best, or if its value is `CLEARLY` worse.
    """
    known = _with_value(ranked)
    own = _baseline_beside_luck(history, known)
    if own is None:
        return known[0] if known else None
    sign = sign_of(history.direction)
    values = [each.value for each in known] + [each.value for each in estimated if each.has_value]
    span = usual_range([sign * value for value in values])
    is_distinguished = known[0].n_seeds > 1 and not own.tied
    return known[0] if is_distinguished or sign * (known[0].value - own.value) > CLEARLY * span else own


def _baseline_beside_luck(history: SearchHistory, known: Sequence[Ranked]) -> Ranked | None:
    """Return the baseline if it is a finalist, and it or the best finalist has a single further seed."""
    trial = history.baseline_trial
    own = next((each for each in known if trial is not None and each.number == trial.number), None)
    return None if own is None or min(own.n_seeds, known[0].n_seeds) > 1 else own


def _with_value(ranked: Sequence[Ranked]) -> list[Ranked]:
    return [each for each in ranked if each.has_value]


def _confirmed(
    history: SearchHistory, tuning: Ranked, held_out: Ranked, runs: Sequence[TrialResult], bounds: tuple[Bounds, Bounds]
) -> Confirmed:
    """Return a finalist on both kinds of seeds, each ranked among the others, with the bounds of both."""
    higher, lower = (tuning, held_out) if history.direction == "maximize" else (held_out, tuning)  # if it was luck
    [shown_tuning], [shown_held_out] = within([tuning], bounds[0]), within([held_out], bounds[1])
    return Confirmed(
        number=tuning.number,
        runs=tuple(runs),
        tuning=shown_tuning,
        held_out=shown_held_out,
        bias=math.nan if history.confirms_apart else higher.value - lower.value,
        reach=reach_above(lower, higher),
    )


def _confirmations(history: SearchHistory) -> tuple[dict[int, list[TrialResult]], dict[int, str]]:
    """Return the complete confirmations of each trial, and the reasons of those that diverged."""
    runs: dict[int, list[TrialResult]] = {}
    refuted = {}
    for run in history.confirmations:
        if run.confirms is None:
            continue
        if run.state == "complete":
            runs.setdefault(run.confirms, []).append(run)
        elif run.state == "diverged":
            refuted[run.confirms] = run.reason or "no reason was recorded"
    return runs, refuted


def _candidates(history: SearchHistory) -> list[Candidate]:
    return [candidate(each) for each in history.complete]


def _sound(history: SearchHistory, refuted: Collection[int] = ()) -> tuple[list[Candidate], list[Candidate]]:
    """Return the complete trials that learned and were not refuted, and the others.

    If all that learned were refuted, these are sound; if none learned, all are.
    """
    candidates = _candidates(history)
    untrained = {trial.number for trial in history.complete if not trial.learned}
    for without in (untrained | set(refuted), untrained):
        sound = [each for each in candidates if each.number not in without]
        if sound:
            return sound, [each for each in candidates if each.number in without]
    return candidates, []


def _failed(candidates: Sequence[Candidate]) -> list[PrunedEstimate]:
    """Return trials that never learned, or were refuted, as failed ones."""
    return [PrunedEstimate(params=each.params, value=math.nan) for each in candidates]


def candidate(trial: TrialResult) -> Candidate:
    """Return a complete trial as a candidate; without seed values it counts as one seed."""
    values = tuple(trial.seed_values.values())
    if not values and trial.value is not None:
        values = (trial.value,)
    return Candidate(label=f"#{trial.number}", params=trial.params, seed_values=values, number=trial.number)

"""Confirmation: the finalists of a search are run again on further seeds, which were not used to choose them.

The winner among many noisy candidates is partly lucky: its value on the seeds that chose it is optimistic. The
further seeds give a value without this bias, and the difference of the two means estimates the selection bias.

All seeds together choose the recommendation among the finalists: replayed over tables of finished runs, this finds
better trials than the seeds of the search alone (`benchmarks/pick.md`). The further seeds therefore take part in the
last choice, among three by default, and if several finalists are confirmed, a small bias remains: less than the
interval, which contained the true value in 97.6% of the replays. With one finalist (`--confirm 1`) they choose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import optuna
from optuna.trial import FrozenTrial, TrialState

from studies.analysis.learning_rate_estimate import LearningRateEstimate, estimate_learning_rate
from studies.analysis.ranking import Candidate, Ranked, rank, within
from studies.analysis.return_bounds import return_bounds
from studies.analysis.robust_choice import PrunedEstimate, recommended
from studies.spec.attributes import CONFIRMS_ATTR, REASON_ATTR, RUNG_ATTR, has_diverged, never_learned, seed_values
from studies.spec.spaces import Json
from studies.spec.spec import Direction
from studies.statistics.bounds import Bounds
from studies.statistics.drift import measured
from studies.statistics.pruned_estimate import clearly_worse, estimate_final

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy


DEFEATED = 0.05
"""Share of another trial's probability of being the best, below which a confirmed finalist counts as defeated by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """Confirmed finalist.

    Attributes:
        number: Number of its trial.
        runs: Trials that ran it on further seeds.
        tuning: The finalist on the seeds of the search.
        held_out: The finalist on further seeds.
        bias: Difference by which its value in the search is better than on further seeds; negative if it is worse.
        reach: Largest difference between the two that chance explains, with 95% confidence; NaN if unknown.
    """

    number: int
    runs: tuple[FrozenTrial, ...]
    tuning: Ranked
    held_out: Ranked
    bias: float
    reach: float

    @property
    def tuning_mean(self) -> float:
        """Mean over the seeds of the search."""
        return self.tuning.value

    @property
    def held_out_mean(self) -> float:
        """Mean over the further seeds."""
        return self.held_out.value

    @property
    def seed_values(self) -> dict[int, float]:
        """Value of each further seed."""
        return {seed: value for run in self.runs for seed, value in seed_values(run).items()}

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
            seeds, best first, with ties.
        confirmed: Confirmed finalists, the pick first, then the others, best first.
        refuted: Number of a finalist that failed on further seeds -> reason.
        rate: Estimate of the best learning rate, with all other parameters as in the pick; None if none was searched.
    """

    pick: Ranked | None
    tuning: list[Ranked]
    ranked: list[Ranked]
    confirmed: list[Confirmed]
    refuted: dict[int, str]
    rate: LearningRateEstimate | None

    @property
    def confirmation(self) -> Confirmed | None:
        """Confirmation of the pick, None if it was not confirmed."""
        first = self.confirmed[0] if self.confirmed else None
        return first if first is not None and self.pick is not None and first.number == self.pick.number else None


def held_out_seeds(spec: StudySpec) -> tuple[int, ...]:
    """Return the seeds on which finalists are confirmed: those after the highest of the search."""
    first = max(spec.seeds) + 1
    return tuple(range(first, first + spec.confirm_seeds))


def finalists(study: OpenStudy) -> list[Ranked]:
    """Return the trials that are to be confirmed, the recommended one first, then the best of the others."""
    ranked = [each for each in rank(_candidates(study), study.direction) if not math.isnan(each.value)]
    first = recommended(ranked, study.direction, pruned_estimates(study))
    if first is None or len(ranked) < 2:  # there was nothing to choose
        return []
    return [first, *(each for each in ranked if each is not first)][: study.spec.confirm]


def unconfirmed(study: OpenStudy) -> list[tuple[FrozenTrial, tuple[int, ...]]]:
    """Return the finalists that are still to be confirmed, with their seeds.

    A finalist that diverged during its confirmation is not retried; one that was confirmed on fewer seeds is run on the
    others. If all confirmed finalists have become clearly worse than another trial, or much less likely to be the best
    (`DEFEATED`), that trial is confirmed too, and so on, up to twice the requested number.
    """
    runs, refuted = _runs(study)
    by_number = {trial.number: trial for trial in study.trials(TrialState.COMPLETE)}
    first = finalists(study)
    left = _missing(study, [by_number[each.number] for each in first], runs, refuted)
    if left or not first or len({*runs, *refuted}) >= 2 * study.spec.confirm:
        return left
    found = verdict(study)
    confirmed = {each.number for each in found.confirmed}
    least = DEFEATED * found.ranked[0].probability_best if found.ranked else 0.0
    if found.ranked and not any(
        each.tied and each.number in confirmed and each.probability_best >= least for each in found.ranked
    ):
        return _missing(study, [by_number[found.ranked[0].number]], runs, refuted)
    return []


def _missing(
    study: OpenStudy, trials: Sequence[FrozenTrial], runs: dict[int, list[FrozenTrial]], refuted: dict[int, str]
) -> list[tuple[FrozenTrial, tuple[int, ...]]]:
    """Return the trials with the seeds on which each is still to be run, if any."""
    left = []
    for trial in trials:
        known = {seed for run in runs.get(trial.number, ()) for seed in seed_values(run)}
        missing = tuple(seed for seed in held_out_seeds(study.spec) if seed not in known)
        if missing and trial.number not in refuted:
            left.append((trial, missing))
    return left


_VERDICTS: WeakKeyDictionary[optuna.Study, tuple[object, Verdict]] = WeakKeyDictionary()
"""Last verdict on a study, with its inputs: reports ask for it many times."""


def verdict(study: OpenStudy) -> Verdict:
    """Return the trial to use, ties, and results on further seeds."""
    ended = tuple((trial.number, trial.state) for trial in study.all_trials() if trial.state.is_finished())
    now = (study.spec, ended)
    before = _VERDICTS.get(study.study)
    if before is None or before[0] != now:
        before = _VERDICTS[study.study] = (now, _verdict(study))
    return before[1]


def _verdict(study: OpenStudy) -> Verdict:
    runs, refuted = _runs(study)
    candidates = _candidates(study)
    untrained = {trial.number for trial in study.trials(TrialState.COMPLETE) if never_learned(trial)}
    further = {
        number: tuple(value for run in own for value in seed_values(run).values()) for number, own in runs.items()
    }
    tuning = rank(candidates, study.direction)
    # A trial that never learned, or failed on further seeds, counts as failed, unless all of them did.
    without = untrained | set(refuted)
    sound = [each for each in candidates if each.number not in without] or candidates
    unsound = [each for each in candidates if each.number in without] if len(sound) < len(candidates) else []
    left = pruned_estimates(study) + [PrunedEstimate(params=each.params, value=math.nan) for each in unsound]
    together = [replace(each, seed_values=each.seed_values + further.get(each.number, ())) for each in sound]
    # Among all others, whose spread informs its own.
    alone = [replace(each, seed_values=further.get(each.number, each.seed_values)) for each in sound]
    ranked = rank(together, study.direction)
    held_out = [each for each in rank(alone, study.direction) if each.number in further] if further else []
    among = {each.number for each in sound} & set(further)
    best = recommended(ranked, study.direction, left, among=among or None)
    pick = None if best is None else next(each for each in tuning if each.number == best.number)
    searched = {each.number: each for each in tuning}
    bounds = return_bounds(study)
    confirmed = [
        _confirmed(searched[each.number], each, runs.get(each.number, []), study.direction, bounds) for each in held_out
    ]
    confirmed.sort(key=lambda each: pick is None or each.number != pick.number)
    spec = study.spec
    rate = None
    if best is not None:
        rate = estimate_learning_rate(
            ranked, left, best, study.direction,
            env_steps=spec.env_steps, horizon=spec.horizon, drift_known=_drift_known(study, best.number),
        )  # fmt: skip
    # Bounds do not affect decisions, only the reported intervals.
    tuning, ranked = within(tuning, bounds), within(ranked, bounds)
    shown = None if pick is None else next(each for each in tuning if each.number == pick.number)
    return Verdict(pick=shown, tuning=tuning, ranked=ranked, confirmed=confirmed, refuted=refuted, rate=rate)


def _drift_known(study: OpenStudy, number: int) -> bool:
    """Return whether the drift of the best rate was measured on the optimizer of a trial."""
    [trial] = [each for each in study.trials() if each.number == number]
    config = trial.user_attrs.get("configuration", {}).get("config", {})
    optimizer = study.params(trial).get("optimizer", study.spec.fixed.get("optimizer", config.get("optimizer", "adam")))
    return measured(str(optimizer), config.get("optimizer_kwargs"))


def _confirmed(
    tuning: Ranked, held_out: Ranked, runs: Sequence[FrozenTrial], direction: Direction, bounds: Bounds
) -> Confirmed:
    """Return a finalist on both kinds of seeds, each ranked among the others."""
    sign = 1.0 if direction == "maximize" else -1.0
    [shown_tuning], [shown_held_out] = within([tuning], bounds), within([held_out], bounds)
    return Confirmed(
        number=tuning.number,
        runs=tuple(runs),
        tuning=shown_tuning,
        held_out=shown_held_out,
        bias=sign * (tuning.value - held_out.value),
        reach=math.hypot(tuning.compared_high - tuning.compared_low, held_out.compared_high - held_out.compared_low)
        / 2,
    )


def _runs(study: OpenStudy) -> tuple[dict[int, list[FrozenTrial]], dict[int, str]]:
    """Return the complete confirmations of each trial, and the reasons of those that diverged."""
    runs: dict[int, list[FrozenTrial]] = {}
    refuted = {}
    for trial in study.confirmation_trials():
        number = trial.user_attrs[CONFIRMS_ATTR]
        if trial.state == TrialState.COMPLETE:
            runs.setdefault(number, []).append(trial)
        elif trial.state == TrialState.FAIL and has_diverged(trial):
            refuted[number] = str(trial.user_attrs.get(REASON_ATTR, "no reason was recorded"))
    return runs, refuted


def _candidates(study: OpenStudy) -> list[Candidate]:
    return [candidate(study, each) for each in study.trials(TrialState.COMPLETE)]


def candidate(study: OpenStudy, trial: FrozenTrial) -> Candidate:
    """Return a complete trial as a candidate; without seed values it counts as one seed."""
    values = tuple(seed_values(trial).values())
    if not values and trial.value is not None:
        values = (trial.value,)
    return Candidate(label=f"#{trial.number}", params=study.params(trial), seed_values=values, number=trial.number)


def pruned_estimates(study: OpenStudy) -> list[PrunedEstimate]:
    """Return estimates of pruned and diverged trials, which inform about neighbouring candidates.

    A trial that failed for another reason, such as a killed process, carries no information about its parameters.
    """
    complete, kept = study.trials(TrialState.COMPLETE), study.trials(TrialState.PRUNED)
    tried = [study.params(trial) for trial in (*kept, *complete)]
    # A diverged trial that was retried counts by its retry.
    diverged = [
        trial for trial in study.trials(TrialState.FAIL) if has_diverged(trial) and study.params(trial) not in tried
    ]
    worse = _clearly_worse(study, kept, complete)
    return [_pruned(study, trial, complete, worse=trial.number in worse) for trial in kept] + [
        PrunedEstimate(params=study.params(trial), value=math.nan) for trial in diverged
    ]


def _pruned(study: OpenStudy, trial: FrozenTrial, complete: Sequence[FrozenTrial], *, worse: bool) -> PrunedEstimate:
    """Return the estimated final value of a pruned trial."""
    params, step = study.params(trial), _left_at(trial)
    values = tuple(seed_values(trial).values()) or (() if trial.value is None else (trial.value,))
    everyone = [
        (_learner(study.params(other)), (other.intermediate_values[step], other.value))
        for other in complete
        if other.value is not None and step in other.intermediate_values
    ]
    own = [course for learner, course in everyone if learner == _learner(params)]
    survivors = own or [course for _, course in everyone]
    if not values or not survivors or not all(map(math.isfinite, values)):
        return PrunedEstimate(params=params, value=math.nan if trial.value is None else trial.value)
    value, error, df = estimate_final(values, survivors, same_kind=bool(own))
    return PrunedEstimate(params=params, value=value, error=error, df=df, clearly_worse=worse)


def _learner(params: Mapping[str, Json]) -> tuple[Json, Json]:
    """Return what determines the shape of a learning curve: the agent and its optimizer."""
    return params.get("agent"), params.get("optimizer")


def _left_at(trial: FrozenTrial) -> int | None:
    """Return the step at which a trial was pruned; a resumed trial may have later reports from its first run."""
    at = trial.user_attrs.get("pruned_at", trial.last_step)
    return None if at is None else int(at)


def _clearly_worse(study: OpenStudy, kept: Sequence[FrozenTrial], complete: Sequence[FrozenTrial]) -> set[int]:
    """Return the numbers of the trials that were clearly worse when pruned than others with another learning rate."""
    sign = 1.0 if study.direction == "maximize" else -1.0
    pruned: dict[tuple[str, str], list[int]] = {}  # kind and rung -> trials pruned there
    # kind and rung -> values of the seeds of all trials there
    there: dict[tuple[str, str], dict[int, list[float]]] = {}
    for trial in (*kept, *complete):
        params = study.params(trial)
        kind = str(sorted((name, str(own)) for name, own in params.items() if not name.endswith("learning_rate")))
        for step, values in trial.user_attrs.get(RUNG_ATTR, {}).items():
            there.setdefault((kind, step), {})[trial.number] = [sign * value for value in values.values()]
            if trial.state == TrialState.PRUNED and step == str(_left_at(trial)):
                pruned.setdefault((kind, step), []).append(trial.number)
    found = set()
    for key, numbers in pruned.items():
        worse = dict(zip(there[key], clearly_worse(list(there[key].values())), strict=True))
        found |= {number for number in numbers if worse[number]}
    return found

"""Estimates of trials that were not run to the end, or not again on further seeds. Pure functions over histories.

They judge a study and a replayed search alike (`studies.judging.judgement`).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from studies.judging.robust_choice import PrunedEstimate
from studies.judging.search_history import SearchHistory, TrialResult
from studies.spaces.rates import is_learning_rate
from studies.spaces.spaces import Json
from studies.statistics.luck import without_luck
from studies.statistics.pruned_estimate import clearly_worse, estimate_final
from studies.statistics.values import mean_of_seeds, sign_of

Courses = Mapping[tuple[int | None, str | None], Sequence[tuple[float, float]]]
"""Environment steps and learner -> value there and final value of each complete trial; None as learner has all."""


def with_search_as_rung(
    history: SearchHistory, further: Mapping[int, Sequence[float]], unsound: Collection[int]
) -> SearchHistory:
    """Return a history of runs as long as those that confirm: trials that were not confirmed were pruned before.

    Args:
        history: The search.
        further: Number of a confirmed trial -> values of its runs.
        unsound: Numbers of trials to leave out.
    """
    at, trials = history.env_steps, []
    assert at is not None
    for trial in history.trials:
        if trial.state != "complete" or trial.value is None:
            trials.append(trial)
            continue
        if trial.number in unsound:
            continue
        reports = {**trial.reports, at: trial.value}
        at_rungs = {**trial.at_rungs, at: list(trial.seed_values.values()) or [trial.value]}
        if trial.number in further:
            values = further[trial.number]
            trials.append(
                replace(
                    trial,
                    value=float(mean_of_seeds(values)),
                    seed_values=dict(enumerate(values)),
                    reports=reports,
                    at_rungs=at_rungs,
                )
            )
        else:
            trials.append(replace(trial, state="pruned", left_at=at, reports=reports, at_rungs=at_rungs))
    return replace(history, trials=trials, env_steps=history.confirm_env_steps)


def at_confirmed_length(history: SearchHistory) -> SearchHistory:
    """Return a history whose trials have their values after as many environment steps as those that confirm.

    Values between two reports are interpolated. Runs as long as those that confirm are returned as they are.

    Args:
        history: The search, whose runs are not shorter than those that confirm.
    """
    at = history.confirm_budget
    if at is None or not history.confirms_apart:
        return history
    trials = []
    for trial in history.trials:
        left = trial.left_at or 0
        if trial.state != "complete" and not (trial.state == "pruned" and left >= at):
            trials.append(trial)
        elif trial.reports:
            steps = sorted(trial.reports)
            value = float(np.interp(at, steps, [trial.reports[step] for step in steps]))
            before = {step: trial.reports[step] for step in steps if step < at} | {at: value}
            trials.append(replace(trial, state="complete", value=value, reports=before))
    return replace(history, trials=trials, env_steps=at)


def estimates_without_luck(
    history: SearchHistory, further: Mapping[int, Sequence[float]], chosen: Collection[int], unsound: Collection[int]
) -> list[PrunedEstimate]:
    """Return estimates of the trials of one seed that were not confirmed, as if they had further seeds.

    Args:
        history: The search.
        further: Number of a confirmed trial -> values of its further seeds.
        chosen: Numbers of those that were confirmed for their values.
        unsound: Numbers of trials to leave out.
    """
    sign = sign_of(history.direction)
    sound = {
        trial.number: (trial.params, trial.value)
        for trial in history.complete
        if trial.value is not None and trial.number not in unsound
    }
    left = pruned_estimates(history)
    failed = [each for each in left if not each.has_value]
    known = [each for each in left if each.has_value]
    known += [PrunedEstimate(params=params, value=value) for n, (params, value) in sound.items() if n not in further]
    everyone = [*(each.value for each in known), *(value for n, (_, value) in sound.items() if n in further)]
    error, df = _of_one_seed([further[n] for n in chosen])
    known = [replace(each, error=error, df=df) if error > each.error else each for each in known]
    expected = without_luck(
        [sign * each.value for each in known],
        [(sign * sound[n][1], sign * float(mean_of_seeds(further[n]))) for n in chosen if n in sound],
        [sign * value for value in everyone],
    )
    return [replace(each, value=sign * value) for each, value in zip(known, expected, strict=True)] + failed


def _of_one_seed(seeds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the standard deviation of a single seed, and its degrees of freedom, from several seeds of several trials.

    It is 0 if no trial has several.
    """
    several = [values for values in seeds if len(values) > 1]
    if not several:
        return 0.0, 1.0
    df = sum(len(values) - 1 for values in several)
    squares = sum((len(values) - 1) * float(np.var(values, ddof=1)) for values in several)
    return math.sqrt(squares / df), float(df)


def pruned_estimates(history: SearchHistory) -> list[PrunedEstimate]:
    """Return estimates of pruned and diverged trials, which inform about neighbouring candidates.

    A trial that failed for another reason, such as a killed process, carries no information about its parameters.
    """
    return list(_pruned_estimates(tuple(history.trials), sign_of(history.direction)))


@functools.lru_cache(maxsize=2)
def _pruned_estimates(trials: tuple[TrialResult, ...], sign: float) -> tuple[PrunedEstimate, ...]:
    """Return the estimates, kept for the next calls: a replayed search is judged repeatedly with the same results."""
    complete, kept, diverged = (
        [trial for trial in trials if trial.state == state] for state in ("complete", "pruned", "diverged")
    )
    tried = [trial.params for trial in (*kept, *complete)]
    # A diverged trial that was retried counts by its retry.
    diverged = [trial for trial in diverged if trial.params not in tried]
    worse = _clearly_worse([*kept, *complete], sign)
    courses = _courses(complete, {trial.left_at for trial in kept})
    return (
        *(_pruned(trial, courses, worse=trial.number in worse) for trial in kept),
        *(PrunedEstimate(params=trial.params, value=math.nan) for trial in diverged),
    )


def _courses(complete: Sequence[TrialResult], steps: Collection[int | None]) -> Courses:
    """Return the courses of the complete trials from these steps on.

    Args:
        complete: Complete trials.
        steps: Environment steps at which others were pruned.
    """
    courses: dict[tuple[int | None, str | None], list[tuple[float, float]]] = {}
    for trial in complete:
        if trial.value is None:
            continue
        for step in trial.reports.keys() & steps:
            course = trial.reports[step], trial.value
            for learner in (_learner(trial.params), None):
                courses.setdefault((step, learner), []).append(course)
    return courses


def _pruned(trial: TrialResult, courses: Courses, *, worse: bool) -> PrunedEstimate:
    """Return the estimated final value of a pruned trial."""
    params, step = trial.params, trial.left_at
    values = tuple(trial.seed_values.values()) or (() if trial.value is None else (trial.value,))
    own = courses.get((step, _learner(params)), [])
    survivors = own or courses.get((step, None), [])
    if not values or not survivors or not all(map(math.isfinite, values)):
        return PrunedEstimate(params=params, value=math.nan if trial.value is None else trial.value)
    value, error, df = estimate_final(values, survivors, same_kind=bool(own))
    return PrunedEstimate(params=params, value=value, error=error, df=df, clearly_worse=worse)


def _learner(params: Mapping[str, Json]) -> str:
    """Return a text that is equal for trials whose learning curves have one shape: those of one agent and optimizer."""
    return json.dumps([params.get("agent"), params.get("optimizer")], sort_keys=True, default=str)


def _clearly_worse(trials: Sequence[TrialResult], sign: float) -> set[int]:
    """Return the numbers of the trials that were clearly worse when pruned than others with another learning rate."""
    pruned: dict[tuple[str, int], list[int]] = {}  # kind and rung -> trials pruned there
    # kind and rung -> values of the seeds of all trials there
    there: dict[tuple[str, int], dict[int, list[float]]] = {}
    for trial in trials:
        kind = str(sorted((name, str(own)) for name, own in trial.params.items() if not is_learning_rate(name)))
        for step, values in ((at, own) for at, own in trial.at_rungs.items() if own):
            there.setdefault((kind, step), {})[trial.number] = [sign * value for value in values]
            if trial.state == "pruned" and step == trial.left_at:
                pruned.setdefault((kind, step), []).append(trial.number)
    found = set()
    for key, numbers in pruned.items():
        worse = dict(zip(there[key], clearly_worse(list(there[key].values())), strict=True))
        found |= {number for number in numbers if worse[number]}
    return found

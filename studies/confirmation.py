"""Confirmation: the best few of a search are run again, on seeds that took no part in choosing them.

The winner among many noisy candidates is a lucky one: its value on the seeds that chose it is too good. On further
seeds it is what it is. The difference is the selection bias, and it is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from studies.ranking import Candidate, Ranked, rank, recommended

if TYPE_CHECKING:
    from studies.spec import StudySpec
    from studies.study import OpenStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """A finalist on further seeds.

    Attributes:
        number: Its trial's number.
        run: The trial that ran it on further seeds.
        tuning: The finalist on the seeds of the search.
        held_out: The same on further seeds.
        together: The same on both, beside the other finalists.
        bias: By how much the value of the search is better than that on further seeds; negative where it is worse.
    """

    number: int
    run: FrozenTrial
    tuning: Ranked
    held_out: Ranked
    together: Ranked
    bias: float


def held_out_seeds(spec: StudySpec) -> tuple[int, ...]:
    """Returns the seeds on which finalists are confirmed: those after the highest of the search."""
    first = max(spec.seeds) + 1
    return tuple(range(first, first + spec.confirm_seeds))


def finalists(study: OpenStudy) -> list[Ranked]:
    """Returns the trials that are to be confirmed, the recommended one first, then the best of the others."""
    ranked = [each for each in _ranked(study) if not math.isnan(each.value)]
    if len(ranked) < 2:  # nothing was chosen
        return []
    return _recommended_first(ranked, study)[: study.spec.confirm]


def unconfirmed(study: OpenStudy) -> list[FrozenTrial]:
    """Returns the finalists that are still to be confirmed; one whose confirmation failed is not tried again."""
    from studies.study import CONFIRMS_ATTR, is_interrupted

    tried = {
        trial.user_attrs[CONFIRMS_ATTR]
        for trial in study.confirmation_trials()
        if trial.state != TrialState.RUNNING and not is_interrupted(trial)
    }
    by_number = {trial.number: trial for trial in study.trials(TrialState.COMPLETE)}
    return [by_number[each.number] for each in finalists(study) if each.number not in tried]


def confirmations(study: OpenStudy) -> list[Confirmed]:
    """Returns the finalists that were confirmed, best first by all of their seeds together."""
    from studies.study import CONFIRMS_ATTR

    runs = {
        trial.user_attrs[CONFIRMS_ATTR]: trial
        for trial in study.confirmation_trials()
        if trial.state == TrialState.COMPLETE
    }
    tuning = {each.number: each for each in _ranked(study) if each.number in runs}
    if not tuning:
        return []
    held_out = {each.number: each for each in rank(_candidates(study, runs), study.direction)}
    together = [
        Candidate(
            label=each.label,
            params=each.params,
            seed_values=each.seed_values + held_out[number].seed_values,
            number=number,
        )
        for number, each in tuning.items()
    ]
    sign = 1.0 if study.direction == "maximize" else -1.0
    return [
        Confirmed(
            number=each.number,
            run=runs[each.number],
            tuning=tuning[each.number],
            held_out=held_out[each.number],
            together=each,
            bias=sign * (tuning[each.number].value - held_out[each.number].value),
        )
        for each in _recommended_first(rank(together, study.direction), study)
    ]


def _recommended_first(ranked: Sequence[Ranked], study: OpenStudy) -> list[Ranked]:
    first = recommended(ranked, study.direction)
    return list(ranked) if first is None else [first, *(each for each in ranked if each is not first)]


def _candidates(study: OpenStudy, runs: dict[int, FrozenTrial]) -> list[Candidate]:
    from studies.pick import seed_values

    return [
        Candidate(
            label=f"#{trial.number}",
            params=study.params(trial),
            seed_values=tuple(seed_values(trial).values()),
            number=number,
        )
        for number, trial in runs.items()
    ]


def _ranked(study: OpenStudy) -> list[Ranked]:
    from studies.pick import candidate

    return rank([candidate(study, each) for each in study.trials(TrialState.COMPLETE)], study.direction)

"""Ranking of a study and labels of trials, as figures need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from optuna.trial import FrozenTrial

from studies.analysis.schedules import shown_params
from studies.judging.confirmation import Verdict, verdict
from studies.judging.missing_pick import why_no_pick
from studies.judging.ranking import Ranked
from studies.population_based.schedule import Lineage
from studies.study.schedules import lineages_of
from studies.words import params_text

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

Entry = TypeVar("Entry")

LABEL_PARAMS = ("agent", "optimizer")
"""Parameters that label a line or a bar, in this order."""


class Ranking(NamedTuple):
    """Ranking of the complete trials of a study.

    Attributes:
        ranked: Complete trials, best first.
        trials: Every trial of the study by number.
        pick: Recommended trial (`studies.recommended`), None if there is none
            (`studies.judging.missing_pick.why_no_pick`).
        verdict: Ties, and results on further seeds.
        lineages: Number of a trial -> schedule of its weights; empty without population-based training.
    """

    ranked: list[Ranked]
    trials: dict[int, FrozenTrial]
    pick: Ranked | None
    verdict: Verdict
    lineages: dict[int, Lineage]


def ranking(study: OpenStudy) -> Ranking:
    """Return the ranking of the complete trials of a study."""
    lineages = lineages_of(study)
    found = _shown(lineages, verdict(study))
    pick = None if why_no_pick(study) else found.pick
    return Ranking(found.tuning, {trial.number: trial for trial in study.trials()}, pick, found, lineages)


def best_and_pick(entries: Sequence[Entry], most: int, is_pick: Callable[[Entry], bool]) -> list[tuple[int, Entry]]:
    """Return the first entries with their places, and the pick with its place if it is none of them.

    Further seeds and neighbours take part in the choice of the pick, so it may have any place among the values of the
    search.

    Args:
        entries: Entries, best first.
        most: Number of entries, without the pick.
        is_pick: Returns whether an entry is the recommended trial.
    """
    placed = list(enumerate(entries, start=1))
    return placed[:most] + [each for each in placed[most:] if is_pick(each[1])]


def _shown(lineages: Mapping[int, Lineage], found: Verdict) -> Verdict:
    """Return the verdict with the parameters that the weights of a trial had, where these changed."""
    if not lineages:
        return found

    shown: dict[int, Ranked] = {}

    def once(each: Ranked) -> Ranked:  # the same trial stays the same object
        if id(each) not in shown:
            shown[id(each)] = replace(each, params=shown_params(each.params, lineages.get(each.number)))
        return shown[id(each)]

    return replace(
        found,
        tuning=[once(each) for each in found.tuning],
        ranked=[once(each) for each in found.ranked],
        pick=None if found.pick is None else once(found.pick),
        confirmed=[replace(each, tuning=once(each.tuning)) for each in found.confirmed],
    )


def group_label(params: dict[str, Any]) -> str:
    """Return agent and optimizer of a trial, such as `ppo · adam`; empty if neither was searched."""
    return " · ".join(str(params[name]) for name in LABEL_PARAMS if params.get(name) is not None)


def trial_label(number: int, params: dict[str, Any]) -> str:
    """Return the label of a trial in a legend, such as `#12 optimizer adam, learning_rate 1e-3`."""
    return f"#{number} {params_text(params)}"

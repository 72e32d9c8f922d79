"""Ranking of a study and labels of trials, as figures need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from optuna.trial import FrozenTrial

from studies.judging.confirmation import Verdict, verdict
from studies.judging.missing_pick import why_no_pick
from studies.judging.ranking import Ranked
from studies.words import params_text

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

LABEL_PARAMS = ("agent", "optimizer")
"""Parameters that label a line or a bar, in this order."""


class Ranking(NamedTuple):
    """Ranking of the complete trials of a study.

    Attributes:
        ranked: Complete trials, best first.
        trials: Every trial of the study by number.
        pick: Recommended trial (`studies.recommended`), None if there is none
            (`studies.analysis.recommendation.why_no_pick`).
        verdict: Ties, and results on further seeds.
    """

    ranked: list[Ranked]
    trials: dict[int, FrozenTrial]
    pick: Ranked | None
    verdict: Verdict


def ranking(study: OpenStudy) -> Ranking:
    """Return the ranking of the complete trials of a study."""
    found = verdict(study)
    pick = None if why_no_pick(study) else found.pick
    return Ranking(found.tuning, {trial.number: trial for trial in study.trials()}, pick, found)


def group_label(params: dict[str, Any]) -> str:
    """Return agent and optimizer of a trial, such as `ppo · adam`; empty if neither was searched."""
    return " · ".join(str(params[name]) for name in LABEL_PARAMS if params.get(name) is not None)


def trial_label(number: int, params: dict[str, Any]) -> str:
    """Return the label of a trial in a legend, such as `#12 optimizer adam, learning_rate 1e-3`."""
    return f"#{number} {params_text(params)}"

"""How far the confirmation of a study has come, for the budget of its search."""

from __future__ import annotations

from collections.abc import Sequence

from optuna.trial import TrialState

from studies.judging.search_history import is_as_long_as_now
from studies.spec.attributes import CONFIRMS_ATTR, seed_values
from studies.study.study import OpenStudy


def confirmed_trials(study: OpenStudy) -> list[int]:
    """Return the numbers of the trials that have results of runs that confirm, of the length that they have now."""
    return sorted(
        {
            run.user_attrs[CONFIRMS_ATTR]
            for run in study.confirmation_trials()
            if run.state == TrialState.COMPLETE and is_as_long_as_now(study.spec, run)
        }
    )


def known_seeds(study: OpenStudy, finalists: Sequence[int]) -> int:
    """Return the number of further seeds on which each of these finalists has a result."""
    known = dict.fromkeys(finalists, 0)
    for run in study.confirmation_trials():
        number = run.user_attrs[CONFIRMS_ATTR]
        if number in known and run.state == TrialState.COMPLETE and is_as_long_as_now(study.spec, run):
            known[number] += len(seed_values(run))
    return min(known.values())


def reached_steps(study: OpenStudy, finalists: Sequence[int]) -> int:
    """Return the environment steps that the interrupted confirmations of all of these finalists have reported."""
    reached = dict.fromkeys(finalists, 0)
    for run in study.confirmation_trials():
        if run.state == TrialState.WAITING and run.user_attrs[CONFIRMS_ATTR] in reached:
            reached[run.user_attrs[CONFIRMS_ATTR]] = run.last_step or 0
    return min(reached.values())

"""Adapter that makes a scheduler a pruner of Optuna."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import TrialState

from studies.schedulers.scheduler import Action, Scheduler
from studies.schedulers.trial_view import TrialView, ViewState
from studies.spec.attributes import (
    PAUSED_ATTR,
    PROMOTED_ATTR,
    RUNG_ATTR,
    exclusion_reason,
    has_diverged,
    is_confirmation,
    is_paused,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

_STATES: dict[TrialState, ViewState] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


class SchedulerPruner(BasePruner):
    """Pruner of Optuna that asks a scheduler, with all trials of the search.

    The scheduler is asked only at reports at which it judges, before the storage is read, which costs milliseconds.
    What this pruner remembers saves time and changes no decision.

    Args:
        scheduler: The scheduler.
        names: Parameters that the study searches; trials that are not part of its search decide nothing. Defaults to
            None, for a study of another program, all of whose trials decide.
    """

    def __init__(self, scheduler: Scheduler, names: Collection[str] | None = None) -> None:
        self.scheduler, self._names = scheduler, names
        self._views: dict[int, _Known] = {}

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the scheduler stops a trial at its last report.

        Only Finder pauses trials (`actions`). In another Optuna program, trials that would be paused are pruned, except
        those that would be promoted if there were no further trials.
        """
        action = self.actions(study, [trial])[trial.number]
        if action == Action.PAUSE:
            views = self._trials(study, _sign(study))
            paused = [replace(each, state="paused") if each.number == trial.number else each for each in views]
            return trial.number not in self.scheduler.promotable(paused, is_last=True)
        return action == Action.STOP

    def actions(self, study: Study, reported: Sequence[FrozenTrial]) -> dict[int, Action]:
        """Return the decision of the scheduler on each of several trials at its last report.

        The trials of the study are read once, and those that are due at a rung are judged together.
        """
        sign = _sign(study)
        decided = dict.fromkeys((trial.number for trial in reported), Action.CONTINUE)
        due = [view for trial in reported if self.scheduler.is_due(view := view_of(trial, sign))]
        if not due:
            return decided
        return decided | self.scheduler.decisions(due, self._trials(study, sign))

    def promotable(self, study: Study, *, is_last: bool) -> list[int]:
        """Return the numbers of the paused trials of a study that may continue; see `Scheduler.promotable`."""
        return self.scheduler.promotable(self._trials(study, _sign(study)), is_last=is_last)

    def _trials(self, study: Study, sign: float) -> list[TrialView]:
        return [self._view_of(each, sign) for each in study.get_trials(deepcopy=False) if self._is_searched(each)]

    def _is_searched(self, trial: FrozenTrial) -> bool:
        return not is_confirmation(trial) and (self._names is None or not exclusion_reason(trial, self._names))

    def _view_of(self, trial: FrozenTrial, sign: float) -> TrialView:
        """Return the view of a trial, which is made anew only if something was reported since."""
        attrs = tuple(trial.user_attrs.get(name) for name in (RUNG_ATTR, PAUSED_ATTR, PROMOTED_ATTR))
        parts = (sign, trial.state, trial.intermediate_values, attrs, trial.params)
        known = self._views.get(trial._trial_id)
        if known is None or known.parts != parts:
            # Some storages return their own object, whose reports and parameters grow.
            known = _Known(copy.deepcopy(parts), view_of(trial, sign))
            self._views[trial._trial_id] = known
        return known.view


def _sign(study: Study) -> float:
    return -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0


class _Known(NamedTuple):
    """View of a trial, and what it was made from."""

    parts: tuple[Any, ...]
    view: TrialView


def view_of(trial: FrozenTrial, sign: float) -> TrialView:
    """Return a trial of Optuna for schedulers.

    Args:
        trial: The trial. Its values at rungs are those of its seeds where they are stored.
        sign: 1 if higher values are better, -1 if lower ones are.
    """
    at_rungs = trial.user_attrs.get(RUNG_ATTR, {})
    values = {}
    for step, value in trial.intermediate_values.items():
        seeds = () if math.isnan(value) else tuple(at_rungs.get(str(step), {}).values())
        values[step] = tuple(sign * each for each in seeds or (value,))
    state: ViewState = "diverged" if has_diverged(trial) else "paused" if is_paused(trial) else _STATES[trial.state]
    return TrialView(
        number=trial.number,
        params=dict(trial.params),
        state=state,
        values=values,
        promoted_from=trial.user_attrs.get(PROMOTED_ATTR),
    )


def pausing_pruner(study: Study) -> SchedulerPruner | None:
    """Return the pruner of a study if its scheduler pauses trials, else None."""
    pruner = study.pruner
    return pruner if isinstance(pruner, SchedulerPruner) and pruner.scheduler.pauses else None

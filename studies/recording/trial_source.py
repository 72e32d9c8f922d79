"""Source of the next trial of a search: interrupted trials, then queued ones, rows of the plan, and proposals."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, Trial, TrialState

from studies.analysis.status import planned_row, remaining_first_trials, rows_left
from studies.recording.trial_states import StartedTrial, resume, start_trial
from studies.spec.attributes import is_interrupted
from studies.spec.conditions import encoded_conditions, in_order
from studies.spec.plan import pending_rows
from studies.spec.spaces import Fixed, Json, decode_params, distribution

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from studies.study.study import OpenStudy


class TrialSource:
    """Source of the trials of a study.

    Args:
        study: The study.
        retry_failed: Whether planned trials that failed in an earlier run are retried, after those that were never
            tried.
    """

    def __init__(self, study: OpenStudy, *, retry_failed: bool) -> None:
        self._study = study
        self._spec = study.spec
        self._spaces = in_order(self._spec.search_space())
        self._conditions = encoded_conditions(self._spaces)
        self._distributions = {name: distribution(space) for name, space in self._spaces.items()}
        self._planned = bool(self._spec.plan())
        trials = study.trials()
        if self._planned:
            untried, again = rows_left(self._spec, trials)
            self._pending = [*untried, *again] if retry_failed else untried
        else:
            self._pending = remaining_first_trials(self._spec, trials)
        self._started: set[int] = set()  # started by this source
        self._n_seen = self._next_number(trials)

    @property
    def n_left(self) -> int:
        """Number of trials that are still to be started."""
        trials = self._refresh(self._study.trials())
        waiting = _waiting(trials)
        if self._planned:
            return len(waiting) + len(self._pending)
        return max(sum(map(is_interrupted, waiting)), self._spec.n_trials - (len(trials) - len(waiting)))

    @property
    def n_to_resume(self) -> int:
        """Number of trials that wait to be resumed."""
        return sum(map(is_interrupted, _waiting(self._refresh(self._study.trials()))))

    def take(self, all_trials: Sequence[FrozenTrial], busy: Container[int] = ()) -> StartedTrial | None:
        """Return the next trial, which is running from now on; None if there is none. Requires the planning lease.

        Args:
            all_trials: The trials of the Optuna study, read with the planning lease.
            busy: Numbers of trials that must not be started now, even if they wait.
        """
        trials = self._refresh(self._study.own_among(all_trials))
        waiting = [trial for trial in _waiting(trials) if trial.number not in busy]
        # Interrupted trials are resumed even if there are enough trials.
        is_full = not self._planned and len(trials) - len(waiting) >= self._spec.n_trials
        for each in waiting:
            resumed = is_interrupted(each)  # before the state changes: some storages return their own object
            if is_full and not resumed:
                break
            if resume(self._study.study, each):
                return self._started_trial(each, planned_row(each), resumed=resumed)
        if is_full or (self._planned and not self._pending):
            return None
        row: Mapping[str, Json] = self._pending[0] if self._pending else {}
        trial = start_trial(self._study.study, row)
        del self._pending[:1]  # after the write, which fails if the planning lease was lost
        self._started.add(trial.number)
        return self._started_trial(trial, row, resumed=False)

    def _started_trial(self, trial: FrozenTrial, row: Mapping[str, Json], *, resumed: bool) -> StartedTrial:
        distributions = self._distributions_of(row)
        return StartedTrial(trial, self._spec.seeds, None, resumed, distributions, self._conditions)

    def restore(self, trial: FrozenTrial) -> None:
        """Restore the planned row of a trial that was abandoned at its start, so that it is tried again."""
        if row := planned_row(trial):
            self._pending.insert(0, row)

    def _refresh(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        """Return the current trials, after removing planned rows that other processes have started or queued."""
        latest = itertools.takewhile(lambda trial: trial.number >= self._n_seen, reversed(trials))
        new = [trial for trial in latest if trial.number not in self._started]
        if new:
            self._pending = pending_rows(self._pending, [row for trial in new if (row := planned_row(trial))])
        self._n_seen = self._next_number(trials)
        return trials

    @staticmethod
    def _next_number(trials: Sequence[FrozenTrial]) -> int:
        return trials[-1].number + 1 if trials else 0

    def params(self, trial: Trial) -> dict[str, Json]:
        """Return the parameters of a trial, fixed ones included."""
        return {**self._spec.fixed, **decode_params(trial.params, self._spaces)}

    def _distributions_of(self, row: Mapping[str, Json]) -> dict[str, BaseDistribution]:
        """Return the distributions of a trial, each after those that it depends on: of all parameters or its plan."""
        names = self._distributions if not self._planned or not row else row
        return {
            name: self._distributions[name]
            for name, space in self._spaces.items()
            if name in names or isinstance(space, Fixed)
        }


def _waiting(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the waiting trials, interrupted ones first."""
    return sorted((t for t in trials if t.state == TrialState.WAITING), key=lambda trial: not is_interrupted(trial))

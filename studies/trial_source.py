"""The next trial of a search: what had begun, then what somebody queued, a plan's rows, a sampler's proposals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from optuna.trial import Trial, TrialState

from studies.attributes import is_interrupted
from studies.beginning import begin, put_back, take_up
from studies.spaces import Fixed, Json, decode_params, distribution
from studies.standing import planned_row, rows_left

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from studies.study import OpenStudy


class Taken(NamedTuple):
    """A trial that runs from now on.

    Attributes:
        trial: The trial.
        again: Whether it had begun before, and goes on.
    """

    trial: Trial
    again: bool


class TrialSource:
    """Hands out the trials of a study, one after another.

    Args:
        study: The study.
        retry_failed: Whether a plan's trials that failed in an earlier run are run again, after those that were never
            tried.
    """

    def __init__(self, study: OpenStudy, *, retry_failed: bool) -> None:
        self._study = study
        self._spec = study.spec
        self._spaces = self._spec.search_space()
        self._distributions = {name: distribution(space) for name, space in self._spaces.items()}
        self._planned = bool(self._spec.plan())
        trials = study.trials()
        waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
        self._waiting = sorted(waiting, key=lambda trial: not is_interrupted(trial))  # what has begun goes on first
        self._n_counted = len(trials) - len(waiting)
        untried, again = rows_left(self._spec, trials)
        self._pending = [*untried, *again] if retry_failed else untried

    @property
    def n_left(self) -> int:
        """Trials that are still to be handed out."""
        if self._planned:
            return len(self._waiting) + len(self._pending)
        return max(sum(map(is_interrupted, self._waiting)), self._spec.n_trials - self._n_counted)

    @property
    def _is_full(self) -> bool:
        """Whether no further trial is to begin; those that have begun go on all the same."""
        return not self._planned and self._n_counted >= self._spec.n_trials

    def take(self) -> Taken | None:
        """Returns the next trial, RUNNING from now on; None if nothing is left."""
        while self._waiting and (is_interrupted(self._waiting[0]) or not self._is_full):
            waiting = self._waiting.pop(0)
            again = is_interrupted(waiting)  # before it runs: some storages hand out their own trials
            trial = take_up(self._study.study, waiting, self._wanted(planned_row(waiting)))
            if trial is not None:
                self._n_counted += 1
                return Taken(trial, again=again)
        if self._is_full:
            return None
        row: Mapping[str, Json] = {}
        if self._planned:
            if not self._pending:
                return None
            row = self._pending.pop(0)
        self._n_counted += 1
        return Taken(begin(self._study.study, row, self._wanted(row)), again=False)

    def put_back(self, trial: Trial) -> None:
        """Lets a trial wait, to be taken again."""
        put_back(self._study.study, trial._trial_id)
        self._waiting.insert(0, self._study.storage.optuna.get_trial(trial._trial_id))
        self._n_counted -= 1

    def params(self, trial: Trial) -> dict[str, Json]:
        """What a trial sets: the study's fixed parameters and its own."""
        return {**self._spec.fixed, **decode_params(trial.params, self._spaces)}

    def _wanted(self, row: Mapping[str, Json]) -> dict[str, BaseDistribution]:
        """The parameters of a trial: all of them, or those of its row in a plan."""
        names = self._distributions if not self._planned or not row else row
        return {
            name: self._distributions[name]
            for name, space in self._spaces.items()
            if name in names or isinstance(space, Fixed)
        }

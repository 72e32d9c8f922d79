"""The next trial of a search: what had begun, then what somebody queued, a plan's rows, a sampler's proposals."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from optuna.trial import FrozenTrial, Trial, TrialState

from studies.analysis.status import first_left, planned_row, rows_left
from studies.recording.trial_states import begin, resume
from studies.spec.attributes import is_interrupted
from studies.spec.plan import pending_rows
from studies.spec.spaces import Fixed, Json, decode_params, distribution

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from studies.study.study import OpenStudy


class NextTrial(NamedTuple):
    """A trial that runs from now on.

    Attributes:
        trial: The trial.
        again: Whether it had begun before, and goes on.
        wanted: The parameters that it sets.
    """

    trial: FrozenTrial
    again: bool
    wanted: Mapping[str, BaseDistribution]


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
        if self._planned:
            untried, again = rows_left(self._spec, trials)
            self._pending = [*untried, *again] if retry_failed else untried
        else:
            self._pending = first_left(self._spec, trials)
        self._begun: set[int] = set()  # here
        self._n_seen = self._next_number(trials)

    @property
    def n_left(self) -> int:
        """Trials that are still to be handed out."""
        trials = self._look()
        waiting = _waiting(trials)
        if self._planned:
            return len(waiting) + len(self._pending)
        return max(sum(map(is_interrupted, waiting)), self._spec.n_trials - (len(trials) - len(waiting)))

    @property
    def n_to_resume(self) -> int:
        """Trials that wait to continue."""
        return sum(map(is_interrupted, _waiting(self._look())))

    def take(self, busy: Container[int] = ()) -> NextTrial | None:
        """Returns the next trial, RUNNING from now on; None if nothing is left. Call it while planning.

        Args:
            busy: Numbers of trials that are not handed out now, also where they wait.
        """
        trials = self._look()
        waiting = [trial for trial in _waiting(trials) if trial.number not in busy]
        # What has begun goes on, however many trials there are.
        is_full = not self._planned and len(trials) - len(waiting) >= self._spec.n_trials
        for each in waiting:
            again = is_interrupted(each)  # before it runs: some storages hand out their own trials
            if is_full and not again:
                break
            if resume(self._study.study, each):
                return NextTrial(each, again, self._wanted(planned_row(each)))
        if is_full or (self._planned and not self._pending):
            return None
        row: Mapping[str, Json] = self._pending.pop(0) if self._pending else {}
        trial = begin(self._study.study, row)
        self._begun.add(trial.number)
        return NextTrial(trial, False, self._wanted(row))

    def _look(self) -> list[FrozenTrial]:
        """The trials as they are now. What others have begun or queued since, this one need not begin."""
        trials = self._study.trials()
        latest = itertools.takewhile(lambda trial: trial.number >= self._n_seen, reversed(trials))
        new = [trial for trial in latest if trial.number not in self._begun]
        if new:
            self._pending = pending_rows(self._pending, [row for trial in new if (row := planned_row(trial))])
        self._n_seen = self._next_number(trials)
        return trials

    @staticmethod
    def _next_number(trials: Sequence[FrozenTrial]) -> int:
        return trials[-1].number + 1 if trials else 0

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


def _waiting(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that wait; first of all those that had begun."""
    return sorted((t for t in trials if t.state == TrialState.WAITING), key=lambda trial: not is_interrupted(trial))

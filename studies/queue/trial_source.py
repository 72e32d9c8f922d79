"""Source of the next trial of a search: interrupted trials, promoted ones, queued ones, rows of the plan, proposals."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, Trial, TrialState

from studies.adapters.scheduler_pruner import pausing_pruner
from studies.analysis.status import planned_row, retries_failures, retryable, rows_left
from studies.queue.proposals import configuration
from studies.queue.trial_states import StartedTrial, promote, resume, start_trial
from studies.spaces.conditions import encoded_conditions, in_order
from studies.spaces.configurations import is_whole_space
from studies.spaces.plan import pending_rows
from studies.spaces.spaces import Fixed, Json, decode_params, distribution
from studies.spec.attributes import PAUSED_ATTR, is_interrupted, is_paused
from studies.spec.scheduler_names import is_population_based

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from studies.coordination.lease_manager import LeaseManager
    from studies.study.study import OpenStudy


class TrialSource:
    """Source of the trials of a study.

    Args:
        study: The study.
        retry_failed: Whether trials that failed in an earlier run are retried, after those that were never tried, or
            replaced by other proposals of the sampler. Diverged trials never are, and a worker that joins a study that
            others run retries none. Defaults to False.
        retried: Numbers of the failed trials that are retried or replaced, in place of `retry_failed`.
    """

    def __init__(self, study: OpenStudy, *, retry_failed: bool = False, retried: Collection[int] | None = None) -> None:
        self._study = study
        self._spec = study.spec
        self._spaces = in_order(self._spec.search_space())
        self._conditions = encoded_conditions(self._spaces)
        self._distributions = {name: distribution(space) for name, space in self._spaces.items()}
        self._planned_names = frozenset(name for row in self._spec.plan() for name in row)
        self._planned = bool(self._planned_names)
        is_open = not (self._planned or is_population_based(self._spec.pruner))
        self._tries_all = is_open and is_whole_space(self._spaces, self._spec.n_trials)
        self._pruner = pausing_pruner(study.study)
        trials = study.trials()
        if retried is None:
            retries = retry_failed and (study.leases is None or retries_failures(study.leases))
            retried = [trial.number for trial in retryable(self._spec, trials)] if retries else ()
        self.retried = frozenset(retried)
        """Numbers of the trials that failed in an earlier run or at their start, and are retried or replaced."""
        self.only_continues = False
        """True if interrupted and paused trials continue, and no other begins."""
        self._pending = list(itertools.chain(*rows_left(self._spec, trials, self.retried)))
        self._started: set[int] = set()  # started by this source
        self._n_seen = self._next_number(trials)

    @property
    def n_left(self) -> int:
        """Number of trials that are still to be started, or else of paused ones that are promoted next."""
        trials = self._refresh(self._study.trials())
        waiting = self._waiting(trials)
        if self._planned:
            n_left = len(waiting) + len(self._pending)
        else:
            n_left = max(sum(map(self._is_interrupted, waiting)), self._spec.n_trials - self._n_begun(trials, waiting))
        return n_left or len(self._promotable(trials, is_last=True))

    @property
    def n_to_resume(self) -> int:
        """Number of trials that wait to be resumed."""
        return sum(map(self._is_interrupted, self._waiting(self._refresh(self._study.trials()))))

    @property
    def pauses(self) -> bool:
        """True if the scheduler of the study pauses trials."""
        return self._pruner is not None

    @property
    def next_promotion(self) -> int | None:
        """Environment steps after which the trial was paused that `take` returns next; None if it is no paused one."""
        if self._pruner is None:
            return None
        trials = self._refresh(self._study.trials())
        waiting = self._waiting(trials)
        if any(map(self._is_interrupted, waiting)):
            return None
        numbers = self._promotable(trials, is_last=False)
        if not numbers and not self._begins_others(trials, waiting):
            numbers = self._promotable(trials, is_last=True)
        steps = [int(trial.user_attrs[PAUSED_ATTR]) for trial in trials if trial.number in numbers[:1]]
        return steps[0] if steps else None

    @property
    def next_resumed(self) -> int:
        """Environment steps of the last report of the interrupted trial that `take` returns next; 0 if it is none."""
        waiting = self._waiting(self._refresh(self._study.trials()))
        return next((trial.last_step or 0 for trial in waiting if self._is_interrupted(trial)), 0)

    @property
    def paused(self) -> list[FrozenTrial]:
        """The trials that are paused now."""
        return [trial for trial in self._refresh(self._study.trials()) if self._is_paused(trial)]

    def take(self, all_trials: Sequence[FrozenTrial], busy: Container[int] = ()) -> StartedTrial[FrozenTrial] | None:
        """Return the next trial, which is running from now on; None if there is none. Requires the planning lease.

        Args:
            all_trials: The trials of the Optuna study, read with the planning lease.
            busy: Numbers of trials that must not be started now, even if they wait.
        """
        trials = self._refresh(self._study.own_among(all_trials))
        waiting = [trial for trial in self._waiting(trials) if trial.number not in busy]
        # Interrupted trials are resumed even if there are enough trials.
        is_full = self._is_full(trials, waiting)
        interrupted = [trial for trial in waiting if self._is_interrupted(trial)]
        queued = [trial for trial in waiting if not is_full and not self._is_interrupted(trial)]
        return (
            self._first_of(interrupted, resumed=True)
            or self._first_promoted(trials, busy)
            or self._first_of(queued, resumed=False)
            or (self._new() if self._begins_others(trials, waiting, queued=False) else None)
            or self._first_promoted(trials, busy, is_last=True)
        )

    def _is_full(self, trials: Sequence[FrozenTrial], waiting: Sequence[FrozenTrial]) -> bool:
        return self.only_continues or (not self._planned and self._n_begun(trials, waiting) >= self._spec.n_trials)

    def _n_begun(self, trials: Sequence[FrozenTrial], waiting: Sequence[FrozenTrial]) -> int:
        """Return how many trials have begun, without the failed ones in whose place others begin.

        In a search over a whole space, trials of one configuration count once, so that no other is left out: a first
        trial may be given twice, and two processes may propose the same. No more are repeated than there are.
        """
        left_out = {trial.number for trial in waiting} | self.retried
        begun = [trial for trial in trials if trial.number not in left_out]
        if not self._tries_all:
            return len(begun)
        known = [configuration(trial.params, self._distributions) for trial in begun if trial.params]
        return len(begun) - min(len(known) - len(set(known)), self._spec.n_trials)

    def _begins_others(
        self, trials: Sequence[FrozenTrial], waiting: Sequence[FrozenTrial], *, queued: bool = True
    ) -> bool:
        """Return whether trials are still to be begun: queued ones, rows of the plan or proposals."""
        is_left = bool(self._pending) or not self._planned or (queued and bool(waiting))
        return is_left and not self._is_full(trials, waiting)

    def _first_of(self, waiting: Sequence[FrozenTrial], *, resumed: bool) -> StartedTrial[FrozenTrial] | None:
        """Start the first of these trials that no other process holds, and no other program runs by now."""
        for each in waiting:
            if resume(self._study.study, self._leases, each):
                return self._started_trial(each, planned_row(each), resumed=resumed)
        return None

    def _first_promoted(
        self, trials: Sequence[FrozenTrial], busy: Container[int], *, is_last: bool = False
    ) -> StartedTrial[FrozenTrial] | None:
        """Start the first paused trial that is promoted."""
        by_number = {trial.number: trial for trial in trials}
        for number in self._promotable(trials, is_last=is_last):
            if number not in busy and promote(self._study.study, self._leases, by_number[number]):
                started = self._started_trial(by_number[number], planned_row(by_number[number]), resumed=True)
                return started._replace(promoted_from=by_number[number].user_attrs[PAUSED_ATTR])
        return None

    @property
    def _leases(self) -> LeaseManager:
        assert self._study.leases is not None, "only a process that runs the study starts trials"
        return self._study.leases

    def _promotable(self, trials: Sequence[FrozenTrial], *, is_last: bool) -> list[int]:
        if self._pruner is None or not any(map(is_paused, trials)):
            return []
        own = {trial.number for trial in trials}  # without those of other programs
        return [number for number in self._pruner.promotable(self._study.study, is_last=is_last) if number in own]

    def _new(self) -> StartedTrial[FrozenTrial]:
        """Start the next trial of the plan, or one that the sampler proposes."""
        row: Mapping[str, Json] = self._pending[0] if self._pending else {}
        trial = start_trial(self._study.study, row)
        del self._pending[:1]  # after the write, which fails if the planning lease was lost
        self._started.add(trial.number)
        return self._started_trial(trial, row, resumed=False)

    def _is_paused(self, trial: FrozenTrial) -> bool:
        """Return whether a trial waits to be promoted, which a scheduler that pauses no trials would never do."""
        return self._pruner is not None and is_paused(trial)

    def _is_interrupted(self, trial: FrozenTrial) -> bool:
        return is_interrupted(trial) or (is_paused(trial) and self._pruner is None)

    def _waiting(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """Return the waiting trials, without those that wait to be promoted."""
        return [trial for trial in trials if trial.state == TrialState.WAITING and not self._is_paused(trial)]

    def _started_trial(
        self, trial: FrozenTrial, row: Mapping[str, Json], *, resumed: bool
    ) -> StartedTrial[FrozenTrial]:
        return StartedTrial(
            trial=trial,
            seeds=self._spec.seeds,
            confirms=None,
            resumed=resumed,
            distributions=self._distributions_of(row),
            conditions=self._conditions,
            spaces={} if self._planned else self._spaces,
            retried=self.retried,
        )

    def restore(self, trial: FrozenTrial) -> None:
        """Restore a trial that was abandoned at its start: its planned row is tried again, or it is replaced."""
        self.retried |= {trial.number}
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
            if name in names or (isinstance(space, Fixed) and name not in self._planned_names)
        }

"""Changes that the budget of a whole search makes in its study: its end, and numbers of trials, finalists and seeds.

The process that leads a search keeps its budget (`KeptBudget`). Workers do not know what is spent (`SearchBudget`): the
study tells them that no further trials begin, and that the confirmation has begun.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from finder.budgets.earlier import counted_steps
from finder.budgets.limit import Limit
from finder.budgets.search_plan import unfinished_text
from studies.analysis.status import study_status
from studies.database.fencing import LeaseLostError
from studies.database.retries import StorageAwayError
from studies.judging.confirmation import confirmed_seeds, interrupted_steps, unconfirmed
from studies.spec.attributes import is_confirmation, is_paused
from studies.spec.scheduler_names import prunes_trials
from studies.study.budget_attributes import (
    has_ended,
    is_confirming,
    store_chosen_finalists,
    store_confirmed_budget,
    store_ended,
)
from studies.study.study import with_counts
from studies.study.time_spent import store_seconds

if TYPE_CHECKING:
    from finder.trials.trial import Outcome, TrialSpec
    from studies.recording.recorder import Recorder
    from studies.study.study import OpenStudy

STORE_SECONDS = 30.0
"""Seconds between records of the time that a study with a budget in minutes has taken."""

LOOK_SECONDS = 1.0
"""Seconds between polls of a study while other processes run trials."""


class SearchBudget:
    """Budget of a whole search that this process does not keep: that of a worker, or none.

    It changes nothing, and ends the search only where the study says so.

    Args:
        recorder: The recorder of the study.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def _study(self) -> OpenStudy:
        return self._recorder.study

    @property
    def ended(self) -> bool:
        """True if no further trials of the search begin because of the budget, as the process that keeps it says."""
        return has_ended(self._study)

    @property
    def is_confirming(self) -> bool:
        """True if the confirmation has begun for the budget."""
        return self._study.spec.has_limit and is_confirming(self._study)

    # The search -----------------------------------------------------------------------------------------------

    @property
    def next_resumed(self) -> int:
        """Environment steps, already paid for, of the trial that begins next if it was interrupted; 0 otherwise."""
        return 0

    def request_trial(self) -> bool:
        """Return whether the next trial can begin, and end within the budget; if not, the search has ended."""
        return True

    def begun(self, trial: TrialSpec, resumed: int = 0, *, is_baseline: bool = False) -> None:
        """Record that this process runs a trial, or continues it.

        Args:
            trial: The trial.
            resumed: Environment steps that it had made before it was interrupted. Defaults to 0.
            is_baseline: Whether it has the parameters of the baseline. Defaults to False.
        """

    def trial_ended(self, number: int, env_steps: int, outcome: Outcome) -> None:
        """Record that a trial of this process has ended; see `Limit.ended`."""

    def check(self) -> None:
        """Raise `BudgetSpent` if the budget is spent; see `Limit.check`."""

    def look(self) -> None:
        """Tell other processes, from time to time, whether there is budget for their trials; store the time."""

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]], stopped: set[int]) -> Collection[int]:
        """Return the further trials to stop at a rung, for the budget.

        Those of a worker stop there when the confirmation has begun without them.

        Args:
            env_steps: Environment steps of each run.
            values: Trial -> seed -> value.
            stopped: The trials that are stopped there already.
        """
        spec = self._study.spec
        if not prunes_trials(spec.pruner) or env_steps == spec.env_steps:
            return ()
        if not (has_ended(self._study) and self.is_confirming):
            return ()
        return [number for number in values if self._recorder.is_judged(number)]

    def request_wait(self) -> bool:
        """Return whether there is budget to wait for trials of other processes; if not, the search has ended."""
        return True

    def n_further(self, n_rows: int) -> int:
        """Return how many of the rows of an extended plan can still be run."""
        return n_rows

    def add_trials(self, at_once: int) -> int:
        """Add trials of a sampler for which there is budget left, at most so many; return their number."""
        return 0

    # The confirmation -----------------------------------------------------------------------------------------

    def choose_finalists(self) -> None:
        """Set the numbers of trials and finalists for the trials that have ended, if the budget chooses them."""

    def to_confirm(self) -> Sequence[int] | None:
        """Return the finalists to run now, whose seeds and steps are set for the budget; None if there is none left."""
        return self._recorder.to_confirm()

    def confirmation_begins(self) -> None:
        """Tell the other processes that the confirmation has begun."""
        store_confirmed_budget(self._study)

    # The end --------------------------------------------------------------------------------------------------

    @property
    def is_spent(self) -> bool:
        """True if the running trials were stopped, as the budget is spent."""
        return False

    def end(self) -> str:
        """Settle the numbers of a search that has ended; return a sentence about what was not run, "" without any."""
        return ""

    def store_seconds(self) -> None:
        """Store the time that the study has taken, if it has a budget in minutes."""


class KeptBudget(SearchBudget):
    """Budget of a whole search that this process keeps.

    Args:
        recorder: The recorder of the study.
        limit: The limit that is kept.
        resumes: Whether interrupted trials continue from checkpoints. Defaults to False.
    """

    def __init__(self, recorder: Recorder, limit: Limit, *, resumes: bool = False) -> None:
        super().__init__(recorder)
        self._limit, self._resumes = limit, resumes
        self._stored = self._looked = time.monotonic()
        self._sure_seeds: int | None = None  # further seeds before those for which there was budget left
        self._running: dict[int, int] = {}  # trial that runs here -> environment steps that it made before, of all runs
        recorder.queue.keeps_budget = True
        if not self.is_confirming:
            store_ended(self._study, ended=False)  # it may have been stored for a smaller budget
        self._store_chosen_finalists()

    @property
    def ended(self) -> bool:
        return self._limit.ended_search or (has_ended(self._study) and self.is_confirming)

    @property
    def next_resumed(self) -> int:
        return self._recorder.queue.source.next_resumed if self._resumes else 0

    def request_trial(self) -> bool:
        self._count_trials()
        granted = bool(self._recorder.queue.n_left) and not self.ended and self._request_next()
        if not granted:
            self._store_end()
        return granted

    def _request_next(self) -> bool:
        """Return whether there is budget for the trial that comes next.

        Where trials are paused, the best of each rung continue if no further trial fits, as if there were none left.
        While trials run, which may be paused and cost less than whole runs, it is not the end if none fits.
        """
        source, resumed = self._recorder.queue.source, self.next_resumed
        source.only_continues = False
        promoted = source.next_promotion or 0
        if not source.pauses or resumed:
            return self._limit.request_trial(promoted, resumed)
        fits = self._limit.fits_trial(promoted)
        if not fits and not promoted:
            source.only_continues = True
            promoted = source.next_promotion or 0
            fits = promoted > 0 and self._limit.fits_trial(promoted)
        if not fits and self._running:
            return False
        if not fits and self._recorder.n_elsewhere:
            self._limit.request_waiting(2 * LOOK_SECONDS)
            return False
        return self._limit.request_trial(promoted)

    def begun(self, trial: TrialSpec, resumed: int = 0, *, is_baseline: bool = False) -> None:
        before, n_seeds = trial.promoted_from or 0, len(trial.seeds)
        self._running[trial.number] = before * n_seeds
        reached = 0 if before else resumed
        self._limit.begun(trial.number, n_seeds, before, reached, is_baseline=is_baseline)

    def trial_ended(self, number: int, env_steps: int, outcome: Outcome) -> None:
        self._running.pop(number, None)
        self._limit.ended(number, env_steps, outcome.value if outcome.state == "complete" else None, outcome.work)

    def check(self) -> None:
        self._limit.check()

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if now - self._stored > STORE_SECONDS:
            self.store_seconds()
        if not self._study.storage.shared or self._limit.ended_search or self._recorder.is_cut_off:
            return
        with contextlib.suppress(StorageAwayError, LeaseLostError):  # the study itself reports both
            if not self.is_confirming:
                self._count_trials()
                store_ended(self._study, ended=not self._limit.has_spare)

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]], stopped: set[int]) -> Collection[int]:
        self._limit.check()
        return self._limit.rung(env_steps, values, stopped)

    def request_wait(self) -> bool:
        self._count_trials()
        waits = self._limit.request_waiting(2 * LOOK_SECONDS)
        self._store_end()
        return waits

    def _store_end(self) -> None:
        """Tell the other processes if no further trials begin."""
        if self._limit.ended_search and not self._recorder.is_cut_off:
            store_ended(self._study, ended=True)

    def n_further(self, n_rows: int) -> int:
        return self._limit.n_further(n_rows)

    def add_trials(self, at_once: int) -> int:
        if not self._limit.chooses_trials or self._recorder.queue.is_led_elsewhere or is_confirming(self._study):
            return 0
        n, before = self._limit.n_further(at_once), self._study.spec.n_trials
        if not n:
            return 0
        grown = self._limit.grow(n)
        if grown.n_trials <= before:  # its space has no further configurations
            return 0
        self._set_counts(n_trials=grown.n_trials, confirm=grown.confirm)
        return grown.n_trials - before

    def choose_finalists(self) -> None:
        self._settle_trials()
        self._set_counts(confirm=self._limit.n_finalists(study_status(self._study).n_ended))

    def _settle_trials(self) -> None:
        """Set the number of trials to that of those that have ended, if the budget chooses it and has ended the search.

        There was budget for fewer than estimated.
        """
        status, is_chosen = study_status(self._study), self._limit.chooses_trials and self.ended
        if is_chosen and status.n_ended and not status.n_running and not self._recorder.queue.source.n_to_resume:
            self._set_counts(n_trials=status.n_ended)

    def to_confirm(self) -> Sequence[int] | None:
        finalists = self._recorder.to_confirm()
        self._count_trials()
        confirmed = confirmed_seeds(self._study)
        if finalists:
            reached = interrupted_steps(self._study) if self._resumes else {}
            planned = self._limit.plan_confirmation(
                finalists,
                known=min(len(confirmed.get(number, ())) for number in finalists),
                resumed=min(reached.get(number, 0) for number in finalists),
                are_others_confirmed=bool(confirmed),
            )
            if planned is None:
                return None
        elif confirmed and not self._recorder.n_confirming_elsewhere and not unconfirmed(self._study):
            planned = self._limit.further_seeds(sorted(confirmed))
            if planned is None:
                return []
            self._sure_seeds = self._study.spec.confirm_seeds
        else:
            return []
        counts = {"confirm_seeds": planned.confirm_seeds, "confirm_env_steps": planned.confirm_env_steps}
        return self._recorder.to_confirm() if self._set_counts(**counts) else finalists

    @property
    def is_spent(self) -> bool:
        return self._limit.is_spent

    def end(self) -> str:
        if self._sure_seeds is not None and unconfirmed(self._study):
            self._set_counts(confirm_seeds=self._sure_seeds)  # not all finalists could be run on more
        if not self.ended:
            return ""
        self._store_end()
        self._settle_trials()
        status = study_status(self._study)
        n_left = status.n_total - status.n_ended - status.n_running
        return unfinished_text(self._study.spec, n_left) if n_left else ""

    def store_seconds(self) -> None:
        if self._study.spec.minutes is None or self._recorder.is_cut_off:
            return
        self._stored = time.monotonic()
        with contextlib.suppress(StorageAwayError, LeaseLostError):  # the study itself reports both
            store_seconds(self._study, self._limit.spent)

    def _set_counts(self, **counts: int | None) -> bool:
        """Set numbers of the study that its budget has chosen; return whether any of them is another one."""
        spec = self._study.spec
        changed = {name: count for name, count in counts.items() if count not in (None, getattr(spec, name))}
        if changed:
            with_counts(self._study, **changed)
            self._recorder.refresh()
            self._store_chosen_finalists()
        return bool(changed)

    def _store_chosen_finalists(self) -> None:
        if self._limit.chooses_finalists:
            store_chosen_finalists(self._study, self._study.spec.confirm)

    def _count_trials(self) -> None:
        """Count the environment steps of a budget in steps, of which other processes may take some.

        Those of their trials count with the expected pruning, and of those of this process only what was before.
        """
        spec = self._study.spec
        if spec.total_env_steps is None or not self._study.storage.shared:
            return
        steps, n_elsewhere = sum(self._running.values()), 0
        for trial in self._study.all_trials():
            if trial.number in self._running:
                continue
            if trial.state.is_finished() or is_paused(trial):
                steps += counted_steps(spec, trial)
            elif trial.state == TrialState.RUNNING and is_confirmation(trial):
                steps += spec.confirm_budget * spec.confirm_seeds
            elif trial.state == TrialState.RUNNING:
                n_elsewhere += 1
        self._limit.count(steps, n_elsewhere)

"""Changes that the budget of a whole search makes in its study: its end, and numbers of trials, finalists and seeds.

The process that leads a search keeps its budget. Workers do not know what is spent: the study tells them that no
further trials begin, and that the confirmation has begun.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Sequence
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
    """Budget of a whole search; without one, nothing is changed and nothing ends.

    Args:
        recorder: The recorder of the study.
        limit: The limit that this process keeps; None without a budget, and for workers. Defaults to None.
        resumes: Whether interrupted trials continue from checkpoints. Defaults to False.
    """

    def __init__(self, recorder: Recorder, limit: Limit | None = None, *, resumes: bool = False) -> None:
        self._recorder, self.limit, self._resumes = recorder, limit, resumes
        self._stored = self._looked = time.monotonic()
        self._sure_seeds: int | None = None  # further seeds before those for which there was budget left
        self._running: dict[int, int] = {}  # trial that runs here -> environment steps that it made before, of all runs
        recorder.keeps_budget = limit is not None
        if limit is not None and not self.is_confirming:
            store_ended(self._study, ended=False)  # it may have been stored for a smaller budget
        self._store_chosen_finalists()

    @property
    def _study(self) -> OpenStudy:
        return self._recorder.study

    @property
    def ended(self) -> bool:
        """True if no further trials of the search begin because of the budget, as the process that keeps it says."""
        if self.limit is None:
            return has_ended(self._study)
        return self.limit.ended_search or (has_ended(self._study) and self.is_confirming)

    @property
    def is_confirming(self) -> bool:
        """True if the confirmation has begun for the budget."""
        return self._study.spec.has_limit and is_confirming(self._study)

    # The search -----------------------------------------------------------------------------------------------

    def allows_trial(self) -> bool:
        """Return whether the next trial can begin, and end within the budget."""
        if self.limit is None:
            return True
        self._count_trials()
        promoted, resumed = self._recorder.next_promotion or 0, self.next_resumed
        allowed = bool(self._recorder.n_left) and not self.ended and self.limit.allows_trial(promoted, resumed)
        if not allowed:
            self._store_end()
        return allowed

    @property
    def next_resumed(self) -> int:
        """Environment steps that the next trial has made before it was interrupted; 0 if it begins anew."""
        return self._recorder.next_resumed if self.limit is not None and self._resumes else 0

    def begun(self, trial: TrialSpec, resumed: int = 0, *, is_baseline: bool = False) -> None:
        """Record that this process runs a trial, or continues it.

        Args:
            trial: The trial.
            resumed: Environment steps that it had made before it was interrupted. Defaults to 0.
            is_baseline: Whether it has the parameters of the baseline. Defaults to False.
        """
        if self.limit is None:
            return
        before, n_seeds = trial.promoted_from or 0, len(trial.seeds)
        self._running[trial.number] = before * n_seeds
        reached = 0 if before else resumed
        self.limit.begun(trial.number, n_seeds, before, reached, is_baseline=is_baseline)

    def trial_ended(self, number: int, env_steps: int, outcome: Outcome) -> None:
        """Record that a trial of this process has ended; see `Limit.ended`."""
        if self.limit is not None:
            self._running.pop(number, None)
            self.limit.ended(number, env_steps, outcome.value if outcome.state == "complete" else None, outcome.work)

    def check(self) -> None:
        """Raise `BudgetSpent` if the budget is spent; see `Limit.check`."""
        if self.limit is not None:
            self.limit.check()

    def look(self) -> None:
        """Tell other processes, from time to time, whether there is budget for their trials; store the time."""
        now = time.monotonic()
        if self.limit is None or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if now - self._stored > STORE_SECONDS:
            self.store_seconds()
        if not self._study.storage.shared or self.limit.ended_search or self._recorder.is_cut_off:
            return
        with contextlib.suppress(StorageAwayError, LeaseLostError):  # the study itself reports both
            if not self.is_confirming:
                self._count_trials()
                store_ended(self._study, ended=not self.limit.has_spare)

    def may_wait(self) -> bool:
        """Return whether there is budget to wait for trials of other processes before the confirmation."""
        if self.limit is None:
            return True
        self._count_trials()
        waits = self.limit.allows_waiting(2 * LOOK_SECONDS)
        self._store_end()
        return waits

    def _store_end(self) -> None:
        """Tell the other processes if no further trials begin."""
        if self.limit is not None and self.limit.ended_search and not self._recorder.is_cut_off:
            store_ended(self._study, ended=True)

    def n_further(self, n_rows: int) -> int:
        """Return how many of the rows of an extended plan can still be run."""
        return n_rows if self.limit is None else self.limit.n_further(n_rows)

    def add_trials(self, at_once: int) -> int:
        """Add trials of a sampler for which there is budget left, at most so many; return their number."""
        if self.limit is None or not self.limit.chooses_trials:
            return 0
        if self._recorder.is_led_elsewhere or is_confirming(self._study):
            return 0
        n = self.limit.n_further(at_once)
        if n:
            grown = self.limit.grow(n)
            self._set_counts(n_trials=grown.n_trials, confirm=grown.confirm)
        return n

    def left_behind(self, env_steps: int, numbers: Iterable[int]) -> Collection[int]:
        """Return the trials of a worker to stop at a rung, as the confirmation has begun without them."""
        spec = self._study.spec
        if env_steps == spec.env_steps or not (has_ended(self._study) and self.is_confirming):
            return ()
        return [number for number in numbers if self._recorder.is_judged(number)]

    # The confirmation -----------------------------------------------------------------------------------------

    def choose_finalists(self) -> None:
        """Set the numbers of trials and finalists for the trials that have ended, if the budget chooses them."""
        if self.limit is None:
            return
        self._settle_trials()
        self._set_counts(confirm=self.limit.n_finalists(study_status(self._study).n_ended))

    def _settle_trials(self) -> None:
        """Set the number of trials to that of those that have ended, if the budget chooses it and has ended the search.

        There was budget for fewer than estimated.
        """
        status = study_status(self._study)
        is_chosen = self.limit is not None and self.limit.chooses_trials and self.ended
        if is_chosen and status.n_ended and not status.n_running and not self._recorder.n_to_resume:
            self._set_counts(n_trials=status.n_ended)

    def to_confirm(self) -> Sequence[int] | None:
        """Return the finalists to run now, whose seeds and steps are set for the budget; None if there is none left."""
        finalists, limit = self._recorder.to_confirm(), self.limit
        if limit is None:
            return finalists
        self._count_trials()
        confirmed = confirmed_seeds(self._study)
        if finalists:
            reached = interrupted_steps(self._study) if self._resumes else {}
            planned = limit.plan_confirmation(
                finalists,
                known=min(len(confirmed.get(number, ())) for number in finalists),
                resumed=min(reached.get(number, 0) for number in finalists),
                are_others_confirmed=bool(confirmed),
            )
            if planned is None:
                return None
        elif confirmed and not self._recorder.n_confirming_elsewhere and not unconfirmed(self._study):
            planned = limit.further_seeds(sorted(confirmed))
            if planned is None:
                return []
            self._sure_seeds = self._study.spec.confirm_seeds
        else:
            return []
        counts = {"confirm_seeds": planned.confirm_seeds, "confirm_env_steps": planned.confirm_env_steps}
        return self._recorder.to_confirm() if self._set_counts(**counts) else finalists

    def confirmation_begins(self) -> None:
        """Tell the other processes that the confirmation has begun."""
        store_confirmed_budget(self._study)

    # The end --------------------------------------------------------------------------------------------------

    def end(self) -> str:
        """Settle the numbers of a search that has ended; return a sentence about what was not run, "" without any."""
        if self._sure_seeds is not None and unconfirmed(self._study):
            self._set_counts(confirm_seeds=self._sure_seeds)  # not all finalists could be run on more
        if self.limit is None or not self.ended:
            return ""
        self._store_end()
        self._settle_trials()
        status = study_status(self._study)
        n_left = status.n_total - status.n_ended - status.n_running
        return unfinished_text(self._study.spec, n_left) if n_left else ""

    def store_seconds(self) -> None:
        """Store the time that the study has taken, if it has a budget in minutes."""
        if self.limit is None or self._study.spec.minutes is None or self._recorder.is_cut_off:
            return
        self._stored = time.monotonic()
        with contextlib.suppress(StorageAwayError, LeaseLostError):  # the study itself reports both
            store_seconds(self._study, self.limit.spent)

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
        if self.limit is not None and self.limit.chooses_finalists:
            store_chosen_finalists(self._study, self._study.spec.confirm)

    def _count_trials(self) -> None:
        """Count the environment steps of a budget in steps, of which other processes may take some.

        Those of their trials count with the expected pruning, and of those of this process only what was before.
        """
        spec = self._study.spec
        if self.limit is None or spec.total_env_steps is None or not self._study.storage.shared:
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
        self.limit.count(steps, n_elsewhere)

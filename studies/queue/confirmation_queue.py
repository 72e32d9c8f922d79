"""Queue of the trials that confirm the finalists of a search on further seeds.

Confirmations are trials of the same Optuna study, so that they share leases, checkpoints, episodes and resumption, and
a finalist and its confirmation cannot be separated by renaming or deleting a study. Optuna does not consider them as
best trials (`NO_CANDIDATE`): `Study.best_trial` is a trial of the search. Samplers and schedulers do not see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState, create_trial

from studies.judging.confirmation import unconfirmed
from studies.judging.search_history import is_as_long_as_now
from studies.queue.trial_states import StartedTrial, abandon, add_trial, resume
from studies.spec.attributes import (
    CONFIRM_STEPS_ATTR,
    CONFIRMS_ATTR,
    HELD_ATTR,
    NO_CANDIDATE,
    is_interrupted,
)

if TYPE_CHECKING:
    from studies.study.study import OpenStudy


class ConfirmationQueue:
    """Queue of the confirmations of a study. `number in confirmations` tells whether a trial is one of them.

    Args:
        study: The study. Its finalists are known when every trial of the search has ended, or when its budget allows no
            wait for others: start none before.
    """

    def __init__(self, study: OpenStudy) -> None:
        self._study = study
        self._started: dict[int, int] = {}  # number of a confirmation -> number of its finalist
        self._round: set[int] | None = None  # finalists that are confirmed before the next update

    def use(self, study: OpenStudy) -> None:
        """Use the number of seeds of this study from now on."""
        self._study = study

    def __contains__(self, number: int) -> bool:
        return number in self._started

    def pending(self) -> list[tuple[FrozenTrial, tuple[int, ...]]]:
        """Return the finalists that are still to be confirmed and were not started by any process, with their seeds.

        The results of confirmed finalists may add another one: call this again when they have ended. Requires the
        planning lease: waiting confirmations that are not needed any more are ended.
        """
        runs = self._study.confirmation_trials()
        running = {
            trial.user_attrs[CONFIRMS_ATTR]
            for trial in runs
            if trial.state == TrialState.RUNNING and is_as_long_as_now(self._study.spec, trial)
        }
        # Confirmations that failed here are not retried; those that were completed may get more seeds.
        complete = {trial.number for trial in runs if trial.state == TrialState.COMPLETE}
        started = {*running, *(own for number, own in self._started.items() if number not in complete)}
        asked = unconfirmed(self._study)
        finalists = {finalist.number for finalist, _ in asked}
        for trial in self._waiting():
            if not is_as_long_as_now(self._study.spec, trial):
                abandon(self._study.study, trial, "interrupted, and finalists have runs of another length now")
            elif trial.user_attrs[CONFIRMS_ATTR] not in finalists:
                abandon(self._study.study, trial, "interrupted, and no finalist any more")
        self._round = finalists - started
        return [each for each in asked if each[0].number in self._round]

    def cancel_waiting(self) -> None:
        """End all waiting confirmations, if confirmation is disabled."""
        for trial in self._waiting():
            abandon(self._study.study, trial, "interrupted, and no finalist any more")

    def start_next(self) -> StartedTrial[FrozenTrial] | None:
        """Start the next confirmation that `pending` found; None if there is none. Requires the planning lease."""
        before, left = self._round, self.pending()
        if before is not None:
            self._round, left = before, [asked for asked in left if asked[0].number in before]
        leases = self._study.leases
        assert leases is not None, "only a process that runs the study starts trials"
        for finalist, seeds in left:
            waiting = [each for each in self._waiting() if each.user_attrs[CONFIRMS_ATTR] == finalist.number]
            if waiting and leases.acquire(waiting[0].number) is not None:  # its process is still requeueing it
                continue
            resumed = bool(waiting) and resume(self._study.study, leases, waiting[0])
            if resumed:
                self._exclude(waiting[0])
            trial = waiting[0] if resumed else self._start_new(finalist)
            self._started[trial.number] = finalist.number
            return StartedTrial(
                trial=trial,
                seeds=seeds,
                confirms=finalist.number,
                resumed=resumed,
                distributions=finalist.distributions,
            )
        return None

    def _exclude(self, trial: FrozenTrial) -> None:
        """Mark a confirmation of an earlier version, which is an ordinary trial for Optuna."""
        for key, value in NO_CANDIDATE.items():
            if key not in trial.system_attrs:
                self._study.study._storage.set_trial_system_attr(trial._trial_id, key, value)

    def requeue(self, number: int) -> None:
        """Record that a trial was interrupted, so that a confirmation can be started again."""
        self._started.pop(number, None)

    def _waiting(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.confirmation_trials() if is_interrupted(trial)]

    def _start_new(self, finalist: FrozenTrial) -> FrozenTrial:
        """Return a running trial with the parameters of a finalist."""
        steps = self._study.spec.confirm_env_steps
        template = create_trial(
            state=TrialState.RUNNING,
            params=finalist.params,
            distributions=finalist.distributions,
            user_attrs={CONFIRMS_ATTR: finalist.number, **({CONFIRM_STEPS_ATTR: steps} if steps else {})},
            system_attrs={**NO_CANDIDATE, HELD_ATTR: True},
        )
        return add_trial(self._study.study, template)

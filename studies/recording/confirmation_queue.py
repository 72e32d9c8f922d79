"""Begins the trials that confirm a search: what is still to be run again, on which seeds, as trials of the study.

They are trials of the same Optuna study, so that leases, checkpoints, episodes and resuming are those of every trial,
and a finalist and its confirmation are never in two studies of which one was renamed or deleted. For Optuna they are no
candidates (`NO_CANDIDATE`): `Study.best_trial` is a trial of the search. Our samplers and pruners do not see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from optuna.trial import FrozenTrial, TrialState, create_trial

from studies.analysis.confirmation import unconfirmed
from studies.recording.trial_states import created, resume
from studies.spec.attributes import CONFIRMS_ATTR, HELD_ATTR, NO_CANDIDATE, REASON_ATTR, is_interrupted

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from studies.study.study import OpenStudy


class StartedConfirmation(NamedTuple):
    """A confirmation that runs.

    Attributes:
        trial: Its trial.
        finalist: Number of the finalist that it runs again.
        seeds: On which seeds.
        again: Whether it had begun before, and goes on.
        wanted: The parameters that it sets.
    """

    trial: FrozenTrial
    finalist: int
    seeds: tuple[int, ...]
    again: bool
    wanted: Mapping[str, BaseDistribution]


class ConfirmationQueue:
    """The confirmations of a study, one after another. `number in confirmations` says whether a trial is one of them.

    Args:
        study: The study. Its finalists are known when every trial of the search has ended: begin none before.
    """

    def __init__(self, study: OpenStudy) -> None:
        self._study = study
        self._begun: dict[int, int] = {}  # number of a confirmation -> of its finalist
        self._round: set[int] | None = None  # finalists that are confirmed before it is looked again

    def __contains__(self, number: int) -> bool:
        return number in self._begun

    def look(self) -> list[tuple[FrozenTrial, tuple[int, ...]]]:
        """Returns the finalists that are to be confirmed and were not begun, here or elsewhere, with their seeds.

        What the confirmed finalists were worth may call for another one: look again when they have ended. Call it while
        planning: confirmations that wait and are not asked for any more are ended.
        """
        running = {
            trial.user_attrs[CONFIRMS_ATTR]
            for trial in self._study.confirmation_trials()
            if trial.state == TrialState.RUNNING
        }
        begun = {*running, *self._begun.values()}
        asked = unconfirmed(self._study)
        finalists = {finalist.number for finalist, _ in asked}
        for trial in self._waiting():
            if trial.user_attrs[CONFIRMS_ATTR] not in finalists:
                self._give_up(trial)
        self._round = finalists - begun
        return [each for each in asked if each[0].number in self._round]

    def give_up(self) -> None:
        """Ends those that wait to go on, where nothing is confirmed any more."""
        for trial in self._waiting():
            self._give_up(trial)

    def _give_up(self, trial: FrozenTrial) -> None:
        study = self._study.study
        study._storage.set_trial_user_attr(trial._trial_id, REASON_ATTR, "interrupted, and no finalist any more")
        study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)

    def begin(self) -> StartedConfirmation | None:
        """Begins the next one of those that were found by `look`; None if none is left. Call it while planning."""
        before, left = self._round, self.look()
        if before is not None:
            self._round, left = before, [asked for asked in left if asked[0].number in before]
        if not left:
            return None
        finalist, seeds = left[0]
        waiting = [each for each in self._waiting() if each.user_attrs[CONFIRMS_ATTR] == finalist.number]
        again = bool(waiting) and resume(self._study.study, waiting[0])
        if again:
            self._leave_out(waiting[0])
        trial = waiting[0] if again else self._begin_new(finalist)
        self._begun[trial.number] = finalist.number
        return StartedConfirmation(trial, finalist.number, seeds, again, finalist.distributions)

    def _leave_out(self, trial: FrozenTrial) -> None:
        """Marks a confirmation that an earlier version began, when Optuna still took them for ordinary trials."""
        for key, value in NO_CANDIDATE.items():
            if key not in trial.system_attrs:
                self._study.study._storage.set_trial_system_attr(trial._trial_id, key, value)

    def requeue(self, number: int) -> None:
        """A trial was interrupted; if it was one of them, it is left to be begun again."""
        self._begun.pop(number, None)

    def _waiting(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.confirmation_trials() if is_interrupted(trial)]

    def _begin_new(self, finalist: FrozenTrial) -> FrozenTrial:
        """A running trial with a finalist's parameters."""
        template = create_trial(
            state=TrialState.RUNNING,
            params=finalist.params,
            distributions=finalist.distributions,
            user_attrs={CONFIRMS_ATTR: finalist.number},
            system_attrs={**NO_CANDIDATE, HELD_ATTR: True},
        )
        return created(self._study.study, template)

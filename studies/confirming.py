"""Begins the trials that confirm a search: what is still to be run again, on which seeds, as trials of the study."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from studies.attributes import CONFIRMS_ATTR, REASON_ATTR, is_interrupted
from studies.beginning import created, take_up
from studies.confirmation import unconfirmed

if TYPE_CHECKING:
    from studies.study import OpenStudy


class Begun(NamedTuple):
    """A confirmation that runs.

    Attributes:
        trial: Its trial.
        finalist: Number of the finalist that it runs again.
        seeds: On which seeds.
        again: Whether it had begun before, and goes on.
    """

    trial: Trial
    finalist: int
    seeds: tuple[int, ...]
    again: bool


class Confirmations:
    """The confirmations of a study, one after another. `number in confirmations` says whether a trial is one of them.

    Args:
        study: The study. Its finalists are known when every trial of the search has ended: begin none before.
    """

    def __init__(self, study: OpenStudy) -> None:
        self._study = study
        self._left: list[tuple[FrozenTrial, tuple[int, ...]]] | None = None
        self._begun: dict[int, tuple[FrozenTrial, tuple[int, ...]]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._begun

    def look_again(self) -> int:
        """Finds out what is to be confirmed that was not begun here yet, and returns how many trials that are.

        Call it when no trial runs: what the confirmed finalists were worth may call for another one.
        """
        begun = {finalist.number for finalist, _ in self._begun.values()}
        self._left = [asked for asked in unconfirmed(self._study) if asked[0].number not in begun]
        asked = {finalist.number for finalist, _ in self._left}
        for trial in self._waiting():
            if trial.user_attrs[CONFIRMS_ATTR] not in asked:
                self._give_up(trial)
        return len(self._left)

    def give_up(self) -> None:
        """Ends those that wait to go on, where nothing is confirmed any more."""
        for trial in self._waiting():
            self._give_up(trial)

    def _give_up(self, trial: FrozenTrial) -> None:
        study = self._study.study
        study._storage.set_trial_user_attr(trial._trial_id, REASON_ATTR, "interrupted, and no finalist any more")
        study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)

    def begin(self) -> Begun | None:
        """Begins the next one; None if nothing is left to confirm."""
        if self._left is None:
            self.look_again()
        if not self._left:
            return None
        finalist, seeds = asked = self._left.pop(0)
        waiting = [each for each in self._waiting() if each.user_attrs[CONFIRMS_ATTR] == finalist.number]
        trial = take_up(self._study.study, waiting[0], finalist.distributions) if waiting else None
        again = trial is not None
        trial = trial or self._begin_new(finalist)
        self._begun[trial.number] = asked
        return Begun(trial, finalist.number, seeds, again)

    def _waiting(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.confirmation_trials() if is_interrupted(trial)]

    def put_back(self, number: int) -> None:
        """Leaves one that was interrupted to be begun again."""
        self._left = [self._begun[number], *(self._left or [])]

    def _begin_new(self, finalist: FrozenTrial) -> Trial:
        """A running trial with a finalist's parameters."""
        template = create_trial(
            state=TrialState.RUNNING,
            params=finalist.params,
            distributions=finalist.distributions,
            user_attrs={CONFIRMS_ATTR: finalist.number},
        )
        return created(self._study.study, template)

"""Storage as optuna-dashboard shows it: without Finder's attributes, and with rounded values."""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from studies.spec.attributes import is_confirmation
from studies.spec.stored_spec import SPEC_ATTR

if TYPE_CHECKING:
    from optuna.study._frozen import FrozenStudy

_OWN = "finder_"
_DIGITS = 6

MOST_CURVES = 100
"""Number of the best and of the newest trials that are shown with intermediate values: a browser draws a curve for
each, and takes minutes for thousands.
"""


_REFUSED = "trials of Finder's studies are changed by Finder only: their attributes name the code of later runs"


class DelegatingStorage:
    """Optuna storage that delegates to another one, except for the deletion of studies.

    It refuses to change a trial of a Finder study. Clients of the dashboard could otherwise set its configuration, and
    with it the code that `finder train --from` imports.

    Args:
        storage: Storage.
        remove_study: Deletes a study, by its id, with its data beside Optuna's. Defaults to `None`: the method of the
            storage.
    """

    def __init__(self, storage: BaseStorage, remove_study: Callable[[int], None] | None = None) -> None:
        self._storage = storage
        self.delete_study = remove_study or storage.delete_study

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of a trial of another program."""
        self._refuse_own(trial_id)
        self._storage.set_trial_user_attr(trial_id, key, value)

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """End a trial of another program."""
        self._refuse_own(trial_id)
        return self._storage.set_trial_state_values(trial_id, state, values)

    def _refuse_own(self, trial_id: int) -> None:
        """Answer a request with 403 if it would change a trial of a Finder study."""
        from bottle import HTTPError

        own = (study._study_id for study in self._storage.get_all_studies() if SPEC_ATTR in study.user_attrs)
        trials = itertools.chain.from_iterable(self._storage.get_all_trials(each, deepcopy=False) for each in own)
        if any(trial._trial_id == trial_id for trial in trials):
            raise HTTPError(403, _REFUSED)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class DashboardStorage(DelegatingStorage):
    """Optuna storage whose reads return readable studies and trials; these changes are never written.

    Lists of studies show the settings in words in place of Finder's attributes. Confirmations are left out, and the
    best trial of a study is its recommendation. Values have six digits; parameters are exact, because users run them
    again. Of many trials only some have intermediate values (`MOST_CURVES`).

    Args:
        storage: Storage.
        remove_study: Deletes a study, by its id, with its data beside Optuna's. Defaults to `None`: the method of the
            storage.
        pick_of: Returns the number of the recommended trial by the id of the study, None if there is none. Defaults to
            `None`: no study has one.
    """

    def __init__(
        self,
        storage: BaseStorage,
        remove_study: Callable[[int], None] | None = None,
        pick_of: Callable[[int], int | None] | None = None,
    ) -> None:
        super().__init__(storage, remove_study)
        self._pick_of = pick_of or (lambda study_id: None)
        self._shown: dict[int, tuple[FrozenTrial, FrozenTrial]] = {}  # of ended trials: as stored, as shown

    def get_all_studies(self) -> list[FrozenStudy]:
        """Return the studies, with settings in words in place of Finder's attributes."""
        studies = [copy.copy(study) for study in self._storage.get_all_studies()]
        for study in studies:
            theirs = {key: value for key, value in study.user_attrs.items() if not key.startswith(_OWN)}
            study.user_attrs = {**_question(study.user_attrs.get(SPEC_ATTR)), **theirs}
        return studies

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial with rounded values."""
        return self._readable(self._storage.get_trial(trial_id))

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """Return the recommended trial with rounded values, or the trial with the best value if there is none."""
        trials = self._of_search(study_id)
        pick = self._pick_of(study_id)
        for trial in trials:
            if trial.number == pick:
                return self._readable(trial)
        complete = [trial for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
        candidates = [trial for trial in complete if all(each <= 0 for each in trial.constraints.values())] or complete
        if not candidates:
            raise ValueError("No trials are completed yet.")
        return self._readable(_best(candidates, self._storage.get_study_directions(study_id), 1)[0])

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Return the trials of the search with rounded values, always copies."""
        shown = [self._readable(trial) for trial in self._of_search(study_id, states)]
        if len(shown) <= 2 * MOST_CURVES:
            return shown
        with_curve = _shown_with_curve(shown, self._storage.get_study_directions(study_id))
        return [trial if trial.number in with_curve else _without_curve(trial) for trial in shown]

    def _of_search(self, study_id: int, states: Container[TrialState] | None = None) -> list[FrozenTrial]:
        """Return the stored trials without confirmations."""
        trials = self._storage.get_all_trials(study_id, deepcopy=False, states=states)
        return [trial for trial in trials if not is_confirmation(trial)]

    def _readable(self, trial: FrozenTrial) -> FrozenTrial:
        stored, shown = self._shown.get(trial._trial_id, (None, trial))
        if stored is trial:
            return shown
        shown = copy.copy(trial)
        if trial.values is not None:
            shown.values = [_rounded(value) for value in trial.values]
        shown.intermediate_values = {step: _rounded(value) for step, value in trial.intermediate_values.items()}
        shown.user_attrs = {key: _readable_attr(value) for key, value in trial.user_attrs.items()}
        if trial.state.is_finished():  # ended trials never change
            self._shown[trial._trial_id] = trial, shown
        return shown


BaseStorage.register(DelegatingStorage)  # the dashboard checks the type of its storage


def _shown_with_curve(trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> set[int]:
    """Return the numbers of the trials that are shown with intermediate values: the best and the newest ones."""
    newest = {trial.number for trial in trials[-MOST_CURVES:]}
    running = {trial.number for trial in trials if not trial.state.is_finished()}
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE and trial.values]
    return newest | running | {trial.number for trial in _best(complete, directions, MOST_CURVES)}


def _best(trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection], n: int) -> list[FrozenTrial]:
    sign = -1.0 if directions[0] == StudyDirection.MAXIMIZE else 1.0
    return heapq.nsmallest(n, trials, key=lambda trial: sign * trial.values[0])


def _without_curve(trial: FrozenTrial) -> FrozenTrial:
    bare = copy.copy(trial)
    bare.intermediate_values = {}
    return bare


def _question(spec: Any) -> dict[str, str]:
    if not spec:
        return {}
    try:
        steps = spec.get("env_steps")
        return {
            "agent": ", ".join(spec.get("agents", ())),
            "environment": str(spec.get("env")),
            "budget a seed": f"{steps:,} environment steps" if steps else f"{spec.get('episodes')} episodes",
            "seeds": ", ".join(map(str, spec.get("seeds", ()))),
            "answer": "see the page Note",
        }
    except (AttributeError, TypeError, ValueError):  # written by another version, or damaged
        return {"answer": "this version of Finder cannot read the study"}


def _readable_attr(value: Any) -> Any:
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, dict) and value and all(isinstance(each, float) for each in value.values()):
        return {key: _rounded(each) for key, each in value.items()}
    return value


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")

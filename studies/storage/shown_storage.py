"""A storage as optuna-dashboard shows it: without our own bookkeeping, and with numbers that people can read."""

from __future__ import annotations

import copy
import heapq
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
"""Of a study's best trials, and of its newest ones, so many are shown with their intermediate values: a browser draws a
curve for every trial that has them, and needs minutes for thousands."""


class StoredStorage:
    """Reads and writes another storage as it is, but for how a study is removed.

    Args:
        storage: The storage.
        remove_study: Removes a study, by its id, with what is kept beside it. Defaults to `None`: the storage does.
    """

    def __init__(self, storage: BaseStorage, remove_study: Callable[[int], None] | None = None) -> None:
        self._storage = storage
        self.delete_study = remove_study or storage.delete_study

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class ShownStorage(StoredStorage):
    """Reads and writes another storage; what lists return is made readable, and nothing of it is ever written.

    In the list of studies, what was asked stands in words in the place of our attributes (the spec as JSON, the process
    that runs it). Trials that only confirm others are left out, and the best trial of a study is its pick. Values have
    six digits; parameters are left alone, because they are what one runs again. Of many trials only some are shown with
    their intermediate values (`MOST_CURVES`).

    Args:
        storage: The storage.
        remove_study: Removes a study, by its id, with what is kept beside it. Defaults to `None`: the storage does.
        pick_of: Returns the number of a study's pick by the study's id, None if it has none. Defaults to `None`: no
            study has one.
    """

    def __init__(
        self,
        storage: BaseStorage,
        remove_study: Callable[[int], None] | None = None,
        pick_of: Callable[[int], int | None] | None = None,
    ) -> None:
        super().__init__(storage, remove_study)
        self._pick_of = pick_of or (lambda study_id: None)
        self._shown: dict[int, tuple[FrozenTrial, FrozenTrial]] = {}  # of trials that have ended: as stored, as shown

    def get_all_studies(self) -> list[FrozenStudy]:
        """Returns the studies, with what was asked instead of our attributes."""
        studies = [copy.copy(study) for study in self._storage.get_all_studies()]
        for study in studies:
            theirs = {key: value for key, value in study.user_attrs.items() if not key.startswith(_OWN)}
            study.user_attrs = {**_asked(study.user_attrs.get(SPEC_ATTR)), **theirs}
        return studies

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Returns a trial with rounded values."""
        return self._readable(self._storage.get_trial(trial_id))

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """Returns the pick with rounded values; where there is none, the trial with the best value in the search."""
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
        """Returns the trials of the search with rounded values; they are ours, whatever `deepcopy` says."""
        shown = [self._readable(trial) for trial in self._of_search(study_id, states)]
        if len(shown) <= 2 * MOST_CURVES:
            return shown
        with_curve = _shown_with_curve(shown, self._storage.get_study_directions(study_id))
        return [trial if trial.number in with_curve else _without_curve(trial) for trial in shown]

    def _of_search(self, study_id: int, states: Container[TrialState] | None = None) -> list[FrozenTrial]:
        """The trials as they are stored, without those that only confirm others."""
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
        if trial.state.is_finished():  # it never changes again
            self._shown[trial._trial_id] = trial, shown
        return shown


BaseStorage.register(StoredStorage)  # the dashboard asks what it is given whether it is a storage


def _shown_with_curve(trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> set[int]:
    """Returns the numbers of the trials that are shown with their intermediate values: of the best and the newest."""
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


def _asked(spec: Any) -> dict[str, str]:
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
    except (AttributeError, TypeError, ValueError):  # another version wrote it, or it is damaged
        return {"answer": "this version of Finder cannot read what was asked"}


def _readable_attr(value: Any) -> Any:
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, dict) and value and all(isinstance(each, float) for each in value.values()):
        return {key: _rounded(each) for key, each in value.items()}
    return value


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")

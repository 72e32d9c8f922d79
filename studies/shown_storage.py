"""A storage as optuna-dashboard shows it: without our own bookkeeping, and with numbers that people can read."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from studies.study import SPEC_ATTR

if TYPE_CHECKING:
    from optuna.study._frozen import FrozenStudy

_OWN = "finder_"
_DIGITS = 6


class ShownStorage:
    """Reads and writes another storage; what lists return is made readable, and nothing of it is ever written.

    In the list of studies, what was asked stands in words in the place of our attributes (the spec as JSON, the process
    that runs it). Asked for one study's attributes it gives all of them as they are, so that the dashboard can rename a
    study without losing any. Values have six digits; parameters are left alone, because they are what one runs again.

    Args:
        storage: The storage.
    """

    def __init__(self, storage: BaseStorage) -> None:
        self._storage = storage
        self._shown: dict[int, FrozenTrial] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

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
        """Returns the best trial with rounded values."""
        return self._readable(self._storage.get_best_trial(study_id))

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Returns the trials with rounded values; they are ours, whether `deepcopy` is asked for or not."""
        return [
            self._readable(trial) for trial in self._storage.get_all_trials(study_id, deepcopy=False, states=states)
        ]

    def _readable(self, trial: FrozenTrial) -> FrozenTrial:
        if trial._trial_id in self._shown:
            return self._shown[trial._trial_id]
        shown = copy.copy(trial)
        if trial.values is not None:
            shown.values = [_rounded(value) for value in trial.values]
        shown.intermediate_values = {step: _rounded(value) for step, value in trial.intermediate_values.items()}
        shown.user_attrs = {key: _readable_attr(value) for key, value in trial.user_attrs.items()}
        if trial.state.is_finished():  # it never changes again
            self._shown[trial._trial_id] = shown
        return shown


BaseStorage.register(ShownStorage)  # the dashboard asks what it is given whether it is a storage


def _asked(spec: Mapping[str, Any] | None) -> dict[str, str]:
    if not spec:
        return {}
    steps = spec.get("env_steps")
    return {
        "agent": ", ".join(spec.get("agents", ())),
        "environment": str(spec.get("env")),
        "budget a seed": f"{steps:,} environment steps" if steps else f"{spec.get('episodes')} episodes",
        "seeds": ", ".join(map(str, spec.get("seeds", ()))),
        "answer": "see the page Note",
    }


def _readable_attr(value: Any) -> Any:
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, dict) and value and all(isinstance(each, float) for each in value.values()):
        return {key: _rounded(each) for key, each in value.items()}
    return value


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")

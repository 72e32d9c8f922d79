"""A sampler whose random numbers depend on nothing but the study's seed and the number of the trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna import Study
from optuna.samplers import BaseSampler

from studies.spec.attributes import is_confirmation

if TYPE_CHECKING:
    from collections.abc import Container

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState


class _SearchTrials(Study):
    """A view of a study for samplers, without the trials that only confirm others."""

    def __init__(self, study: Study) -> None:
        self.__dict__ = study.__dict__  # the same storage, and the same cache of trials

    def _get_trials(
        self, deepcopy: bool = True, states: Container[TrialState] | None = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        trials = super()._get_trials(deepcopy, states, use_cache)
        return [trial for trial in trials if not is_confirmation(trial)]


class TrialSampler(BaseSampler):
    """Draws every trial with a sampler of its own, whose seed is the study's and the trial's number.

    So a study that was interrupted proposes what it would have proposed (if it knows the same of earlier trials), never
    the same again, and two processes that ask for trials of one study do not propose the same either. Samplers do not
    see confirmations.

    Args:
        make: Seed -> sampler.
        seed: The study's.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._own = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Makes the trial's sampler."""
        self._own = self._make(int(np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0]))
        self._own.before_trial(_SearchTrials(study), trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """See `optuna.samplers.BaseSampler`."""
        return self._own.infer_relative_search_space(_SearchTrials(study), trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """See `optuna.samplers.BaseSampler`."""
        return self._own.sample_relative(_SearchTrials(study), trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """See `optuna.samplers.BaseSampler`."""
        return self._own.sample_independent(_SearchTrials(study), trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """See `optuna.samplers.BaseSampler`."""
        if not is_confirmation(trial):
            self._own.after_trial(_SearchTrials(study), trial, state, values)

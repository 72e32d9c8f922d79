"""A sampler whose random numbers depend on nothing but the study's seed and the number of the trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState


class TrialSampler(BaseSampler):
    """Draws every trial with a sampler of its own, whose seed is the study's and the trial's number.

    So a study that was interrupted proposes what it would have proposed (if it knows the same of earlier trials), never
    the same again, and two processes that ask for trials of one study do not propose the same either.

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
        self._own.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """See `optuna.samplers.BaseSampler`."""
        return self._own.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """See `optuna.samplers.BaseSampler`."""
        return self._own.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """See `optuna.samplers.BaseSampler`."""
        return self._own.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """See `optuna.samplers.BaseSampler`."""
        self._own.after_trial(study, trial, state, values)

"""Sampler whose random numbers depend only on the seed of the study and the number of the trial."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna import Study
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import TrialState

from studies.spec.attributes import has_diverged, is_confirmation, is_paused

if TYPE_CHECKING:
    from collections.abc import Container

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


class _SearchTrials(Study):
    """View of a study for samplers, without confirmations, and with the trials of a warm start before its own.

    Paused trials are shown as pruned: they have a value, which samplers can learn from. Diverged trials are shown as
    the worst ones (`_as_worst`): as failed ones, which samplers do not see, they would leave the region where training
    diverges unexplored, and it would be proposed again and again.
    """

    _prior: Sequence[FrozenTrial]
    _sees_finished: bool
    _ranks_pruned: bool

    def __init__(self, study: Study, prior: Sequence[FrozenTrial], sees_finished: bool, ranks_pruned: bool) -> None:
        # Shares the storage and the cache of trials.
        own = {"_prior": prior, "_sees_finished": sees_finished, "_ranks_pruned": ranks_pruned}
        self.__dict__ = {**study.__dict__, **own}

    def _get_trials(
        self, deepcopy: bool = True, states: Container[TrialState] | None = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        trials = super()._get_trials(deepcopy, None, use_cache)
        own = [_as_pruned(trial) if _has_paused(trial) else trial for trial in trials if not is_confirmation(trial)]
        if not self._sees_finished:
            own = [trial for trial in own if not trial.state.is_finished()]
        shown = self._with_diverged([*self._prior, *own])
        return [trial for trial in shown if states is None or trial.state in states]

    def _with_diverged(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """Return the trials, of which those that diverged are the worst ones, once others have a value."""
        values = [trial.values for trial in trials if trial.state == TrialState.COMPLETE]
        if self._ranks_pruned and len(self.directions) == 1:
            is_ranked = any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in trials)
            return [_as_worst(trial, None) if is_ranked and has_diverged(trial) else trial for trial in trials]
        if not values:
            return list(trials)
        ends = [max if direction == StudyDirection.MINIMIZE else min for direction in self.directions]
        worst = [end(own) for end, own in zip(ends, zip(*values, strict=True), strict=True)]
        return [_as_worst(trial, worst) if has_diverged(trial) else trial for trial in trials]


def _has_paused(trial: FrozenTrial) -> bool:
    return is_paused(trial) and bool(trial.intermediate_values)


def _as_pruned(paused: FrozenTrial) -> FrozenTrial:
    """Return a paused trial as if it had been pruned at its last report."""
    pruned = copy.copy(paused)
    pruned.state = TrialState.PRUNED
    pruned.value = paused.intermediate_values[max(paused.intermediate_values)]
    return pruned


def _as_worst(diverged: FrozenTrial, worst: Sequence[float] | None) -> FrozenTrial:
    """Return a diverged trial as if it had been completed with the worst values.

    Without values it is as if it had been pruned before its first report: TPE ranks such trials behind all others,
    while a complete one would rank before all pruned ones.
    """
    shown = copy.copy(diverged)
    shown.state = TrialState.PRUNED if worst is None else TrialState.COMPLETE
    shown.intermediate_values = {}
    shown.values = worst
    return shown


class TrialSampler(BaseSampler):
    """Sampler that draws every trial with its own sampler, seeded by study and trial number.

    An interrupted study therefore proposes what it would have proposed without the interruption (given the same
    results), and never repeats a proposal; two processes that draw trials of one study do not propose the same either.
    Samplers do not see confirmations; they see the trials of a warm start. `attempt` is the number of the proposal for
    the same trial, from 0: each has its own random numbers.

    Args:
        make: Factory: seed -> sampler.
        seed: Seed of the study.
        prior: Finished trials of another study that samplers see too. Defaults to none.
        sees_finished: Whether samplers see finished trials of the study. They do not in population-based training,
            where the value of a trial is not that of the parameters that were proposed for it. Defaults to True.
    """

    def __init__(
        self,
        make: Callable[[int], BaseSampler],
        seed: int,
        prior: Sequence[FrozenTrial] = (),
        *,
        sees_finished: bool = True,
    ) -> None:
        self._make, self._seed, self._prior, self._sees_finished = make, seed, prior, sees_finished
        self._own = make(seed)
        self.attempt = 0

    @property
    def redraws(self) -> bool:
        """True if further attempts at a trial may propose something else, and leave no traces in its attributes."""
        return type(self._own).__name__ not in ("CmaEsSampler", "GPSampler")

    def _view(self, study: Study) -> Study:
        return _SearchTrials(study, self._prior, self._sees_finished, isinstance(self._own, TPESampler))

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Create the sampler of the trial."""
        entropy = [self._seed, trial.number, *([self.attempt] if self.attempt else [])]
        self._own = self._make(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        self._own.before_trial(self._view(study), trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._own.infer_relative_search_space(self._view(study), trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._own.sample_relative(self._view(study), trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._own.sample_independent(self._view(study), trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        if not is_confirmation(trial):
            self._own.after_trial(self._view(study), trial, state, values)

"""Trials of a search and their confirmations as numbers, from which its conclusions are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from optuna.trial import FrozenTrial, TrialState

from studies.judging.return_bounds import reward_threshold
from studies.population_based.schedule import Schedule
from studies.spaces.spaces import Json, Space, decode_params
from studies.spec.attributes import (
    CONFIRM_STEPS_ATTR,
    CONFIRMS_ATTR,
    REASON_ATTR,
    RUNG_ATTR,
    has_diverged,
    is_confirmation,
    last_of,
    never_learned,
    seed_values,
    stopped_values,
)
from studies.spec.fields import Direction
from studies.spec.scheduler_names import is_population_based
from studies.statistics.drift import measured
from studies.statistics.values import mean_of_seeds
from studies.study.schedules import lineages_of
from studies.words import the_best

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.study.study import OpenStudy

ResultState = Literal["open", "complete", "pruned", "diverged", "failed"]
"""State of a trial. An open one is queued, running or interrupted; a diverged one failed because of its parameters."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialResult:
    """Result of a trial so far. Equal to itself only, so that conclusions can be kept by the trials they are from.

    Attributes:
        number: Number of the trial.
        params: Its searched parameters.
        state: Its state.
        value: Its final value if it was completed, its last one if it was pruned; None if it has none.
        seed_values: Seed -> value at its end.
        reports: Environment steps -> value over seeds.
        at_rungs: Environment steps of a rung -> value of each seed, where they were stored.
        left_at: Environment steps at which it was pruned, or of its last report.
        learned: Whether its value is that of a trained agent.
        confirms: Number of the trial that it confirms on further seeds; None for a trial of the search.
        reason: Reason why it failed, "" if none was recorded.
        drift_known: Whether the drift of the best rate was measured on its optimizer.
    """

    number: int
    params: Mapping[str, Json]
    state: ResultState
    value: float | None = None
    seed_values: Mapping[int, float] = field(default_factory=dict)
    reports: Mapping[int, float] = field(default_factory=dict)
    at_rungs: Mapping[int, Sequence[float]] = field(default_factory=dict)
    left_at: int | None = None
    learned: bool = True
    confirms: int | None = None
    reason: str = ""
    drift_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHistory:
    """Search so far.

    Attributes:
        trials: Trials of the search, by number.
        confirmations: Trials that confirm others on further seeds, by number.
        direction: Direction in which values are better.
        n_finalists: Number of best trials that are confirmed.
        further_seeds: Seeds on which they are confirmed.
        env_steps: Budget of each run in environment steps; None if it is in episodes.
        confirm_env_steps: Environment steps of the runs that confirm; None: as many as those of the search.
        horizon: Environment steps of the long run; None: the budget.
        constant_params: Whether every trial kept its parameters to its end. With population-based training they are
            what it began with, which says nothing about neighbouring values.
        schedules: Number of a trial -> schedule of its weights, with population-based training; else empty.
        baseline: Parameters of the trial with which the pick is compared, and which is confirmed beside the best;
            None if there is none.
        reward_threshold: Return from which the environment counts as solved; None if it is unknown, or values are no
            returns.
        stopped: Confirmations that a spent budget has stopped, complete with the values of their last common report,
            `left_at`.
    """

    trials: Sequence[TrialResult]
    confirmations: Sequence[TrialResult] = ()
    direction: Direction = "maximize"
    n_finalists: int
    further_seeds: tuple[int, ...]
    env_steps: int | None = None
    confirm_env_steps: int | None = None
    horizon: int | None = None
    constant_params: bool = True
    schedules: Mapping[int, Schedule] = field(default_factory=dict)
    baseline: Mapping[str, Json] | None = None
    reward_threshold: float | None = None
    stopped: Sequence[TrialResult] = ()

    @property
    def baseline_trial(self) -> TrialResult | None:
        """The ended trial with the parameters of the baseline, a complete one before others; None if there is none."""
        ended = [trial for trial in self.trials if trial.params == self.baseline and trial.state != "open"]
        return next((trial for trial in ended if trial.state == "complete"), ended[-1] if ended else None)

    @property
    def confirms_apart(self) -> bool:
        """Return whether the runs that confirm are not as long as those of the search, so that values differ."""
        return self.confirm_env_steps not in (None, self.env_steps)

    @property
    def confirms_longer(self) -> bool:
        """Return whether the runs that confirm are longer than those of the search."""
        return (self.confirm_env_steps or 0) > (self.env_steps or 0)

    @property
    def confirm_budget(self) -> int | None:
        """Environment steps of the runs that confirm; None if the budget is in episodes."""
        return self.confirm_env_steps or self.env_steps

    @property
    def finalists_decide(self) -> bool:
        """Return whether confirmed finalists alone are judged, by their further runs.

        They are where these are longer or shorter than the runs of the search; where trials of the search had one seed
        each, as the best of many single values is lucky, and among them nothing shows how much seeds vary; and where
        parameters changed during training: runs of the search copied others that were better, and further ones do not.
        """
        one_seed = all(len(trial.seed_values) < 2 for trial in self.trials)
        return self.confirms_apart or one_seed or not self.constant_params

    @property
    def complete(self) -> list[TrialResult]:
        """Complete trials of the search, by number."""
        return [trial for trial in self.trials if trial.state == "complete"]

    def of(self, number: int) -> TrialResult:
        """Return the trial of the search with a number."""
        return next(trial for trial in self.trials if trial.number == number)


def held_out_seeds(spec: StudySpec) -> tuple[int, ...]:
    """Return the seeds on which finalists are confirmed: those after the highest of the search."""
    first = max(spec.seeds) + 1
    return tuple(range(first, first + spec.confirm_seeds))


def n_finalists(spec: StudySpec) -> int:
    """Return how many finalists are confirmed at most: none of a single trial, among which there is nothing to choose.

    The baseline is confirmed beside the best trials, unless it was pruned or is one of them.
    """
    return min(spec.confirm + (spec.baseline is not None), spec.n_trials) if spec.confirm and spec.n_trials > 1 else 0


def finalists_text(spec: StudySpec) -> str:
    """Return what is confirmed as text: `the best 3`, or `the best 3 and the baseline`; "" if nothing is."""
    n = n_finalists(spec)
    if spec.baseline is None or not n:
        return the_best(n) if n else ""
    return f"{the_best(n - 1)} and the baseline"


def is_as_long_as_now(spec: StudySpec, confirmation: FrozenTrial) -> bool:
    """Return whether the runs of a confirmation have the budget that a study has for them."""
    return bool(confirmation.user_attrs.get(CONFIRM_STEPS_ATTR, spec.budget) == spec.confirm_budget)


def history_of(study: OpenStudy) -> SearchHistory:
    """Return the history of a study."""
    spec, spaces = study.spec, study.spec.search_space()
    return SearchHistory(
        trials=[_result(spec, spaces, trial) for trial in study.trials()],
        confirmations=[
            _result(spec, spaces, trial) for trial in study.confirmation_trials() if is_as_long_as_now(spec, trial)
        ],
        stopped=[
            _stopped(_result(spec, spaces, trial), *found)
            for trial in study.confirmation_trials()
            if is_as_long_as_now(spec, trial) and (found := stopped_values(trial))
        ],
        direction=study.direction,
        n_finalists=spec.confirm,
        further_seeds=held_out_seeds(spec),
        env_steps=spec.env_steps,
        confirm_env_steps=spec.confirm_env_steps,
        horizon=spec.horizon,
        constant_params=not is_population_based(spec.pruner),
        schedules={number: own.schedule for number, own in lineages_of(study).items()},
        baseline=spec.baseline,
        reward_threshold=reward_threshold(study),
    )


def result_of(study: OpenStudy, trial: FrozenTrial) -> TrialResult:
    """Return what a trial of a study has shown so far."""
    return _result(study.spec, study.spec.search_space(), trial)


def _stopped(trial: TrialResult, env_steps: int, values: Mapping[int, float]) -> TrialResult:
    """Return a confirmation as if it had ended where it was stopped."""
    value = float(mean_of_seeds(list(values.values())))
    return replace(trial, state="complete", value=value, seed_values=values, left_at=env_steps)


_STATES: dict[TrialState, ResultState] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


def _result(spec: StudySpec, spaces: Mapping[str, Space], trial: FrozenTrial) -> TrialResult:
    params = decode_params(trial.params, spaces)
    at, value = last_of(trial)
    return TrialResult(
        number=trial.number,
        params=params,
        state="diverged" if has_diverged(trial) else _STATES.get(trial.state, "open"),
        value=value,
        seed_values=seed_values(trial),
        reports=trial.intermediate_values,
        at_rungs={int(at): list(own.values()) for at, own in trial.user_attrs.get(RUNG_ATTR, {}).items()},
        left_at=at,
        learned=not never_learned(trial),
        confirms=trial.user_attrs[CONFIRMS_ATTR] if is_confirmation(trial) else None,
        reason=str(trial.user_attrs.get(REASON_ATTR, "")),
        drift_known=_is_drift_known(spec, trial, params),
    )


def _is_drift_known(spec: StudySpec, trial: FrozenTrial, params: Mapping[str, Json]) -> bool:
    """Return whether the drift of the best rate was measured on the optimizer of a trial."""
    config = trial.user_attrs.get("configuration", {}).get("config", {})
    optimizer = params.get("optimizer", spec.fixed.get("optimizer", config.get("optimizer", "adam")))
    return measured(str(optimizer), config.get("optimizer_kwargs"))

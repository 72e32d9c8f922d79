"""Reports of running trials, and the decisions of the scheduler on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from optuna.trial import Trial

from studies.adapters.scheduler_pruner import SchedulerPruner
from studies.errors import StudyError
from studies.schedulers.scheduler import Action
from studies.spaces.spaces import Json

if TYPE_CHECKING:
    from studies.coordination.running_trials import RunningTrials
    from studies.recording.writer import Writer


class RungDecisions:
    """Records the reports of running trials, and asks the scheduler about them.

    Args:
        writer: Writes the reports.
        trials: The running trials.
        is_confirmation: Whether a trial is a confirmation, which the scheduler does not judge.
        is_baseline: Whether a trial has the parameters of the baseline, which is trained to its end.
        prunes: Whether the scheduler is asked at all.
    """

    def __init__(
        self,
        writer: Writer,
        trials: RunningTrials,
        is_confirmation: Callable[[int], bool],
        is_baseline: Callable[[Mapping[str, Json]], bool],
        *,
        prunes: bool,
    ) -> None:
        self._writer, self._trials, self._prunes = writer, trials, prunes
        self._is_confirmation, self._is_baseline = is_confirmation, is_baseline

    def decide(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> dict[int, Action]:
        """Record the values of trials at a step, and return the decision on each; see `Recorder.decide`.

        A resumed trial reports again what it has reported before, and is not judged again there: trials that came
        later would stop it far behind the step that it has reached.
        """
        if env_steps < 0:
            raise StudyError(f"env_steps is {env_steps}: a trial reports after 0 or more environment steps.")
        decided = {number: Action.STOP if self._trials.is_over(number) else Action.CONTINUE for number in values}
        trials = [self._trials.running_trial(number) for number in sorted(values) if decided[number].continues]
        stored = self._writer.report(trials, env_steps, values, self._trials.unless_lost)
        asked = [trial for trial in stored if not self._is_confirmation(trial.number)]
        for trial in asked:
            with self._trials.unless_lost(trial):
                self._writer.report_seeds(trial, env_steps, values[trial.number])
        judged = [trial for trial in asked if self._prunes and not self._writer.has_passed(trial.number, env_steps)]
        actions = self._actions(judged)
        for trial in judged:
            if actions.get(trial.number) == Action.PROMOTE:
                with self._trials.unless_lost(trial):
                    self._writer.promoted(trial, env_steps)
        return decided | actions | {number: Action.STOP for number in values if self._trials.is_taken(number)}

    def _actions(self, trials: Sequence[Trial]) -> dict[int, Action]:
        """Return the decision of the scheduler on each trial at its last report; lost trials may be missing."""
        if not trials:
            return {}
        study = trials[0].study
        if isinstance(study.pruner, SchedulerPruner):
            actions = study.pruner.actions(study, [trial._get_latest_trial() for trial in trials])
        else:
            actions = {}
            for trial in trials:
                with self._trials.unless_lost(trial):  # some pruners of Optuna write attributes of trials
                    actions[trial.number] = Action.STOP if trial.should_prune() else Action.CONTINUE
        stopped = [trial for trial in trials if not actions.get(trial.number, Action.CONTINUE).continues]
        return actions | {trial.number: Action.CONTINUE for trial in stopped if self._is_baseline(trial.params)}

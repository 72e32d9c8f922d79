"""Reports of running trials, and the decisions of the pruner on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from optuna.trial import Trial

from studies.adapters.scheduler_pruner import SchedulerPruner
from studies.errors import StudyError
from studies.schedulers.scheduler import Action

if TYPE_CHECKING:
    from studies.coordination.running_trials import RunningTrials
    from studies.recording.writer import Writer


class RungDecisions:
    """Records the reports of running trials, and asks the pruner about them.

    Args:
        writer: Writes the reports.
        trials: The running trials.
        is_confirmation: Whether a trial is a confirmation, which the pruner does not judge.
        prunes: Whether the pruner is asked at all.
    """

    def __init__(
        self, writer: Writer, trials: RunningTrials, is_confirmation: Callable[[int], bool], *, prunes: bool
    ) -> None:
        self._writer, self._trials, self._is_confirmation, self._prunes = writer, trials, is_confirmation, prunes

    def decide(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> dict[int, Action]:
        """Record the values of trials at a step, and return the decision on each; see `Recorder.decide`."""
        if env_steps < 0:
            raise StudyError(f"env_steps is {env_steps}: a trial reports after 0 or more environment steps.")
        decided = {number: Action.STOP if self._trials.is_over(number) else Action.CONTINUE for number in values}
        trials = [self._trials.running_trial(number) for number in sorted(values) if decided[number].continues]
        stored = self._writer.report(trials, env_steps, values, self._trials.unless_lost)
        asked = [trial for trial in stored if not self._is_confirmation(trial.number)]
        for trial in asked:
            with self._trials.unless_lost(trial):
                self._writer.report_seeds(trial, env_steps, values[trial.number])
        for trial in asked if self._prunes else ():
            with self._trials.unless_lost(trial):
                decided[trial.number] = _action(trial)
                if decided[trial.number] == Action.PROMOTE:
                    self._writer.promoted(trial, env_steps)
        return decided | {number: Action.STOP for number in values if self._trials.is_taken(number)}


def _action(trial: Trial) -> Action:
    """Return the decision of the pruner of a study at the last report of a trial."""
    pruner = trial.study.pruner
    if isinstance(pruner, SchedulerPruner):
        return pruner.action(trial.study, trial._get_latest_trial())
    return Action.STOP if trial.should_prune() else Action.CONTINUE

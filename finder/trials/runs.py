"""The runs of a trial, one for each seed: their episodes, and the value of the trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from agents.contract.agent import Agent
from agents.contract.spec import FunctionSpec
from agents.training.function_trainer import FunctionTrainer, OwnTraining
from agents.training.records import Episode, MetricSummary, metrics_of, summaries
from agents.training.trainer import Trainer
from finder.trials.trial import TrialSpec, Work, episode_record
from studies.database.records import EpisodeRecord
from studies.spec.metrics import Metric, metric_of
from studies.spec.objectives import names_of
from studies.statistics.objectives import area_under_curve, steps_to_threshold
from studies.statistics.values import LAST_PART, last_part_return, mean_of_seeds, windowed_mean

PATIENCE = 20
"""Episodes of each run without the metric of the study after which its trial fails."""

Key = tuple[int, int]
"""Number of a trial and one of its seeds, which identify a run."""


class TrialRun:
    """One trial and its runs."""

    def __init__(self, spec: TrialSpec) -> None:
        self.spec = spec
        self.metrics = [metric_of(name) for name in names_of(spec)]
        self.metric = self.metrics[0]
        self.runs: list[SeedRun] = []
        self.error: Exception | None = None
        self.ended = False
        self.learned = isinstance(spec.agent, FunctionSpec)  # see `Outcome.learned`

    @property
    def env_steps(self) -> int:
        """Environment steps that every run has made."""
        return min((run.env_steps for run in self.runs), default=0)

    @property
    def finished(self) -> bool:
        """Return whether all runs have finished."""
        return all(run.finished for run in self.runs)

    @property
    def was_stopped(self) -> bool:
        """Return whether callbacks have stopped all runs."""
        return all(run.was_stopped for run in self.runs)

    @property
    def failed(self) -> bool:
        """Return whether a run has failed."""
        return self.error is not None or any(run.error for run in self.runs)

    @property
    def divergence(self) -> Exception | None:
        """The error of a run that diverged and awaits a copy (`SeedRun.divergence`), or None."""
        return next((run.divergence.error for run in self.runs if run.divergence is not None), None)

    def first_error(self) -> Exception:
        """Return the first error of the trial."""
        errors = [self.error, *(run.error for run in self.runs)]
        return next(error for error in errors if error is not None)

    def remove_run(self, seed: int) -> None:
        """Remove the run of a seed, which is about to restart."""
        self.runs = [run for run in self.runs if run.seed != seed]

    def work(self) -> Work:
        """Return the training of its groups, as far as it was timed."""
        total = Work()
        for group in dict.fromkeys(run.group for run in self.runs):
            total = total.plus(group.work or Work())
        return total

    @property
    def seconds_before(self) -> float:
        """Seconds of training before an interruption; those before a pause are recorded already."""
        paused = self.spec.promoted_from is not None
        return 0.0 if paused else max((run.group.seconds_before for run in self.runs), default=0.0)

    def check_metric(self) -> None:
        """Fail the trial if every run has ended many episodes, and none of them reported a metric of the study."""
        for name, metric in zip(names_of(self.spec), self.metrics, strict=True):
            if metric.name and self.runs and all(run.lacks(metric) for run in self.runs):
                self.error = self.error or self.no_value(name)

    def no_value(self, name: str = "") -> ValueError:
        """Return the error of a trial that ended without a value, of its metric or of another objective."""
        reported = {metric for run in self.runs for metric in run.named_numbers}
        return ValueError(self.spec.no_value_message(name, reported))

    def take_new_episodes(self) -> list[EpisodeRecord]:
        """Return the episodes since the last call."""
        return [record for run in self.runs for record in run.take_new_episodes()]

    def values_at(self, env_steps: int) -> dict[int, float]:
        """Return the value of each seed at an environment step; see `SeedRun.value_at`."""
        return {run.seed: run.value_at(env_steps) for run in self.runs}

    def values_since(self, env_steps: int) -> dict[int, float]:
        """Return the mean value of each seed after an environment step; NaN without a value since then."""
        return {run.seed: run.value_since(env_steps) for run in self.runs}

    def final_values(self) -> dict[int, float]:
        """Return the value of each seed over the last part of training."""
        return {run.seed: run.final_value() for run in self.runs}

    def objectives(self) -> dict[str, dict[int, float]]:
        """Return the final values of each objective by its name; empty if there is one only."""
        named = zip(self.spec.metrics, self.metrics, strict=False)
        return {name: {run.seed: run.final_value(metric) for run in self.runs} for name, metric in named}

    def custom_metrics(self, until: int | None = None) -> dict[str, MetricSummary]:
        """Return a summary of the custom metrics over the last part of training: means over seeds, as values are.

        Args:
            until: Environment steps of the value of the trial, after which a rollout may go on. Defaults to None: all.
        """
        found: dict[str, list[MetricSummary]] = {}
        for run in self.runs:
            for name, own in summaries(run.recently_measured(until)).items():
                found.setdefault(name, []).append(own)
        return {name: _over_seeds(own) for name, own in sorted(found.items())}


def _over_seeds(of_seeds: Sequence[MetricSummary]) -> MetricSummary:
    """Return the mean of the means of several seeds, and the extremes and the number of all their episodes."""
    means, lows, highs, counts = zip(*of_seeds, strict=True)
    return MetricSummary(float(mean_of_seeds(means)), min(lows), max(highs), sum(counts))


SeededTrial = tuple[TrialRun, int]
"""A trial and one of its seeds."""


class RunGroup(Protocol):
    """The group that trains a run, as the run sees it (`finder.trials.groups.Group`)."""

    trainer: Trainer | FunctionTrainer
    error: Exception | None
    exchanged_at: int
    work: Work | None
    seconds_before: float

    @property
    def vectorization(self) -> str:
        """How the environments are stepped."""

    @property
    def info_names(self) -> frozenset[str]:
        """Names of the numbers in the `info` of episodes that have ended."""

    @property
    def n_members(self) -> int:
        """Number of runs that are trained together."""

    @property
    def jit_compile(self) -> bool | None:
        """True if XLA compiles updates where it pays; None if that is unknown."""

    @property
    def has_learned(self) -> bool:
        """True if the members have made gradient steps."""

    def has_finished(self, member: int) -> bool:
        """Return whether a member has used its budget."""

    def describe(self, member: int) -> Agent | OwnTraining:
        """Return an agent with the hyperparameters of a member."""

    def copy_member(self, source: int, target: int, values: Mapping[str, float]) -> None:
        """Give a member the state of another one, and set its hyperparameters."""

    def remove_member(self, member: int, reason: str) -> None:
        """Stop a member whose trial has ended."""


class Divergence(NamedTuple):
    """Divergence of a run since the last exchange of its population.

    Attributes:
        at: Environment steps and gradient steps of the run when it diverged.
        error: The error.
    """

    at: tuple[int, int]
    error: Exception


class SeedRun:
    """One run of a trial: a member of a group, and the episodes of this member."""

    def __init__(self, trial: TrialRun, seed: int, group: RunGroup, member: int) -> None:
        self.seed = seed
        self.trial = trial
        self.group = group
        self.member = member
        trial.runs.append(self)
        self.divergence: Divergence | None = None
        """Its divergence since the last exchange, if it has the weights of another member until it copies one."""
        self._n_episodes = 0
        self._series: dict[Metric, _Series] = {metric: _Series([], []) for metric in trial.metrics}
        self._measured: list[Episode] = []
        self._fresh: list[EpisodeRecord] = []

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self.group.trainer.runs[self.member].env_steps

    @property
    def error(self) -> Exception | None:
        """The error that ended the run, or None."""
        return self.group.error or self.group.trainer.runs[self.member].error

    @property
    def finished(self) -> bool:
        """Return whether the run has used its budget."""
        return self.group.has_finished(self.member)

    @property
    def was_stopped(self) -> bool:
        """Return whether a callback has stopped the run before the end of its budget."""
        return self.group.trainer.runs[self.member].stop_reason is not None

    def add_episode(self, episode: Episode) -> None:
        """Add an episode that has ended."""
        record = episode_record(self.seed, episode)
        self._fresh.append(record)
        self.trial.learned = self.trial.learned or record.loss is not None
        self._n_episodes += 1
        measured = metrics_of(episode)
        for metric, series in self._series.items():
            if metric.n_episodes:
                continue  # evaluations count, not episodes
            if metric.name:
                value = measured.get(metric.name)
                value = value if value is not None and math.isfinite(value) else None  # as in `summaries`
            else:
                value = record.loss if metric.kind == "loss" else record.episode_return
            if value is not None:
                series.add(episode.env_steps, value)
        if measured:
            self._measured.append(episode)

    def add_evaluation(self, env_steps: int, value: float) -> None:
        """Add the mean return of an evaluation after some environment steps."""
        self._evaluated.add(env_steps, value)
        self.trial.learned = self.trial.learned or self.group.has_learned

    def is_evaluated(self, env_steps: int) -> bool:
        """Return whether there is an evaluation after exactly so many environment steps."""
        return env_steps in self._evaluated.steps

    @property
    def evaluations(self) -> list[tuple[int, float]]:
        """Environment steps and mean return of each evaluation, for metrics of evaluations."""
        return list(zip(self._evaluated.steps, self._evaluated.values, strict=True))

    @property
    def _evaluated(self) -> _Series:
        return next(series for metric, series in self._series.items() if metric.n_episodes)

    def lacks(self, metric: Metric) -> bool:
        """Return whether many episodes have ended, and none of them reported a metric of the study."""
        return self._n_episodes >= PATIENCE and not self._series[metric].values

    @property
    def named_numbers(self) -> set[str]:
        """Names of the numbers of its episodes: of custom metrics, and of those in the `info` of environments."""
        return {name for episode in self._measured for name in metrics_of(episode)} | self.group.info_names

    def recently_measured(self, until: int | None = None) -> list[Episode]:
        """Return the episodes of the last part of training, up to some environment steps, that have custom metrics."""
        reached = self.env_steps if until is None else min(until, self.env_steps)
        begin = reached - LAST_PART * reached
        return [episode for episode in self._measured if begin < episode.env_steps <= reached]

    def take_new_episodes(self) -> list[EpisodeRecord]:
        """Return the episodes since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def value_at(self, env_steps: int) -> float:
        """Return the value at a step: the mean over the episodes that ended shortly before it.

        These are the episodes of a tenth of the budget, or the newest one if none ended there. If the study is judged
        by evaluations, they count in place of episodes. NaN before the first.
        """
        width = max(1, (self.trial.spec.env_steps or env_steps) // 10)
        at = min(env_steps, self.env_steps) if self.was_stopped else env_steps
        metric, series = self.trial.metric, self._series[self.trial.metric]
        if not metric.of_last_part:
            return self._of_whole_curve(metric, at)
        return series.mean_before(at, width)

    def value_since(self, env_steps: int) -> float:
        """Return the mean value after an environment step; NaN if there is none since then."""
        series = self._series[self.trial.metric]
        return windowed_mean(series.steps, series.values, self.env_steps, self.env_steps - env_steps)

    def final_value(self, metric: Metric | None = None) -> float:
        """Return the value of the run: the mean over the last part of training, or a number of its whole curve.

        Args:
            metric: The objective. Defaults to the metric of the study, or its first one.
        """
        metric = metric or self.trial.metric
        series = self._series[metric]
        reached = max(1, self.env_steps)
        budget = min(self.trial.spec.env_steps or reached, reached)  # a training function may end earlier
        if not metric.of_last_part:
            return self._of_whole_curve(metric, budget)
        if self.trial.spec.value_steps is not None:
            return series.mean_before(budget, self._own_steps(self.trial.spec.value_steps, budget))
        value = last_part_return(series.steps, series.values, budget)
        return value if np.isfinite(value) else series.newest(budget)

    def _own_steps(self, value_steps: int, budget: int) -> int:
        """Return the last steps that are averaged, without those before a copy if it left at least half of them.

        Before the copy, which is made at the end of a rollout, a member may have had other weights.
        """
        since_copy = budget - self.group.exchanged_at
        return since_copy if value_steps <= 2 * since_copy < 2 * value_steps else value_steps

    def _of_whole_curve(self, metric: Metric, env_steps: int) -> float:
        """Return the area under the curve, or the steps to the threshold, as far as known after some steps."""
        series, budget = self._series[metric], self.trial.spec.env_steps or env_steps
        if metric.kind == "auc":
            return area_under_curve(series.steps, series.values, env_steps)
        # Trials that have not reached the threshold count as if they reached it at the end of the budget.
        end = max(budget, env_steps)
        return steps_to_threshold(series.steps, series.values, metric.threshold, env_steps, unreached=end)


class _Series(NamedTuple):
    """Values of a run by environment steps, of one metric."""

    steps: list[int]
    values: list[float]

    def add(self, env_steps: int, value: float) -> None:
        """Append a value."""
        self.steps.append(env_steps)
        self.values.append(value)

    def mean_before(self, env_steps: int, width: int) -> float:
        """Return the mean of the values of the last steps before a step, or the newest one up to it."""
        value = windowed_mean(self.steps, self.values, env_steps, width)
        return value if np.isfinite(value) else self.newest(env_steps)

    def newest(self, env_steps: int) -> float:
        """Return the newest value up to a step, where none is in the averaged window; NaN before the first."""
        past = [value for at, value in zip(self.steps, self.values, strict=True) if at <= env_steps]
        return past[-1] if past else float("nan")

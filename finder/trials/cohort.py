"""Cohorts: trials that are trained in step, each with one run for each of its seeds.

Trials whose agents have the same structure are members of one population. An agent that cannot be a member is trained
by itself, in turns with the others. All runs advance together from one report to the next. The value of a trial at an
environment step is therefore the mean over its seeds, trials are compared when all of them have reached a step (a
rung), and pruning a trial stops all of its seeds.
"""

from __future__ import annotations

import functools
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from agents.population import TemplateCache
from agents.processes.interrupts import END_REQUESTS
from agents.trust.allowed_modules import restricted
from finder.trials.checkpoints import CannotPauseError, Checkpoints, SavedGroup, load
from finder.trials.exchange import exchange
from finder.trials.execution import KEY as EXECUTION
from finder.trials.execution import execution_of
from finder.trials.failures import failure_of
from finder.trials.groups import Group, group_by_structure, make_groups, restore_group, single_run_groups
from finder.trials.runs import SeededTrial, TrialRun
from finder.trials.speed import KEPT_STRUCTURES
from finder.trials.step_interrupts import StepInterrupts
from finder.trials.trial import INTERRUPTED, PAUSED, Outcome, State, TrialListener, TrialSpec, configuration_of
from studies.database.records import EpisodeRecord
from studies.spec.attributes import FailureKind
from studies.statistics.values import mean_of_seeds

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5
"""Seconds between calls that pass episodes to the listener."""


class CohortListener(TrialListener, Protocol):
    """Receives the events of trials in the process that trains them."""

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        """Called when episodes have ended, or without any to ask whether to stop. A returned reason ends all trials."""

    def alive(self) -> None:
        """Called by another thread while the thread that runs trials is busy within its time limit."""

    def hangs(
        self, numbers: Sequence[int], reason: str, fresh: Callable[[], Mapping[int, list[EpisodeRecord]]]
    ) -> None:
        """Called by another thread when the thread that runs trials hangs in compiled code and cannot be interrupted.

        Args:
            numbers: The trials that may be the cause.
            reason: The message.
            fresh: Returns the episodes that were not passed on yet.
        """


def run_cohort(trials: Sequence[TrialSpec], listener: CohortListener, templates: TemplateCache | None = None) -> None:
    """Train every seed of every trial, and pass the events to the listener.

    Errors of an agent or an environment become the outcome of a trial. `KeyboardInterrupt` and errors of the listener
    are raised: a storage that fails is not a failure of a trial.

    Args:
        trials: The trials, with equal budgets and report marks.
        listener: Receives all events, and may stop trials.
        templates: The cache of compiled agents. Defaults to a new one.
    """
    with restricted(trials[0].only_modules):
        _Cohort(trials, listener, templates or TemplateCache(KEPT_STRUCTURES)).run()


class _Cohort:
    """One call of `run_cohort`."""

    def __init__(self, trials: Sequence[TrialSpec], listener: CohortListener, templates: TemplateCache) -> None:
        self._listener = listener
        self._templates = templates
        self._began = time.perf_counter()
        self._trials = {spec.number: TrialRun(spec) for spec in trials}
        self._groups: list[Group] = []
        self._flushed = time.monotonic()
        some = trials[0]
        self._checkpoints = None if some.checkpoints is None else Checkpoints(some.checkpoints, some.checkpoint_seconds)
        self._interrupts = StepInterrupts()

    def run(self) -> None:
        try:
            for trials in group_by_structure(list(self._trials.values())):
                self._build(trials)
            for number, trial in self._running():
                self._start(number, trial)
            for mark in next(iter(self._trials.values())).spec.report_steps():
                if not self._running():
                    break
                self._advance(mark)
        except (KeyboardInterrupt, Exception) as error:
            if self._checkpoints is not None:
                self._checkpoints.save(self._groups, ending=True)  # without those in the middle of a step
            if isinstance(error, KeyboardInterrupt):  # after an error of the listener nothing can be reported
                for number, _ in self._running():
                    self._end_stopped(number, INTERRUPTED, None, None)
            raise
        finally:
            for group in self._groups:
                group.close(self._templates)

    def _build(self, trials: list[TrialRun]) -> None:
        """Make the groups of trials of equal structure; a trial whose agent cannot be built fails."""
        left = [(trial, seed) for trial in trials for seed in trial.spec.seeds]
        while left and (saved := self._newest_checkpoint(left)):
            found, runs = saved
            if trials[0].spec.exchanges and len(runs) < len(left):
                log.warning("The checkpoint %s lacks members of the population, which restarts.", found.path)
                break
            if self._restore(found, runs):  # or else an older checkpoint may be usable
                left = [run for run in left if run not in runs]
        if left:
            self._begin(left)

    def _newest_checkpoint(self, runs: Sequence[SeededTrial]) -> tuple[SavedGroup, list[SeededTrial]] | None:
        """Return a checkpoint and the runs that resume from it; None if there is none."""
        if self._checkpoints is None:
            return None
        by_key = {(trial.spec.number, seed): (trial, seed) for trial, seed in runs}
        trials = {trial.spec.number: trial.spec for trial, _ in runs}
        found = self._checkpoints.find(trials.values(), by_key)
        return (found[0][0], [by_key[key] for key in sorted(found[0][1])]) if found else None

    def _begin(self, runs: Sequence[SeededTrial]) -> None:
        """Make the groups of runs that start from the beginning."""
        try:
            self._groups.extend(make_groups(runs, self._templates))
        except Exception as error:  # noqa: BLE001 - any error of an agent or environment is a failure of the trials
            for trial, _ in runs:
                trial.error = error
        for trial in dict.fromkeys(trial for trial, _ in runs):
            if trial.error is not None:
                self._end_failed(trial.spec.number)

    def _restore(self, found: SavedGroup, runs: Sequence[SeededTrial]) -> bool:
        """Make the group of a checkpoint; return False if the runs have to restart."""
        group = None
        try:
            group = restore_group(found.keys, runs, self._templates, alone=found.alone)
            group.load(load(found))
        except Exception as error:  # noqa: BLE001 - an unusable checkpoint is not a failure of a trial
            log.warning(
                "The checkpoint %s cannot be used, and its trials restart: %s: %s",
                found.path,
                type(error).__name__,
                error,
            )
            for trial, seed in runs:
                trial.remove_run(seed)
            if group is not None:
                group.close(self._templates)
            assert self._checkpoints is not None
            self._checkpoints.leave_out(found, error)
            return False
        self._groups.append(group)
        return True

    def _start(self, number: int, trial: TrialRun) -> None:
        run = trial.runs[0]
        try:
            agent = run.group.describe(run.member)
            configuration = configuration_of(trial.spec, agent, run.group.vectorization)
            configuration[EXECUTION] = execution_of(run.group.n_members, run.group.jit_compile)
        except Exception as error:  # noqa: BLE001 - a configuration that cannot be recorded is a failure of the trial
            trial.error = error
            self._end_failed(number)
        else:
            self._listener.started(number, configuration)

    # From mark to mark ----------------------------------------------------------------------------------------

    def _advance(self, mark: int) -> None:
        """Train all runs up to an environment step, and compare the trials there."""
        groups = deque(self._groups)
        while groups:
            group = groups.popleft()
            saves = self._checkpoints is not None and group.can_checkpoint
            group.alive = functools.partial(self._interrupts.delayed, self._heartbeat, saves)
            group.alive_meanwhile = self._listener.alive
            group.hangs = self._hangs
            before, began = group.trainer.env_steps, time.perf_counter()
            while group.is_before(mark):
                self._train(group, mark, saves=saves)
                if self._checkpoints is not None and self._checkpoints.due:
                    self._checkpoints.save(self._groups, ending=END_REQUESTS.first is not None)
                if self._is_flush_due and not self._flush():
                    return
            group.add_work(time.perf_counter() - began, group.trainer.env_steps - before)
            group.evaluate(mark)
            self._interrupts.raise_waiting()
            if group.not_mappable:
                groups.extend(self._split_into_single_runs(group))
        if not self._flush():
            return
        for number, trial in self._running():
            trial.check_metric()
            if trial.failed:
                self._end_failed(number)
        self._judge(mark)
        with self._interrupts.after(saves=True):
            exchange(mark, dict(self._running()), self._listener)
        for number, trial in self._running():
            if trial.finished:
                self._complete(number, trial)

    def _train(self, group: Group, mark: int, *, saves: bool) -> None:
        """Train a group for at least one step: up to an environment step, or until its episodes are to be passed on."""
        with self._interrupts.after(saves):
            group.step()
            while group.is_before(mark) and not self._is_flush_due and not self._interrupts.waiting:
                group.step()

    @property
    def _is_flush_due(self) -> bool:
        return time.monotonic() - self._flushed > FLUSH_SECONDS

    def _judge(self, mark: int) -> None:
        """Report the values of all trials at an environment step, and stop and pause those that do not continue."""
        values = {number: trial.values_at(mark) for number, trial in self._running() if trial.divergence is None}
        known = {number: own for number, own in values.items() if np.isfinite(list(own.values())).all()}
        verdicts = self._listener.rung(mark, known) if known else {}
        # A finished trial cannot be pruned. One whose runs were stopped by a callback trains no more: it is not paused.
        verdicts = {
            number: reason
            for number, reason in verdicts.items()
            if not self._trials[number].finished and not (reason == PAUSED and self._trials[number].was_stopped)
        }
        self._save_paused([self._trials[number] for number, reason in verdicts.items() if reason == PAUSED])
        for number, reason in verdicts.items():
            if self._trials[number].failed:
                self._end_failed(number)
            else:
                self._end_stopped(number, reason, mark, float(mean_of_seeds(list(known[number].values()))))

    def _save_paused(self, paused: Sequence[TrialRun]) -> None:
        """Save the states of trials that are paused; those that cannot be saved fail."""
        for group in self._groups:
            runs = [run for run in group.runs.values() if run.trial in paused and not run.trial.ended]
            if not runs:
                continue
            try:
                if self._checkpoints is None:
                    raise CannotPauseError("There is no folder for checkpoints, so trials cannot be paused.")
                self._checkpoints.save_paused(group, [run.member for run in runs])
            except CannotPauseError as error:
                for run in runs:
                    run.trial.error = error

    def _heartbeat(self) -> str | None:
        return self._listener.episodes({})

    def _hangs(self, numbers: Sequence[int], reason: str) -> None:
        """Report from another thread that this one hangs."""
        self._listener.hangs(
            numbers, reason, lambda: {n: own for n, trial in self._running() if (own := trial.take_new_episodes())}
        )

    def _split_into_single_runs(self, group: Group) -> list[Group]:
        """Restart the runs of a group, each by itself, because the agent cannot be a member of a population."""
        if any(run.trial.spec.exchanges for run in group.runs.values()):
            return []  # its members end with the error of the group
        log.warning("The agent cannot be trained in a population, so each run is trained by itself: %s", group.error)
        runs = [(run.trial, run.seed) for run in group.runs.values() if not run.trial.ended]
        for trial, seed in runs:
            trial.remove_run(seed)
        group.close(self._templates)
        made = list(single_run_groups(runs))
        self._groups = [*(other for other in self._groups if other is not group), *made]
        return made

    def _flush(self) -> bool:
        """Pass new episodes to the listener; return False if all trials have to stop."""
        self._interrupts.raise_waiting()
        self._flushed = time.monotonic()
        records = {number: trial.take_new_episodes() for number, trial in self._running()}
        reason = self._listener.episodes({number: own for number, own in records.items() if own})
        if reason:
            if self._checkpoints is not None:
                self._checkpoints.save(self._groups, ending=True)
            for number, _ in self._running():
                self._end_stopped(number, reason, None, None)
        return not reason

    # How trials end -------------------------------------------------------------------------------------------

    def _complete(self, number: int, trial: TrialRun) -> None:
        if trial.divergence is not None:  # no exchange has followed: its value is that of the weights of another one
            trial.error = trial.divergence
            self._end_failed(number)
            return
        seed_values = trial.final_values()
        if not np.isfinite(list(seed_values.values())).all():
            trial.error = trial.no_value()
            self._end_failed(number)
            return
        for name, values in trial.objectives().items():
            if not np.isfinite(list(values.values())).all():
                trial.error = trial.no_value(name)
                self._end_failed(number)
                return
        value = float(mean_of_seeds(list(seed_values.values())))
        self._end(number, "complete", value, trial.env_steps, seed_values)

    def _end_failed(self, number: int) -> None:
        trial = self._trials[number]
        error = trial.first_error()
        fresh = trial.take_new_episodes()
        if fresh:
            self._listener.episodes({number: fresh})
        text = "".join(traceback.format_exception(error))
        reason = f"{type(error).__name__}: {error}"
        kind = failure_of(error)
        self._end(number, "failed", None, trial.env_steps, {}, reason=reason, traceback=text, failure=kind)

    def _end_stopped(self, number: int, reason: str, env_steps: int | None, value: float | None) -> None:
        trial = self._trials[number]
        reached = trial.env_steps if env_steps is None else env_steps
        seed_values = {seed: value for seed, value in trial.values_at(reached).items() if np.isfinite(value)}
        states: Mapping[str, State] = {INTERRUPTED: "interrupted", PAUSED: "paused"}
        state = states.get(reason, "pruned")
        self._end(number, state, value, reached, seed_values, reason=reason)

    def _end(
        self,
        number: int,
        state: State,
        value: float | None,
        env_steps: int,
        seed_values: dict[int, float],
        *,
        reason: str = "",
        traceback: str = "",
        failure: FailureKind = "error",
    ) -> None:
        trial = self._trials[number]
        trial.ended = True
        for run in trial.runs:
            run.group.remove_member(run.member, reason or state)
        outcome = Outcome(
            state=state,
            value=value,
            env_steps=env_steps,
            seed_values=seed_values,
            wall_seconds=time.perf_counter() - self._began + trial.seconds_before,
            work=trial.work(),
            reason=reason,
            traceback=traceback,
            failure=failure,
            objectives=trial.objectives() if state == "complete" else {},
            custom_metrics=trial.custom_metrics(env_steps if state in ("pruned", "paused") else trial.spec.env_steps),
            learned=trial.learned,
        )
        self._listener.ended(number, outcome)

    def _running(self) -> list[tuple[int, TrialRun]]:
        return [(number, trial) for number, trial in self._trials.items() if not trial.ended]

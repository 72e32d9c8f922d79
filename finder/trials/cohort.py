"""The one way trials are run: several of them in step, each trained once for each of its seeds.

Trials whose agents have the same structure are members of one population; an agent that cannot be a member is trained
alone, in turns with the others. All runs go on together from one report to the next. So the value that is reported at
an environment step is the mean over a trial's seeds, trials are compared when all of them have come as far (a rung),
and one that is pruned is pruned for all of its seeds and frees their time.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from agents.errors import NonFiniteError
from agents.trust.allowed_modules import restricted
from finder.trials.checkpoints import Checkpoints, SavedGroup, load, remove
from finder.trials.groups import Group, TemplateCache, group_by_structure, make_groups, restore_group, single_run_groups
from finder.trials.runs import SeededTrial, TrialRun
from finder.trials.trial import INTERRUPTED, Outcome, State, TrialSpec, configuration_of
from studies.database.records import EpisodeRecord
from studies.statistics.values import iqm

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5
"""How often episodes are handed to the listener between reports."""


class CohortListener(Protocol):
    """Who hears of trials while they run."""

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        """A trial's agents are built; this is all that is needed to run it again, as JSON."""

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        """Episodes of trials have ended; may be none, just to ask whether to go on. A reason ends all trials."""

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        """Trial -> seed -> value at an environment step that all have come to; answers who is to stop, and why."""

    def alive(self) -> None:
        """The thread that runs trials is busy, as it may be. Called by another thread."""

    def hangs(
        self, numbers: Sequence[int], reason: str, fresh: Callable[[], Mapping[int, list[EpisodeRecord]]]
    ) -> None:
        """The thread that runs trials hangs in compiled code, where nothing in this process can end it.

        Called by another thread.

        Args:
            numbers: The trials that may be the cause.
            reason: What to tell of it.
            fresh: Takes the episodes that were not handed over yet.
        """

    def ended(self, number: int, outcome: Outcome) -> None:
        """A trial has ended. Nothing more is heard of it."""


def run_cohort(trials: Sequence[TrialSpec], listener: CohortListener, templates: TemplateCache | None = None) -> None:
    """Trains every seed of every trial and tells the listener how it went.

    Errors of an agent or an environment are part of a trial's outcome. `KeyboardInterrupt` and what the listener raises
    go through: a storage that fails is no failure of a trial.

    Args:
        trials: What to run; their budgets and report marks are the same.
        listener: Hears of everything, and may stop trials.
        templates: Where compiled agents are taken from and given back to.
    """
    with restricted(trials[0].only_modules):
        _Cohort(trials, listener, templates or TemplateCache()).run()


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
        except KeyboardInterrupt:
            for number, _ in self._running():
                self._end_stopped(number, INTERRUPTED, None, None)
            raise
        finally:
            for group in self._groups:
                group.close(self._templates)

    def _build(self, trials: list[TrialRun]) -> None:
        """Makes the groups of trials of equal structure; a trial whose agent cannot be built has failed."""
        left = [(trial, seed) for trial in trials for seed in trial.spec.seeds]
        while left and (saved := self._newest_checkpoint(left)):
            found, runs = saved
            if self._restore(found, runs):
                left = [run for run in left if run not in runs]
            else:
                remove(found.path)  # an older one may be of use
        if left:
            self._begin(left)

    def _newest_checkpoint(self, runs: Sequence[SeededTrial]) -> tuple[SavedGroup, list[SeededTrial]] | None:
        """A checkpoint from which some of these runs go on, and which; None if there is none."""
        if self._checkpoints is None:
            return None
        by_key = {(trial.spec.number, seed): (trial, seed) for trial, seed in runs}
        trials = {trial.spec.number: trial.spec for trial, _ in runs}
        found = self._checkpoints.find(trials.values(), by_key)
        return (found[0][0], [by_key[key] for key in sorted(found[0][1])]) if found else None

    def _begin(self, runs: Sequence[SeededTrial]) -> None:
        """Makes the groups of runs that begin anew."""
        try:
            self._groups.extend(make_groups(runs, self._templates))
        except Exception as error:  # noqa: BLE001 - whatever a user's agent or environment raises is the trials' failure
            for trial in dict.fromkeys(trial for trial, _ in runs):
                trial.error = error
                self._end_failed(trial.spec.number)

    def _restore(self, found: SavedGroup, runs: Sequence[SeededTrial]) -> bool:
        """Makes the group of a checkpoint; False if these runs have to begin anew."""
        group = None
        try:
            group = restore_group(found.keys, runs, self._templates, alone=found.alone)
            group.load(load(found))
        except Exception as error:  # noqa: BLE001 - a checkpoint that nobody can go on from is no failure of a trial
            log.warning("The checkpoint %s is of no use: %s: %s", found.path, type(error).__name__, error)
            for trial, seed in runs:
                trial.drop(seed)
            if group is not None:
                group.close(self._templates)
            return False
        self._groups.append(group)
        return True

    def _start(self, number: int, trial: TrialRun) -> None:
        run = trial.runs[0]
        try:
            configuration = configuration_of(trial.spec, run.group.describe(run.member), run.group.vectorization)
        except Exception as error:  # noqa: BLE001 - a configuration that cannot be kept is the trial's failure
            trial.error = error
            self._end_failed(number)
        else:
            self._listener.started(number, configuration)

    # From mark to mark ----------------------------------------------------------------------------------------

    def _advance(self, mark: int) -> None:
        """Trains all runs on to this environment step, and compares the trials there."""
        groups = deque(self._groups_running())
        while groups:
            group = groups.popleft()
            group.alive, group.alive_meanwhile = self._heartbeat, self._listener.alive
            group.hangs = self._hangs
            while group.is_before(mark):
                group.step()
                if self._checkpoints is not None and self._checkpoints.due:
                    self._checkpoints.save(self._groups)
                if time.monotonic() - self._flushed > FLUSH_SECONDS and not self._flush():
                    return
            if group.not_mappable:
                groups.extend(self._split_into_single_runs(group))
        if not self._flush():
            return
        for number, trial in self._running():
            if trial.failed:
                self._end_failed(number)
        values = {number: trial.values_at(mark) for number, trial in self._running()}
        known = {number: own for number, own in values.items() if np.isfinite(list(own.values())).all()}
        verdicts = self._listener.rung(mark, known) if known else {}
        for number, reason in verdicts.items():
            trial = self._trials[number]
            if not trial.finished:  # what has come to its end has nothing left to prune
                self._end_stopped(number, reason, mark, float(iqm(list(known[number].values()))))
        for number, trial in self._running():
            if trial.finished:
                self._complete(number, trial)

    def _heartbeat(self) -> str | None:
        return self._listener.episodes({})

    def _hangs(self, numbers: Sequence[int], reason: str) -> None:
        """Called by another thread, while this one hangs."""
        self._listener.hangs(
            numbers, reason, lambda: {n: own for n, trial in self._running() if (own := trial.take_new_episodes())}
        )

    def _split_into_single_runs(self, group: Group) -> list[Group]:
        """Begins the runs of a group again, each by itself: they do what no member of a population can."""
        log.warning("It cannot be trained in a population, so each run is trained alone: %s", group.error)
        runs = [(run.trial, run.seed) for run in group.runs.values() if not run.trial.ended]
        for trial, seed in runs:
            trial.drop(seed)
        group.close(self._templates)
        try:
            made = list(single_run_groups(runs))
        except Exception as error:  # noqa: BLE001 - as in `_begin`
            made = []
            for trial, _ in runs:
                trial.error = error
        self._groups = [*(other for other in self._groups if other is not group), *made]
        return made

    def _flush(self) -> bool:
        """Hands new episodes over; False when everything is to end."""
        self._flushed = time.monotonic()
        records = {number: trial.take_new_episodes() for number, trial in self._running()}
        reason = self._listener.episodes({number: own for number, own in records.items() if own})
        if reason:
            if self._checkpoints is not None:
                self._checkpoints.save(self._groups)
            for number, _ in self._running():
                self._end_stopped(number, reason, None, None)
        return not reason

    # How trials end -------------------------------------------------------------------------------------------

    def _complete(self, number: int, trial: TrialRun) -> None:
        seed_values = trial.final_values()
        if not np.isfinite(list(seed_values.values())).all():
            trial.error = ValueError(trial.spec.nothing_to_judge())
            self._end_failed(number)
            return
        value = float(iqm(list(seed_values.values())))
        self._end(number, "complete", value, trial.env_steps, seed_values)

    def _end_failed(self, number: int) -> None:
        trial = self._trials[number]
        error = trial.first_error()
        fresh = trial.take_new_episodes()
        if fresh:
            self._listener.episodes({number: fresh})
        told = "".join(traceback.format_exception(error))
        reason = f"{type(error).__name__}: {error}"
        diverged = isinstance(error, NonFiniteError)
        self._end(number, "failed", None, trial.env_steps, {}, reason=reason, traceback=told, diverged=diverged)

    def _end_stopped(self, number: int, reason: str, env_steps: int | None, value: float | None) -> None:
        trial = self._trials[number]
        reached = trial.env_steps if env_steps is None else env_steps
        seed_values = {seed: value for seed, value in trial.values_at(reached).items() if np.isfinite(value)}
        state: State = "interrupted" if reason == INTERRUPTED else "pruned"
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
        diverged: bool = False,
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
            wall_seconds=time.perf_counter() - self._began,
            reason=reason,
            traceback=traceback,
            diverged=diverged,
            custom_metrics=trial.custom_metrics(),
            learned=trial.learned,
        )
        self._listener.ended(number, outcome)

    def _running(self) -> list[tuple[int, TrialRun]]:
        return [(number, trial) for number, trial in self._trials.items() if not trial.ended]

    def _groups_running(self) -> list[Group]:
        return [group for group in self._groups if not group.finished]

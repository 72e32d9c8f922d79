"""Batches of trials: how many are requested at a time, and how they are distributed among workers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from agents.config.work import relative_work
from finder.executors.executor import NextTrial, StudyListener
from finder.trials.trial import TrialSpec

POPULATION = 64
"""Default limit of the members of a population: larger populations are not faster."""

SHARE_OF_MEMORY = 0.8
"""Share of the free memory that populations may use."""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Forms batches of trials.

    Attributes:
        members: Number of runs (trials times seeds) from which a batch is full. None: one trial a batch.
        trials: Largest number of trials that are requested at a time, over all batches; None for no limit. A sampler
            that learns from results needs a small number.
    """

    members: int | None = None
    trials: int | None = None

    @property
    def name(self) -> str | None:
        """Name of the executor in records for batches of several runs; None for single trials."""
        return None if self.members is None else "population"

    @property
    def description(self) -> str | None:
        """Description for progress displays; None for single trials."""
        return None if self.members is None else f"populations of up to {self.members} runs"

    def trials_of(self, n_workers: int, n_seeds: int) -> int:
        """Return about how many trials a number of workers run at the same time."""
        if self.members is None:
            return n_workers
        room = max(1, n_workers * self.members // n_seeds)
        return room if self.trials is None else min(room, self.trials)

    def next(self, next_trial: NextTrial, n_workers: int, listener: StudyListener) -> list[list[TrialSpec]]:
        """Return the next batches, up to one a worker; an empty list if no trials are left.

        Args:
            next_trial: Returns the next trial.
            n_workers: Number of idle workers.
            listener: Limits the number of trials in favour of other processes, beyond one for each worker.
        """
        limit, room = self._limits(n_workers, listener)
        trials: list[TrialSpec] = []
        while room > 0 and (limit is None or len(trials) < limit):
            trial = next_trial()
            if trial is None:
                break
            trials.append(trial)
            room -= len(trial.seeds)
            if self._is_resumed_batch(trials, listener):
                break
        confirms = all(trial.confirms is not None for trial in trials)  # none of them is pruned or paused
        return split_into_batches(trials, n_workers, divides=confirms and self.members is not None)

    def _is_resumed_batch(self, trials: list[TrialSpec], listener: StudyListener) -> bool:
        """Return whether these trials are an interrupted batch of the search, to which no new trials are added.

        New trials would be compared with it and proposed before its results are known, unlike without the interruption;
        or they would be further members of a population whose members copy each other.
        """
        exchanges = any(trial.exchanges for trial in trials)
        searches = all(trial.confirms is None for trial in trials)
        matters = self.members is not None and (self.trials is not None or listener.prunes or exchanges) and searches
        interrupted = any(trial.resumed and trial.promoted_from is None for trial in trials)
        return matters and interrupted and not listener.n_to_resume

    def _limits(self, n_workers: int, listener: StudyListener) -> tuple[int | None, float]:
        """Return the limits of trials (None for no limit) and of runs over all batches."""
        if self.members is None:
            return n_workers, float("inf")
        share = listener.share
        known = [
            limit for limit in (self.trials, None if share is None else max(share, n_workers)) if limit is not None
        ]
        return min(known, default=None), self.members * n_workers


def split_into_batches(trials: list[TrialSpec], n_workers: int, *, divides: bool = False) -> list[list[TrialSpec]]:
    """Split trials into batches that take about equally long, and keep trials of equal structure together.

    Workers wait for each other at rungs, so the slowest batch determines the time of all. The slowest structures come
    first, which leaves the fast ones to fill the gaps. If trials of equal structure are split, those with similar
    hyperparameters go to different workers: they perform alike, and when the worse half is pruned at a rung, every
    worker should keep half of its trials.

    Args:
        trials: The trials.
        n_workers: Largest number of batches.
        divides: Whether the seeds of a trial may be divided among two batches or more, so that all batches have the
            same number of runs (+-1): three trials of five seeds are eight runs and seven. Only trials of one structure
            are divided, as each worker compiles it anyway. Defaults to False.
    """
    structures: dict[tuple[object, ...], list[TrialSpec]] = {}
    for trial in trials:
        structures.setdefault(trial.agent.structure(), []).append(trial)
    groups = sorted(structures.values(), key=lambda group: -round(math.log2(relative_work(group[0].agent.config))))
    if n_workers > 1:  # a single batch keeps the order of the trials
        groups = [_similar_together(group) for group in groups]
    ordered = [trial for group in groups for i in range(n_workers) for trial in group[i::n_workers]]
    if divides and len(structures) == 1:
        return _split_evenly(ordered, n_workers)
    work = {trial.number: len(trial.seeds) * relative_work(trial.agent.config) for trial in trials}
    total = sum(work.values())
    batches: list[list[TrialSpec]] = [[] for _ in range(n_workers)]
    before = 0.0
    for trial in ordered:
        middle = before + work[trial.number] / 2
        batches[min(int(middle * n_workers / total), n_workers - 1)].append(trial)
        before += work[trial.number]
    return [batch for batch in batches if batch]


def _split_evenly(trials: list[TrialSpec], n_workers: int) -> list[list[TrialSpec]]:
    """Split trials of equal structure into batches of equally many runs, and divide those at the borders."""
    runs = [(trial.number, seed) for trial in trials for seed in trial.seeds]
    borders = [round(len(runs) * k / n_workers) for k in range(n_workers + 1)]
    batches = []
    for first, last in itertools.pairwise(borders):
        seeds: dict[int, list[int]] = {}
        for number, seed in runs[first:last]:
            seeds.setdefault(number, []).append(seed)
        batches.append([replace(trial, seeds=tuple(seeds[trial.number])) for trial in trials if trial.number in seeds])
    return [batch for batch in batches if batch]


def _similar_together(trials: list[TrialSpec]) -> list[TrialSpec]:
    """Order trials by the hyperparameters in which they differ: names first, such as the optimizer, then numbers."""
    values = {trial.number: trial.agent.config.to_dict() for trial in trials}
    first = values[trials[0].number]
    differing = [name for name in first if any(own.get(name) != first[name] for own in values.values())]
    numbers = [name for name in differing if all(isinstance(own.get(name), int | float) for own in values.values())]
    names = [name for name in differing if name not in numbers]

    def key(trial: TrialSpec) -> tuple[list[str], list[float]]:
        own = values[trial.number]
        return [repr(own.get(name)) for name in names], [own[name] for name in numbers]

    return sorted(trials, key=key)

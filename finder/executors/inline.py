"""The inline executor: trials run in this process, which reuses compiled agents."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agents.population import TemplateCache
from agents.processes.interrupts import defer_interrupts
from finder.executors.batches import Batching
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.trials.cohort import run_cohort
from finder.trials.execution import with_executor
from finder.trials.speed import KEPT_STRUCTURES
from finder.trials.trial import Outcome
from studies.database.records import EpisodeRecord
from studies.population_based.population_based import Perturbation

log = logging.getLogger(__name__)


class InlineExecutor(Executor):
    """Runs trials in this process.

    Args:
        batching: Forms the batches of trials that run at the same time.
    """

    def __init__(self, batching: Batching) -> None:
        self._batching = batching
        self._templates = TemplateCache(KEPT_STRUCTURES)

    @property
    def description(self) -> str:
        return self._batching.description or "inline"

    @property
    def trains_together(self) -> bool:
        return self._batching.members is not None

    def trials_at_once(self, n_seeds: int) -> int:
        return self._batching.trials_of(1, n_seeds)

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        while batches := self._batching.next(next_trial, 1, listener):
            run_cohort(batches[0], _ForwardingListener(listener, self._batching.name or "inline"), self._templates)


class _ForwardingListener:
    """Forwards the events of a cohort to the listener of the study."""

    def __init__(self, listener: StudyListener, executor: str) -> None:
        self._listener = listener
        self._executor = executor

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self._listener.started(number, with_executor(configuration, self._executor, 1))

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        self._listener.episodes(records)
        return None

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        return self._listener.rung(env_steps, values)

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int]
    ) -> Sequence[Perturbation]:
        return self._listener.exchange(env_steps, values, diverged)

    def alive(self) -> None:
        """Ignore heartbeats, which only other processes need."""

    def hangs(
        self, numbers: Sequence[int], reason: str, fresh: Callable[[], Mapping[int, list[EpisodeRecord]]]
    ) -> None:
        log.warning(
            "%s The call is inside compiled code, which cannot be interrupted in this process: end the process (kill "
            "%d), or run trials in processes of their own (--executor process), which Finder ends.",
            *(reason, os.getpid()),
        )

    def ended(self, number: int, outcome: Outcome) -> None:
        with defer_interrupts():  # Ctrl-C would lose an outcome while it is written
            self._listener.ended(number, outcome)

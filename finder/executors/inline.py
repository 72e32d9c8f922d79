"""Trials one after another in this process: the fastest way for short trials, because compiled agents are reused."""

from __future__ import annotations

from typing import Any

from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.trial import AgentPool, Outcome, run_trial
from studies.records import EpisodeRecord


class InlineExecutor(Executor):
    """Runs trials here."""

    def __init__(self) -> None:
        self._pool = AgentPool()

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        while (trial := next_trial()) is not None:
            try:
                outcome = run_trial(trial, _Direct(listener), self._pool)
            except KeyboardInterrupt:
                listener.ended(trial.number, Outcome(state="interrupted", reason="interrupted by the user"))
                raise
            listener.ended(trial.number, outcome)


class _Direct:
    """A trial's listener that passes everything straight on."""

    def __init__(self, listener: StudyListener) -> None:
        self._listener = listener

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self._listener.started(number, configuration)

    def episodes(self, number: int, records: list[EpisodeRecord]) -> str | None:
        self._listener.episodes(number, records)  # none at all is a sign of life
        return None

    def report(self, number: int, env_steps: int, value: float) -> str | None:
        return "pruned: it fell behind" if self._listener.report(number, env_steps, value) else None

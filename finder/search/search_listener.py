"""The listener of a search: what happens with the events of its executor."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.processes.interrupts import defer_interrupts, is_interrupt_deferred
from finder.budgets.confirmation_budget import last_common_report
from finder.trials.trial import FELL_BEHIND, FOR_BUDGET, INTERRUPTED, PAUSED, BudgetSpent, Outcome, outcome_attrs
from studies.database.retries import interrupt_of
from studies.schedulers.scheduler import Action
from studies.spec.attributes import STOPPED_ATTR
from studies.spec.scheduler_names import pauses_trials, prunes_trials

if TYPE_CHECKING:
    from finder.search.observer import Observer
    from finder.search.search_budget import SearchBudget
    from finder.search.search_checkpoints import SearchCheckpoints
    from studies.database.records import Ask, EpisodeRecord
    from studies.population_based.population_based import Perturbation
    from studies.recording.recorder import Recorder
    from studies.spaces.spaces import Json

_REASONS = {Action.STOP: FELL_BEHIND, Action.PAUSE: PAUSED}
"""Decision of the scheduler -> reason to stop a trial."""


class SearchListener:
    """Records the events of an executor, checks the budget, and informs the observer. A `StudyListener`.

    Args:
        recorder: Writes the study.
        budget: The budget of the search.
        observer: Receives the progress.
        checkpoints: The checkpoints of the search.
    """

    def __init__(
        self, recorder: Recorder, budget: SearchBudget, observer: Observer, checkpoints: SearchCheckpoints
    ) -> None:
        self._recorder, self._budget, self._observer, self._checkpoints = recorder, budget, observer, checkpoints
        self._newest: dict[int, dict[int, EpisodeRecord]] = {}  # of each seed of the running trials
        self._asked: dict[int, Ask] = {}  # the running trials
        self._reports: dict[int, dict[int, Mapping[int, float]]] = {}  # of confirmations: steps -> seed -> value
        self._stopped: dict[int, Outcome] = {}  # confirmations that the spent budget has stopped
        self._handled_before = sys.exc_info()[1]  # a script may search after Ctrl-C, in its handler

    def begun(self, ask: Ask) -> None:
        """Record that a trial is passed to the executor."""
        self._asked[ask.number] = ask
        if ask.confirms is not None:
            self._reports[ask.number] = {}

    @property
    def n_to_resume(self) -> int:
        return self._recorder.queue.source.n_to_resume

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self._recorder.started(number, configuration)
        self._observer.trial_built(number)

    @property
    def prunes(self) -> bool:
        return prunes_trials(self._recorder.study.spec.pruner)

    @property
    def pauses(self) -> bool:
        return pauses_trials(self._recorder.study.spec.pruner)

    @property
    def share(self) -> int | None:
        return self._recorder.queue.share

    def _is_interrupted(self) -> bool:
        """Return whether a signal ends the search now: it takes effect after this event, or is being handled."""
        handled = sys.exc_info()[1]
        interrupt = None if handled is None else interrupt_of(handled, self._handled_before)
        return is_interrupt_deferred() or (interrupt is not None and not isinstance(interrupt, BudgetSpent))

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
        self._budget.check()
        if not records:
            self._recorder.flush()
        for number, own in records.items():
            self._recorder.episodes(number, own)
            self._newest.setdefault(number, {}).update((record.seed, record) for record in own)
            self._observer.trial_episodes(number, own)
        self._budget.look()

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        decided = self._recorder.decide(env_steps, values)
        reasons = {number: _REASONS[action] for number, action in decided.items() if action in _REASONS}
        for number in values.keys() & self._reports.keys():
            self._reports[number][env_steps] = dict(values[number])
        behind = self._budget.rung(env_steps, values, set(reasons))
        return reasons | dict.fromkeys(behind, FOR_BUDGET)

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int]
    ) -> Sequence[Perturbation]:
        return self._recorder.exchange(env_steps, values, diverged)

    def ended(self, number: int, outcome: Outcome) -> None:
        if outcome.state == "interrupted" and self._budget.is_spent and number in self._reports:
            self._stopped[number] = outcome
        else:
            self._record_end(number, outcome)

    def end_stopped(self) -> int:
        """End the confirmations that the spent budget has stopped, as interrupted.

        Returns:
            Environment steps of the report by which they are judged meanwhile; 0 if they are not.
        """
        with defer_interrupts():  # the report of one finalist alone would decide
            stopped, self._stopped = self._stopped, {}
            reports = {self._asked[number].confirms: self._reports[number] for number in stopped}
            at = last_common_report(self._recorder.study, reports)
            for number, outcome in stopped.items():
                self._record_end(number, outcome, at)
        return at

    def _record_end(self, number: int, outcome: Outcome, judged_at: int = 0) -> None:
        if outcome.state == "failed" and outcome.failure != "diverged" and self._is_interrupted():
            # The signal may have ended a simulator of the environment too, whose failure is none of the trial.
            outcome = replace(outcome, state="interrupted", reason=INTERRUPTED, traceback="")
        env_steps, seconds = outcome.env_steps, outcome.wall_seconds
        reports, newest = self._reports.pop(number, {}), self._newest.pop(number, {}).values()
        if newest and not env_steps:  # its process has died and reported episodes only
            env_steps = min(record.env_steps for record in newest)
            seconds = max(record.wall_seconds for record in newest)
        ask = self._asked.pop(number, None)
        seconds += ask.wall_seconds if ask is not None else 0.0
        attrs = outcome_attrs(outcome, was_paused=ask is not None and ask.was_paused)
        extra = {"wall_seconds": round(seconds, 3), "env_steps": env_steps, **attrs}
        value = float("nan") if outcome.value is None else outcome.value
        if outcome.state == "complete":
            self._recorder.completed(number, value, outcome.seed_values, extra)
        elif outcome.state == "pruned":
            by_budget = outcome.reason == FOR_BUDGET
            self._recorder.pruned(number, outcome.env_steps, value, outcome.seed_values, extra, by_budget=by_budget)
        elif outcome.state == "paused":
            self._recorder.paused(number, outcome.env_steps, outcome.seed_values, extra)
        elif outcome.state == "failed":
            self._recorder.failed(number, outcome.reason, outcome.traceback, extra, kind=outcome.failure)
        else:
            self._recorder.interrupted(number, {STOPPED_ATTR: _report(reports, judged_at)} if judged_at else None)
        self._observer.trial_ended(number, outcome)
        self._budget.trial_ended(number, env_steps, outcome)
        self._checkpoints.tidy(self._recorder)


def _report(reports: Mapping[int, Mapping[int, float]], env_steps: int) -> dict[str, Json]:
    """Return one of the reports of a confirmation as its attribute."""
    return {"env_steps": env_steps, "values": {str(seed): value for seed, value in reports[env_steps].items()}}

"""The loop of a search: requests trials from the study, runs them on an executor, and records the results.

All finders use this loop. They differ in the plan of trials and in the conclusion from the results.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.errors import ConfigurationError
from agents.processes.interrupts import is_interrupt_deferred
from agents.trust.allowed_modules import restriction
from finder.budgets.limit import Limit
from finder.budgets.search_plan import stopped_text
from finder.executors.executor import Executor
from finder.search.changed_defaults import changed_defaults
from finder.search.object_resolver import ObjectResolver, with_stretched_schedules
from finder.search.observer import Observer, guarded
from finder.search.search_budget import LOOK_SECONDS, KeptBudget, SearchBudget
from finder.search.search_checkpoints import SearchCheckpoints
from finder.search.search_listener import SearchListener
from finder.trials.trial import BudgetSpent, Outcome, TrialSpec
from studies.analysis.schedules import repeated, shown_params
from studies.analysis.status import study_status
from studies.database.records import Ask
from studies.database.retries import StorageAwayError, interrupt_of
from studies.judging.missing_pick import why_no_pick
from studies.recording.recorder import Recorder
from studies.spec.population_rules import exchange_marks, value_steps
from studies.spec.spec import StudySpec
from studies.storage.watched_file import FileReplacedError
from studies.study.budget_attributes import given_fields, is_confirming
from studies.study.schedules import lineage_of
from studies.study.study import OpenStudy

log = logging.getLogger(__name__)

PlanExtension = Callable[[OpenStudy], Sequence[Mapping[str, Any]]]
"""Called when all planned trials have ended; returns the parameters of further trials, or nothing."""


class Search:
    """Runs a study.

    Args:
        study: The open study.
        resolver: Builds the agents of trials.
        executor: Runs the trials.
        observer: Receives the progress; its errors end the search, unless it is `guarded`. Defaults to None.
        extend_plan: Returns further trials when all planned ones have ended, until it returns none. Defaults to None.
        limit: The budget of the whole search; None without one, and for workers. Defaults to None.
        report_interrupts: Whether an interrupt prints what is recorded, for calls without a program that does so.
            Defaults to True.

    Attributes:
        recorder: Writes the study.
        listener: Receives the events of the executor.
    """

    def __init__(
        self,
        study: OpenStudy,
        resolver: ObjectResolver,
        executor: Executor,
        observer: Observer | None = None,
        extend_plan: PlanExtension | None = None,
        *,
        limit: Limit | None = None,
        report_interrupts: bool = True,
    ) -> None:
        study.storage.retry_policy.is_interrupted = is_interrupt_deferred
        self.recorder = Recorder(study)
        changed = changed_defaults(study, resolver.agents)
        self._resolver = resolver.stepped_by(study.vectorization).with_recorded_defaults(changed)
        if changed:
            executor.notes = [*executor.notes, *(each.note for each in changed)]
        self._executor = executor
        self._observer = guarded(None) if observer is None else observer
        self._extend_plan = extend_plan
        self._report_interrupts = report_interrupts
        chooses = study.spec.has_limit and "env_steps" not in given_fields(study)
        self._chosen_for = study.spec.limit_field if chooses else ""
        self._n_asked = 0
        self._checkpoints = SearchCheckpoints(study)
        self._budget = SearchBudget(self.recorder)
        if limit is not None:
            self._budget = KeptBudget(self.recorder, limit, resumes=self._checkpoints.folder is not None)
        self.listener = SearchListener(self.recorder, self._budget, self._observer, self._checkpoints)

    @property
    def study(self) -> OpenStudy:
        """The study, as it was when it was refreshed last."""
        return self.recorder.study

    @property
    def spec(self) -> StudySpec:
        """The spec of the study, which changes when the plan is extended."""
        return self.study.spec

    def run(self) -> str | None:
        """Run every remaining trial; return the reason of an early stop, or None.

        Raises:
            KeyboardInterrupt: Raised again after all results so far have been written.
        """
        # Recording creates many small objects. Each collection would traverse all objects of TensorFlow, which costs
        # more than the recording, so existing objects are excluded.
        gc.freeze()
        try:
            self._observer.study_opened(self.study, self.recorder.queue.n_left, self._executor)
            with contextlib.suppress(BudgetSpent):
                self._executor.run(self._next_trial, self.listener)
                while self.recorder.stop_reason is None and self._continue():
                    pass
            self._end_budget()
        except (StorageAwayError, KeyboardInterrupt) as error:
            with contextlib.suppress(StorageAwayError):
                self.listener.end_stopped()  # Ctrl-C after the budget was spent
                self.recorder.close()
            outage = _outage_message(self.recorder.spool_path, error)
            if (interrupt := interrupt_of(error)) is None:
                raise StorageAwayError(f"{error} {outage}") from error
            if self.recorder.is_cut_off:
                log.warning("%s does not answer. %s", self.study.storage.label, outage)
            elif self._report_interrupts:
                print(_interrupt_message(self.study), file=sys.stderr)
            raise interrupt  # noqa: B904 - the error is its context
        finally:
            with contextlib.ExitStack() as last_first:  # each of them, whatever another one raises
                last_first.callback(self._executor.close)
                last_first.callback(self._checkpoints.close)
                last_first.callback(self.recorder.close)
                if self._n_asked:  # otherwise a search that is done would spend its minutes on being called again
                    last_first.callback(self._budget.store_seconds)
                last_first.callback(gc.unfreeze)
        self._checkpoints.remove_unneeded(self.recorder, shared=self.study.storage.shared)
        return self.recorder.stop_reason

    def _continue(self) -> bool:
        """Run the next phase of the study or wait for other processes; return whether there was a phase."""
        self.recorder.refresh()
        is_over, queue = self._budget.ended, self.recorder.queue
        if is_over and not queue.keeps_budget:
            return self._confirm() if self._budget.is_confirming else queue.is_led_elsewhere and self._wait()
        if queue.n_left and not is_over:
            return self._run(self._next_trial)
        if not is_over and study_status(self.study).all_ended:
            if rows := self._further_rows():
                self.recorder.extend_plan(rows)
                self._observer.plan_grows(rows)
                return True
            return self._add_trials() or self._confirm()
        if self._end_paused(is_over=is_over):
            return True
        others_run = not is_over or (self.recorder.n_elsewhere and not self._budget.is_confirming)
        return self._wait() if others_run and self._budget.request_wait() else self._confirm()

    def _run(self, next_trial: Callable[[], TrialSpec | None]) -> bool:
        """Run trials; wait if none of them could begin, since another process is still requeueing it."""
        before = self._n_asked
        self._executor.run(next_trial, self.listener)
        return self._n_asked > before or self._budget.ended or self._wait()

    def _end_paused(self, *, is_over: bool = False) -> bool:
        """End the paused trials if none of them can be promoted any more; return whether there were any."""
        ended = self.recorder.end_paused(is_over=is_over)
        if ended:
            self._observer.paused_ended()
        return ended

    def _further_rows(self) -> Sequence[Mapping[str, Any]]:
        """Return further trials; none after the confirmation has begun, which ends the search."""
        if self._extend_plan is None or is_confirming(self.study):
            return ()
        rows = self._extend_plan(self.study)
        return rows[: self._budget.n_further(len(rows))]

    def _add_trials(self) -> bool:
        """Add trials of a sampler for which there is budget left; return whether there were any."""
        n = self._budget.add_trials(self._executor.trials_at_once(len(self.spec.seeds)))
        if n:
            self._observer.trials_added(n)
        return n > 0

    def _confirm(self) -> bool:
        """Run the finalists on further seeds, and then candidates that are better than the remaining finalists."""
        if not self.spec.confirm or why_no_pick(self.study):
            return False
        begins = not is_confirming(self.study)
        if begins and self.recorder.queue.is_led_elsewhere:
            return self._wait()  # the leading process may extend the search
        if begins:
            self._budget.choose_finalists()
        finalists = self._budget.to_confirm()
        if finalists is None:
            return False
        if begins:
            self._budget.confirmation_begins()
        if not finalists:
            return bool(self.recorder.n_confirming_elsewhere) and self._wait()
        self._observer.confirmation_begins(len(finalists))
        return self._run(lambda: self._next(self.recorder.ask_confirmation))

    def _wait(self) -> bool:
        self._budget.check()
        self._budget.look()
        self._observer.others_run(self.recorder.n_elsewhere)
        time.sleep(LOOK_SECONDS)
        return True

    def _end_budget(self) -> None:
        if judged_at := self.listener.end_stopped():
            self._observer.budget_spent(stopped_text(self.spec, judged_at))
        if text := self._budget.end():
            self._observer.budget_spent(text)

    def _next_trial(self) -> TrialSpec | None:
        resumed = self._budget.next_resumed
        return self._next(self.recorder.ask, resumed) if self._budget.request_trial() else None

    def _next(self, next_ask: Callable[[], Ask | None], resumed: int = 0) -> TrialSpec | None:
        while (ask := next_ask()) is not None:
            self._n_asked += 1
            weights = None if ask.confirms is None else lineage_of(self.study, ask.confirms)
            params, schedule = repeated(ask.params, weights)
            try:
                agent = self._resolver.agent(params, self.spec.agents[0])
            except ConfigurationError as error:
                # A combination that cannot be built fails its trial, not the study.
                self.recorder.failed(ask.number, str(error), traceback.format_exc())
                self._observer.trial_ended(ask.number, Outcome(state="failed", reason=str(error)))
                continue
            budget = self.spec.budget if ask.confirms is None else self.spec.confirm_budget
            agent = with_stretched_schedules(agent, self.spec.env_steps, budget)
            trial = TrialSpec(
                number=ask.number,
                agent=agent,
                seeds=ask.seeds,
                env_steps=None if self.spec.env_steps is None else budget,
                chosen_for=self._chosen_for,
                episodes=self.spec.episodes,
                report_marks=self.spec.marks_of(budget) if self.spec.env_steps is not None else (),
                metric=self.spec.metric,
                metrics=self.spec.metrics,
                name=ask.params.get("agent", ""),
                confirms=ask.confirms,
                epoch=ask.epoch,
                resumed=ask.resumed,
                promoted_from=ask.promoted_from,
                checkpoints=self._checkpoints.folder,
                checkpoint_seconds=self._checkpoints.seconds,
                hang_seconds=self.spec.hang_seconds,
                strategy=self.spec.strategy,
                callbacks=self._resolver.callbacks,
                why_alone=self._resolver.why_alone,
                exchanges=() if ask.confirms is not None else tuple(exchange_marks(self.spec)),
                value_steps=value_steps(self.spec),
                schedule=schedule,
                only_modules=restriction(),
            )
            self.listener.begun(ask)
            reached = resumed if ask.resumed else 0  # another process may have taken that trial
            self._budget.begun(trial, reached, is_baseline=ask.is_baseline)
            self._observer.trial_started(trial, shown_params(ask.params, weights))
            return trial
        return None


def _interrupt_message(study: OpenStudy) -> str:
    """Return the message after an interrupt."""
    how_far = study_status(study)
    if study.storage.url == "memory":
        return (
            f"Interrupted after {how_far.n_ended} of {how_far.n_total} trials; nothing is recorded without a storage."
        )
    done = f"{how_far.n_ended} of {how_far.n_total} trials"
    where = f"{study.storage.label} as {study.name}"
    return f"Interrupted: {done} are recorded in {where}; the same call resumes the study."


def _outage_message(spool_path: Path | None, error: BaseException) -> str:
    """Return the message about results that are not in the storage.

    Args:
        spool_path: File with the events that could not be written; None if there are none.
        error: The error that ended the search.
    """
    if isinstance(error.__cause__, FileReplacedError):
        meanwhile = "" if spool_path is None else f"Trials that have ended since are in {spool_path}. "
        return f"{meanwhile}Restore the file, and start the study again here."
    kept = "All trials that had ended before are recorded"
    if spool_path is None:
        return f"{kept}: start the study again when the storage is back."
    return (
        f"{kept}, those that have ended since are in {spool_path}: start the study again here when the storage is back."
    )

"""The loop of a search: requests trials from the study, runs them on an executor, and records the results.

All finders use this loop. They differ in the plan of trials and in the conclusion from the results.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agents.errors import ConfigurationError
from agents.trust.allowed_modules import restriction
from finder.budgets.limit import BudgetSpent, Limit
from finder.budgets.search_plan import unfinished_text
from finder.executors.executor import Executor
from finder.search.changed_defaults import changed_defaults
from finder.search.interruption_messages import interrupt_message, outage_message
from finder.search.object_resolver import ObjectResolver
from finder.search.observer import GuardedObserver, Observer
from finder.search.search_checkpoints import SearchCheckpoints
from finder.trials.trial import FELL_BEHIND, FOR_BUDGET, PAUSED, Outcome, TrialSpec, outcome_attrs
from studies.analysis.schedules import lineage_of, repeated, shown_params
from studies.analysis.status import study_status
from studies.database.fencing import LeaseLostError
from studies.database.records import Ask, EpisodeRecord
from studies.database.retries import StorageAwayError
from studies.judging.confirmation import confirmed_seeds, interrupted_steps
from studies.judging.missing_pick import why_no_pick
from studies.population_based.exchange import Perturbation
from studies.recording.recorder import Recorder
from studies.schedulers.scheduler import Action
from studies.spec.population_rules import exchange_marks, value_steps
from studies.spec.scheduler_names import canonical_pruner_name, is_population_based, pauses_trials
from studies.spec.spec import StudySpec
from studies.study.confirmed_budget import is_confirming, store_chosen_finalists, store_confirmed_budget
from studies.study.study import OpenStudy, with_counts
from studies.study.time_spent import store_seconds

STORE_SECONDS = 30.0
"""Seconds between records of the time that a study with a budget in minutes has taken."""

LOOK_SECONDS = 1.0
"""Seconds between polls of the study while other processes run trials."""


_REASONS = {Action.STOP: FELL_BEHIND, Action.PAUSE: PAUSED}
"""Decision of the scheduler -> reason to stop a trial."""

PlanExtension = Callable[[OpenStudy], Sequence[Mapping[str, Any]]]
"""Called when all planned trials have ended; returns the parameters of further trials, or nothing."""


class Search:
    """Runs a study. It listens to the executor and records the events.

    Args:
        study: The open study.
        resolver: Builds the agents of trials.
        executor: Runs the trials.
        observer: Receives the progress. Defaults to None.
        extend_plan: Returns further trials when all planned ones have ended, until it returns none. Defaults to None.
        limit: The budget of the whole search. Defaults to None.
        report_interrupts: Whether an interrupt prints what is recorded, for calls without a program that does so.
            Defaults to True.
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
        self.study = study
        self._limit = limit
        self.recorder = Recorder(study)
        changed = changed_defaults(study, resolver.agents)
        self._resolver = resolver.stepped_by(study.vectorization).with_recorded_defaults(changed)
        if changed:
            executor.notes = [*executor.notes, *(each.note for each in changed)]
        self._executor = executor
        self._observer = cast("Observer", GuardedObserver(observer))
        self._extend_plan = extend_plan
        self._report_interrupts = report_interrupts
        self._stored = time.monotonic()
        self._newest: dict[int, dict[int, EpisodeRecord]] = {}  # of each seed of the running trials
        self._seconds_before: dict[int, float] = {}  # of promoted trials, before their pauses
        self._sure_seeds: int | None = None  # further seeds before those for which there was budget left
        self._checkpoints = SearchCheckpoints(study)

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
            self._store_chosen_finalists()
            self._observer.study_opened(self.study, self.recorder.n_left, self._executor)
            self._executor.run(self._next_trial, self)
            while self.recorder.stop_reason is None and self._continue():
                pass
            self._leave_out_seeds()
            self._report_limit()
        except BudgetSpent:
            self._leave_out_seeds()
            self._report_limit()
        except StorageAwayError as error:
            self.recorder.close()
            raise StorageAwayError(f"{error} {outage_message(self.recorder.spool_path, error)}") from error
        except KeyboardInterrupt:
            if self._report_interrupts:
                print(interrupt_message(self.study), file=sys.stderr)
            raise
        finally:
            gc.unfreeze()
            self._store_seconds()
            self.recorder.close()
            self._checkpoints.close()
            self._executor.close()
        self._checkpoints.remove_unneeded(self.recorder, shared=self.study.storage.shared)
        return self.recorder.stop_reason

    def _continue(self) -> bool:
        """Run the next phase of the study or wait for other processes; return whether there was a phase."""
        self.study = self.recorder.refresh()
        if self._limit is not None and self._limit.ended_search:
            return not self.recorder.n_elsewhere and (self._end_paused(is_over=True) or self._confirm())
        if self.recorder.n_left:
            self._executor.run(self._next_trial, self)
            return True
        if not study_status(self.study).all_ended:
            return self._end_paused() or self._wait()
        if rows := self._further_rows():
            self.study = self.recorder.extend_plan(rows)
            self._observer.plan_grows(rows)
            return True
        return self._add_trials() or self._confirm()

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
        return rows if self._limit is None else rows[: self._limit.n_further(len(rows))]

    def _add_trials(self) -> bool:
        """Add trials of a sampler for which there is budget left; return whether there were any."""
        if self._limit is None or self.recorder.is_led_elsewhere or is_confirming(self.study):
            return False
        n = self._limit.n_added(self._executor.trials_at_once(len(self.spec.seeds)))
        if n:
            grown = self._limit.grow(n)
            self._set_counts(n_trials=grown.n_trials, confirm=grown.confirm)
            self._observer.trials_added(n)
        return n > 0

    def _confirm(self) -> bool:
        """Run the finalists on further seeds, and then candidates that are better than the remaining finalists."""
        if not self.spec.confirm or why_no_pick(self.study):
            return False
        begins = not is_confirming(self.study)
        if begins and self.recorder.is_led_elsewhere:
            return self._wait()  # the leading process may extend the search
        if begins:
            self._choose_finalists()
        finalists = self._to_confirm()
        if finalists is None:
            return False
        if begins:
            store_confirmed_budget(self.study)
        if not finalists:
            return bool(self.recorder.n_elsewhere) and self._wait()
        self._observer.confirmation_begins(len(finalists))
        self._executor.run(lambda: self._next(self.recorder.ask_confirmation), self)
        return True

    def _to_confirm(self) -> Sequence[int] | None:
        """Return the finalists to run now, whose seeds and steps are set for the budget; None if there is none left."""
        finalists, limit = self.recorder.to_confirm(), self._limit
        if limit is None:
            return finalists
        confirmed = confirmed_seeds(self.study)
        if finalists:
            reached = {} if self._checkpoints.folder is None else interrupted_steps(self.study)
            planned = limit.plan_confirmation(
                finalists,
                known=min(len(confirmed.get(number, ())) for number in finalists),
                resumed=min(reached.get(number, 0) for number in finalists),
                are_others_confirmed=bool(confirmed),
            )
            if planned is None:
                return None
        elif confirmed and not self.recorder.n_elsewhere and study_status(self.study).complete:
            planned = limit.further_seeds(sorted(confirmed))
            if planned is None:
                return []
            self._sure_seeds = self.spec.confirm_seeds
        else:
            return []
        counts = {"confirm_seeds": planned.confirm_seeds, "confirm_env_steps": planned.confirm_env_steps}
        if any(getattr(self.spec, name) != count for name, count in counts.items()):
            self._set_counts(**counts)
            finalists = self.recorder.to_confirm()
        return finalists

    def _leave_out_seeds(self) -> None:
        """Leave out further seeds for which there was budget left, but that not all finalists could be run on."""
        if self._sure_seeds is not None and not study_status(self.study).complete:
            self._set_counts(confirm_seeds=self._sure_seeds)

    def _choose_finalists(self) -> None:
        """Set the number of finalists for the trials that were run, if the budget chooses it: there may be fewer."""
        confirm = None if self._limit is None else self._limit.n_finalists(study_status(self.study).n_ended)
        if confirm not in (None, self.spec.confirm):
            self._set_counts(confirm=confirm)

    def _set_counts(self, **counts: int | None) -> None:
        """Set numbers of the study that its budget has chosen."""
        with_counts(self.study, **counts)
        self.study = self.recorder.refresh()
        self._store_chosen_finalists()

    def _store_chosen_finalists(self) -> None:
        if self._limit is not None and self._limit.chooses_finalists:
            store_chosen_finalists(self.study, self.spec.confirm)

    def _wait(self) -> bool:
        self._observer.others_run(self.recorder.n_elsewhere)
        time.sleep(LOOK_SECONDS)
        return True

    def _report_limit(self) -> None:
        """Report the trials that were not run because of the budget of the whole search."""
        if self._limit is None or not self._limit.ended_search:
            return
        status = study_status(self.study)
        if not (n_left := status.n_total - status.n_ended):
            return
        if self._limit.chooses_trials and status.n_ended and not status.n_running and not self.recorder.n_to_resume:
            self.study = with_counts(self.study, n_trials=status.n_ended)  # there was time for fewer than estimated
        else:
            self._observer.budget_spent(unfinished_text(self.spec, n_left))

    def _store_seconds(self) -> None:
        """Store the time that the study has taken, if it has a budget in minutes."""
        if self._limit is not None and self.spec.minutes is not None and not self.recorder.is_cut_off:
            self._stored = time.monotonic()
            with contextlib.suppress(StorageAwayError, LeaseLostError):  # the study itself reports both
                store_seconds(self.study, self._limit.spent)

    def _next_trial(self) -> TrialSpec | None:
        resumed = 0
        if self._limit is not None:
            resumed = self.recorder.next_resumed if self._checkpoints.folder is not None else 0
            promoted = self.recorder.next_promotion or 0
            if not (self.recorder.n_left and self._limit.allows_trial(promoted, resumed)):
                return None
        return self._next(self.recorder.ask, resumed)

    def _next(self, next_ask: Callable[[], Ask | None], resumed: int = 0) -> TrialSpec | None:
        while (ask := next_ask()) is not None:
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
            trial = TrialSpec(
                number=ask.number,
                agent=agent,
                seeds=ask.seeds,
                env_steps=None if self.spec.env_steps is None else budget,
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
            self._seconds_before[trial.number] = ask.wall_seconds
            if self._limit is not None:
                before, n_seeds = trial.promoted_from or 0, len(trial.seeds)
                reached = resumed if ask.resumed and not before else 0  # another process may have taken that trial
                self._limit.begun(trial.number, n_seeds, before, reached, is_baseline=ask.is_baseline)
            self._observer.trial_started(trial, shown_params(ask.params, weights))
            return trial
        return None

    # The executor's listener ----------------------------------------------------------------------------------

    @property
    def n_to_resume(self) -> int:
        return self.recorder.n_to_resume

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self.recorder.started(number, configuration)
        self._observer.trial_built(number)

    @property
    def prunes(self) -> bool:
        return canonical_pruner_name(self.spec.pruner) != "none" and not is_population_based(self.spec.pruner)

    @property
    def pauses(self) -> bool:
        return pauses_trials(self.spec.pruner)

    @property
    def share(self) -> int | None:
        return self.recorder.share

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
        if self._limit is not None:
            self._limit.check()
        if not records:
            self.recorder.flush()
        for number, own in records.items():
            self.recorder.episodes(number, own)
            self._newest.setdefault(number, {}).update((record.seed, record) for record in own)
            self._observer.trial_episodes(number, own)

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        decided = self.recorder.decide(env_steps, values)
        reasons = {number: _REASONS[action] for number, action in decided.items() if action in _REASONS}
        if self._limit is None:
            return reasons
        self._limit.check()
        behind = self._limit.rung(env_steps, values, set(reasons))
        return reasons | dict.fromkeys(behind, FOR_BUDGET)

    def exchange(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Sequence[Perturbation]:
        return self.recorder.exchange(env_steps, values)

    def ended(self, number: int, outcome: Outcome) -> None:
        env_steps, seconds = outcome.env_steps, outcome.wall_seconds
        newest = self._newest.pop(number, {}).values()
        if newest and not env_steps:  # its process has died and reported episodes only
            env_steps = min(record.env_steps for record in newest)
            seconds = max(record.wall_seconds for record in newest)
        seconds += self._seconds_before.pop(number, 0.0)
        extra = {"wall_seconds": round(seconds, 3), "env_steps": env_steps, **outcome_attrs(outcome)}
        value = float("nan") if outcome.value is None else outcome.value
        if outcome.state == "complete":
            self.recorder.completed(number, value, outcome.seed_values, extra)
        elif outcome.state == "pruned":
            by_budget = outcome.reason == FOR_BUDGET
            self.recorder.pruned(number, outcome.env_steps, value, outcome.seed_values, extra, by_budget=by_budget)
        elif outcome.state == "paused":
            self.recorder.paused(number, outcome.env_steps, outcome.seed_values, extra)
        elif outcome.state == "failed":
            self.recorder.failed(number, outcome.reason, outcome.traceback, extra, kind=outcome.failure)
        else:
            self.recorder.interrupted(number)
        self._observer.trial_ended(number, outcome)
        if self._limit is not None:
            self._limit.ended(number, env_steps, outcome.value if outcome.state == "complete" else None, outcome.work)
            if time.monotonic() - self._stored > STORE_SECONDS:
                self._store_seconds()
        self._checkpoints.tidy(self.recorder)

"""The entry of all finders: chooses the executor, opens the study, and runs the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.renamed import renamed_arguments
from agents.trust.allowed_modules import places_in
from finder.budgets.budgeted import budgeted_search
from finder.budgets.clock import began
from finder.budgets.dry_run import PlanMade, is_dry_run
from finder.budgets.plan_numbers import notes_on_confirmation, notes_on_first_updates, notes_on_schedules
from finder.executors.choice import choose_executor
from finder.executors.executor import Executor
from finder.executors.preparation import prepare_workers, probably_uses_processes
from finder.search.display import open_display, uses_builtin_display
from finder.search.object_resolver import ObjectResolver, check_plan
from finder.search.observer import Observer
from finder.search.search import PlanExtension, Search
from finder.search.trusted_code import BY_ENVIRONMENT, trusted_code_only
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.study.budget_attributes import keep_confirmed_budget, store_confirmed_budget, store_given
from studies.study.study import OpenStudy

MOST_TRIALS = 1_000_000
"""Largest number of trials of a search, whose batches are planned one by one."""


@renamed_arguments(ingredients="resolver", further="extend_plan")
def run_search(
    spec: StudySpec,
    *,
    resolver: ObjectResolver | None = None,
    executor: Executor | None = None,
    observer: Observer | None = None,
    progress: bool | Observer = True,
    storage: StudyStorage | None = None,
    extend_plan: PlanExtension | None = None,
    notes: Sequence[str] = (),
    is_named: bool = False,
) -> tuple[OpenStudy, str | None]:
    """Create or resume a study and run its remaining trials.

    Args:
        spec: The study.
        resolver: Builds the agents of trials. Defaults to one that resolves all names of the study.
        executor: Runs the trials. Defaults to the executor that the study names, or the best one for it.
        observer: Receives the progress, in place of `progress`.
        progress: Whether to show progress, or an observer; see `finder.search.options.StudyOptions`. Defaults to True.
        storage: An open storage. Defaults to the storage that the study names.
        extend_plan: See `Search`.
        notes: Sentences for users on the study, shown with those of its opening. Defaults to none.
        is_named: Whether the user gave the name of the study; see `budgeted_search`. Defaults to False.

    Returns:
        The study, and the reason of an early stop or None.

    Raises:
        ConfigurationError: An agent, environment or optimizer does not exist; nothing was written.
        StudyError: The storage cannot be opened, or has another study of this name.
    """
    since = began()
    if not isinstance(spec, StudySpec):
        raise StudyError(f"spec is {spec!r}: give a studies.StudySpec; a file is run by finder.run_file(path).")
    if spec.n_trials > MOST_TRIALS:
        raise StudyError(
            f"n_trials is {spec.n_trials:,}: give at most {MOST_TRIALS:,}. With a budget of time "
            "(minutes), leave it out: as many trials are run as there is time for."
        )
    progress = progress if observer is None else observer
    with open_display(progress) as display:
        if executor is None and probably_uses_processes(spec):
            prepare_workers()  # they import TensorFlow while this process does to check the agents
        resolver = resolver or ObjectResolver.of(spec)
        check_plan(spec, resolver)
        agents = {label: resolver.agents[label] for label in spec.agents}
        executor = executor or choose_executor(spec, agents, resolver.why_alone)
        budgeted = budgeted_search(
            spec, agents, resolver.agent, executor,
            why_alone=resolver.why_alone, extends=extend_plan is not None, storage=storage, is_named=is_named,
            began=since, measuring_begins=display.measuring_begins,
        )  # fmt: skip
        executor.notes = [
            *executor.notes,
            *notes_on_confirmation(budgeted.asked),
            *notes_on_first_updates(budgeted.spec, budgeted.agents),
            *budgeted.notes_on_episodes,
            *notes_on_schedules(budgeted.spec, resolver.agent),
        ]
        if is_dry_run():
            plan = budgeted.plan()
            raise PlanMade(replace(plan, notes=(*plan.notes, *notes)))
        if budgeted.spec.has_limit:
            display.budget_chosen(budgeted.chosen())
        if (seconds := budgeted.seconds_left()) is not None:
            display.time_limited(seconds)
        spec = budgeted.spec
        study = open_study(spec, storage)
        study = replace(study, notes=(*study.notes, *notes))
        try:
            store_given(study, budgeted.asked)
            if (earlier := budgeted.earlier) is not None:
                keep_confirmed_budget(study, earlier.spec)
            if budgeted.only_confirms:
                store_confirmed_budget(study)
            alone = uses_builtin_display(progress)
            with trusted_code_only(study, places_in(spec.to_json_dict(), resolver), BY_ENVIRONMENT):
                search = Search(
                    study, resolver, executor, display, extend_plan, limit=budgeted.limit(), report_interrupts=alone
                )
                stopped = search.run()
        except BaseException:
            study.close()
            raise
        return search.study, stopped

"""The command `run`: the study of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from finder.cli.options.budget_options import DryRun, Minutes, TotalEnvSteps
from finder.cli.options.parameters import (
    Executor,
    InsteadOfTheFiles,
    Json,
    NewName,
    NJobs,
    NTrials,
    NumThreads,
    Output,
    Population,
    Quiet,
    StudyFile,
    drop_none,
)
from finder.cli.options.start_options import WarmStart, WarmStartStorage, WarmStartTrials
from finder.cli.session import run_search_command
from finder.progress.console import storage_for_file

if TYPE_CHECKING:
    from finder.results.search_result import SearchResult
    from finder.search.observer import Observer


def run(
    context: typer.Context,
    file: StudyFile,
    *,
    n_trials: NTrials = None,
    minutes: Minutes = None,
    total_env_steps: TotalEnvSteps = None,
    warm_start: WarmStart = None,
    warm_start_storage: WarmStartStorage = None,
    warm_start_trials: WarmStartTrials = None,
    storage: InsteadOfTheFiles = None,
    study_name: NewName = None,
    n_jobs: NJobs = None,
    executor: Executor = None,
    population: Population = None,
    num_threads: NumThreads = None,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run the study of a TOML file; flags override some of its fields."""
    from finder.executors.preparation import probably_uses_processes
    from finder.search.study_file import read_study
    from studies.errors import StudyError
    from studies.spec.spec import StudySpec

    try:
        spec = StudySpec.from_toml(file)
    except StudyError:
        read_study(file)  # checks the agents too, which takes seconds, to report all mistakes at once
        raise
    storage = storage_for_file(spec.storage if "storage" in spec.model_fields_set else None, storage)
    changes = drop_none(
        minutes=minutes,
        total_env_steps=total_env_steps,
        n_trials=n_trials,
        storage=storage,
        name=study_name,
        n_jobs=n_jobs,
        executor=executor,
        population=population,
    )

    def search(observer: Observer) -> SearchResult:
        from finder.finders.tuning import run_file

        started = drop_none(
            warm_start=warm_start, warm_start_storage=warm_start_storage, warm_start_trials=warm_start_trials
        )
        return run_file(file, observer, **started, **changes)

    return run_search_command(
        search,
        Output(context.obj, json, quiet, dry_run),
        file=str(file),
        prepares=probably_uses_processes(spec.model_copy(update=changes)),
    )

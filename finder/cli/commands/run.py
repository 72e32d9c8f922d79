"""The command `run`: a search that a file describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from finder.cli.parameters import (
    Executor,
    InsteadOfTheFiles,
    Json,
    NewName,
    NJobs,
    NTrials,
    Output,
    Population,
    Quiet,
    StudyFile,
    drop_none,
)
from finder.cli.session import run_search
from finder.progress.console import storage_for_file

if TYPE_CHECKING:
    from finder.search.observer import Observer
    from finder.search.results import SearchResult


def run(
    context: typer.Context,
    file: StudyFile,
    *,
    n_trials: NTrials = None,
    storage: InsteadOfTheFiles = None,
    study_name: NewName = None,
    n_jobs: NJobs = None,
    executor: Executor = None,
    population: Population = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run the study that a TOML file describes; some of what it says can be replaced here."""
    from finder.search.study_file import read_study
    from studies.errors import StudyError
    from studies.spec.spec import StudySpec

    try:
        spec = StudySpec.from_toml(file)
    except StudyError:
        read_study(file)  # asks the agents too, which takes seconds, so that every mistake is told at once
        raise
    storage = storage_for_file(spec.storage if "storage" in spec.model_fields_set else None, storage)
    changes = drop_none(
        n_trials=n_trials, storage=storage, name=study_name, n_jobs=n_jobs, executor=executor, population=population
    )

    def search(observer: Observer) -> SearchResult:
        from finder.finders.tuning import run_file

        return run_file(file, observer, **changes)

    return run_search(search, Output(context.obj, json, quiet), file=str(file))

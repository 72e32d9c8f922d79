"""The command `export`: the trials or episodes of a study as a table in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from finder.cli.options.parameters import Storage, StudyName
from finder.cli.options.values import file_name_of
from finder.progress.console import results
from studies.defaults import DEFAULT_STORAGE


def export(
    study: StudyName,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where: .csv or .parquet (default STUDY.csv)."),
    ] = None,
    episodes: Annotated[
        bool, typer.Option("--episodes", help="Every episode of every run instead of the trials.")
    ] = False,
    storage: Storage = None,
) -> int:
    """Write the trials of a study, or their episodes, as a table, and print its path."""
    from finder.results.export import export
    from studies.study.study import load_study

    with load_study(study, storage or DEFAULT_STORAGE) as opened:
        path = export(opened, output or Path(f"{file_name_of(study)}.csv"), episodes=episodes)
    results().print(str(path), soft_wrap=True)
    return 0

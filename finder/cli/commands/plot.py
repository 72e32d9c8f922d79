"""The command `plot`: figures that compare long runs, without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from finder.cli.options.values import refuse_other_than_html
from finder.progress.console import results


def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of runs (finder train).", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where, an HTML file.")] = Path(
        "finder-runs.html"
    ),
    window: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Episodes that each point is the mean of (default: those of the last fifth of the run, at least one "
            "per copy of the environment, at most 100).",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Draw returns and losses of runs as one HTML file, and print its path."""
    refuse_other_than_html(output)
    from finder.long_run.histories import histories_data, write_histories

    results().print(str(write_histories(histories_data(runs, window), output)), soft_wrap=True)
    return 0

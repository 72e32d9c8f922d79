"""The flags of the scheduler of a search."""

from __future__ import annotations

from typing import Annotated

import typer

from finder.cli.options.step_numbers import steps_option

_STUDY = "The study"

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        "--pruner",
        metavar="NAME",
        help="Stops trials that perform worse.",
        show_default=False,
        rich_help_panel=_STUDY,
    ),
]
SchedulerKwargs = Annotated[
    str | None,
    typer.Option(
        "--scheduler-kwargs",
        "--pruner-kwargs",
        metavar="JSON",
        help="Arguments of the scheduler.",
        rich_help_panel=_STUDY,
    ),
]
PerturbSteps = Annotated[
    int | None,
    steps_option(
        "With --scheduler pbt or pb2: environment steps after which members copy better ones (default: a tenth of "
        "--env-steps).",
        panel=_STUDY,
    ),
]

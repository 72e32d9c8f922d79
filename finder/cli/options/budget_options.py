"""The flags of searches about the budget of the whole search and of its confirmation."""

from __future__ import annotations

from typing import Annotated

import typer

from finder.cli.options.step_numbers import steps_option

_BUDGET, _OUTPUT = "Budget", "Output"


def _finite(minutes: float | None) -> float | None:
    """Refuse minutes that are no time."""
    if minutes is not None and not 0 < minutes < float("inf"):
        raise typer.BadParameter(f"{minutes:g} is no time: give minutes above 0, such as 10 or 0.5.")
    return minutes


Minutes = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        callback=_finite,
        help="Time limit of the whole search in minutes, confirmation included. The steps of each run are chosen to "
        "fit, also in place of those of a file; with --env-steps, the number of a sampler's trials is chosen instead. "
        "If time is short, there are first fewer seeds, trials and confirmations; finalists get longer runs.",
        show_default=False,
        rich_help_panel=_BUDGET,
    ),
]
TotalEnvSteps = Annotated[
    int | None,
    steps_option(
        "Environment steps of all runs together, confirmation included. The steps of each run are chosen as with "
        "--minutes.",
        panel=_BUDGET,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the plan with its estimated time and memory, after a few seconds of measurement; write nothing.",
        rich_help_panel=_OUTPUT,
    ),
]


Confirm = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Number of best trials that are run again on further seeds.",
        show_default=False,
        rich_help_panel=_BUDGET,
    ),
]

ConfirmSeeds = Annotated[
    int | None,
    typer.Option(min=1, help="How many further seeds (default 5).", show_default=False, rich_help_panel=_BUDGET),
]

ConfirmEnvSteps = Annotated[
    int | None,
    steps_option(
        "Steps of each run on further seeds (default: as in the search). Longer runs choose the pick alone.",
        panel=_BUDGET,
    ),
]

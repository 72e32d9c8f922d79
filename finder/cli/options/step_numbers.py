"""Numbers of environment steps as options: `50000`, `50_000` or `5e4`."""

from __future__ import annotations

import math
from typing import Any

import typer


def steps_option(help_text: str, *names: str, panel: str | None = None) -> Any:
    """Return an option that takes a number of environment steps.

    Args:
        help_text: Its help.
        *names: Its flags. Defaults to the one that is named like its parameter.
        panel: The panel of its help.
    """
    return typer.Option(
        *names, parser=parse_steps, min=1, metavar="STEPS", help=help_text, show_default=False, rich_help_panel=panel
    )


def parse_steps(text: str) -> int:
    """Return a number of environment steps.

    Args:
        text: A whole number of at least 1, also with underscores or an exponent.

    Raises:
        ValueError: It is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = _with_exponent(text)
    if number < 1:
        raise ValueError("it should be greater than or equal to 1")
    return number


def _with_exponent(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise ValueError("it should be a whole number, such as 50000 or 5e4")
    return int(value)

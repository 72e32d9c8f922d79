"""Prints the Pareto front of a study with several objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from finder.progress.console import results, table
from studies.judging.pareto_front import FrontTrial, ParetoFront
from studies.spec.objectives import directions_of
from studies.words import interval_text, params_text, spread_text

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

WIDE = 120
"""Width from which the intervals are columns of their own."""


def print_front(study: OpenStudy, front: ParetoFront) -> None:
    """Print the trials of the front with the value of each objective, then those that cannot be told apart from it."""
    out = results()
    head, certainty = front.lines
    out.print(Text(head, "bold"))
    out.print(Text(certainty))
    if not front.trials:
        return
    minimized = [direction == "minimize" for direction in directions_of(study.spec)]
    heads = [
        f"{text}, lower is better" if is_low else text for text, is_low in zip(front.texts, minimized, strict=True)
    ]
    listed = table("place", "#", "parameters", *heads, numbers=("#", *heads))
    for trial in (*front.front, *front.undecided):
        listed.add_row(*_row(study, trial, wide=out.width >= WIDE))
    out.print(listed)


def _row(study: OpenStudy, trial: FrontTrial, *, wide: bool) -> list[str | Text]:
    several = len(study.spec.agents) > 1
    params = {name: value for name, value in trial.params.items() if name != "agent" or several}
    style = "bold" if trial.on_front else "dim"
    values = [
        f"{spread_text(each.value, each.spread)}{' ' if wide else chr(10)}{interval_text(each.low, each.high)}".rstrip()
        for each in trial.values
    ]
    place = "front" if trial.on_front else "maybe"
    return [Text(place, style), str(trial.number), Text(params_text(params), style), *values]

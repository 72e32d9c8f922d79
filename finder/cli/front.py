"""Prints the Pareto front of a study with several objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from finder.progress.console import print_note, results, table
from studies.analysis.conclusion import conclusion
from studies.judging.pareto_front import FrontTrial, ParetoFront
from studies.judging.ranking import Ranked
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
    for reason in conclusion(study).reasons:
        print_note(f"{reason.text}.")


def _interval(space: str, value: Ranked) -> str:
    """Return the 95% interval in brackets after a space; "" if it is unknown or a single number."""
    text = interval_text(value.low, value.high)
    return f"{space}({text})" if value.low < value.high else ""


def _row(study: OpenStudy, trial: FrontTrial, *, wide: bool) -> list[str | Text]:
    several = len(study.spec.agents) > 1
    params = {name: value for name, value in trial.params.items() if name != "agent" or several}
    style = "bold" if trial.on_front else "dim"
    values = [
        f"{spread_text(each.value, each.spread)}{_interval(' ' if wide else chr(10), each)}" for each in trial.values
    ]
    place = "front" if trial.on_front else "maybe"
    return [Text(place, style), str(trial.number), Text(params_text(params), style), *values]

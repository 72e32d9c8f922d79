"""The command `compare`: the picks of several studies of one environment, beside each other."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from finder.cli.options.parameters import Json, Storage
from finder.cli.options.values import refuse_other_than_html
from finder.progress.console import print_json, results, table
from studies.defaults import DEFAULT_STORAGE

if TYPE_CHECKING:
    from studies.analysis.comparison import Comparison


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="STUDY...", help="Two or more studies of one storage.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write figures and table here, an HTML file.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC", help="Of studies with several objectives: compare by this one.", show_default=False
        ),
    ] = None,
    storage: Storage = None,
    json: Json = False,
) -> int:
    """Compare the picks of several studies: which is best, and whether that can be told apart from luck."""
    if output is not None:
        refuse_other_than_html(output)
    from studies.analysis.comparison import compare as compare_studies
    from studies.study.study import load_study

    with ExitStack() as opened:
        studies = [opened.enter_context(load_study(name, storage or DEFAULT_STORAGE)) for name in dict.fromkeys(names)]
        compared = compare_studies(studies, metric)
    if json:
        print_json(compared.to_json())
    else:
        _print(compared)
    if output is not None:
        from studies.reports.comparison import write_comparison

        path = write_comparison(compared, output)
        if not json:
            results().print(str(path), soft_wrap=True)
    return 0


def _print(compared: Comparison) -> None:
    """Print the table of the studies, their picks, and the conclusion."""
    from studies.reports.comparison import COLUMNS, NUMBERS, comparison_rows

    out = results()
    columns = ("study", "verdict", "value", "95% interval", "seeds", "trials", "minutes")
    listed = table(*columns, numbers=NUMBERS)
    for row in comparison_rows(compared):
        cells = dict(zip(COLUMNS, row, strict=True))
        listed.add_row(Text(cells["study"], "bold"), *(cells[column] for column in columns[1:]))
    out.print(listed)
    for study in compared.studies:
        out.print(Text.assemble((f"{study.name}: ", "dim"), study.summary))
    head, *rest = compared.lines
    out.print(Text(head, "bold"))
    for line in rest:
        out.print(line)

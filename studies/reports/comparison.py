"""HTML page that compares studies, in one self-contained file."""

from __future__ import annotations

import html
from os import PathLike
from pathlib import Path

from studies.analysis.comparison import Comparison, check_comparison
from studies.figures.comparison import comparison_figures
from studies.reports.page import page_html, write_page
from studies.words import interval_text

COLUMNS = ("study", "agents", "verdict", "value", "95% interval", "seeds", "trials", "minutes", "pick")
"""Columns of the table of a comparison."""

NUMBERS = ("value", "95% interval", "trials", "minutes")
"""Columns of numbers."""


def comparison_rows(compared: Comparison) -> list[tuple[str, ...]]:
    """Return the cells of each study, by `COLUMNS`."""
    return [
        (
            study.name,
            ", ".join(study.agents),
            study.status,
            study.value_text,
            "" if study.pick is None else interval_text(study.pick.low, study.pick.high),
            study.seeds_text,
            str(study.n_ended),
            f"{study.minutes:.1f}",
            study.summary,
        )
        for study in compared.studies
    ]


def write_comparison(compared: Comparison, path: str | PathLike[str]) -> Path:
    """Write the page of a comparison: its conclusion, the figures and a table of the studies.

    Args:
        compared: The comparison.
        path: Path of the file; an existing one is replaced atomically.

    Returns:
        Absolute path of the file.

    Raises:
        StudyError: If the file cannot be written.
    """
    check_comparison(compared)
    figures = comparison_figures(compared)
    head, *rest = compared.lines
    sections = [
        f"<h1>{len(compared.studies)} studies</h1>",
        f'<p class="sub">{_text(compared.metric)} on {_text(compared.env)}</p>',
        f'<div class="answer front"><p><strong>{_text(head)}</strong></p>'
        f"{''.join(f'<p>{_text(line)}</p>' for line in rest)}</div>",
        *(f'<div class="figure"><div id="{name}"></div></div>' for name in figures),
        _table(compared),
    ]
    return write_page(page_html("Finder comparison", sections, figures), path, "comparison")


def _table(compared: Comparison) -> str:
    heads = "".join(f"<th>{_text(name)}</th>" for name in COLUMNS)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if name in NUMBERS else ''}>{_text(cell)}</td>"
            for name, cell in zip(COLUMNS, row, strict=True)
        )
        + "</tr>"
        for row in comparison_rows(compared)
    )
    return f'<h2>Studies</h2><div class="scroll"><table><tr>{heads}</tr>{rows}</table></div>'


def _text(value: object) -> str:
    return html.escape(str(value))

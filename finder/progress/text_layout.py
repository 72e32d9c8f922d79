"""Fits text to the width of a terminal: wraps between parts or with an indent, and truncates between words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

DOT = " · "


def join_parts(parts: Sequence[str], width: int) -> list[str]:
    """Join parts to as few lines as possible without breaking a part; a part wider than a line has its own line."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(f"{lines[-1]}{DOT}{part}") <= width:
            lines[-1] += f"{DOT}{part}"
        else:
            lines.append(part)
    return lines


def truncate_words(text: str, width: int, separator: str = " ") -> str:
    """Truncate a text to a width after a whole word, with an ellipsis.

    Args:
        text: The text.
        width: Largest number of columns, >= 1.
        separator: Where to truncate: between words, or between the items of a list if one of them fits.
    """
    if cell_len(text) <= width:
        return text
    kept = ""
    for word in text.split(separator):
        longer = f"{kept}{separator}{word}" if kept else word
        if cell_len(f"{longer}{separator}…") > width:
            break
        kept = longer
    if not kept and separator != " ":
        return truncate_words(text, width)
    return f"{kept}{separator}…" if kept else "…"


@dataclass(frozen=True)
class HangingIndent:
    """A lead and a text beside it, whose further lines are aligned with the first one.

    Attributes:
        lead: Text before the first line.
        text: Text that is wrapped to the remaining width.
    """

    lead: Text
    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = self.lead.cell_len
        lines = self.text.wrap(console, max(1, options.max_width - indent))
        for index, line in enumerate(lines or [Text()]):
            line.rstrip()
            yield Text.assemble(self.lead if index == 0 else " " * indent, line)

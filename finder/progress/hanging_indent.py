"""Text with a hanging indent."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text


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

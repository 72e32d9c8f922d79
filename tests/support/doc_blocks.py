"""The blocks of a documentation page: what a reader would type, and what is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("python", "sh", "toml", "text")
"""What a block may be: Python and commands are run; `text` is what programs print, and drawings."""

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        line: Where its text begins in the page.
        language: As it says itself.
        text: Its text.
        not_run: Why no test runs it, from the comment above it; None where there is none.
    """

    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def is_code(self) -> bool:
        """Whether it is run unless it says why not."""
        return self.language in ("python", "sh")


def blocks_of(page: Path) -> list[Block]:
    """Returns the blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(text.count("\n", 0, match.start("text")) + 1, match["language"], match["text"], match["reason"])
        for match in _FENCE.finditer(text)
    ]

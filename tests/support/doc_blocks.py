"""The code and output blocks of a documentation page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("python", "sh", "toml", "text")
"""Languages of blocks: Python and shell commands are run; `text` is the output of programs, or a drawing."""

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        line: Line of the page at which the text of the block begins.
        language: Language named after the opening fence.
        text: Text of the block.
        not_run: Reason why no test runs the block, from the comment above it; None without such a comment.
    """

    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def is_code(self) -> bool:
        """True if tests run the block, unless `not_run` gives a reason."""
        return self.language in ("python", "sh")


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(text.count("\n", 0, match.start("text")) + 1, match["language"], match["text"], match["reason"])
        for match in _FENCE.finditer(text)
    ]

"""Stored text on a terminal: names, reasons and values that others wrote hold no commands for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.text import Text

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tabs and newlines, and those that turn the direction of writing."""

_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Those that JSON leaves as they are."""

_PICTURES = 0x2400
_LONG = re.compile(r"\S{400,}")
_DIRECTION = "\N{REPLACEMENT CHARACTER}"


def plain_text(text: str) -> str:
    """Return a text in which a visible character stands for every control character, such as U+241B for escape.

    A terminal obeys some control characters: a study's name could move the cursor, or write what is not there.
    """
    return _COMMANDS.sub(_picture, text)


def plain_json(text: str) -> str:
    """Return JSON whose control characters are all escaped."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def truncate_long_words(text: str) -> str:
    """Return a text in which words that nobody reads to their end are cut in their middle."""
    return _LONG.sub(lambda found: f"{found[0][:150]}…{found[0][-50:]}", text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    return chr(_PICTURES + 0x21) if code == 0x7F else _DIRECTION


class PlainConsole(Console):
    """A console whose own commands are the only ones that reach the terminal: whatever it prints is `plain_text`."""

    def render(self, renderable: RenderableType, options: Any = None) -> Iterable[Segment]:
        """Render something; see `rich.console.Console.render`."""
        if isinstance(renderable, Text) and _COMMANDS.search(renderable.plain):
            renderable = renderable.copy()  # before its lines are broken: what is visible takes place
            renderable.plain = plain_text(renderable.plain)
        for segment in super().render(renderable, options):
            if segment.control or not _COMMANDS.search(segment.text):
                yield segment
            else:
                yield Segment(plain_text(segment.text), segment.style)

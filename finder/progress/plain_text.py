"""Escapes control characters in stored text, such as names and reasons, before it is printed to a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.text import Text

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tabs and newlines, and characters that change the writing direction."""

_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON does not escape."""

_PICTURES = 0x2400
_LONG = re.compile(r"\S{400,}")
_DIRECTION = "\N{REPLACEMENT CHARACTER}"


def plain_text(text: str) -> str:
    """Return a text with a visible character for every control character, such as U+241B for escape.

    Control characters in the name of a study could otherwise move the cursor of a terminal or forge output.
    """
    return _COMMANDS.sub(_picture, text)


def plain_json(text: str) -> str:
    """Return JSON with all control characters escaped."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def truncate_long_words(text: str) -> str:
    """Return a text whose very long words are shortened in the middle."""
    return _LONG.sub(lambda found: f"{found[0][:150]}…{found[0][-50:]}", text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    return chr(_PICTURES + 0x21) if code == 0x7F else _DIRECTION


class PlainConsole(Console):
    """A console that applies `plain_text` to everything it prints."""

    def render(self, renderable: RenderableType, options: Any = None) -> Iterable[Segment]:
        """Render an object; see `rich.console.Console.render`."""
        if isinstance(renderable, Text) and _COMMANDS.search(renderable.plain):
            renderable = renderable.copy()  # before lines are wrapped, because the replacements have a width
            renderable.plain = plain_text(renderable.plain)
        for segment in super().render(renderable, options):
            if segment.control or not _COMMANDS.search(segment.text):
                yield segment
            else:
                yield Segment(plain_text(segment.text), segment.style)

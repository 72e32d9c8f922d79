"""Words that fit a terminal's width: broken between parts, truncate_words between words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

DOT = " · "


def join_parts(parts: Sequence[str], width: int) -> list[str]:
    """Return the parts on as few lines as hold them, none of them broken: a part wider than the line has its own."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(f"{lines[-1]}{DOT}{part}") <= width:
            lines[-1] += f"{DOT}{part}"
        else:
            lines.append(part)
    return lines


def truncate_words(text: str, width: int, separator: str = " ") -> str:
    """Return a text that is no wider than that, of whole words, with an ellipsis where words are left out.

    Args:
        text: The text.
        width: Columns, at least one.
        separator: Where it is cut: between words, or between the items of a list if one of these fits.
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

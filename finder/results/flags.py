"""Flags of commands: their names, and the words of a command with some of them or without."""

from __future__ import annotations

from collections.abc import Sequence

OUTPUT_SWITCHES = ("--json", "--quiet", "-q")
"""Switches that say what a command prints."""

_OTHER_NAMES = {"name": "study-name", "learning_rates": "rates", "optimizers": "optimizer", "space": "param"}
"""Argument of a finder, or field of a study -> its flag, where that has another name."""


def flag_of(name: str) -> str:
    """Return the flag of an argument of a finder, or of a field of a study: `--n-trials` for `n_trials`."""
    return f"--{_OTHER_NAMES.get(name, name).replace('_', '-')}"


def without_flags(words: Sequence[str], flags: Sequence[str], *, switches: Sequence[str] = ()) -> list[str]:
    """Return the words of a command without some flags and their values, and without some switches."""
    return split_flags(words, flags, switches=switches)[0]


def split_flags(
    words: Sequence[str], flags: Sequence[str], *, switches: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the words of a command without some flags and switches, and the words of these, with their values."""
    others, own, value_follows = list[str](), list[str](), False
    for word in words:
        is_own = value_follows or word.partition("=")[0] in flags or word in switches
        value_follows = not value_follows and word in flags
        (own if is_own else others).append(word)
    return others, own

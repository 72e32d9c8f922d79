"""The errors that agents raise on purpose, and how an unknown name is told."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigurationError(ValueError):
    """Something the user asked for cannot be: the message names the value, what is allowed, and what to do."""


class NonFiniteError(FloatingPointError):
    """A reward, a loss or a network output became NaN or infinite: the run cannot go on."""


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> ConfigurationError:
    """Builds the error for a name that is not known, with the nearest known ones first.

    Args:
        kind: What was named, such as ``"optimizer"``.
        name: The name that was given.
        allowed: Every name that would have been accepted.
    """
    names = sorted(allowed)
    by_lower = {known.lower(): known for known in names}
    near = [by_lower[match] for match in difflib.get_close_matches(str(name).lower(), by_lower, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    shown = ", ".join(names[:40]) + (f", … ({len(names)} in all)" if len(names) > 40 else "")
    return ConfigurationError(f"Unknown {kind} {name!r}. {hint}Known: {shown}.")

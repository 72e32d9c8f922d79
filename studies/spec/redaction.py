"""Secrets in text: passwords of storage URLs, which belong in no message, log, report or list of processes."""

from __future__ import annotations

import re

STARS = "***"

_PASSWORD = re.compile(r"(?<=://)([^\s/:@]*:)([^\s@]+)(?=@)")
_QUERY = re.compile(r"([?&][\w.-]*(?:password|passwd|pwd|passphrase|secret|token)=)([^&\s'\"]+)", re.IGNORECASE)


def redacted(text: str) -> str:
    """Returns a text with stars in the place of the secrets of URLs in it."""
    for pattern in (_PASSWORD, _QUERY):
        text = pattern.sub(rf"\g<1>{STARS}", text)
    return text


def secrets_in(text: str) -> list[str]:
    """Returns the secrets of the URLs in a text."""
    return [found[2] for pattern in (_PASSWORD, _QUERY) for found in pattern.finditer(text) if found[2] != STARS]

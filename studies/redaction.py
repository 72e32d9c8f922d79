"""Redaction of secrets in text, such as passwords of storage URLs, from messages, logs, reports and process lists."""

from __future__ import annotations

import re

STARS = "***"

_PASSWORD = re.compile(r"(?<=://)([^\s/:@]*:)([^\s@]+)(?=@)")
_QUERY = re.compile(r"([?&][\w.-]*(?:password|passwd|pwd|passphrase|secret|token)=)([^&\s'\"]+)", re.IGNORECASE)


def redacted(text: str) -> str:
    """Return a text with stars in place of the secrets of its URLs."""
    for pattern in (_PASSWORD, _QUERY):
        text = pattern.sub(rf"\g<1>{STARS}", text)
    return text


def has_hidden(text: str) -> bool:
    """Return whether a URL in a text has stars in place of a secret."""
    return any(found[2] == STARS for pattern in (_PASSWORD, _QUERY) for found in pattern.finditer(text))


def secrets_in(text: str) -> list[str]:
    """Return the secrets of the URLs in a text."""
    return [found[2] for pattern in (_PASSWORD, _QUERY) for found in pattern.finditer(text) if found[2] != STARS]

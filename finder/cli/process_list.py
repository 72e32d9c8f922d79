"""Hides secrets of the command line in the list of processes, which all users of a machine can read."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.redaction import secrets_in

_ARG_START, _ARG_END = 47, 48
"""Indices (from 0) of the addresses of the command line in /proc/self/stat; 48 and 49 in proc(5)."""


def hide_secrets(words: Sequence[str]) -> None:
    """Overwrite the passwords of URLs in the command line of this process on Linux.

    Passwords are visible until this call. Environment variables are a safe place for passwords.
    """
    secrets = [secret.encode() for word in words for secret in secrets_in(word)]
    if not secrets or not sys.platform.startswith("linux"):
        return
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()  # the name before it may contain spaces
        start, end = int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])
        shown = Path("/proc/self/cmdline").read_bytes()
    except (OSError, IndexError, ValueError):
        return
    if not 0 < len(shown) <= end - start:
        return
    for secret in secrets:
        place = shown.find(secret)
        while place >= 0:
            ctypes.memset(start + place, ord("*"), len(secret))
            place = shown.find(secret, place + len(secret))

"""Secrets of the command line, out of the list of processes that every user of a machine can read."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.spec.redaction import secrets_in

_ARG_START, _ARG_END = 47, 48
"""Where the command line of a process lies in its memory: fields of /proc/self/stat, from 0 (proc(5) has 48 and 49)."""


def hide_secrets(words: Sequence[str]) -> None:
    """Overwrites, on Linux, the passwords of URLs in the command line of this process as others see it.

    They are there for the moment until this is called: an environment variable is the safe place for a password.
    """
    secrets = [secret.encode() for word in words for secret in secrets_in(word)]
    if not secrets or not sys.platform.startswith("linux"):
        return
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()  # the name before it may have blanks
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

"""Restricts the code that a study of other users may name to modules that the user allows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from agents.trust.allowed_modules import BY_FLAG, only_modules
from studies.study.study import OpenStudy

BY_ENVIRONMENT = "{1}={0}"


def trusted_code_only(
    study: OpenStudy, allowed: Iterable[str], how: str = BY_FLAG
) -> contextlib.AbstractContextManager[None]:
    """Return a context in which a study may name allowed modules only; no limits if the storage is not foreign.

    Args:
        study: The study.
        allowed: Modules and files that the user allows, and those that the command or call names
            (`agents.trust.allowed_modules.places_in`).
        how: How to allow another module, for errors; see `agents.trust.allowed_modules.only_modules`.
    """
    if not study.storage.foreign:
        return contextlib.nullcontext()
    return only_modules(allowed, f"the study {study.name!r}", study.storage.why_foreign, how)

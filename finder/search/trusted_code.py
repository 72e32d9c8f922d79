"""Which code a study may name: any, or where others may have written it, what the person names and allows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from agents.trust.allowed_modules import BY_FLAG, only_modules
from studies.study.study import OpenStudy

BY_ENVIRONMENT = "{1}={0}"


def trusted_code_only(
    study: OpenStudy, allowed: Iterable[str], how: str = BY_FLAG
) -> contextlib.AbstractContextManager[None]:
    """Return a block in which text of a study names what is allowed; anything where it is in a file of this user's.

    Args:
        study: The study.
        allowed: Modules and files that the person allows, and what the person's own command or call names
            (`agents.trust.allowed_modules.places_in`).
        how: How another module is allowed, for errors; see `agents.trust.allowed_modules.only_modules`.
    """
    if not study.storage.foreign:
        return contextlib.nullcontext()
    return only_modules(allowed, f"the study {study.name!r}", "others may write to its storage", how)

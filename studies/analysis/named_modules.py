"""Allow-list of the modules that a stored optimizer may name: Keras's, and those that the user allows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from studies.errors import StudyError

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

VARIABLE = "FINDER_ALLOW_MODULES"
"""Environment variable: further allowed modules, separated by commas."""


def check_modules(study: OpenStudy, config: Any, allowed: Iterable[str]) -> None:
    """Reject an optimizer from a study that other users may have written, if Keras would import other modules for it.

    Args:
        study: The study.
        config: Optimizer as Keras serializes it.
        allowed: Modules that it may name, with all their contents.

    Raises:
        StudyError: If it names another module.
    """
    if not study.storage.foreign:
        return
    several = ["keras", *allowed, *(name.strip() for name in os.environ.get(VARIABLE, "").split(","))]
    for module in _modules_in(config):
        if not any(each and (module == each or module.startswith(f"{each}.")) for each in several):
            raise StudyError(
                f"the study {study.name!r} names code in {module!r}, and {study.storage.why_foreign}. If you trust "
                f"that code, allow it: allow_modules=[{module!r}] (or {VARIABLE}={module})."
            )


def _modules_in(config: Any) -> Iterator[str]:
    if isinstance(config, dict):
        named = config.get("module")
        if named is not None:
            yield str(named)
        for each in config.values():
            yield from _modules_in(each)
    elif isinstance(config, list):
        for each in config:
            yield from _modules_in(each)

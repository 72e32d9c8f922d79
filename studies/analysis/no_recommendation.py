"""The answer of a study that has no pick."""

from __future__ import annotations

from typing import Any

from studies.errors import StudyError


class NoRecommendation:
    """What stands in the place of a `Recommendation` where there is none: it is false, and says why.

    Asking it for anything that a pick has raises the error that `studies.best` raises, so that no script can take it
    for one: ``if result.best: ...`` and ``try: result.best.value ... except StudyError: ...`` are both right.

    Args:
        study: The study's name.
        reason: Why it has no pick, a sentence.

    Attributes:
        study: The study's name.
        reason: Why it has no pick.
    """

    def __init__(self, study: str, reason: str) -> None:
        self.study = study
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"no pick: {self.reason}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle, copy and notebooks look for such, and must hear that there is none
            raise AttributeError(name)
        raise StudyError(f"the study {self.study!r} has no pick: {self.reason}")

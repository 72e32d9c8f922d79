"""Result of a study without a recommendation."""

from __future__ import annotations

from typing import Any

from studies.errors import StudyError


class NoRecommendation:
    """Placeholder for a missing `Recommendation`: it is false, and holds the reason.

    Access to any attribute of a recommendation raises the error that `studies.best` raises, so that no script can
    mistake it for one: ``if result.best: ...`` and ``try: result.best.value ... except StudyError: ...`` are both
    correct.

    Args:
        study: Name of the study.
        reason: Reason why it has no recommendation, a sentence.

    Attributes:
        study: Name of the study.
        reason: Reason why it has no recommendation.
    """

    def __init__(self, study: str, reason: str) -> None:
        self.study = study
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"no pick: {self.reason}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle, copy and notebooks probe for such names, and need an AttributeError
            raise AttributeError(name)
        raise StudyError(f"the study {self.study!r} has no pick: {self.reason}")

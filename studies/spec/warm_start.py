"""Warm start as data: finished trials of another study that inform the sampler of a study."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from studies.checked_model import CheckedModel
from studies.spaces.spaces import Json

MOST_PRIOR_TRIALS = 200
"""Limit on the trials of a warm start, which are stored with the spec of the study."""


class PriorTrial(CheckedModel):
    """Finished trial of another study, as a point of the search space of this one.

    Args:
        params: All its parameters.
        value: Its value, or the last one that it reported if it was pruned; `None`: it diverged.
        pruned_at: Environment steps at which it was pruned, from 0. Defaults to `None`: it was completed.

    Raises:
        StudyError: If a number is missing or not finite.
    """

    params: dict[str, Json]
    value: float | None
    pruned_at: Annotated[int, Field(ge=0)] | None = None


class WarmStart(CheckedModel):
    """Another study from which a study starts; made by `studies.analysis.warm_start`.

    The trials are copied, so that a sampler proposes the same when the other study grows or is deleted.

    Args:
        study: Name of the other study.
        storage: Label of its storage, without a password.
        note: Sentence on what was taken from it.
        trials: Trials that inform the sampler; none if their values cannot be compared with those of this study.
    """

    study: str
    storage: str
    note: str
    trials: Annotated[tuple[PriorTrial, ...], Field(max_length=MOST_PRIOR_TRIALS)] = ()

    @property
    def source(self) -> tuple[str, str]:
        """The other study, which identifies a warm start."""
        return self.study, self.storage

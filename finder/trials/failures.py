"""Kind of the failure of a trial, from the error that ended it."""

from __future__ import annotations

from agents.errors import NonFiniteError, cause_of
from agents.processes.hanging import HungError
from studies.spec.attributes import FailureKind


def failure_of(error: BaseException) -> FailureKind:
    """Return the kind of a failure from its error.

    Numbers that are not finite are a divergence, unless the environment or the code gave them (`agents.errors.Cause`).
    """
    if isinstance(error, HungError):
        return "hung"
    cause = cause_of(error)
    if cause == "environment":
        return "environment"
    return "diverged" if cause is None and isinstance(error, NonFiniteError) else "error"

"""Kinds of failures, from the errors that end trials."""

from __future__ import annotations

import pickle

import pytest

from agents.errors import NonFiniteError, portable, with_cause
from agents.processes.hanging import HungError
from finder.trials.failures import failure_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NonFiniteError("the loss became NaN"), "diverged"),
        (with_cause(NonFiniteError("the reward was NaN"), "environment"), "environment"),
        (with_cause(NonFiniteError("NaN at the very first gradient step"), "code"), "error"),
        (with_cause(RuntimeError("the arm fell off"), "environment"), "environment"),
        (with_cause(HungError("reset() did not return"), "environment"), "hung"),
        (FloatingPointError("underflow"), "error"),
        (MemoryError(), "error"),
    ],
)
def test_kind_of_an_error(error: Exception, kind: str) -> None:
    assert failure_of(error) == kind


def test_cause_survives_the_way_from_another_process() -> None:
    sent = pickle.loads(pickle.dumps(portable(with_cause(ValueError("bad joint"), "environment"))))
    assert failure_of(sent) == "environment"


def test_cause_survives_where_the_error_itself_cannot_be_sent() -> None:
    class LocalError(Exception):
        def __reduce__(self) -> str:
            raise TypeError("not picklable")

    sent = portable(with_cause(LocalError("bad joint"), "environment"))
    assert str(sent) == "LocalError: bad joint"
    assert failure_of(sent) == "environment"

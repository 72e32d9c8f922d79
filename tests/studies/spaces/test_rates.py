"""Tests of which parameters are learning rates."""

from __future__ import annotations

import pytest

from studies.spaces.rates import is_learning_rate


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("learning_rate", True),
        ("actor.learning_rate", True),
        ("policy_learning_rate", True),
        ("learning_rate.initial_learning_rate", False),
        ("initial_learning_rate", False),
        ("policy_initial_learning_rate", False),
        ("learning_rate.alpha", False),
        ("gamma", False),
    ],
)
def test_first_rate_of_a_schedule_is_no_learning_rate(name: str, expected: bool) -> None:
    assert is_learning_rate(name) is expected

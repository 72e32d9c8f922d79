"""Numbers among the values of hyperparameters, and their complements."""

from __future__ import annotations

from typing import Any

import pytest

from studies.spaces.numbers import complement, is_number


@pytest.mark.parametrize(
    ("value", "expected"), [(1, True), (0.5, True), (float("nan"), True), (True, False), ("1", False), (None, False)]
)
def test_bools_and_text_are_no_numbers(value: Any, expected: bool) -> None:
    assert is_number(value) is expected


def test_complement_has_no_rounding_error() -> None:
    assert complement(0.99) == 0.01
    assert complement(complement(0.9997)) == 0.9997

"""Tests of numbers of environment steps as options."""

from __future__ import annotations

import pytest

from finder.cli.options.step_numbers import parse_steps


@pytest.mark.parametrize(
    ("text", "steps"), [("1", 1), ("50000", 50_000), ("50_000", 50_000), ("5e4", 50_000), ("1.5E3", 1_500)]
)
def test_steps_are_whole_numbers(text: str, steps: int) -> None:
    assert parse_steps(text) == steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "greater than or equal to 1"),
        ("-5", "greater than or equal to 1"),
        ("-1e3", "greater than or equal to 1"),
        ("1.5", "a whole number"),
        ("many", "a whole number"),
        ("", "a whole number"),
        ("nan", "a whole number"),
        ("inf", "a whole number"),
        ("1e400", "a whole number"),
    ],
)
def test_other_numbers_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_steps(text)

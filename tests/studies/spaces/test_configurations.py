"""Tests of the configurations of finite spaces."""

from __future__ import annotations

from typing import Any

import pytest

from studies.spaces.configurations import configurations, is_finite_space, n_configurations
from studies.spaces.space_notation import parse_space
from studies.spaces.spaces import Fixed, IntRange

CONDITIONAL = {
    "optimizer": parse_space("adam,sgd"),
    "momentum": parse_space("0.0,0.9@optimizer=sgd"),
    "n_steps": IntRange(32, 96, step=32),
}


def test_conditional_parameters_exist_where_their_conditions_hold() -> None:
    found = list(configurations(CONDITIONAL))
    assert found[:3] == [{"optimizer": "adam", "n_steps": n} for n in (32, 64, 96)]
    assert len(found) == 3 + 2 * 3
    assert sum("momentum" in row for row in found) == 6


@pytest.mark.parametrize(
    ("written", "n"),
    [
        ("a,b", 2),
        ("1:5", 5),
        ({"low": 0.0, "high": 1.0, "step": 0.25}, 5),
        ("1:1000000000", 40),
        ({"low": 0.0, "high": 1.0, "step": 1e-9}, 40),
        ("0.0:1.0", 40),
        ("1e-5:1e-1:log", 40),
    ],
)
def test_configurations_are_counted_up_to_a_limit(written: Any, n: int) -> None:
    assert n_configurations({"x": parse_space(written)}, 40) == n


def test_spaces_without_a_choice_have_no_limit() -> None:
    assert n_configurations({"x": Fixed(value=3)}, 40) == n_configurations({}, 40) == 40
    assert is_finite_space({"x": Fixed(value=0.5)})
    assert not is_finite_space({**CONDITIONAL, "learning_rate": parse_space("1e-5:1e-1:log")})

"""Plans: grids of trials, and the rows of a plan that are still pending."""

from __future__ import annotations

import math

import pytest

from studies.errors import StudyError
from studies.spaces.plan import grid_rows, inferred_spaces, pending_rows, row_key
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange, Space


def test_pending_rows_keep_the_order_and_count_repeats() -> None:
    plan = [{"a": 1}, {"a": 2}, {"a": 1}, {"b": "x", "a": 1}]
    assert pending_rows(plan, []) == plan
    assert pending_rows(plan, [{"a": 1}]) == plan[1:]
    assert pending_rows(plan, [{"a": 1, "b": "x"}, {"a": 9}]) == plan[:3]
    assert pending_rows(plan, plan) == []


def test_row_key_distinguishes_floats_to_the_last_digit() -> None:
    assert row_key({"x": 0.1 + 0.2}) != row_key({"x": 0.3})
    assert row_key({"x": 1e-3, "y": 1}) == row_key({"y": 1, "x": 0.001})


def test_grid_has_every_combination_once_in_a_seeded_order() -> None:
    spaces = {"a": Choice(("x", "y")), "b": IntRange(1, 5, step=2), "c": Fixed(7), "d": FloatRange(0.0, 0.3, step=0.1)}
    rows = grid_rows(spaces, {}, seed=0)
    assert len(rows) == 2 * 3 * 1 * 4
    assert len({row_key(row) for row in rows}) == len(rows)
    assert {row["d"] for row in rows} == {0.0, 0.1, 0.2, 0.3}
    assert rows == grid_rows(spaces, {}, seed=0)
    assert rows != grid_rows(spaces, {}, seed=1)


def test_grid_points_of_ranges_are_evenly_spaced() -> None:
    log = sorted(row["x"] for row in grid_rows({"x": FloatRange(1e-4, 1e-2, log=True)}, {"points": 3}, 0))
    assert log[0] == 1e-4
    assert math.isclose(log[1], 1e-3)
    assert log[2] == 1e-2
    linear = sorted(row["x"] for row in grid_rows({"x": FloatRange(0.0, 1.0)}, {"points": 5}, 0))
    assert linear == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_invalid_grids_raise() -> None:
    with pytest.raises(StudyError, match="not a grid"):
        grid_rows({"x": FloatRange(0.0, 1.0)}, {}, 0)
    with pytest.raises(StudyError, match="'points'"):
        grid_rows({"x": Choice((1,))}, {"pionts": 3}, 0)
    with pytest.raises(StudyError, match="1000000 points"):
        grid_rows({"x": IntRange(1, 1000), "y": IntRange(1, 1000)}, {}, 0)


@pytest.mark.parametrize("space", [IntRange(1, 10**15), FloatRange(0.0, 1e15, step=1.0), FloatRange(0.0, 1.0)])
def test_grid_too_large_for_memory_raises(space: Space) -> None:
    with pytest.raises(StudyError, match=r"has \d{16} points"):
        grid_rows({"x": space}, {"points": 10**15}, 0)


def test_integers_beyond_the_float_range_become_a_choice() -> None:
    assert inferred_spaces([{"x": 1}, {"x": 10**400}], {}) == {"x": Choice((1, 10**400))}


def test_equal_planned_values_are_one() -> None:
    """Numbers are equal whatever their type, also in lists; text is not equal to a number."""
    values = [[64, 64], "1", [64.0, 64.0], {"a": [1]}, "1", {"a": [True]}, None]
    spaces = inferred_spaces([{"x": value} for value in values], {})
    assert spaces == {"x": Choice(([64, 64], "1", {"a": [1]}, None))}
    assert inferred_spaces([{"x": 2}, {"x": 2.0}], {}) == {"x": Fixed(2)}
    assert inferred_spaces([{"x": True}, {"x": 1}], {}) == {"x": Choice((True,))}
    with pytest.raises(StudyError, match="cannot be stored"):
        inferred_spaces([{"x": {1}}, {"x": {1}}], {})


def test_planned_values_are_not_compared_in_pairs() -> None:
    class Counted(float):
        n_compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.n_compared += 1
            return super().__eq__(other)

        __hash__ = float.__hash__

    spaces = inferred_spaces([{"x": Counted(1.0 + n)} for n in range(50)], {})
    assert spaces == {"x": FloatRange(1.0, 50.0, log=True)}
    assert Counted.n_compared < 50

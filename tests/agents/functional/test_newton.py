"""Tests of the minimisation of convex functions: quadratic functions, rounding errors, flat directions, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.functional.newton import Point, minimum

Array = np.ndarray[Any, Any]


def quadratic(matrix: Array, wanted: Array, level: float = 0.0) -> Any:
    """Return 1/2 (x - wanted) A (x - wanted) + level as a function around each point."""

    def function(x: Array) -> Point:
        gradient = matrix @ (x - wanted)
        return Point(x, level + 0.5 * float((x - wanted) @ gradient), gradient, lambda p: matrix @ p)

    return function


def exponentials(x: Array) -> Point:
    """Return a sum of exp(x) - x and its second derivative; steps of Newton's method go too far where x is negative."""
    return Point(x, float(np.sum(np.exp(x) - x)), np.exp(x) - 1.0, lambda p: np.exp(x) * p)


def test_minimum_of_a_quadratic_function():
    wanted = np.array([0.3, -0.2, 0.1])
    found = minimum(quadratic(np.diag([1.0, 10.0, 100.0]), wanted), np.zeros(3), tolerance=1e-10, max_steps=20)
    assert found.converged
    np.testing.assert_allclose(found.point.x, wanted, atol=1e-10)


def test_a_minimum_far_away_is_reached_as_the_radius_doubles():
    found = minimum(quadratic(np.eye(1), np.array([1000.0])), np.zeros(1), tolerance=1e-9, max_steps=12)
    assert found.converged
    assert found.point.x == pytest.approx([1000.0])
    assert not minimum(quadratic(np.eye(1), np.array([1000.0])), np.zeros(1), tolerance=1e-9, max_steps=8).converged


@pytest.mark.parametrize("start", [-30.0, -3.0, 5.0])
def test_steps_that_go_too_far_are_not_made(start: float):
    found = minimum(exponentials, np.array([start, 0.5 * start]), tolerance=1e-12, max_steps=200)
    assert found.converged
    np.testing.assert_allclose(found.point.x, 0.0, atol=1e-12)


def test_directions_that_change_nothing_stay_at_the_start():
    flat = quadratic(np.diag([1.0, 0.0]), np.array([2.0, 9.0]))
    found = minimum(flat, np.array([0.0, 5.0]), tolerance=1e-10, max_steps=20)
    assert found.converged
    np.testing.assert_allclose(found.point.x, [2.0, 5.0], atol=1e-10)


def test_where_nothing_curves_steps_go_to_the_border():
    def huber(x: Array) -> Point:
        inside = np.abs(x) <= 1.0
        value = np.where(inside, 0.5 * x**2, np.abs(x) - 0.5).sum()
        return Point(x, float(value), np.clip(x, -1.0, 1.0), lambda p: inside * p)

    found = minimum(huber, np.array([50.0, -20.0]), tolerance=1e-12, max_steps=20)
    assert found.converged
    np.testing.assert_allclose(found.point.x, 0.0, atol=1e-12)


def test_gradients_judge_where_values_drown_in_rounding_errors():
    # The value is 1e8 and its rounding error 1e-8; reductions near the minimum are far below.
    found = minimum(
        quadratic(np.diag([1.0, 3.0]), np.array([0.1, 0.2]), 1e8), np.zeros(2), tolerance=1e-12, max_steps=20
    )
    assert found.converged
    np.testing.assert_allclose(found.point.x, [0.1, 0.2], rtol=1e-11)


def test_values_that_are_not_finite_are_left():
    def function(x: Array) -> Point:  # -log(x) + x, NaN below 0
        with np.errstate(invalid="ignore", divide="ignore"):
            return Point(x, float(np.sum(x - np.log(x))), 1.0 - 1.0 / x, lambda p: p / x**2)

    found = minimum(function, np.array([3.0]), tolerance=1e-12, max_steps=50)
    assert found.converged
    assert found.point.x == pytest.approx([1.0])


def test_a_start_at_the_minimum_takes_no_step():
    found = minimum(exponentials, np.zeros(2), tolerance=1e-12, max_steps=5)
    assert (found.n_steps, found.converged) == (0, True)


def test_the_number_of_steps_is_limited():
    found = minimum(exponentials, np.array([-30.0]), tolerance=1e-12, max_steps=3)
    assert (found.n_steps, found.converged) == (3, False)
    assert found.point.value < exponentials(np.array([-30.0])).value

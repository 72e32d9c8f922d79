"""Tests of the uniform sample of all steps so far."""

from __future__ import annotations

import numpy as np
import pytest

from agents.algorithms.imitation.reservoir import Reservoir


def numbered(first: int, last: int) -> dict[str, np.ndarray]:
    """Return rows whose two columns are their numbers."""
    numbers = np.arange(first, last)
    return {"one": numbers, "two": np.stack([numbers, numbers], axis=1).astype(np.float32)}


def rows_of(reservoir: Reservoir) -> list[int]:
    rows = reservoir.get_state()["rows"]
    np.testing.assert_array_equal(rows["two"], np.stack([rows["one"]] * 2, axis=1))
    return rows["one"].tolist()


def test_all_rows_are_kept_until_it_is_full():
    reservoir, rng = Reservoir(10), np.random.default_rng(0)
    assert len(reservoir) == 0
    reservoir.add(numbered(0, 4), rng)
    reservoir.add(numbered(4, 9), rng)
    assert (rows_of(reservoir), len(reservoir)) == (list(range(9)), 9)
    reservoir.add(numbered(9, 30), rng)
    assert len(reservoir) == len(set(rows_of(reservoir))) == 10
    drawn = reservoir.draw(200, rng)
    assert {*drawn["one"].tolist()} == {*rows_of(reservoir)}
    np.testing.assert_array_equal(drawn["two"][:, 0], drawn["one"])


def test_every_row_is_kept_with_the_same_probability():
    """Each of 60 rows, added in parts of unequal size, is among 12 in a fifth of 3,000 trials: 600 times, σ = 22."""
    counts, rng = np.zeros(60), np.random.default_rng(1)
    for _ in range(3_000):
        reservoir = Reservoir(12)
        for first, last in ((0, 5), (5, 30), (30, 31), (31, 60)):
            reservoir.add(numbered(first, last), rng)
        counts[rows_of(reservoir)] += 1
    assert np.abs(counts - 600.0).max() < 4.5 * 22.0


@pytest.mark.parametrize(("capacity", "kept", "n_added"), [(4, 4, 100), (20, 8, 8)])
def test_state_of_another_capacity_has_rows_that_were_added_only(capacity: int, kept: int, n_added: int):
    one, other = Reservoir(8), Reservoir(capacity)
    one.add(numbered(1, 101), np.random.default_rng(0))
    other.set_state(one.get_state())
    assert (len(other), other.n_added) == (kept, n_added)
    assert set(other.draw(200, np.random.default_rng(1))["one"].tolist()) <= set(
        one.get_state()["rows"]["one"].tolist()
    )


def test_state_continues_exactly():
    one, other = Reservoir(8), Reservoir(8)
    one.add(numbered(0, 5), np.random.default_rng(2))
    state = one.get_state()
    one.add(numbered(5, 50), np.random.default_rng(3))
    other.set_state(state)
    other.add(numbered(5, 50), np.random.default_rng(3))
    assert rows_of(one) == rows_of(other)
    assert state["rows"]["one"].tolist() == list(range(5)), "a state does not change"

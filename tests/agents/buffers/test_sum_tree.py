"""Tests of the sum tree against sums worked out by hand and a plain cumulative sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.buffers.sum_tree import SumTree


def tree_of(*values, n_leaves=None):
    """Return one tree per row of values."""
    tree = SumTree(n_leaves or len(values[0]), len(values))
    leaves = np.tile(np.arange(len(values[0])), (len(values), 1))
    tree.set(leaves, np.array(values, np.float64))
    return tree


def test_prefix_sums_find_their_leaves():
    tree = tree_of([3, 0, 1, 2, 0])
    assert tree.totals.tolist() == [6]
    prefixes = [0, 2.999, 3, 3.999, 4, 5.999]
    assert tree.find(np.array([prefixes])).tolist() == [[0, 0, 2, 2, 3, 3]]
    assert tree.get(np.array([[3, 1, 0]])).tolist() == [[2, 0, 3]]


@pytest.mark.parametrize("beyond", [6, np.nextafter(6, 7), 100])
def test_prefix_beyond_total_finds_last_nonzero_leaf(beyond):
    assert tree_of([3, 0, 1, 2, 0]).find(np.array([[beyond]])).item() == 3


def test_trees_are_independent():
    tree = tree_of([1, 1, 0], [0, 2, 8])
    assert tree.totals.tolist() == [2, 10]
    assert tree.find(np.array([[0.5, 1.5], [0.5, 9.5]])).tolist() == [[0, 1], [1, 2]]
    tree.set(np.array([[2], [0]]), np.array([[5.0], [1.0]]))
    assert tree.leaves.tolist() == [[1, 1, 5], [1, 2, 8]]
    tree.select([1])
    assert tree.totals.tolist() == [11]
    assert tree.find(np.array([[0.5]])).item() == 0


def test_repeated_leaf_gets_last_value():
    tree = SumTree(100)
    tree.set(np.array([[40, 41, 40]]), np.array([[5.0, 1.0, 2.0]]))
    assert tree.totals.tolist() == [3]


def test_tree_of_one_leaf_finds_it():
    tree = tree_of([0.25])
    assert tree.totals.tolist() == [0.25]
    assert tree.find(np.array([[0.0, 0.2]])).tolist() == [[0, 0]]


def test_loaded_leaves_replace_all_others():
    tree = tree_of(range(300))
    tree.load(np.array([[1.0, 2.0]]))
    assert tree.totals.tolist() == [3]
    assert tree.leaves.sum() == 3
    assert tree.find(np.array([[1.5]])).item() == 1


@settings(max_examples=100, deadline=None)
@given(
    n_leaves=st.sampled_from([1, 2, 15, 16, 17, 255, 256, 257, 600]),
    n_trees=st.integers(1, 3),
    rounds=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)
def test_sum_tree_equals_cumulative_sum(n_leaves, n_trees, rounds, seed):
    rng, tree = np.random.default_rng(seed), SumTree(n_leaves, n_trees)
    naive = np.zeros((n_trees, n_leaves))
    for _ in range(rounds):
        leaves = rng.integers(0, n_leaves, (n_trees, 20))
        values = rng.integers(0, 5, (n_trees, 20)).astype(np.float64)  # sums of whole numbers are exact
        tree.set(leaves, values)
        for p, i in np.ndindex(leaves.shape):
            naive[p, leaves[p, i]] = values[p, i]
        np.testing.assert_array_equal(tree.leaves, naive)
        np.testing.assert_array_equal(tree.totals, naive.sum(axis=1))
        if not naive.sum(axis=1).all():
            continue
        prefixes = rng.random((n_trees, 50)) * tree.totals[:, None]
        prefixes[:, :5] = np.floor(prefixes[:, :5])  # some prefixes are exactly on the edges
        expected = [np.searchsorted(row.cumsum(), own, side="right") for row, own in zip(naive, prefixes, strict=True)]
        np.testing.assert_array_equal(tree.find(prefixes), expected)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([1, 8, 15]))
def test_rounding_never_finds_zero_leaf(seed, spread):
    rng, tree = np.random.default_rng(seed), SumTree(1000)
    values = 10.0 ** rng.uniform(-spread, spread, (1, 1000)) * (rng.random((1, 1000)) < 0.1)
    values[0, rng.integers(1000)] = 1.0
    tree.set(np.arange(1000)[None], values)
    edges = np.concatenate([values.cumsum(axis=1), [[0.0]]], axis=1)
    prefixes = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)], axis=1)
    assert (tree.get(tree.find(prefixes)) > 0).all()


def test_leaves_are_found_in_proportion_to_their_values():
    tree = tree_of(np.arange(50), n_leaves=64)
    found = tree.find(np.random.default_rng(0).random((1, 100_000)) * tree.totals[:, None])
    np.testing.assert_allclose(np.bincount(found[0], minlength=50) / 100_000, np.arange(50) / 1225, atol=0.003)

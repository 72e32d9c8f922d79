"""Numbers whose prefix sums are searched quickly: what prioritised replay draws from (Schaul et al. 2015).

The paper's tree has two children a node. Here there are sixteen: in NumPy a level costs some microseconds however few
numbers are in it, so that few levels of wide nodes are several times faster than many of narrow ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from agents.buffers.buffer import Array

_CHILDREN = 16


class SumTree:
    """Non-negative numbers, the leaves of a tree in whose nodes the sums stand of what is below them.

    There may be several trees of equal size: every method works on all of them at once. A node is summed up anew when
    something below it changes, so no rounding error grows with time.

    Args:
        n_leaves: Leaves of each tree, >= 1; they begin as 0.
        n_trees: How many trees there are, >= 1. Defaults to 1.
    """

    def __init__(self, n_leaves: int, n_trees: int = 1) -> None:
        widths = [n_leaves]
        while widths[-1] > 1:
            widths.append(-(-widths[-1] // _CHILDREN))
        # All but the root are stored in whole groups of children.
        stored = [-(-width // _CHILDREN) * _CHILDREN for width in widths[:-1]]
        self._n_leaves = n_leaves
        self._hold([np.zeros((n_trees, width)) for width in (*stored, 1)])

    def _hold(self, levels: list[Array]) -> None:
        """Take levels [P, width] from the leaves to the root, and what finds its way in them."""
        self._levels = levels
        self._flat = [level.reshape(-1) for level in levels]
        self._groups = [level.reshape(-1, _CHILDREN) for level in levels[:-1]]
        trees = np.arange(len(levels[0]))[:, None]
        self._starts = [trees * level.shape[1] for level in levels]  # [P, 1] where each tree begins
        self._group_starts = [starts // _CHILDREN for starts in self._starts]

    @property
    def leaves(self) -> Array:
        """[P, n_leaves], a view."""
        return self._levels[0][:, : self._n_leaves]

    @property
    def totals(self) -> Array:
        """[P] sum of each tree."""
        return self._levels[-1][:, 0]

    @property
    def n_bytes(self) -> int:
        """Memory that it takes, in bytes."""
        return sum(level.nbytes for level in self._levels)

    def get(self, leaves: Array) -> Array:
        """Return the values [P, n] of some leaves, [P, n]."""
        values: Array = self._flat[0].take(leaves + self._starts[0])
        return values

    def set(self, leaves: Array, values: Array) -> None:
        """Set leaves [P, n] to values [P, n]. Of a leaf that is there several times, the last value counts."""
        at = leaves
        self._flat[0][at + self._starts[0]] = values
        for height, groups in enumerate(self._groups):
            at = at // _CHILDREN
            children = groups.take(at + self._group_starts[height], axis=0)  # [P, n, children]
            self._flat[height + 1][at + self._starts[height + 1]] = np.add.reduce(children, axis=-1)

    def find(self, prefixes: Array) -> Array:
        """Return the leaves [P, n] in which sums of all leaves up to them first exceed `prefixes` [P, n].

        A prefix that is not below the total counts as one just below it. A leaf that is 0 is never found, unless all
        are.
        """
        rest = prefixes
        at = np.zeros(prefixes.shape, np.int64)
        firsts = np.arange(prefixes.size).reshape(prefixes.shape) * _CHILDREN
        for height in range(len(self._groups) - 1, -1, -1):
            children = self._groups[height].take(at + self._group_starts[height], axis=0)  # [P, n, children]
            sums = children.cumsum(axis=-1)
            # Sums one after the other and sums of groups differ in their last digits.
            rest = np.minimum(rest, np.nextafter(sums[..., -1], -1.0))
            child = (sums > rest[..., None]).argmax(axis=-1)
            chosen = firsts + child
            rest = np.maximum(rest - (sums.take(chosen) - children.take(chosen)), 0.0)
            at = at * _CHILDREN + child
        return at

    def load(self, leaves: Array) -> None:
        """Take the values of the first leaves, [P, n]; the others are 0."""
        self._levels[0][:] = 0.0
        self._levels[0][:, : leaves.shape[1]] = leaves
        for below, above in itertools.pairwise(self._levels):
            sums = np.add.reduce(below.reshape(len(below), -1, _CHILDREN), axis=-1)
            above[:, : sums.shape[1]] = sums

    def select(self, positions: Sequence[int]) -> None:
        """Goes on with these trees only, in this order."""
        self._hold([level.take(positions, axis=0) for level in self._levels])

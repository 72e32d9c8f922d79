"""Sum trees, from which prioritised replay draws (Schaul et al. 2015): numbers with fast search in prefix sums.

The paper's tree has two children per node. Here a node has sixteen: in NumPy a level costs some microseconds however
few numbers it has, so few levels of wide nodes are several times faster than many levels of narrow nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from agents.buffers.buffer import Array

_CHILDREN = 16


class SumTree:
    """Trees of non-negative leaves, in which every node holds the sum of its children.

    Every method works on all trees, which are of equal size. A node is recomputed when a leaf below it changes, so
    rounding errors do not accumulate.

    Args:
        n_leaves: Number of leaves per tree, >= 1; initially 0.
        n_trees: Number of trees, >= 1. Defaults to 1.
    """

    def __init__(self, n_leaves: int, n_trees: int = 1) -> None:
        widths = [n_leaves]
        while widths[-1] > 1:
            widths.append(-(-widths[-1] // _CHILDREN))
        # All levels but the root are padded to whole groups of children.
        stored = [-(-width // _CHILDREN) * _CHILDREN for width in widths[:-1]]
        self._n_leaves = n_leaves
        self._hold([np.zeros((n_trees, width)) for width in (*stored, 1)])

    def _hold(self, levels: list[Array]) -> None:
        """Store levels [P, width] from the leaves to the root, and their index arrays."""
        self._levels = levels
        self._flat = [level.reshape(-1) for level in levels]
        self._groups = [level.reshape(-1, _CHILDREN) for level in levels[:-1]]
        trees = np.arange(len(levels[0]))[:, None]
        self._starts = [trees * level.shape[1] for level in levels]  # [P, 1] first position of each tree
        self._group_starts = [starts // _CHILDREN for starts in self._starts]

    @property
    def leaves(self) -> Array:
        """Values of the leaves, [P, n_leaves], a view."""
        return self._levels[0][:, : self._n_leaves]

    @property
    def totals(self) -> Array:
        """Sum of each tree, [P]."""
        return self._levels[-1][:, 0]

    @property
    def n_bytes(self) -> int:
        """Size in bytes."""
        return sum(level.nbytes for level in self._levels)

    def get(self, leaves: Array) -> Array:
        """Return the values [P, n] of the leaves at positions [P, n]."""
        values: Array = self._flat[0].take(leaves + self._starts[0])
        return values

    def set(self, leaves: Array, values: Array) -> None:
        """Set leaves [P, n] to values [P, n]. For a leaf that is listed several times, the last value counts."""
        at = leaves
        self._flat[0][at + self._starts[0]] = values
        for height, groups in enumerate(self._groups):
            at = at // _CHILDREN
            children = groups.take(at + self._group_starts[height], axis=0)  # [P, n, children]
            self._flat[height + 1][at + self._starts[height + 1]] = np.add.reduce(children, axis=-1)

    def find(self, prefixes: Array) -> Array:
        """Return the leaves [P, n] in which sums of all leaves up to them first exceed `prefixes` [P, n].

        A prefix that is not below the total counts as one just below it. A leaf of 0 is never found, unless all leaves
        are 0.
        """
        rest = prefixes
        at = np.zeros(prefixes.shape, np.int64)
        firsts = np.arange(prefixes.size).reshape(prefixes.shape) * _CHILDREN
        for height in range(len(self._groups) - 1, -1, -1):
            children = self._groups[height].take(at + self._group_starts[height], axis=0)  # [P, n, children]
            sums = children.cumsum(axis=-1)
            # Cumulative sums and sums of groups differ in their last digits.
            rest = np.minimum(rest, np.nextafter(sums[..., -1], -1.0))
            child = (sums > rest[..., None]).argmax(axis=-1)
            chosen = firsts + child
            rest = np.maximum(rest - (sums.take(chosen) - children.take(chosen)), 0.0)
            at = at * _CHILDREN + child
        return at

    def load(self, leaves: Array) -> None:
        """Set the first leaves to values, [P, n], and the others to 0."""
        self._levels[0][:] = 0.0
        self._levels[0][:, : leaves.shape[1]] = leaves
        for below, above in itertools.pairwise(self._levels):
            sums = np.add.reduce(below.reshape(len(below), -1, _CHILDREN), axis=-1)
            above[:, : sums.shape[1]] = sums

    def select(self, positions: Sequence[int]) -> None:
        """Keep only these trees, in this order."""
        self._hold([level.take(positions, axis=0) for level in self._levels])

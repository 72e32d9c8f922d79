"""Categorical distributions of returns (Bellemare et al. 2017, arXiv 1707.06887, C51).

For each action the network returns the probabilities of `n_atoms` returns, equally spaced between `v_min` and `v_max`.
The target is the distribution of the successor, discounted, shifted by the rewards and projected onto these atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.networks.action_values import ActionValues, Array, Learned, Number
from agents.networks.builders import Atoms, gather_actions

_TINY = 1e-30
_MARGIN = 1e-3
"""Share of the support by which returns must exceed it to count as outside, against rounding errors."""


def project(returns: Any, probabilities: Any, v_min: Any, v_max: Any, n_atoms: int) -> Any:
    """Project probabilities of returns onto atoms: each is split between its two neighbours, linearly by distance.

    Args:
        returns: [B, M]; clipped to `v_min` and `v_max`.
        probabilities: [B, M] probability of each return.
        v_min: The first atom.
        v_max: The last atom.
        n_atoms: Number of atoms, >= 2.

    Returns:
        [B, n_atoms] probabilities of the atoms.
    """
    positions = ops.clip((returns - v_min) / (v_max - v_min) * (n_atoms - 1), 0.0, n_atoms - 1.0)  # [B, M]
    below = ops.floor(positions)
    above = positions - below  # [B, M] share of the upper neighbour
    # One more, empty atom is above the last. Sums over indices of row and atom: without a matrix of all returns and
    # atoms, this takes a tenth of the time.
    n_rows, width = ops.shape(positions)[0], n_atoms + 1
    cells = ops.cast(below, "int32") + width * ops.expand_dims(ops.arange(n_rows, dtype="int32"), 1)  # [B, M]
    shares = ops.concatenate([probabilities * (1.0 - above), probabilities * above], axis=1)
    places = ops.concatenate([cells, cells + 1], axis=1)  # [B, 2 M]
    sums = ops.segment_sum(ops.reshape(shares, (-1,)), ops.reshape(places, (-1,)), n_rows * width)
    return ops.reshape(sums, (-1, width))[:, :n_atoms]


class CategoricalValues(ActionValues):
    """Probabilities of returns, as logits [B, A, n_atoms]. Reads the mutable hyperparameters `v_min` and `v_max`.

    A row's loss is the cross entropy from its target. The row's priority is the Kullback-Leibler divergence, which is
    the loss without the target's entropy, as in Rainbow (Hessel et al. 2017, arXiv 1710.02298).

    Args:
        n_atoms: Number of atoms, >= 2.
    """

    def __init__(self, n_atoms: int) -> None:
        self.n_outputs = n_atoms
        self._steps = np.linspace(0.0, 1.0, n_atoms, dtype=np.float32)  # from v_min to v_max

    def layers(self) -> Sequence[keras.layers.Layer]:
        return [Atoms(self.n_outputs)]

    def expected(self, outputs: Array, number: Number) -> Array:
        weights = np.exp(outputs - outputs.max(axis=-1, keepdims=True))  # [N, A, Z]
        means = (weights @ self._steps) / weights.sum(axis=-1)  # [N, A] in [0, 1]
        v_min, v_max = number("v_min"), number("v_max")
        values: Array = (v_min + (v_max - v_min) * means.T).T  # hyperparameters of a population are [N]
        return values

    def values(self, outputs: Any, number: Number) -> Any:
        v_min, v_max = number("v_min"), number("v_max")
        return v_min + (v_max - v_min) * self._shares(outputs)

    def of_best(self, outputs: Any, chooser: Any) -> Any:
        return gather_actions(outputs, ops.argmax(self._shares(chooser), axis=1))

    def _shares(self, outputs: Any) -> Any:
        """Return the expected values [B, A] as shares of the support, 0 for `v_min` and 1 for `v_max`."""
        return ops.sum(ops.softmax(outputs) * self._steps, axis=2)

    def learn(self, outputs: Any, successors: Any, rewards: Any, discounts: Any, number: Number) -> Learned:
        v_min, v_max = number("v_min"), number("v_max")
        atoms = v_min + (v_max - v_min) * self._steps  # [Z]
        returns = ops.expand_dims(rewards, 1) + ops.expand_dims(discounts, 1) * atoms  # [B, Z]
        following = ops.softmax(successors)  # [B, Z]
        targets = ops.stop_gradient(project(returns, following, v_min, v_max, self.n_outputs))  # [B, Z]
        log_probabilities = ops.log_softmax(outputs)  # [B, Z]
        losses = -ops.sum(targets * log_probabilities, axis=1)
        entropies = -ops.sum(targets * ops.log(ops.maximum(targets, _TINY)), axis=1)
        values = ops.sum(ops.exp(log_probabilities) * atoms, axis=1)
        errors = ops.abs(ops.sum(targets * atoms, axis=1) - values)
        margin = _MARGIN * (v_max - v_min)
        beyond = ops.cast((returns < v_min - margin) | (returns > v_max + margin), "float32")
        metrics = {"beyond_support": ops.mean(ops.sum(following * beyond, axis=1))}
        return Learned(losses, ops.maximum(losses - entropies, 0.0), values, errors, metrics)

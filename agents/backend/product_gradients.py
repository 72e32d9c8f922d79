"""Gradients of matrix products in forms for which XLA has fast code on processors.

XLA 2.21 computes products as fast as the processor allows, except where a transposed matrix is on the left, and where a
matrix has few columns. The gradients of dense layers are such products: those of the two outputs of SAC's policy
take as long as the ones of a hidden layer of 256 units. The forms below give the same numbers up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from agents.backend.custom_gradients import gradient_table
from agents.backend.tensorflow import tf

NARROW = 32
"""Largest number of inputs or outputs of a narrow layer."""

_FEW = 3
"""Largest number of outputs for which a sum of outer products is faster than a matrix product."""

_MANY_ROWS = 128
"""Rows from which transposing inputs costs more than computing them a second time."""

_RECOMPUTED = 16
"""Largest number of inputs of a layer whose outputs are computed a second time."""

_PRODUCT = "MatMul"
_ACTIVATIONS = {"Relu": tf.nn.relu, "Tanh": tf.tanh}


@contextmanager
def fast_product_gradients() -> Generator[None]:
    """Compute gradients of matrix products in these forms. Use only while tracing for XLA."""
    entry = gradient_table()[_PRODUCT]
    ordinary: Callable[..., Any] = entry["type"]

    def gradient(op: Any, upstream: Any) -> Any:
        inputs, weights = op.inputs
        if op.get_attr("transpose_a") or op.get_attr("transpose_b") or None in weights.shape:
            return ordinary(op, upstream)
        n_inputs, n_outputs = weights.shape
        if n_outputs <= min(n_inputs, NARROW):
            of_inputs, of_weights = _of_few_outputs(inputs, weights, upstream)
        else:
            of_inputs, of_weights = _of_many_outputs(inputs, weights, upstream)
        skipped = getattr(op, "skip_input_indices", None) or ()
        return None if 0 in skipped else of_inputs(), None if 1 in skipped else of_weights()

    entry["type"] = gradient
    try:
        yield
    finally:
        entry["type"] = ordinary


Gradients = tuple[Callable[[], Any], Callable[[], Any]]
"""The gradients of inputs [B, F] and of weights [F, N], each computed when it is called."""


def _of_few_outputs(inputs: Any, weights: Any, upstream: Any) -> Gradients:
    n_outputs = weights.shape[1]
    rows = _transposed(upstream)  # [N + 1, B]

    def of_inputs() -> Any:
        if n_outputs > _FEW:
            return tf.matmul(upstream, weights, transpose_b=True)
        own = _transposed(weights)  # [N + 1, F]
        return tf.add_n([rows[n, :, None] * own[n] for n in range(n_outputs)])

    return of_inputs, lambda: tf.transpose(tf.matmul(rows, inputs)[:n_outputs])


def _of_many_outputs(inputs: Any, weights: Any, upstream: Any) -> Gradients:
    n_inputs = weights.shape[0]

    def of_weights() -> Any:
        if n_inputs <= NARROW:
            columns = tf.pad(tf.transpose(inputs), [[0, 1], [0, 0]])  # [F + 1, B]; see `_transposed`
            return tf.matmul(columns, upstream)[:n_inputs]
        again = _computed_transposed(inputs)
        if again is None:
            return tf.matmul(inputs, upstream, transpose_a=True)
        return tf.matmul(again, upstream)

    return lambda: tf.matmul(upstream, weights, transpose_b=True), of_weights


def _transposed(narrow: Any) -> Any:
    """Return a narrow matrix [B, N] transposed and followed by a row of zeros, [N + 1, B].

    It is a product with ones and zeros, which XLA computes once and stores. It would compute elementwise operations
    again wherever they are used, and make a transposition part of the next product. The row of zeros keeps it from
    transposing that product, which is as slow.
    """
    n = narrow.shape[1]
    size = max(n, 2)  # with a single number in each row it would be elementwise again
    padded = tf.pad(narrow, [[0, 0], [0, size - n]])
    return tf.matmul(tf.eye(n + 1, size, dtype=narrow.dtype), padded, transpose_b=True)


def _computed_transposed(outputs: Any) -> Any | None:
    """Return the outputs [B, F] of a dense layer transposed, [F, B], from its inputs; None if that is slower."""
    activation = _ACTIVATIONS.get(outputs.op.type)
    if activation is None or (outputs.shape[0] or 0) < _MANY_ROWS:
        return None
    shifted = outputs.op.inputs[0].op
    if shifted.type not in ("BiasAdd", "AddV2") or shifted.inputs[0].op.type != _PRODUCT:
        return None
    product, bias = shifted.inputs[0].op, shifted.inputs[1]
    inputs, weights = product.inputs
    if product.get_attr("transpose_a") or product.get_attr("transpose_b") or bias.shape.rank != 1:
        return None
    n_inputs = inputs.shape[1]
    if n_inputs is None or n_inputs > _RECOMPUTED:
        return None
    rows = _transposed(inputs)  # [N + 1, B]
    return activation(tf.add_n([weights[n, :, None] * rows[n] for n in range(n_inputs)]) + bias[:, None])

"""Networks with memory: a gated recurrent unit between the hidden layers and the last one.

A network takes rows [features, memory] and returns rows [outputs, new memory]. The collector keeps the memory of each
environment, zero at the beginning of an episode, and buffers store it with the observations, so that a sequence may
begin anywhere: the stored states of R2D2 (Kapturowski et al. 2019, "Recurrent experience replay in distributed
reinforcement learning").
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.backend.tensorflow import keras, ops
from agents.errors import ConfigurationError
from agents.networks.inference import numpy_function

Array = np.ndarray[Any, Any]
Sequences = Callable[[Any, Any, Any], tuple[Any, Any]]


@keras.saving.register_keras_serializable("agents")
class GatedUnit(keras.layers.Layer):
    """Gated recurrent unit (Cho et al. 2014, arXiv 1406.1078), with the reset gate after the product as in cuDNN.

    Args:
        units: Length of the memory, H.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the kernels [F, 3 H] and [H, 3 H], and a bias for each: update gate, reset gate, candidate."""
        size = 3 * self.units
        self.kernel = self.add_weight(shape=(input_shape[-1], size), initializer="glorot_uniform", name="kernel")
        self.recurrent = self.add_weight(shape=(self.units, size), initializer="orthogonal", name="recurrent")
        self.bias = self.add_weight(shape=(size,), initializer="zeros", name="bias")
        self.recurrent_bias = self.add_weight(shape=(size,), initializer="zeros", name="recurrent_bias")

    def affine(self, x: Any, kernel: Any, bias: Any) -> Any:
        """Return x @ kernel + bias."""
        return ops.matmul(x, kernel) + bias

    def numpy_affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        """Compute the same in NumPy, with any leading axes."""
        result: Array = x @ kernel + bias
        return result

    def projected(self, features: Any) -> Any:
        """Return the part of the gates that depends on features [..., F] only, [..., 3 H]."""
        return self.affine(features, self.kernel, self.bias)

    def following(self, projected: Any, memory: Any) -> Any:
        """Return the new memory [B, H] from `projected` [B, 3 H] and the memory [B, H]."""
        recurrent = self.affine(memory, self.recurrent, self.recurrent_bias)
        update, reset, candidate = ops.split(projected, 3, axis=-1)
        own_update, own_reset, own_candidate = ops.split(recurrent, 3, axis=-1)
        kept = ops.sigmoid(update + own_update)
        proposed = ops.tanh(candidate + ops.sigmoid(reset + own_reset) * own_candidate)
        return kept * memory + (1.0 - kept) * proposed

    def call(self, features: Any, memory: Any) -> Any:
        """Return the new memory [B, H] from features [B, F] and the memory [B, H]."""
        return self.following(self.projected(features), memory)

    def numpy_step(self, features: Array, memory: Array, weights: Sequence[Array]) -> Array:
        """Compute the same in NumPy, with any leading axes."""
        kernel, recurrent, bias, recurrent_bias = weights
        update, reset, candidate = np.split(self.numpy_affine(features, kernel, bias), 3, axis=-1)
        from_memory = self.numpy_affine(memory, recurrent, recurrent_bias)
        own_update, own_reset, own_candidate = np.split(from_memory, 3, axis=-1)
        kept = _sigmoid(update + own_update)
        proposed = np.tanh(candidate + _sigmoid(reset + own_reset) * own_candidate)
        result: Array = kept * memory + (1.0 - kept) * proposed
        return result

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "units": self.units}


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


@keras.saving.register_keras_serializable("agents")
class Recurrent(keras.layers.Layer):
    """Hidden layers, a gated recurrent unit and last layers as one layer of [features, memory].

    Rows may have further axes before the features, such as that of agents, if all layers take them.

    Args:
        body: Layers before the memory, from [B, F].
        unit: The memory, of length H.
        head: Layers after it, to [B, outputs].
    """

    def __init__(
        self, body: Sequence[keras.layers.Layer], unit: GatedUnit, head: Sequence[keras.layers.Layer], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.unit, self.units = unit, unit.units
        self._body, self._head = list(body), list(head)
        self.parts = [*self._body, *self._head]  # whose NumPy functions acting needs

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Build all layers."""
        *rows, width = input_shape
        shape = _built(self._body, (*rows, width - self.units))
        if not self.unit.built:
            self.unit.build(shape)
        _built(self._head, (*rows, self.units))

    def call(self, rows: Any) -> Any:
        """Map [B, F + H] to [B, outputs + H]: one step."""
        features, memory = rows[..., : -self.units], rows[..., -self.units :]
        following = self.unit(_through(self._body, features), memory)
        return ops.concatenate([_through(self._head, following), following], axis=-1)

    def sequence(self, features: Any, memory: Any, begins: Any) -> tuple[Any, Any]:
        """Return outputs [B, L, outputs] and memories after each step [B, L, H] of sequences of L steps.

        Args:
            features: [B, L, F].
            memory: [B, H] before the first step.
            begins: [B, L] whether an episode begins with a step: its memory before it is zero.
        """
        _, length, *row = features.shape
        hidden = self.unit.projected(_through(self._body, ops.reshape(features, (-1, *row))))  # [B * L, 3 H]
        hidden = ops.reshape(hidden, (-1, length, *hidden.shape[1:]))
        keeps = ops.reshape(1.0 - ops.cast(begins, "float32"), (-1, length, *(1 for _ in row)))  # [B, L, 1]
        memories = []
        for t in range(length):
            memory = self.unit.following(hidden[:, t], memory * keeps[:, t])
            memories.append(memory)
        stacked = ops.stack(memories, axis=1)  # [B, L, H]
        outputs = _through(self._head, ops.reshape(stacked, (-1, *stacked.shape[2:])))
        return ops.reshape(outputs, (-1, length, *outputs.shape[1:])), stacked

    def values_and_successors(self, batch: dict[str, Any], burn_in: int) -> tuple[Any, Any]:
        """Return the outputs for all steps of sequences after the burn-in, and for their successors: [B * L, outputs].

        A successor is seen with the memory after the step that led to it.

        Args:
            batch: ``observations`` and ``next_observations`` [B, T, F], ``memory`` [B, H] before the first step, and
                ``begins`` [B, T].
            burn_in: First steps, which only bring the memory up to date: T - L.
        """
        features = batch["observations"]
        outputs, memories = after_burn_in(self.sequence, features, batch["memory"], batch["begins"], burn_in)
        successors = ops.reshape(batch["next_observations"][:, burn_in:], (-1, features.shape[2]))
        after = ops.reshape(memories, (-1, self.units))
        following = _through(self._head, self.unit(_through(self._body, successors), after))
        return ops.reshape(outputs, (-1, outputs.shape[2])), following

    def numpy_call(self, rows: Array, weights: list[Array]) -> Array:
        """Compute `call` in NumPy, for acting: [..., F + H] -> [..., outputs + H]."""
        given = iter(weights)
        own = [next(given) for _ in self.unit.weights]
        x, memory = rows[..., : -self.units], rows[..., -self.units :]
        functions = iter(self._numpy_functions)
        for _ in self._body:
            x = _numpy_step(next(functions), x, given)
        following = self.unit.numpy_step(x, memory, own)
        x = following
        for _ in self._head:
            x = _numpy_step(next(functions), x, given)
        return np.concatenate([x, following], axis=-1)

    @functools.cached_property
    def _numpy_functions(self) -> list[tuple[Callable[..., Array], int]]:
        return [(numpy_function(layer), len(layer.weights)) for layer in self.parts]

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        body, head = (
            [keras.saving.serialize_keras_object(layer) for layer in part] for part in (self._body, self._head)
        )
        return {
            **super().get_config(),
            "body": body,
            "unit": keras.saving.serialize_keras_object(self.unit),
            "head": head,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Recurrent:
        """Return the layer of a saved configuration."""
        made = keras.saving.deserialize_keras_object
        parts = {name: [made(layer) for layer in config[name]] for name in ("body", "head")}
        return cls(**{**config, **parts, "unit": made(config["unit"])})


def _built(layers: Sequence[keras.layers.Layer], shape: Any) -> Any:
    """Build layers one after the other (those of a saved configuration are built already); return the last shape."""
    for layer in layers:
        if not layer.built:
            layer.build(shape)
        shape = layer.compute_output_shape(shape)
    return shape


def _through(layers: Sequence[keras.layers.Layer], x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x


def _numpy_step(function: tuple[Callable[..., Array], int], x: Array, weights: Any) -> Array:
    compute, n_weights = function
    return compute(x, [next(weights) for _ in range(n_weights)])


def recurrent_network(
    n_features: int,
    body: Sequence[keras.layers.Layer],
    units: int,
    head: Sequence[keras.layers.Layer],
    *,
    name: str | None = None,
) -> keras.Sequential:
    """Return a network with memory, of rows [B, F + H] to [B, outputs + H]; `recurrent_of` returns its layer."""
    return keras.Sequential([keras.Input((n_features + units,)), Recurrent(body, GatedUnit(units), head)], name=name)


def recurrent_of(network: keras.Model) -> Recurrent:
    """Return the recurrent layer of a network with memory."""
    return next(layer for layer in network.layers if isinstance(layer, Recurrent))


def after_burn_in(run: Sequences, features: Any, memory: Any, begins: Any, burn_in: int) -> tuple[Any, Any]:
    """Return outputs and memories of sequences [B, T, ...] after their first steps, [B, L, ...] each.

    Args:
        run: Function of features, memory and beginnings, as `Recurrent.sequence`.
        features: [B, T, ...].
        memory: Memory before the first step, [B, ...].
        begins: [B, T].
        burn_in: First steps, which only bring the memory up to date, without gradients: T - L.
    """
    if burn_in:
        _, memories = run(features[:, :burn_in], memory, begins[:, :burn_in])
        memory = ops.stop_gradient(memories[:, -1])
    return run(features[:, burn_in:], memory, begins[:, burn_in:])


def require_vectors(space: spaces.Box, label: str) -> None:
    """Raise `ConfigurationError` where a network with memory would get anything but vectors as observations."""
    if len(space.shape) != 1:
        raise ConfigurationError(
            f"gru_units needs vectors as observations, and {label!r} has the shape {list(space.shape)}: flatten them "
            f"(--wrapper FlattenObservation), or leave gru_units out."
        )


def split_memory(data: dict[str, Array], size: int) -> dict[str, Array]:
    """Return sequences from a replay whose observations [M, T, F + H] end with memories, split from these.

    ``memory`` [M, H] is that before the first step; it is zero where an episode begins there.
    """
    seen, following = data["observations"], data["next_observations"]
    parts = {"observations": seen[..., :-size], "next_observations": following[..., :-size]}
    return {**data, **parts, "memory": seen[:, 0, -size:]}


def steps_after(batch: dict[str, Any], burn_in: int) -> dict[str, Any]:
    """Return the columns of sequences [B, T, ...] after their burn-in as [B * L, ...]."""
    return {
        name: ops.reshape(column[:, burn_in:], (-1, *column.shape[2:]))
        for name, column in batch.items()
        if name != "memory"
    }

"""Fast forward passes for acting.

A call into TensorFlow costs 0.2 to 0.4 ms whatever it computes; a small dense network is 20 times faster in
NumPy. A network of dense layers therefore acts through a NumPy mirror of its weights, and every other network
through one compiled call. Both return the same numbers up to rounding (`tests/agents/networks/test_inference.py`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from agents.errors import NonFiniteError

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


ACTIVATIONS: dict[str, Function] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
    "elu": _elu,
    "silu": lambda x: x * _sigmoid(x),
}
"""Activations that the mirror supports, by Keras name."""


class Forward(Protocol):
    """Interface of forward passes whose weights can be refreshed."""

    def __call__(self, observations: Array, noise: Array | None = None) -> Array:
        """Map [N, ...] to [N, outputs]; a noisy network may get its noise [N, n_noise]."""

    def refresh(self) -> None:
        """Update the forward pass after a change of weights."""


class NumpyMirror:
    """Forward pass of a `keras.Sequential` of dense layers, noisy or not, in NumPy on a copy of its weights.

    With the weights of P members, the mirror maps [P, N, ...] to [P, N, outputs].
    """

    def __init__(self, network: Any) -> None:
        self._layers = [layer for layer in network.layers if type(layer).__name__ != "InputLayer"]
        self._functions = [numpy_function(layer) for layer in self._layers]
        self._n_noise = [noise_of(layer) for layer in self._layers]
        self._shapes = [[tuple(weight.shape) for weight in layer.weights] for layer in self._layers]
        self._weights: list[list[Array]] | None = None

    @staticmethod
    def can_mirror(network: Any) -> bool:
        """Return whether the mirror supports every layer of the network."""
        if type(network).__name__ not in ("Sequential", "NoisyNetwork") or not network.built:
            return False
        return all(_known(layer) for layer in network.layers)

    def refresh(self) -> None:
        self._weights = None

    def load(self, flat: Array) -> Array:
        """Load new weights from the front of a flat vector of all variables; return the rest of the vector."""
        self._weights = []
        for shapes in self._shapes:
            weights = []
            for shape in shapes:
                size = math.prod(shape)
                weights.append(flat[:size].reshape(shape))
                flat = flat[size:]
            self._weights.append(weights)
        return flat

    def load_members(self, arrays: Iterable[Array]) -> None:
        """Load the weights of P members, [P, ...] each, in the order of the network's weights."""
        given = iter(arrays)
        # Vectors of several members become [P, 1, size], so that they broadcast to every row.
        self._weights = [
            [array[:, None] if len(shape) == 1 else array for shape, array in zip(shapes, given, strict=False)]
            for shapes in self._shapes
        ]

    def of(self, position: int) -> NumpyMirror:
        """Return the mirror of one member, which maps [N, ...]."""
        mirror = copy.copy(self)
        loaded = self._loaded()
        mirror._weights = [
            [weight[position].reshape(shape) for weight, shape in zip(weights, shapes, strict=True)]
            for weights, shapes in zip(loaded, self._shapes, strict=True)
        ]
        return mirror

    def __call__(self, observations: Array, noise: Array | None = None) -> Array:
        x, shares = observations, split_noise(noise, self._n_noise)
        for function, weights, own in zip(self._functions, self._loaded(), shares, strict=True):
            x = function(x, weights) if own is None else function(x, weights, own)
        return x

    def _loaded(self) -> list[list[Array]]:
        if self._weights is None:
            self._weights = [[np.array(weight.numpy()) for weight in layer.weights] for layer in self._layers]
        return self._weights


def split_noise(noise: Any, sizes: Iterable[int]) -> Iterator[Any]:
    """Yield the parts of noise [..., sum of sizes] for each layer, None for layers without noise."""
    for size in sizes:
        if noise is None or not size:
            yield None
        else:
            yield noise[..., :size]
            noise = noise[..., size:]


def numpy_function(layer: Any) -> Callable[..., Array]:
    """Return the NumPy function of a layer: of its input [..., F], its weights, and a noisy layer's noise."""
    kind = type(layer).__name__
    if hasattr(layer, "numpy_call"):
        function: Callable[..., Array] = layer.numpy_call
        return function
    if kind == "Flatten":
        n_axes = len(layer.input.shape) - 1
        return lambda x, weights: x.reshape(*x.shape[: x.ndim - n_axes], -1)
    activation = ACTIVATIONS[layer.activation.__name__]
    if kind == "Activation":
        return lambda x, weights: activation(x)
    if layer.use_bias:
        return lambda x, weights: activation(x @ weights[0] + weights[1])
    return lambda x, weights: activation(x @ weights[0])


def noise_of(layer: Any) -> int:
    """Return the numbers of noise per row of a layer, 0 for ordinary layers."""
    size: int = getattr(layer, "n_noise", 0)
    return size


def _known(layer: Any) -> bool:
    if hasattr(layer, "numpy_call"):
        return all(_known(part) for part in getattr(layer, "parts", ()))
    kind = type(layer).__name__
    if not type(layer).__module__.startswith("keras."):
        return False  # a user's layer may also be called Dense
    if kind == "Dense":
        return layer.quantization_mode is None and not layer.lora_enabled and _is_keras_activation(layer.activation)
    if kind == "Activation":
        return _is_keras_activation(layer.activation)
    return kind in {"Flatten", "InputLayer"}


def _is_keras_activation(function: Any) -> bool:
    """Return whether a function is Keras's own activation of that name, and not a user's."""
    from agents.backend.tensorflow import keras

    name = getattr(function, "__name__", "")
    return name in ACTIVATIONS and function is keras.activations.get(name)


def non_finite(name: str, observations: Array) -> NonFiniteError:
    """Return the error for outputs of the network `name` that are NaN or infinite."""
    seen = np.asarray(observations)
    cause = "its learning rate is probably too high" if np.isfinite(seen).all() else "so did its observations"
    return NonFiniteError(f"The outputs of the network {name!r} became NaN or infinite: {cause}.")


class CompiledForward:
    """Forward pass of any Keras network as one compiled call."""

    def __init__(self, network: Any) -> None:
        from agents.backend.custom_gradients import owned_gradients
        from agents.backend.tensorflow import tf

        def run(x: Any, noise: Any) -> Any:
            with owned_gradients():
                return evaluate_network(network, x, noise)

        self._call = tf.function(run, reduce_retracing=True, autograph=False)

    def refresh(self) -> None:
        """Do nothing: the compiled call reads the variables themselves."""

    def __call__(self, observations: Array, noise: Array | None = None) -> Array:
        result: Array = self._call(observations, noise).numpy()
        return result


def evaluate_network(network: Any, observations: Any, noise: Any = None) -> Any:
    """Return the outputs of a Keras network in inference mode; `noise` is for noisy networks."""
    return network(observations, training=False, **({} if noise is None else {"noise": noise}))


def make_forward(network: Any) -> Forward:
    """Return the fastest forward pass that returns the network's own numbers."""
    return NumpyMirror(network) if NumpyMirror.can_mirror(network) else CompiledForward(network)


def is_dense(networks: Sequence[Any]) -> bool:
    """Return whether all networks consist of dense layers and layers that combine their inputs."""
    return all(
        _known(layer) or getattr(layer, "is_dense", False) or type(layer).__name__ == "Concatenate"
        for each in networks
        for layer in each.layers
    )

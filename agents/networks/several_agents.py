"""Networks of several agents: [B, A, F] -> [B, A, outputs], with one set of weights for all agents or one for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras, ops
from agents.networks.builders import checked_sizes
from agents.networks.memory import GatedUnit, Recurrent, recurrent_of

Array = np.ndarray[Any, Any]


def agents_network(
    n_agents: int,
    n_features: int,
    hidden_sizes: Sequence[int],
    outputs: int,
    *,
    activation: str,
    shared: bool,
    output_scale: float | None = None,
    head: Sequence[keras.layers.Layer] = (),
    memory: int = 0,
    name: str | None = None,
) -> keras.Sequential:
    """Return a network from the features of all agents to the outputs of each.

    Args:
        n_agents: Number of agents, A.
        n_features: Features per agent, F.
        hidden_sizes: Units of the hidden layers.
        outputs: Outputs per agent.
        activation: Keras activation of the hidden layers.
        shared: Whether all agents share their weights; each then also sees its own number, one-hot.
        output_scale: Gain of an orthogonal initialisation of the last layer (and sqrt(2) before it); None for Keras's
            default initialisation.
        head: Layers after the last one, of [B, A, outputs].
        memory: Units of a gated recurrent unit before the last layer, H: rows are then [B, A, F + H], and outputs
            [B, A, outputs + H] end with the new memory (`agents.networks.memory`).
        name: Name of the network.

    Raises:
        ConfigurationError: A layer without units, or an unknown activation.
    """
    sizes = checked_sizes(hidden_sizes, activation)
    gains = [None if output_scale is None else math.sqrt(2.0)] * len(sizes) + [output_scale]
    activations = [activation] * len(sizes) + ["linear"]
    hidden: list[keras.layers.Layer] = []
    last: keras.layers.Layer
    if shared:
        *hidden, last = [
            keras.layers.Dense(units, activation=own, kernel_initializer=_initializer(gain))
            for units, own, gain in zip([*sizes, outputs], activations, gains, strict=True)
        ]
    else:
        for units, gain in zip(sizes, gains, strict=False):
            hidden += [AgentDense(units, gain), keras.layers.Activation(activation)]
        last = AgentDense(outputs, output_scale)
    if memory:
        unit = GatedUnit(memory) if shared else AgentGatedUnit(memory)
        through, head = [Recurrent(hidden, unit, [last, *head])], ()
    else:
        through = [*hidden, last]
    if shared:
        through = [AgentNumbers(), MergeAgents(), *through, SplitAgents(n_agents)]
    return keras.Sequential([keras.Input((n_agents, n_features + memory)), *through, *head], name=name)


def agents_sequence(network: keras.Sequential, features: Any, memory: Any, begins: Any) -> tuple[Any, Any]:
    """Return the outputs [B, L, A, outputs] and memories [B, L, A, H] of a network of agents with memory.

    Args:
        network: Made by `agents_network`.
        features: [B, L, A, F].
        memory: [B, A, H] before the first step.
        begins: [B, L] whether an episode begins with a step.
    """
    layer = recurrent_of(network)
    if isinstance(layer.unit, AgentGatedUnit):
        return layer.sequence(features, memory, begins)
    _, length, n_agents, n_features = features.shape
    rows = AgentNumbers()(ops.reshape(features, (-1, n_agents, n_features)))  # [B * L, A, A + F]
    rows = ops.transpose(ops.reshape(rows, (-1, length, n_agents, n_agents + n_features)), (0, 2, 1, 3))
    outputs, memories = layer.sequence(
        ops.reshape(rows, (-1, length, n_agents + n_features)),  # [B * A, L, A + F]
        ops.reshape(memory, (-1, layer.units)),
        ops.repeat(begins, n_agents, axis=0),
    )

    def by_step(values: Any) -> Any:
        split = ops.reshape(values, (-1, n_agents, length, values.shape[2]))
        return ops.transpose(split, (0, 2, 1, 3))

    return by_step(outputs), by_step(memories)


def _initializer(gain: float | None) -> Any:
    return "glorot_uniform" if gain is None else keras.initializers.Orthogonal(gain)


@keras.saving.register_keras_serializable("agents")
class AgentNumbers(keras.layers.Layer):
    """Layer that puts each agent's number before its features, one-hot."""

    def call(self, features: Any) -> Any:
        """Map [B, A, F] to [B, A, A + F]."""
        n_agents = features.shape[1]
        zeros = ops.zeros_like(features[:, :, :1])  # [B, A, 1]
        return ops.concatenate([zeros + ops.eye(n_agents, dtype=features.dtype), features], axis=2)

    def numpy_call(self, features: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy: [..., A, F] -> [..., A, A + F]."""
        n_agents = features.shape[-2]
        numbers = np.broadcast_to(np.eye(n_agents, dtype=np.float32), (*features.shape[:-1], n_agents))
        return np.concatenate([numbers, features], axis=-1)


@keras.saving.register_keras_serializable("agents")
class MergeAgents(keras.layers.Layer):
    """Layer that makes the agents of a row rows of their own."""

    def call(self, features: Any) -> Any:
        """Map [B, A, F] to [B * A, F]."""
        return ops.reshape(features, (-1, features.shape[2]))

    def numpy_call(self, features: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy: [..., B, A, F] -> [..., B * A, F]."""
        return features.reshape(*features.shape[:-3], -1, features.shape[-1])


@keras.saving.register_keras_serializable("agents")
class SplitAgents(keras.layers.Layer):
    """Layer that undoes `MergeAgents`."""

    def __init__(self, n_agents: int, **kwargs: Any) -> None:
        """Args: n_agents: number of agents, A."""
        super().__init__(**kwargs)
        self.n_agents = n_agents

    def call(self, outputs: Any) -> Any:
        """Map [B * A, O] to [B, A, O]."""
        return ops.reshape(outputs, (-1, self.n_agents, outputs.shape[1]))

    def numpy_call(self, outputs: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy: [..., B * A, O] -> [..., B, A, O]."""
        return outputs.reshape(*outputs.shape[:-2], -1, self.n_agents, outputs.shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "n_agents": self.n_agents}


@keras.saving.register_keras_serializable("agents")
class AgentDense(keras.layers.Layer):
    """Dense layer with separate weights for each agent, initialised as those of separate layers."""

    def __init__(self, units: int, gain: float | None = None, **kwargs: Any) -> None:
        """Args: units: outputs per agent; gain: of an orthogonal initialisation, None for Glorot's."""
        super().__init__(**kwargs)
        self.units, self.gain = units, gain

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create kernels [A, F, units] and biases [A, units]."""
        _, n_agents, n_features = input_shape

        kernels = _of_each_agent(lambda: keras.initializers.get(_initializer(self.gain)))
        self.kernel = self.add_weight(shape=(n_agents, n_features, self.units), initializer=kernels, name="kernel")
        self.bias = self.add_weight(shape=(n_agents, self.units), initializer="zeros", name="bias")

    def call(self, features: Any) -> Any:
        """Map [B, A, F] to [B, A, units]."""
        return _affine(features, self.kernel, self.bias)

    def compute_output_shape(self, input_shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the shape of the outputs."""
        return (*input_shape[:-1], self.units)

    def numpy_call(self, features: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy: [..., B, A, F] -> [..., B, A, units]."""
        return _numpy_affine(features, *weights)

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "units": self.units, "gain": self.gain}


@keras.saving.register_keras_serializable("agents")
class AgentGatedUnit(GatedUnit):
    """Gated recurrent unit with separate weights for each agent: of features [B, A, F] and memories [B, A, H]."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the kernels [A, F, 3 H] and [A, H, 3 H], and a bias [A, 3 H] for each."""
        _, n_agents, n_features = input_shape
        size = 3 * self.units
        kernels, recurrent = map(_of_each_agent, (keras.initializers.GlorotUniform, keras.initializers.Orthogonal))
        self.kernel = self.add_weight(shape=(n_agents, n_features, size), initializer=kernels, name="kernel")
        self.recurrent = self.add_weight(shape=(n_agents, self.units, size), initializer=recurrent, name="recurrent")
        self.bias = self.add_weight(shape=(n_agents, size), initializer="zeros", name="bias")
        self.recurrent_bias = self.add_weight(shape=(n_agents, size), initializer="zeros", name="recurrent_bias")

    def affine(self, x: Any, kernel: Any, bias: Any) -> Any:
        return _affine(x, kernel, bias)

    def numpy_affine(self, x: Array, kernel: Array, bias: Array) -> Array:
        return _numpy_affine(x, kernel, bias)


def _of_each_agent(make: Callable[[], Any]) -> Callable[..., Any]:
    """Return an initializer of kernels [A, F, units] that draws one for each agent."""

    def kernels(shape: Any, dtype: Any = None) -> Any:
        return ops.stack([make()(shape[1:], dtype=dtype) for _ in range(shape[0])])

    return kernels


def _affine(x: Any, kernel: Any, bias: Any) -> Any:
    """Return each agent's product with its own weights: [B, A, F] -> [B, A, units]."""
    by_agent = ops.matmul(ops.transpose(x, (1, 0, 2)), kernel)  # [A, B, units]
    return ops.transpose(by_agent, (1, 0, 2)) + bias


def _numpy_affine(x: Array, kernel: Array, bias: Array) -> Array:
    """Compute the same in NumPy: [..., B, A, F] -> [..., B, A, units]."""
    by_agent = np.swapaxes(x, -2, -3) @ kernel + bias[..., None, :]  # [..., A, B, units]
    return np.swapaxes(by_agent, -2, -3)


@keras.saving.register_keras_serializable("agents")
class LogDeviations(keras.layers.Layer):
    """Layer that appends learned logarithms of standard deviations to the means of Gaussian policies."""

    def __init__(self, shared: bool, initial: float = 0.0, **kwargs: Any) -> None:
        """Args: shared: whether all agents have the same; initial: their first value."""
        super().__init__(**kwargs)
        self.shared, self.initial = shared, initial

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the logarithms, [A or 1, D]."""
        shape = (1 if self.shared else input_shape[1], input_shape[-1])
        self.log_std = self.add_weight(shape=shape, initializer=keras.initializers.Constant(self.initial))

    def call(self, means: Any) -> Any:
        """Map [B, A, D] to [B, A, 2 D], or rows [B * A, D] of agents that have the same."""
        return ops.concatenate([means, ops.zeros_like(means) + self.log_std], axis=-1)

    def compute_output_shape(self, input_shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the shape of the outputs."""
        return (*input_shape[:-1], 2 * input_shape[-1])

    def numpy_call(self, means: Array, weights: list[Array]) -> Array:
        """Compute the same in NumPy, with any leading axes."""
        known = weights[0] if weights[0].ndim == means.ndim else weights[0][..., None, :, :]
        return np.concatenate([means, np.broadcast_to(known, means.shape)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "shared": self.shared, "initial": self.initial}


@keras.saving.register_keras_serializable("agents")
class MonotonicMixer(keras.layers.Layer):
    """QMIX's mixing network: a joint value that no agent's value can lower, with weights from the state.

    Rashid et al. 2018, arXiv 1803.11485, section 4: hypernetworks give the absolute values of both layers' weights, a
    linear first bias, and a last bias from a network of one hidden layer. Unlike there:

    - The joint value begins as about the sum of the agents' values, as VDN's does; with Keras's usual weights it begins
      as ten times that, and differences between actions are overestimated accordingly.
    - Hypernetworks see states of bounded length (`_normalized`). The joint value grows with the square of the length
      that they see, and targets then diverge where states have no bounds: on simple_spread, values of +13 after
      120,000 steps where all rewards are negative, and agents that fly away.
    """

    is_dense = True

    def __init__(self, units: int = 32, **kwargs: Any) -> None:
        """Args: units: width of the mixing network."""
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shapes: Any) -> None:
        """Create the hypernetworks."""
        (_, n_agents), (_, n_state) = input_shapes
        self.n_agents = n_agents

        def dense(units: int, bias: float = 0.0) -> keras.layers.Layer:
            small = keras.initializers.VarianceScaling(0.01)
            return keras.layers.Dense(
                units, kernel_initializer=small, bias_initializer=keras.initializers.Constant(bias)
            )

        share = self.units**-0.5  # units * share**2 is 1: a sum
        self._hypernets = {
            "first": dense(n_agents * self.units, share),
            "bias": dense(self.units),
            "last": dense(self.units, share),
            "hidden": keras.layers.Dense(self.units, activation="relu"),
            "value": dense(1),
        }
        for name, layer in self._hypernets.items():
            layer.build((None, self.units if name == "value" else n_state))

    def call(self, inputs: Any) -> Any:
        """Map the agents' values [B, A] and the state [B, S] to [B, 1]."""
        values, state = inputs[0], _normalized(inputs[1])
        nets = self._hypernets
        first = ops.reshape(ops.abs(nets["first"](state)), (-1, self.n_agents, self.units))  # [B, A, U]
        hidden = ops.sum(values[:, :, None] * first, axis=1) + nets["bias"](state)  # [B, U]
        hidden = ops.elu(hidden)
        last = ops.abs(nets["last"](state))  # [B, U]
        return ops.sum(hidden * last, axis=1, keepdims=True) + nets["value"](nets["hidden"](state))

    def get_config(self) -> dict[str, Any]:
        """Return the configuration for saving."""
        return {**super().get_config(), "units": self.units}


def _normalized(state: Any) -> Any:
    """Map states [B, S] into a ball of radius sqrt(S + 1), one to one: x / sqrt((1 + |x|^2) / (S + 1))."""
    squares = ops.sum(ops.square(state), axis=1, keepdims=True)
    return state * ops.rsqrt((1.0 + squares) / (state.shape[1] + 1))


def mixer_network(n_agents: int, n_state: int, units: int, *, name: str | None = None) -> keras.Model:
    """Return QMIX's mixing network as a model of ``[values [B, A], state [B, S]]`` -> [B, 1]."""
    values, state = keras.Input((n_agents,)), keras.Input((n_state,))
    return keras.Model([values, state], MonotonicMixer(units)([values, state]), name=name)

"""Forward passes of a population: every row through the network of its member."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agents.backend.custom_gradients import owned_gradients
from agents.backend.tensorflow import keras, tf
from agents.errors import MembersFailedError
from agents.networks.inference import Forward, NumpyMirror, evaluate_network, non_finite
from agents.population.stacks import Stacks

Array = np.ndarray[Any, Any]


class MemberInference:
    """Forward passes through the networks of all members.

    Dense networks run in NumPy on the weights of all members at once, other networks through one compiled call.

    Args:
        networks: The networks of the template agent.
        stacks: The members' values of its variables.
    """

    def __init__(self, networks: Mapping[str, keras.Model], stacks: Stacks) -> None:
        self.n_members = 0
        self.networks = networks
        self._mirrors = {n: NumpyMirror(network) for n, network in networks.items() if NumpyMirror.can_mirror(network)}
        others = [name for name in networks if name not in self._mirrors]
        self._compiled = {name: _compile(networks[name], stacks) for name in others}
        self.watched = [variable for name in self._mirrors for variable in networks[name].weights]
        """Variables whose values `load` takes, in that order."""

    def load(self, values: Sequence[Array], n_members: int) -> None:
        """Load new weights of all members, [P, ...] each."""
        self.n_members = n_members
        given = iter(values)
        for name, mirror in self._mirrors.items():
            mirror.load_members([next(given) for _ in self.networks[name].weights])

    def __call__(self, name: str, observations: Array, noise: Array | None = None) -> Array:
        """Pass each member's rows [P, M, ...], with optional noise, through its own network; return [P, M, outputs]."""
        if name in self._mirrors:
            return self._mirrors[name](observations, noise)
        outputs: Array = self._compiled[name](tf.constant(0), observations, noise).numpy()
        return outputs

    def of_one(self, name: str, position: int) -> Forward:
        """Return the forward pass of one member, [M, ...] -> [M, outputs]."""
        if name in self._mirrors:
            return self._mirrors[name].of(position)
        return OneMember(self._compiled[name], position)


class OneMember:
    """The forward pass of one member through a compiled call."""

    def __init__(self, compiled: Callable[..., Any], position: int) -> None:
        self._compiled = compiled
        self._position = tf.constant(position)

    def refresh(self) -> None:
        """Do nothing: the compiled call reads the stacks directly."""

    def __call__(self, observations: Array, noise: Array | None = None) -> Array:
        own = None if noise is None else noise[None]
        result: Array = self._compiled(self._position, observations[None], own).numpy()[0]
        return result


class AllMembers:
    """The forward pass of the rows of all members: P * N, member after member, possibly repeated.

    Raises:
        MembersFailedError: The networks of some members returned NaN or infinity.
    """

    def __init__(self, inference: MemberInference, name: str, n_envs: int) -> None:
        self._inference = inference
        self._name = name
        self._n_envs = n_envs

    def refresh(self) -> None:
        """Do nothing: the population loads new weights."""

    def __call__(self, observations: Array, noise: Array | None = None) -> Array:
        n_members = self._inference.n_members
        by_member = self._by_member(observations)
        outputs = self._inference(self._name, by_member, None if noise is None else self._by_member(noise))
        if not outputs.max(initial=-np.inf) < np.inf:
            bad = [i for i in range(n_members) if not outputs[i].max() < np.inf]
            raise MembersFailedError({i: non_finite(self._name, by_member[i]) for i in bad})
        shaped = outputs.reshape(n_members, -1, self._n_envs, *outputs.shape[2:])
        return np.moveaxis(shaped, 0, 1).reshape(len(observations), *outputs.shape[2:])

    def _by_member(self, rows: Array) -> Array:
        """Reshape [T * P * N, ...] to [P, T * N, ...]."""
        n_members, shape = self._inference.n_members, rows.shape[1:]
        split = rows.reshape(-1, n_members, self._n_envs, *shape)  # [T, P, N, ...]
        return np.moveaxis(split, 1, 0).reshape(n_members, -1, *shape)


def _compile(network: Any, stacks: Stacks) -> Any:
    """Return a compiled call for observations [P, M, ...] and noise of the members from `first` on."""

    def run(first: Any, observations: Any, noise: Any) -> Any:
        def one(i: Any) -> Any:
            mapped = [(variable, stacks.value(variable, first + i)) for variable in network.weights]
            with keras.StatelessScope(state_mapping=mapped):
                return evaluate_network(network, observations[i], None if noise is None else noise[i])

        with owned_gradients():
            return tf.map_fn(one, tf.range(tf.shape(observations)[0]), fn_output_signature=network.compute_dtype)

    return tf.function(run, reduce_retracing=True, autograph=False)

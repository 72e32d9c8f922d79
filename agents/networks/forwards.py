"""Forward passes of an agent's networks, and the weights that acting in other processes needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.backend.variables import values_of
from agents.networks.by_name import network_of
from agents.networks.inference import Forward, NumpyMirror, make_forward, non_finite

Array = np.ndarray[Any, Any]


class Forwards:
    """Fastest exact forward pass of each network, created on first use.

    Args:
        networks: The networks by name.
        following: Names of the networks that are never used for acting: target networks.
    """

    def __init__(self, networks: Mapping[str, Any], following: Sequence[str] = ()) -> None:
        self._networks = networks
        self._acting = [name for name in networks if name not in following]
        self._forwards: dict[str, Forward] = {}
        self._watched: list[str] = []

    def __setitem__(self, name: str, forward: Forward) -> None:
        """Replace the forward pass of a network."""
        self._forwards[name] = forward

    def __call__(self, name: str, observations: Array, noise: Array | None = None) -> Array:
        """Map [N, ...] to [N, outputs] in NumPy; a noisy network may get its noise [N, n_noise].

        Raises:
            ConfigurationError: There is no network of this name.
            NonFiniteError: An output is NaN or infinite.
        """
        forward = self._forwards.get(name)
        if forward is None:
            forward = self._forwards[name] = make_forward(network_of(self._networks, name))
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            outputs = forward(observations, noise)
        # A network may forbid actions by -inf; NaN compares false with everything.
        if not outputs.max(initial=-np.inf) < np.inf:
            raise non_finite(name, observations)
        return outputs

    def watched(self) -> list[Any]:
        """Return the variables whose new values `refresh` needs after an update, in that order."""
        self._watched = [name for name, forward in self._forwards.items() if isinstance(forward, NumpyMirror)]
        return [variable for name in self._watched for variable in self._networks[name].weights]

    def refresh(self, watched: Array | None = None) -> None:
        """Update the forward passes after a change of weights.

        Args:
            watched: Values of the variables of `watched` as one flat vector, None if unknown.
        """
        for name, forward in self._forwards.items():
            if watched is not None and name in self._watched and isinstance(forward, NumpyMirror):
                watched = forward.load(watched)
            else:
                forward.refresh()

    def get_state(self) -> list[Array]:
        """Return the values of all variables that acting needs."""
        return [value for name in self._acting for value in values_of(self._networks[name].variables)]

    def set_state(self, state: Sequence[Array]) -> None:
        """Set the variables to the values of `get_state`."""
        values = iter(state)
        for name in self._acting:
            variables = self._networks[name].variables
            own = [next(values) for _ in variables]
            for variable, value in zip(variables, own, strict=True):
                variable.value.assign(value, read_value=False)  # a third of the time of Keras's `assign`
            forward = self._forwards.get(name)
            if isinstance(forward, NumpyMirror):
                forward.load(np.concatenate([value.ravel() for value in own]))
            elif forward is not None:
                forward.refresh()

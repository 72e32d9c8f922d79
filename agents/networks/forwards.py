"""The forward passes of an agent's networks, and what they need to act in other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.backend.variables import values_of
from agents.networks.inference import Forward, NumpyMirror, make_forward, non_finite

Array = np.ndarray[Any, Any]


class Forwards:
    """Each network by its fastest exact way, made when it is first used.

    Args:
        networks: The networks by name.
        following: Names of those that follow others and never act: target networks.
    """

    def __init__(self, networks: Mapping[str, Any], following: Sequence[str] = ()) -> None:
        self._networks = networks
        self._acting = [name for name in networks if name not in following]
        self._forwards: dict[str, Forward] = {}
        self._watched: list[str] = []

    def __setitem__(self, name: str, forward: Forward) -> None:
        """Has a network run in another way."""
        self._forwards[name] = forward

    def __call__(self, name: str, observations: Array, noise: Array | None = None) -> Array:
        """Return [N, ...] -> [N, outputs], as NumPy, of a noisy network perhaps with its noise [N, n_noise].

        Raises:
            NonFiniteError: An output is NaN or infinite.
        """
        forward = self._forwards.get(name)
        if forward is None:
            forward = self._forwards[name] = make_forward(self._networks[name])
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of that is told below
            outputs = forward(observations, noise)
        # -inf may be a network's way to forbid an action; NaN compares false with everything.
        if not outputs.max(initial=-np.inf) < np.inf:
            raise non_finite(name, observations)
        return outputs

    def watched(self) -> list[Any]:
        """Return the variables whose new values `refresh` wants after an update, in that order."""
        self._watched = [name for name, forward in self._forwards.items() if isinstance(forward, NumpyMirror)]
        return [variable for name in self._watched for variable in self._networks[name].weights]

    def refresh(self, watched: Array | None = None) -> None:
        """Is told that weights have changed.

        Args:
            watched: The values of the variables that `watched` gave, as one flat vector, where they are known.
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
        """Acts with what `get_state` gave from now on."""
        values = iter(state)
        for name in self._acting:
            variables = self._networks[name].variables
            own = [next(values) for _ in variables]
            for variable, value in zip(variables, own, strict=True):
                variable.value.assign(value, read_value=False)  # a third of the time that Keras's own takes
            forward = self._forwards.get(name)
            if isinstance(forward, NumpyMirror):
                forward.load(np.concatenate([value.ravel() for value in own]))
            elif forward is not None:
                forward.refresh()

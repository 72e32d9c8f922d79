"""The contract of a policy, and the two policies that have nothing to set: the greedy one and the softmax one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from agents.exploration.registry import require_keys
from agents.exploration.sampling import Actions, categorical, check_values, softmax_weights

__all__ = ["Greedy", "Policy", "Softmax", "greedy"]


def greedy(values: npt.NDArray[Any]) -> Actions:
    """Chooses the action of the largest value in each row; the first of equal ones.

    Args:
        values: Action values or logits, [N, A].

    Returns:
        Actions, int64 [N].

    Raises:
        ValueError: The shape is not [N, A].
        NonFiniteError: A row holds NaN, +inf or nothing but -inf.
    """
    checked, _ = check_values(values)
    actions: Actions = np.argmax(checked, axis=1)
    return actions


class Policy(ABC):
    """Turns action values into actions. The contract of every policy here and of a user's own."""

    rowwise: ClassVar[bool] = False
    """Whether one policy can choose for the rows of several runs at once, each row drawing from its own run's stream:
    it draws with rows first, and keeps nothing that differs between runs but the environment steps made."""

    @abstractmethod
    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Chooses one action a row.

        Args:
            values: Action values or logits, [N, A]; -inf where an action is not allowed.
            rng: The exploration stream. How much is drawn from it depends on the shape of `values` only.

        Returns:
            Actions in [0, A), int64 [N].

        Raises:
            ValueError: The shape is not [N, A].
            NonFiniteError: A row holds NaN, +inf or nothing but -inf.
        """

    def step(self, n: int) -> None:
        """Advances schedules by `n` environment steps (summed over environments), n >= 0."""
        if n < 0:
            raise ValueError(f"n must be >= 0 environment steps, got {n!r}")

    def get_state(self) -> dict[str, Any]:
        """Gives everything the policy remembers, as scalars and arrays that JSON (as lists) or npz can hold."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `get_state` gave.

        Raises:
            ValueError: The state is not one of this policy.
        """
        require_keys(type(self).__name__, state, set())


class Greedy(Policy):
    """Always the best action, the first of equal ones; draws no random numbers. For evaluation."""

    rowwise = True

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Chooses the best action of each row; see `Policy.select`."""
        return greedy(values)


class Softmax(Policy):
    """Draws from the softmax of the logits: acting by a policy network's own distribution. N uniforms a call."""

    rowwise = True

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Draws one action a row from softmax(logits); see `Policy.select`."""
        checked, best = check_values(values)
        return categorical(softmax_weights(checked, best), rng.random(len(checked)))

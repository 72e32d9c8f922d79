"""Base class for policies, and the two policies without parameters: greedy and softmax."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from agents.exploration.registry import require_keys
from agents.exploration.sampling import Actions, categorical, check_values, softmax_weights


def greedy(values: npt.NDArray[Any]) -> Actions:
    """Choose the action of the largest value in each row, the first of equal ones.

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
    """Base class for policies, which turn action values into actions; those of users included."""

    rowwise: ClassVar[bool] = False
    """True if one policy can choose for the rows of several runs at once, each row drawing from its own run's stream:
    such a policy draws with rows first, and its state does not differ between runs except for the environment steps."""

    @abstractmethod
    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Choose one action per row.

        Args:
            values: Action values or logits, [N, A]; -inf where an action is not allowed.
            rng: The exploration stream. The number of draws depends on the shape of `values` only.

        Returns:
            Actions in [0, A), int64 [N].

        Raises:
            ValueError: The shape is not [N, A].
            NonFiniteError: A row holds NaN, +inf or nothing but -inf.
        """

    def step(self, n: int) -> None:
        """Advance schedules by `n` environment steps (summed over environments), n >= 0."""
        if n < 0:
            raise ValueError(f"n must be >= 0 environment steps, got {n!r}")

    def get_state(self) -> dict[str, Any]:
        """Return the state of the policy, as scalars and arrays that JSON (as lists) or npz can hold."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`.

        Raises:
            ValueError: The state is not one of this policy.
        """
        require_keys(type(self).__name__, state, set())


class Greedy(Policy):
    """Policy that always chooses the best action, the first of equal ones. Draws no random numbers. For evaluation."""

    rowwise = True

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Choose the best action of each row; see `Policy.select`."""
        return greedy(values)


class Softmax(Policy):
    """Policy that draws from the softmax of the logits, a policy network's distribution. Draws N uniforms per call."""

    rowwise = True

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Draw one action per row from softmax(logits); see `Policy.select`."""
        checked, best = check_values(values)
        return categorical(softmax_weights(checked, best), rng.random(len(checked)))

"""Policies that prefer better actions by degrees: Boltzmann, Boltzmann-Gumbel and Gumbel-softmax."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.errors import ConfigurationError
from agents.exploration.policy import Policy
from agents.exploration.registry import require_keys, require_positive
from agents.exploration.sampling import (
    Actions,
    Values,
    boltzmann_weights,
    categorical,
    check_values,
    gumbel,
    softmax_weights,
)


class Boltzmann(Policy):
    """Policy that draws actions in proportion to exp(value / τ). Draws N uniform numbers per call.

    The best value of a row is subtracted before the exponential, and the exponent is kept at or above -clip. Within
    ±clip this is the usual definition; for larger values the usual definition (clip, then exponentiate) makes all
    actions beyond the clip equal, while this one still prefers the better action.

    Args:
        temperature: τ > 0, in the unit of the values; towards 0 greedy, towards infinity uniform. Defaults to 1.0.
        clip: Bound on the exponent, > 0: an allowed action's odds against the best are at least exp(-clip). Defaults to
            500.0.

    Raises:
        ConfigurationError: `temperature` or `clip` is not a finite number > 0.
    """

    rowwise = True

    def __init__(self, temperature: float = 1.0, clip: float = 500.0) -> None:
        self.temperature = require_positive("temperature", temperature)
        self.clip = require_positive("clip", clip)

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Draw one action per row in proportion to exp(value / τ); see `Policy.select`."""
        checked, best = check_values(values)
        return categorical(boltzmann_weights(checked, best, self.temperature, self.clip), rng.random(len(checked)))


class BoltzmannGumbel(Policy):
    """Policy of the largest value + C · G / sqrt(count of the action), G standard Gumbel. Draws N·A uniforms per call.

    Cesa-Bianchi et al., "Boltzmann Exploration Done Right" (2017, arXiv 1705.10257): an action that was chosen
    often is perturbed less, where a common temperature explores bad actions for too long or good ones too little. The
    paper is about bandits; here one count per action is kept over all states and environments, each starting at 1 (the
    paper plays every arm once first). `select` counts the chosen actions, so evaluate with `greedy`.

    Args:
        C: Scale of the perturbation, > 0; the paper's choice is a bound on the standard deviation of the rewards.
            Defaults to 1.0.

    Raises:
        ConfigurationError: `C` is not a finite number > 0.
    """

    def __init__(self, C: float = 1.0) -> None:  # noqa: N803 (the paper's name)
        self.C = require_positive("C", C)
        self._counts = np.zeros(0, dtype=np.int64)  # [A] once the number of actions is known

    @property
    def counts(self) -> Actions:
        """Number of times that each action was chosen, plus 1: a copy, [A], or [0] before the first call."""
        return self._counts.copy()

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Choose the action of the largest perturbed value and count it; see `Policy.select`."""
        checked, _ = check_values(values)
        n_actions = checked.shape[1]
        if self._counts.size == 0:
            self._counts = np.ones(n_actions, dtype=np.int64)
        if self._counts.size != n_actions:
            raise ValueError(f"this policy has counted {self._counts.size} actions, got values of {n_actions} actions")
        perturbed = checked + self.C / np.sqrt(self._counts) * gumbel(checked.shape, rng)  # [N, A]
        actions: Actions = np.argmax(perturbed, axis=1)
        self._counts += np.bincount(actions, minlength=n_actions)
        return actions

    def get_state(self) -> dict[str, Any]:
        """Return the counts of actions: `{"counts": int64 [A]}`, [0] before the first call."""
        return {"counts": self._counts.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; raises ValueError for a state of another policy."""
        require_keys(type(self).__name__, state, {"counts"})
        counts = np.array(state["counts"], dtype=np.int64)
        if counts.ndim != 1 or (counts < 1).any():
            raise ValueError(f"counts must be whole numbers >= 1 in the shape [A], got {counts.tolist()}")
        self._counts = counts


class GumbelSoftmax(Policy):
    """Policy that draws a relaxed one-hot vector and takes its largest entry. Draws N·A uniform numbers per call.

    Jang et al., "Categorical Reparameterization with Gumbel-Softmax" (2016, arXiv 1611.01144). The temperature shapes
    the relaxed vector (`relaxed`), not the action: the largest entry follows softmax(logits) at any temperature.

    Args:
        temperature: > 0; towards 0 the relaxed vector becomes one-hot, towards infinity uniform. Defaults to 1.0.
        eps: Uniform numbers are kept within [eps, 1 - eps] before their logarithm is taken, in (0, 0.01]. Defaults to
            1e-20.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    rowwise = True

    def __init__(self, temperature: float = 1.0, eps: float = 1e-20) -> None:
        self.temperature = require_positive("temperature", temperature)
        if not 0.0 < eps <= 0.01:
            raise ConfigurationError(f"eps must be in (0, 0.01], got {eps!r}")
        self.eps = float(eps)

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Draw one action per row from softmax(logits); see `Policy.select`."""
        checked, _ = check_values(values)
        actions: Actions = np.argmax(checked + gumbel(checked.shape, rng, self.eps), axis=1)
        return actions

    def relaxed(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Values:
        """Draw softmax((logits + Gumbel) / temperature): [N, A], rows of sum 1, largest at the action of `select`."""
        checked, _ = check_values(values)
        perturbed = checked + gumbel(checked.shape, rng, self.eps)  # [N, A]
        weights = softmax_weights(perturbed, perturbed.max(axis=1, keepdims=True), self.temperature)
        relaxed: Values = weights / weights.sum(axis=1, keepdims=True)
        return relaxed

"""Optimizers of an agent, each bound to the weights that it updates.

Where an optimizer treats every number of the weights alone, it updates them as one vector: its rule runs once, over all
weights, instead of once for each variable. Networks keep their variables; the optimizer's state consists of vectors,
which are saved weight by weight, so that a saved state does not depend on the way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend.tensorflow import keras, tf
from agents.backend.variables import assign_all, one_name, values_of
from agents.config.optimizers import OptimizerSpec, variables_of
from agents.updates.mutable import OptimizerNumbers
from agents.updates.state_layout import flat
from agents.updates.state_scope import NotFunctionalError, assign_flat, in_state_scope, read_flat
from agents.updates.stateless_optimizer import stateless

Array = np.ndarray[Any, Any]

_ELEMENTWISE = frozenset({"adadelta", "adagrad", "adam", "adamax", "adamw", "ftrl", "lion", "nadam", "rmsprop", "sgd"})
"""Optimizers whose step of a number depends on that number and its gradient alone."""

_AMPLIFY_ROUNDING = frozenset({"muon"})
"""Optimizers that must see the same graph in a single agent and in a population.

Muon's iteration towards an orthogonal matrix amplifies differences in rounding, which depend on how TensorFlow
simplifies the graph around it.
"""

_OTHER_LISTS = ("_variables", "_trainable_variables", "_self_unconditional_checkpoint_dependencies")
"""Attributes of Keras optimizers that are lists, but not of one variable for each weight."""


class BoundOptimizer:
    """A Keras optimizer and the weights that it updates.

    Args:
        spec: The optimizer.
        weights: The variables that it updates.
        as_vector: Update the weights as one vector if the steps are the same; replicas of a strategy cannot.

    Attributes:
        optimizer: The Keras optimizer.
        weights: The variables that it updates.
        numbers: The mutable numbers of its rule.
    """

    @one_name()
    def __init__(self, spec: OptimizerSpec, weights: Sequence[Any], *, as_vector: bool = True) -> None:
        self.weights = list(weights)
        self._spec = spec
        self._sizes = [math.prod(weight.shape) for weight in weights]
        self._vector = (
            keras.Variable(np.zeros(sum(self._sizes), np.float32)) if as_vector and self._fits(spec) else None
        )
        self.optimizer = spec.build()
        self.optimizer.build(self.weights if self._vector is None else [self._vector])
        self.numbers = OptimizerNumbers(self.optimizer, spec)

    def _fits(self, spec: OptimizerSpec) -> bool:
        """Return whether steps of one vector are the same as steps of the weights one by one."""
        each_alone = spec.name in _ELEMENTWISE and not spec.arguments.get("clipnorm")  # the norm of one variable
        return each_alone and all(weight.dtype == "float32" and weight.constraint is None for weight in self.weights)

    @property
    def joins(self) -> bool:
        """True if the weights are updated as one vector."""
        return self._vector is not None

    @property
    def variables(self) -> list[Any]:
        """All variables of the optimizer's state: counter, rate, slots, numbers."""
        return [*variables_of(self.optimizer), *self.numbers.variables]

    # While tracing --------------------------------------------------------------------------------------------

    def joined(self, gradients: Sequence[Any]) -> list[Any]:
        """Return the gradients of the weights as `apply` takes them: as one vector, or as they are."""
        return list(gradients) if self._vector is None else [flat(gradients)]

    def apply(self, gradients: Sequence[Any]) -> None:
        """Make a step with gradients of `joined`."""
        if in_state_scope() and self._spec.name in _AMPLIFY_ROUNDING:
            raise NotFunctionalError
        with self.numbers.in_place():
            optimizer = stateless(self.optimizer) if in_state_scope() else self.optimizer
            if self._vector is None:
                optimizer.apply(gradients, self.weights)
                return
            unchanged = None if in_state_scope() else tf.convert_to_tensor(self._vector.value)
            self._vector.assign(read_flat(self.weights))
            optimizer.apply(gradients, [self._vector])
            assign_flat(self.weights, self._vector.value)
            if unchanged is not None:
                self._vector.assign(unchanged)  # so that XLA need not write it

    # State ----------------------------------------------------------------------------------------------------

    def reset(self, spec: OptimizerSpec, weights: Sequence[Any]) -> None:
        """Set the state to that of a new optimizer of the same structure, for weights of these values."""
        fresh = BoundOptimizer(spec, weights, as_vector=self._vector is not None)
        assign_all(variables_of(self.optimizer), values_of(variables_of(fresh.optimizer)))

    def state(self) -> list[Array]:
        """Return the values of the optimizer's variables, with slots weight by weight."""
        return self.by_weight(values_of(variables_of(self.optimizer)))

    def set_state(self, state: Sequence[Array]) -> None:
        """Set values that `state` returned."""
        assign_all(variables_of(self.optimizer), self.joined_by_weight(state))

    def by_weight(self, values: Sequence[Array]) -> list[Array]:
        """Return values of the optimizer's variables, [..., *shape] each, with slots weight by weight."""
        if self._vector is None:
            return list(values)
        ends = np.cumsum(self._sizes)[:-1]
        ranks = [variable.shape.rank for variable in variables_of(self.optimizer)]
        parts = [np.split(value, ends, axis=-1) if rank else [value] for value, rank in zip(values, ranks, strict=True)]
        return [
            parts[at][k].reshape(*parts[at][k].shape[:-1], *self.weights[k].shape) if ranks[at] else values[at]
            for at, k in self._places
        ]

    def joined_by_weight(self, values: Sequence[Array]) -> list[Array]:
        """Return the values that `by_weight` was given, from those that it returned."""
        if self._vector is None:
            return list(values)
        variables = variables_of(self.optimizer)
        parts: list[list[Array]] = [[] for _ in variables]
        for (at, k), value in zip(self._places, values, strict=True):
            lead = value.shape[: value.ndim - len(self.weights[k].shape)] if variables[at].shape.rank else ()
            parts[at].append(value.reshape(*lead, -1) if variables[at].shape.rank else value)
        return [
            np.concatenate(own, axis=-1) if variable.shape.rank else own[0]
            for variable, own in zip(variables, parts, strict=True)
        ]

    @property
    def n_by_weight(self) -> int:
        """Number of values that `by_weight` returns."""
        return len(variables_of(self.optimizer)) if self._vector is None else len(self._places)

    @functools.cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Return where each variable of an optimizer that was built on the weights is found in this one.

        A place is the position of a variable, and within it that of the weight (0 for counters and rates).
        """
        positions = {id(variable): position for position, variable in enumerate(variables_of(self.optimizer))}
        with one_name():
            ordinary = self._spec.build()
            ordinary.build(self.weights)
        places = {}
        for name, theirs in vars(ordinary).items():
            own = getattr(self.optimizer, name)
            if isinstance(theirs, keras.Variable):
                places[id(theirs)] = positions[id(own)], 0
            elif isinstance(theirs, list) and name not in _OTHER_LISTS:
                places |= {id(slot): (positions[id(own[0])], k) for k, slot in enumerate(theirs)}
        return [places[id(variable)] for variable in variables_of(ordinary)]

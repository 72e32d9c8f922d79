"""Keras optimizers whose steps are functions: they read and assign Keras variables within a `keras.StatelessScope`."""

from __future__ import annotations

import functools
from typing import Any

from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer

from agents.backend.tensorflow import keras


class _Stateless(TFOptimizer):
    """Keras's methods for all backends in place of those for TensorFlow, which assign variables of TensorFlow.

    The latter exist for `tf.distribute`, which a population does not use.
    """

    assign = BaseOptimizer.assign
    assign_add = BaseOptimizer.assign_add
    assign_sub = BaseOptimizer.assign_sub
    _apply_weight_decay = BaseOptimizer._apply_weight_decay
    _backend_update_step = BaseOptimizer._backend_update_step

    def _var_key(self, variable: Any) -> Any:
        return super()._var_key(variable._value if isinstance(variable, keras.Variable) else variable)


def stateless(optimizer: Any) -> Any:
    """Return an optimizer with the state of another whose methods respect a `keras.StatelessScope`.

    Args:
        optimizer: A built Keras optimizer. Gradient accumulation, and moving averages that overwrite weights, assign in
            branches of TensorFlow, which such a scope does not see.
    """
    own: Any = type(optimizer)
    result = object.__new__(_stateless_class(own))
    object.__setattr__(result, "__dict__", optimizer.__dict__)
    return result


@functools.cache
def _stateless_class(own: Any) -> Any:
    return type(own.__name__, (own, _Stateless), {})

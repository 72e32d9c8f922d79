"""Updates as functions of an agent's state: the values of variables are tensors while an update is traced.

Within a `StateScope`, reading a variable returns a tensor, and assigning to it replaces that tensor. TensorFlow's
branches and loops are functions too, and return what they change: `branch` and `repeat` do. Outside of a scope they are
TensorFlow's own, and variables are assigned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from agents.backend.tensorflow import keras, tf
from agents.updates.state_layout import StateLayout, flat

_current: ContextVar[StateScope | None] = ContextVar("state_scope", default=None)


class NotFunctionalError(Exception):
    """Error of a trace that assigns variables in a branch or loop of its own, or uses variables out of scope."""


class StateScope(keras.StatelessScope):
    """Scope in which variables have the values that are in vectors.

    Args:
        layout: How the variables, all of them Keras variables, are laid out.
        vectors: The vectors, [S] each.
    """

    def __init__(self, layout: StateLayout, vectors: Sequence[Any]) -> None:
        super().__init__(initialize_variables=False)
        self.layout = layout
        self._vectors = list(vectors)
        self._split: dict[int, Any] = {}  # what `_vectors` consist of: id of a variable -> its value
        self.replace(dict(enumerate(vectors)))

    def __enter__(self) -> StateScope:
        self._token = _current.set(self)
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        _current.reset(self._token)

    def replace(self, vectors: dict[int, Any]) -> None:
        """Replace vectors, by index."""
        for i, vector in vectors.items():
            self._vectors[i] = vector
            for variable, value in self.layout.split(i, vector):
                self._split[id(variable)] = self.state_mapping[id(variable)] = value

    def vectors(self) -> list[Any]:
        """Return the vectors with the present values; a vector is the same tensor while nothing in it was assigned.

        Raises:
            NotFunctionalError: A value was assigned in a branch or a loop, and is unknown outside of it.
        """
        graph = tf.compat.v1.get_default_graph()
        for i, own in enumerate(self.layout.vectors):
            values = [self.state_mapping[id(variable)] for variable in own]
            if any(value is not self._split[id(variable)] for variable, value in zip(own, values, strict=True)):
                if any(value.graph is not graph for value in values):
                    raise NotFunctionalError
                self._vectors[i] = flat(values)
                self._split |= {id(variable): value for variable, value in zip(own, values, strict=True)}
        return list(self._vectors)


def in_state_scope() -> bool:
    """Return whether the values of variables are tensors."""
    return _current.get() is not None


def read_flat(variables: Sequence[Any]) -> Any:
    """Return the values of variables as one vector: within a scope, the vector of the layout if they have one."""
    scope = _current.get()
    index = None if scope is None else scope.layout.vector_with(variables)
    return flat([each.value for each in variables]) if scope is None or index is None else scope.vectors()[index]


def assign_flat(variables: Sequence[Any], vector: Any) -> None:
    """Assign a vector to variables, in order."""
    scope = _current.get()
    index = None if scope is None else scope.layout.vector_with(variables)
    if scope is not None and index is not None:
        scope.replace({index: vector})
        return
    for variable, part in zip(variables, tf.split(vector, [math.prod(each.shape) for each in variables]), strict=True):
        variable.assign(tf.reshape(part, variable.shape))


def branch(predicate: Any, true: Callable[[], Any], false: Callable[[], Any], changes: Sequence[Any]) -> Any:
    """Return the result of one of two functions.

    Args:
        predicate: A boolean scalar.
        true: Traced function for True.
        false: Traced function for False, with a result of the same structure.
        changes: The variables that the functions may assign.

    Raises:
        NotFunctionalError: A function assigns another variable.
    """
    scope = _current.get()
    if scope is None:
        return tf.cond(predicate, true, false)
    before, changed = scope.vectors(), scope.layout.vectors_of(changes)

    def inside(function: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            with StateScope(scope.layout, before) as own:
                result, after = function(), own.vectors()
            if any(new is not old for i, (new, old) in enumerate(zip(after, before, strict=True)) if i not in changed):
                raise NotFunctionalError
            return result, [after[i] for i in changed]

        return call

    result, after = tf.cond(predicate, inside(true), inside(false))
    scope.replace(dict(zip(changed, after, strict=True)))
    return result


def repeat(n_times: int, step: Callable[[Any], Any]) -> Any:
    """Return the results [W] of a function of k = 0, 1, ..., as [n_times, W]."""
    scope, results = _current.get(), tf.TensorArray(tf.float32, size=n_times)
    before = [] if scope is None else scope.vectors()
    changed: set[int] = set()

    def body(k: Any, results: Any, *vectors: Any) -> tuple[Any, ...]:
        if scope is None:
            return k + 1, results.write(k, step(k))
        with StateScope(scope.layout, vectors) as own:
            result, after = step(k), own.vectors()
        changed.update(i for i, (new, old) in enumerate(zip(after, vectors, strict=True)) if new is not old)
        return k + 1, results.write(k, result), *after

    _, results, *after = tf.while_loop(lambda k, *_: k < n_times, body, (tf.constant(0), results, *before))
    if scope is not None:
        scope.replace({i: after[i] for i in sorted(changed)})
    return results.stack()

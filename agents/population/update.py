"""The update of a population: the gradient steps of all members in one TensorFlow call.

Within that call, members are trained one after the other: the state of a member is loaded, its gradient steps are made
exactly as for a single agent, and its state is stored. So every loss and every optimizer that works for a single agent
works here, with the same results, and members that leave cost no further time and no compilation.

Where an update cannot be traced as a function of the state (`CompiledCalls`), the variables of the compiled agent get
the state of one member after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.backend.custom_gradients import owned_gradients
from agents.backend.tensorflow import keras, tf
from agents.buffers import Batches
from agents.population.stacks import Stacks, padded
from agents.updates.compiled import CompiledCalls, Inputs, all_rows, minibatches
from agents.updates.gradient_steps import GradientSteps, values_by_name
from agents.updates.packing import Layout, layout_of, pack
from agents.updates.state_layout import flat as as_vector
from agents.updates.state_scope import NotFunctionalError, StateScope

Array = np.ndarray[Any, Any]


class MemberUpdate(CompiledCalls):
    """The gradient steps of all members.

    Args:
        steps: The gradient steps of the template agent.
        stacks: The members' values of its variables.
        watched: Variables whose values are returned after each update.
        jit_compile: See `CompiledCalls`.
        strict: See `CompiledCalls`.
    """

    def __init__(
        self,
        steps: GradientSteps,
        stacks: Stacks,
        watched: Sequence[Any],
        *,
        jit_compile: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(steps, jit_compile=jit_compile, strict=strict)
        self._watched = watched
        self._watched_vectors = stacks.layout.vectors_of(watched)
        self._stacks = stacks

    def __call__(self, n: int, batches: Batches) -> tuple[dict[str, Array], list[Array]]:
        """Make the K gradient steps of the first `n` members.

        Args:
            n: Number of members.
            batches: Batches of these members; see `Batches`.

        Returns:
            The values of the gradient steps by name, [n, K] or [n, K, B], and the watched values [n, ...].
        """
        opens = self._steps.opens and batches.begins
        data, indices, contiguous, *_ = batches.with_all_rows() if opens else batches
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in data.items()}
        layout = layout_of(flat, contiguous)
        columns = [pack(flat, layout), *(flat[name] for name in layout.images)]
        inputs = [column.reshape(n, -1, *column.shape[1:]) for column in columns]
        if not contiguous:
            inputs.insert(0, indices)
        all_inputs = [np.int32(n), *(padded(values, self._stacks.capacity) for values in inputs)]
        names, (history, *watched) = self._call(layout, indices.shape[1:], all_inputs, opens)
        # Without copies: these tensors are not written any more.
        vectors = dict(zip(self._watched_vectors, (np.from_dlpack(array)[:n] for array in watched), strict=True))
        return values_by_name(names, history.numpy()[:n]), self._stacks.layout.values_of(vectors, self._watched)

    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool, by_xla: bool) -> Any:
        def train(own: Sequence[Any]) -> Any:
            """Make the gradient steps with a member's inputs."""
            rows = all_rows(layout, own) if opens else None
            return self._steps.run(shape[0], minibatches(layout, shape, own), rows)

        return self._traced(lambda functional: self._all_members(train, functional), inputs, by_xla)

    def _all_members(self, train: Callable[[Sequence[Any]], Any], functional: bool) -> Callable[..., tuple[Any, ...]]:
        """Return the function that trains all members, to be traced."""
        stacks, capacity = self._stacks.stacks, self._stacks.capacity

        def run(n: Any, *tensors: Any) -> tuple[Any, ...]:
            def body(i: Any, history: Any, *arrays: Any) -> tuple[Any, ...]:
                before, own = [array.read(i) for array in arrays], [tensor[i] for tensor in tensors]
                values, after = (self._as_function if functional else self._in_place)(before, lambda: train(own))
                stored = [
                    array if new is old else array.write(i, new)
                    for array, old, new in zip(arrays, before, after, strict=True)
                ]
                return (i + 1, history.write(i, values), *stored)

            arrays = [
                tf.TensorArray(stack.dtype, capacity, clear_after_read=False, element_shape=stack.shape[1:]).unstack(
                    stack
                )
                for stack in stacks
            ]
            start = (tf.constant(0), tf.TensorArray(tf.float32, size=capacity), *arrays)
            with owned_gradients():
                _, history, *arrays = tf.while_loop(lambda i, *_: i < n, body, start, parallel_iterations=1)
            after = [array.stack() for array in arrays]
            for stack, values in zip(stacks, after, strict=True):
                stack.assign(values)
            if not functional:
                self.spoil()
            return history.stack(), *(after[vector] for vector in self._watched_vectors)

        return run

    def _as_function(self, vectors: Sequence[Any], train: Callable[[], Any]) -> tuple[Any, Sequence[Any]]:
        """Return the result of a training and the vectors after it; the variables are not assigned."""
        with StateScope(self._stacks.layout, vectors) as scope:
            return train(), scope.vectors()

    def _in_place(self, vectors: Sequence[Any], train: Callable[[], Any]) -> tuple[Any, Sequence[Any]]:
        """Return the result of a training and the vectors after it; the variables are assigned."""
        layout = self._stacks.layout
        for index, vector in enumerate(vectors):
            for variable, value in layout.split(index, vector):
                variable.assign(value)
        result = train()
        return result, [as_vector([variable.value for variable in own]) for own in layout.vectors]

    def _check(self, traced: Any) -> None:
        own = {id(variable.value.handle) for variable in self._stacks.variables}
        if own.intersection(map(id, traced.captured_inputs)):
            raise NotFunctionalError

    def spoil(self) -> None:
        """Set the agent's own variables to NaN (integers to 0), so that they are never taken for a member's."""
        for variable in self._stacks.variables:
            nothing = np.nan if keras.backend.is_float_dtype(variable.dtype) else 0
            variable.assign(tf.fill(variable.shape, tf.constant(nothing, variable.dtype)))

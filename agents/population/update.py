"""The update of a population: the gradient steps of all members in one call into TensorFlow.

Members are trained one after the other inside that call: a member's values are loaded into the variables of the one
agent that is compiled, its gradient steps are made exactly as those of an agent alone, and its values are stored.
Small networks gain nothing from sharing a matrix product and much from staying in the processor's cache for all steps
of an update. So every loss and every optimizer that works alone works here, with the same numbers, and members that
leave take their time with them without anything being compiled again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend import tf
from agents.learning import FALLS_BACK, GradientSteps, is_compile_error, minibatches
from agents.packing import Layout, layout_of, pack
from agents.population.stacks import Stacks, padded
from agents.replay import Batches

Array = np.ndarray[Any, Any]

log = logging.getLogger(__name__)


class MemberUpdate:
    """Runs the gradient steps of all members.

    Args:
        steps: The gradient steps of the agent whose variables are the workspace.
        stacks: The members' values of those variables.
        watched: Which of the variables' values are wanted after each update.
        jit_compile: Compile with XLA; when XLA cannot, the update falls back to a plain graph, unless `strict`.
        strict: Raise instead of falling back.
    """

    def __init__(
        self,
        steps: GradientSteps,
        stacks: Stacks,
        watched: Sequence[int],
        *,
        jit_compile: bool,
        strict: bool = False,
    ) -> None:
        self.jit_compile = jit_compile
        self._steps = steps
        self._stacks = stacks
        self._watched = watched
        self._strict = strict
        self._compiled: dict[tuple[Any, ...], Any] = {}

    def __call__(self, n: int, batches: Batches) -> tuple[dict[str, Array], list[Array]]:
        """Makes the K gradient steps of the first `n` members.

        Args:
            n: How many members there are.
            batches: Of these members; see `Batches`.

        Returns:
            Name -> [n, K] values of each gradient step, and the watched values [n, ...].
        """
        data, indices, contiguous = batches
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in data.items()}
        layout = layout_of(flat, contiguous)
        columns = [pack(flat, layout), *(flat[name] for name in layout.images)]
        inputs = [column.reshape(n, -1, *column.shape[1:]) for column in columns]
        if not contiguous:
            inputs.insert(0, indices)
        inputs = [padded(values, self._stacks.capacity) for values in inputs]
        key = (layout, indices.shape[1:], inputs[-1].shape[1])
        try:
            if key not in self._compiled:
                self._compiled[key] = self._compile(layout, indices.shape[1:], inputs)
            history, watched = self._compiled[key](tf.constant(n), *map(tf.constant, inputs))
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if not self.jit_compile or self._strict or not is_compile_error(error):
                raise
            log.warning(FALLS_BACK, error)
            self.jit_compile = False
            self._compiled.clear()
            return self(n, batches)
        values = np.moveaxis(history.numpy()[:n], 2, 0)  # [names, n, K]
        # Without copies: nobody writes to these tensors any more.
        return dict(zip(self._steps.names, values, strict=True)), [np.from_dlpack(array)[:n] for array in watched]

    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: list[Array]) -> Any:
        """One function for data of this layout and [K, B] minibatches."""
        stacks, variables = self._stacks.stacks, self._stacks.variables

        def run(n: Any, *tensors: Any) -> tuple[Any, list[Any]]:
            # Read here and written there: one array for both would be copied whole in every turn of the loop.
            before = [tf.convert_to_tensor(stack) for stack in stacks]
            arrays = [
                tf.TensorArray(stack.dtype, size=self._stacks.capacity, element_shape=stack.shape[1:])
                for stack in stacks
            ]
            history = tf.TensorArray(tf.float32, size=self._stacks.capacity)

            def body(i: Any, history: Any, *arrays: Any) -> tuple[Any, ...]:
                for variable, values in zip(variables, before, strict=True):
                    variable.assign(values[i])
                values = self._steps.run(shape[0], minibatches(layout, shape, [tensor[i] for tensor in tensors]))
                stored = [array.write(i, v.value) for v, array in zip(variables, arrays, strict=True)]
                return (i + 1, history.write(i, values), *stored)

            start = (tf.constant(0), history, *arrays)
            _, history, *arrays = tf.while_loop(lambda i, *_: i < n, body, start, parallel_iterations=1)
            after = [array.stack() for array in arrays]
            for stack, values in zip(stacks, after, strict=True):
                stack.assign(values)
            self.spoil()
            return history.stack(), [after[index] for index in self._watched]

        specs = [tf.TensorSpec([], tf.int32), *(tf.TensorSpec(array.shape, array.dtype) for array in inputs)]
        return tf.function(run, jit_compile=self.jit_compile, autograph=False).get_concrete_function(*specs)

    def spoil(self) -> None:
        """Leaves NaN (and 0 in integers) in the agent's own variables, so that nobody takes them for a member's.

        It also tells the compiler that what the last member left in them is not wanted: they need not be kept from one
        turn of the loop to the next.
        """
        for variable in self._stacks.variables:
            nothing = np.nan if variable.dtype.startswith("float") else 0
            variable.assign(tf.fill(variable.shape, tf.constant(nothing, variable.dtype)))

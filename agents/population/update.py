"""The update of a population: the gradient steps of all members in one TensorFlow call.

Within that call, members are trained one after the other: the values of a member are loaded into the variables of the
compiled agent, its gradient steps are made exactly as for a single agent, and its values are stored. So every loss and
every optimizer that works for a single agent works here, with the same results, and members that leave cost no further
time and no compilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.backend.custom_gradients import owned_gradients
from agents.backend.tensorflow import keras, tf
from agents.buffers import Batches
from agents.population.stacks import Stacks, padded
from agents.updates.compiled import CompiledCalls, Inputs, all_rows, direct_call, minibatches, specs_of
from agents.updates.gradient_steps import GradientSteps, values_by_name
from agents.updates.packing import Layout, layout_of, pack

Array = np.ndarray[Any, Any]


class MemberUpdate(CompiledCalls):
    """The gradient steps of all members.

    Args:
        steps: The gradient steps of the template agent, whose variables are the workspace.
        stacks: The members' values of those variables.
        watched: Variables whose values are returned after each update.
        jit_compile: See `CompiledCalls`.
        strict: See `CompiledCalls`.
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
        super().__init__(steps, jit_compile=jit_compile, strict=strict)
        self.watched = watched
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
        return values_by_name(names, history.numpy()[:n]), [np.from_dlpack(array)[:n] for array in watched]

    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool, by_xla: bool) -> Any:
        stacks, variables = self._stacks.stacks, self._stacks.variables

        def run(n: Any, *tensors: Any) -> tuple[Any, ...]:
            arrays = [
                tf.TensorArray(
                    stack.dtype, self._stacks.capacity, clear_after_read=False, element_shape=stack.shape[1:]
                ).unstack(stack)
                for stack in stacks
            ]
            history = tf.TensorArray(tf.float32, size=self._stacks.capacity)

            def body(i: Any, history: Any, *arrays: Any) -> tuple[Any, ...]:
                for variable, array in zip(variables, arrays, strict=True):
                    variable.assign(array.read(i))
                own = [tensor[i] for tensor in tensors]
                rows = all_rows(layout, own) if opens else None
                values = self._steps.run(shape[0], minibatches(layout, shape, own), rows)
                stored = [array.write(i, v.value) for v, array in zip(variables, arrays, strict=True)]
                return (i + 1, history.write(i, values), *stored)

            start = (tf.constant(0), history, *arrays)
            with owned_gradients():
                _, history, *arrays = tf.while_loop(lambda i, *_: i < n, body, start, parallel_iterations=1)
            after = [array.stack() for array in arrays]
            for stack, values in zip(stacks, after, strict=True):
                stack.assign(values)
            self.spoil()
            return history.stack(), *(after[index] for index in self.watched)

        function = tf.function(run, jit_compile=by_xla, autograph=False)
        return direct_call(function.get_concrete_function(*specs_of(inputs)))

    def spoil(self) -> None:
        """Set the agent's own variables to NaN (integers to 0), so that they are never taken for a member's."""
        for variable in self._stacks.variables:
            nothing = np.nan if keras.backend.is_float_dtype(variable.dtype) else 0
            variable.assign(tf.fill(variable.shape, tf.constant(nothing, variable.dtype)))

"""Updates as compiled functions: all gradient steps of one update in one call into TensorFlow.

The loop over minibatches runs inside the compiled function, so that an update of 160 gradient steps crosses from
Python into TensorFlow once. Nothing is traced again for the same shapes, but for single gradient steps: plain graphs
are ready at once, and in a long training XLA compiles them, too.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.backend.custom_gradients import owned_gradients
from agents.backend.shared_functions import shared_function
from agents.backend.tensorflow import tf
from agents.buffers import Batches
from agents.updates.gradient_steps import GradientSteps, told
from agents.updates.packing import Layout, layout_of, pack, unpack

Array = np.ndarray[Any, Any]

PLAIN_STEPS = 10_000
"""Gradient steps that an agent makes, where it makes them one by one, before XLA compiles them.

It takes one to four seconds, and gains about 0.1 ms a step of a small network: as much in as many steps again.
"""

_SMALL = 8_000_000
"""Weights times rows of a gradient step, up to which XLA is faster at a single one."""

log = logging.getLogger(__name__)

Inputs = Sequence[Any]  # arrays, and single numbers of NumPy


class CompiledCalls(ABC):
    """Functions, each compiled for a layout and shape of its data: by XLA where that pays, else as a plain graph.

    Args:
        steps: The gradient steps that they make.
        jit_compile: Compile with XLA. A function that XLA cannot compile is a plain graph.
        strict: Raise instead of falling back.
    """

    def __init__(self, steps: GradientSteps, *, jit_compile: bool, strict: bool) -> None:
        self._steps = steps
        self._strict = strict
        self.jit_compile = jit_compile
        self._compiled: dict[tuple[Any, ...], tuple[Any, tuple[str, ...]]] = {}
        self._succeeded: set[tuple[Any, ...]] = set()  # called once: XLA compiles a function at its first call
        self._beyond_xla: set[tuple[Any, ...]] = set()

    @abstractmethod
    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool, by_xla: bool) -> Any:
        """The function for data of this layout and minibatches of this shape [K, B], with or without `pre_update`.

        XLA compiles it, or it is a plain graph (`by_xla`).
        """

    def _by_xla(self, shape: tuple[int, ...]) -> bool:
        """Whether XLA shall compile the function for minibatches of this shape [K, B]."""
        return self.jit_compile

    def _call(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool) -> tuple[tuple[str, ...], Any]:
        """Calls the function for these inputs, the last of which tells how many rows there are.

        Returns:
            The names of what each gradient step gave, and what the function gives.
        """
        wanted = (layout, shape, inputs[-1].shape, opens)
        by_xla = self._by_xla(shape) and wanted not in self._beyond_xla
        key = (*wanted, by_xla)
        try:
            if key not in self._compiled:
                self._compiled[key] = (self._compile(layout, shape, inputs, opens, by_xla), self._steps.names)
            function, names = self._compiled[key]
            result = names, function(*map(tf.constant, inputs))
        except tf.errors.OpError as error:
            if not by_xla or self._strict or key in self._succeeded or not _is_compile_error(error):
                raise
            why = str(error).partition("\n")[0]
            log.warning("XLA cannot compile this agent's loss; its update runs as a plain graph instead. (%s)", why)
            self._beyond_xla.add(wanted)
            return self._call(layout, shape, inputs, opens)
        self._succeeded.add(key)
        return result


class CompiledUpdate(CompiledCalls):
    """Runs K gradient steps in one call.

    Args:
        steps: The agent's gradient steps.
        watched: Variables whose values are wanted after the update, as one flat vector.
        pays: Whether XLA pays for single gradient steps of so many rows; see `xla_pays`.
        jit_compile: Compile with XLA: updates of several gradient steps, and single ones where it pays; with `strict`
            all.
        strict: See `CompiledCalls`.
    """

    def __init__(
        self,
        steps: GradientSteps,
        watched: Sequence[Any],
        pays: Callable[[int], bool],
        *,
        jit_compile: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(steps, jit_compile=jit_compile, strict=strict)
        self._watched = watched
        self._pays = pays

    def __call__(self, batches: Batches) -> tuple[dict[str, Array], Array]:
        """Returns (what the gradient steps told, flat values of the watched variables)."""
        opens = self._steps.opens and batches.begins
        data, indices, contiguous, *_ = batches.with_all_rows() if opens else batches
        layout = layout_of(data, contiguous)
        columns = [pack(data, layout), *(data[name] for name in layout.images)]
        inputs = [indices, *columns] if not layout.contiguous else columns
        names, (values, watched) = self._call(layout, indices.shape, inputs, opens)
        return told(names, values.numpy()), watched.numpy()

    def _by_xla(self, shape: tuple[int, ...]) -> bool:
        n_steps, n_rows = shape
        if not self.jit_compile or self._strict or n_steps > 1:
            return self.jit_compile
        return not self._steps.opens and self._pays(n_rows)

    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool, by_xla: bool) -> Any:
        def run(*tensors: Any) -> tuple[Any, Any]:
            rows = all_rows(layout, tensors) if opens else None
            with owned_gradients():
                history = self._steps.run(shape[0], minibatches(layout, shape, tensors), rows)
            watched = [tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in self._watched]
            return history, tf.concat(watched, 0) if watched else tf.zeros([0])

        specs = specs_of(inputs)
        # Without autograph, as Keras does it: an error in a loss stays the error that it is, with its own traceback.
        return direct_call(tf.function(run, jit_compile=by_xla, autograph=False).get_concrete_function(*specs))


def xla_pays(steps_made: int, n_rows: int, n_weights: int) -> bool:
    """Whether XLA shall compile single gradient steps.

    It depends on nothing that another process would not know that goes on with the training.

    Args:
        steps_made: Gradient steps before.
        n_rows: Rows of one.
        n_weights: Numbers that it moves.
    """
    return steps_made >= PLAIN_STEPS and n_rows * n_weights <= _SMALL


def specs_of(inputs: Inputs) -> list[Any]:
    """What a function is compiled for."""
    return [tf.TensorSpec(values.shape, values.dtype) for values in inputs]


def minibatches(layout: Layout, shape: tuple[int, ...], tensors: Sequence[Any]) -> Callable[[Any], dict[str, Any]]:
    """k -> the columns of minibatch k, while tracing.

    Args:
        layout: How the data were packed.
        shape: [K, B].
        tensors: The packed matrix [M, W] and images [M, ...], and before them the indices [K, B] unless contiguous.
    """
    if layout.contiguous:
        columns = [tf.reshape(column, [*shape, *column.shape[1:]]) for column in tensors]
    else:
        indices, *columns = tensors

    def columns_of(k: Any) -> dict[str, Any]:
        if layout.contiguous:
            matrix, *images = (column[k] for column in columns)
        else:
            matrix, *images = (tf.gather(column, indices[k]) for column in columns)
        return unpack(matrix, layout) | dict(zip(layout.images, images, strict=True))

    return columns_of


def all_rows(layout: Layout, tensors: Sequence[Any]) -> dict[str, Any]:
    """The columns of all rows, while tracing; the arguments are those of `minibatches`."""
    matrix, *images = tensors if layout.contiguous else tensors[1:]
    return unpack(matrix, layout) | dict(zip(layout.images, images, strict=True))


def direct_call(function: Any) -> Callable[..., Any]:
    """Calls a concrete function with tensors, which gives a list of tensors.

    Without the checks of arguments and the search for a structure in what it gives: a quarter of a short call.
    The function may be shared with agents of the same structure (`agents.backend.shared_functions`).
    """
    captured, call_flat = list(function.captured_inputs), shared_function(function).call_flat

    def call(*inputs: Any) -> Any:
        return call_flat(*inputs, *captured)

    return call


def _is_compile_error(error: Exception) -> bool:
    """Whether XLA could not compile something, as far as can be told from the kind of an error, or from its words."""
    text = str(error).lower()
    if "out of memory" in text or "out_of_memory" in text:
        return False
    if isinstance(error, tf.errors.InvalidArgumentError | tf.errors.UnimplementedError):
        return "xla" in text or "compile" in text or "unsupported" in text
    return isinstance(error, tf.errors.InternalError | tf.errors.NotFoundError)

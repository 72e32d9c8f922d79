"""Compiled updates: all gradient steps of one update in one TensorFlow call.

The loop over minibatches runs inside the compiled function, so an update of 160 gradient steps crosses from Python into
TensorFlow once. Data of the same shapes are traced only once. Single gradient steps are the exception: a plain graph,
which is ready at once, is traced first, and in a long training XLA compiles the step as well.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from agents.backend.custom_gradients import owned_gradients
from agents.backend.product_gradients import fast_product_gradients
from agents.backend.shared_functions import shared_function
from agents.backend.tensorflow import tf
from agents.buffers import Batches
from agents.updates.gradient_steps import GradientSteps, values_by_name
from agents.updates.packing import Layout, layout_of, pack, unpack
from agents.updates.state_layout import StateLayout, flat
from agents.updates.state_scope import StateScope

Array = np.ndarray[Any, Any]

PLAIN_STEPS = 10_000
"""Number of single gradient steps that an agent runs as a plain graph before XLA compiles the step.

Compilation takes one to four seconds and saves about 0.1 ms a step of a small network, so it pays for itself within
about as many further steps.
"""

_SMALL = 8_000_000
"""Largest product of weights and rows for which XLA is faster at a single gradient step."""

log = logging.getLogger(__name__)

Inputs = Sequence[Any]  # NumPy arrays and scalars


class CompiledCalls(ABC):
    """Base class for functions that are compiled once for each layout and shape of their data.

    XLA compiles them where that pays; otherwise they are plain graphs. Updates are traced as functions of the agent's
    state (`agents.updates.state_scope`), for a single agent as for the members of a population. Where an agent assigns
    variables in branches or loops of its own, or weights in its loss, they assign variables.

    Args:
        steps: The gradient steps to run.
        jit_compile: Compile with XLA. A function that XLA cannot compile runs as a plain graph.
        strict: Raise an error if XLA cannot compile a function, instead of falling back to a plain graph.

    Attributes:
        functional: Whether updates are functions of the state; False once that was found to be impossible.
    """

    functional = True

    def __init__(self, steps: GradientSteps, *, jit_compile: bool, strict: bool) -> None:
        self._steps = steps
        self._strict = strict
        self.jit_compile = jit_compile
        self._compiled: dict[tuple[Any, ...], tuple[Any, tuple[str, ...]]] = {}
        self._succeeded: set[tuple[Any, ...]] = set()  # functions called at least once: XLA compiles at the first call
        self._beyond_xla: set[tuple[Any, ...]] = set()

    def _traced(self, run: Callable[[bool], Callable[..., Any]], inputs: Inputs, by_xla: bool) -> Any:
        """Return the compiled function for these inputs.

        Args:
            run: Whether the update is a function of the state -> the function to trace.
            inputs: Inputs of the function.
            by_xla: Whether XLA compiles it.
        """
        # Without autograph, as in Keras: an error in a loss keeps its own type and traceback.
        function = tf.function(run(self.functional), jit_compile=by_xla, autograph=False)
        try:
            with fast_product_gradients() if by_xla else nullcontext():
                traced = function.get_concrete_function(*specs_of(inputs))
            if self.functional:
                self._check(traced)
        except Exception:
            if not self.functional:
                raise
            self.functional = False  # TensorFlow raises errors of many types for values of another branch
            return self._traced(run, inputs, by_xla)
        return direct_call(traced)

    def _check(self, traced: Any) -> None:  # noqa: B027 - optional
        """Raise an error if a traced function is no function of the state."""

    @abstractmethod
    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool, by_xla: bool) -> Any:
        """Return the function for data of this layout and minibatches of this shape [K, B].

        `opens` says whether `pre_update` runs before the gradient steps; `by_xla` whether XLA compiles the function.
        """

    def _by_xla(self, shape: tuple[int, ...]) -> bool:
        """Return whether XLA compiles the function for minibatches of this shape [K, B]."""
        return self.jit_compile

    def _call(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool) -> tuple[tuple[str, ...], Any]:
        """Call the compiled function with these inputs; the last input determines the number of rows.

        Returns:
            The names of the values of each gradient step, and the result of the function.
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
            reason = str(error).partition("\n")[0]
            log.warning("XLA cannot compile this agent's loss; its update runs as a plain graph instead. (%s)", reason)
            self._beyond_xla.add(wanted)
            return self._call(layout, shape, inputs, opens)
        self._succeeded.add(key)
        return result


class CompiledUpdate(CompiledCalls):
    """An update of K gradient steps in one call.

    Args:
        steps: The agent's gradient steps.
        watched: Variables whose values are returned after the update, as one flat vector.
        should_use_xla: Returns whether XLA pays for single gradient steps with that number of rows.
        jit_compile: Compile with XLA: updates of several gradient steps, and single steps where it pays (with `strict`,
            all updates).
        strict: See `CompiledCalls`.
        state: All variables that the update may change. Defaults to `None`: it assigns variables, as replicas of a
            strategy must.
    """

    def __init__(
        self,
        steps: GradientSteps,
        watched: Sequence[Any],
        should_use_xla: Callable[[int], bool],
        *,
        jit_compile: bool,
        strict: bool = False,
        state: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(steps, jit_compile=jit_compile, strict=strict)
        self._state = None if state is None else StateLayout(state, groups=None)
        self.functional = state is not None
        self._watched = watched
        self._should_use_xla = should_use_xla

    def __call__(self, batches: Batches) -> tuple[dict[str, Array], Array]:
        """Return (name -> values of the gradient steps, flat values of the watched variables)."""
        opens = self._steps.opens and batches.begins
        data, indices, contiguous, *_ = batches.with_all_rows() if opens else batches
        layout = layout_of(data, contiguous)
        columns = [pack(data, layout), *(data[name] for name in layout.images)]
        inputs = [indices, *columns] if not layout.contiguous else columns
        names, (values, watched) = self._call(layout, indices.shape, inputs, opens)
        return values_by_name(names, values.numpy()), watched.numpy()

    def _by_xla(self, shape: tuple[int, ...]) -> bool:
        n_steps, n_rows = shape
        if not self.jit_compile or self._strict or n_steps > 1:
            return self.jit_compile
        return not self._steps.opens and self._should_use_xla(n_rows)

    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs, opens: bool, by_xla: bool) -> Any:
        def train(tensors: Sequence[Any]) -> tuple[Any, Any]:
            rows = all_rows(layout, tensors) if opens else None
            with owned_gradients():
                history = self._steps.run(shape[0], minibatches(layout, shape, tensors), rows)
            return history, flat([variable.value for variable in self._watched]) if self._watched else tf.zeros([0])

        def as_function(*tensors: Any) -> tuple[Any, Any]:
            assert self._state is not None
            before = [tf.reshape(variable.value, [-1]) for variable in self._state.variables]
            with StateScope(self._state, before) as scope:
                result, after = train(tensors), scope.vectors()
            for variable, old, new in zip(self._state.variables, before, after, strict=True):
                if new is not old:
                    variable.assign(tf.reshape(new, variable.shape))
            return result

        def in_place(*tensors: Any) -> tuple[Any, Any]:
            return train(tensors)

        return self._traced(lambda functional: as_function if functional else in_place, inputs, by_xla)


def should_use_xla(steps_made: int, n_rows: int, n_weights: int) -> bool:
    """Return whether XLA compiles single gradient steps.

    The decision depends only on values that another process also knows when it resumes the training.

    Args:
        steps_made: Gradient steps so far.
        n_rows: Rows of one gradient step.
        n_weights: Number of trainable weights.
    """
    return steps_made >= PLAIN_STEPS and n_rows * n_weights <= _SMALL


def specs_of(inputs: Inputs) -> list[Any]:
    """Return the input signature of a compiled function."""
    return [tf.TensorSpec(values.shape, values.dtype) for values in inputs]


def minibatches(layout: Layout, shape: tuple[int, ...], tensors: Sequence[Any]) -> Callable[[Any], dict[str, Any]]:
    """Return a function from k to the columns of minibatch k; for use while tracing.

    Args:
        layout: Layout of the packed data.
        shape: [K, B].
        tensors: The packed matrix [M, W] and images [M, ...]; preceded by the indices [K, B] unless contiguous.
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
    """Return the columns of all rows, while tracing; arguments as in `minibatches`."""
    matrix, *images = tensors if layout.contiguous else tensors[1:]
    return unpack(matrix, layout) | dict(zip(layout.images, images, strict=True))


def direct_call(function: Any) -> Callable[..., Any]:
    """Return a function that calls a concrete function with tensors and returns a list of tensors.

    It skips TensorFlow's checks of arguments and of the structure of the result, a quarter of the time of a short call.
    The function may be shared by agents of the same structure (`agents.backend.shared_functions`).
    """
    captured, call_flat = list(function.captured_inputs), shared_function(function).call_flat

    def call(*inputs: Any) -> Any:
        return call_flat(*inputs, *captured)

    return call


def _is_compile_error(error: Exception) -> bool:
    """Return whether an error means that XLA could not compile, judged by its type and its message."""
    text = str(error).lower()
    if "out of memory" in text or "out_of_memory" in text:
        return False
    if isinstance(error, tf.errors.InvalidArgumentError | tf.errors.UnimplementedError):
        return "xla" in text or "compile" in text or "unsupported" in text
    return isinstance(error, tf.errors.InternalError | tf.errors.NotFoundError)

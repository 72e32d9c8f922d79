"""The compiled update: all gradient steps of one update in one call into TensorFlow.

An agent says what its loss is; here that becomes gradients, clipping, optimizer steps and target networks. The
loop over minibatches runs inside the compiled function, so that an update of 160 gradient steps crosses from
Python into TensorFlow once. Numbers that may change are variables, so nothing is ever traced a second time for
the same shapes.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.backend import tf
from agents.errors import ConfigurationError
from agents.live import OptimizerNumbers
from agents.packing import Layout, layout_of, pack, unpack
from agents.replay import Batches

Array = np.ndarray[Any, Any]
Losses = Mapping[str, Any]

log = logging.getLogger(__name__)

Inputs = Sequence[Any]  # arrays, and single numbers of NumPy


@dataclass(frozen=True)
class Turn:
    """A part of a gradient step: some optimizers step together, on losses of the weights as they are by then.

    Attributes:
        optimizers: Their names.
        loss: minibatch -> {name: scalar}; one scalar for each of them, others are metrics.
        every: Gradient steps between their steps; the losses are computed all the same. Defaults to 1.
    """

    optimizers: Sequence[str]
    loss: Callable[[dict[str, Any]], Losses]
    every: int = 1


@dataclass(frozen=True, kw_only=True)
class Learnable:
    """What an update needs to know of an agent.

    Attributes:
        turns: Which optimizers step on which losses, in this order. Every optimizer is in one of them.
        variables: Optimizer name -> the variables that it updates.
        optimizers: Optimizer name -> Keras optimizer, built on those variables.
        numbers: Optimizer name -> the numbers of its rule that may change.
        targets: Pairs (target variable, online variable).
        tau: Share of the online variables that a target update takes, or None without targets.
        target_update_interval: Gradient steps between target updates.
        gradient_steps: Counter of gradient steps, an int64 variable.
        max_grad_norm: Global norm that the gradients of an optimizer are scaled down to, a number or variable; or None.
        whole: minibatch -> minibatch: what concerns all of its rows together, before it is parted among replicas.
        gradient_norms: Whether the norms of each optimizer's gradients, before and after clipping, are told as metrics.
    """

    turns: Sequence[Turn]
    variables: Mapping[str, Sequence[Any]]
    optimizers: Mapping[str, Any]
    numbers: Mapping[str, OptimizerNumbers]
    targets: Sequence[tuple[Any, Any]]
    tau: Any | None
    target_update_interval: int
    gradient_steps: Any
    max_grad_norm: Any | None
    whole: Callable[[dict[str, Any]], dict[str, Any]]
    gradient_norms: bool = False

    def __post_init__(self) -> None:
        """Refuses turns in which an optimizer is missing, unknown, or there twice."""
        if sorted(name for turn in self.turns for name in turn.optimizers) != sorted(self.optimizers):
            told = [list(turn.optimizers) for turn in self.turns]
            raise ConfigurationError(
                f"turns() must have each of the optimizers {sorted(self.optimizers)} in one turn; it gave {told}."
            )

    def only_turn(self) -> Turn:
        """The turn of all optimizers, for what knows of one only.

        Raises:
            ConfigurationError: They step in several.
        """
        if len(self.turns) != 1:
            told = ", then ".join(" and ".join(turn.optimizers) for turn in self.turns)
            raise ConfigurationError(
                f"A strategy trains agents all of whose optimizers step together (dqn, ppo, a2c); this one's step one "
                f"after the other ({told}): leave the strategy out."
            )
        return self.turns[0]


class GradientSteps:
    """The gradient steps of one agent, as TensorFlow operations on its variables. Only to be called while tracing.

    Attributes:
        names: What `loss` named, in order; known once a step has been traced.
    """

    def __init__(self, learnable: Learnable) -> None:
        """Args: learnable: the agent's parts."""
        self._parts = learnable
        self.names: tuple[str, ...] = ()

    def run(self, n_steps: int, minibatch: Callable[[Any], dict[str, Any]]) -> Any:
        """Makes `n_steps` gradient steps; gives what each of them gave, [K, names].

        Args:
            n_steps: K.
            minibatch: k -> the columns of minibatch k.
        """
        if n_steps == 1:
            return self._step(minibatch(0))[None]
        array = tf.TensorArray(tf.float32, size=n_steps)

        def body(k: Any, array: Any) -> tuple[Any, Any]:
            return k + 1, array.write(k, self._step(minibatch(k)))

        _, array = tf.while_loop(lambda k, _: k < n_steps, body, (tf.constant(0), array))
        return array.stack()

    def _step(self, minibatch: dict[str, Any]) -> Any:
        values = self._learn(self._parts.whole(minibatch))
        self._parts.gradient_steps.assign_add(1)
        self._update_targets()
        return values

    def _learn(self, minibatch: dict[str, Any]) -> Any:
        """Moves the variables by one gradient step; gives what the losses named, [names]."""
        told: dict[str, Any] = {}
        for turn in self._parts.turns:
            told |= self._take(turn, minibatch)
        self.names = tuple(told)
        return tf.stack(list(told.values()))

    def _take(self, turn: Turn, minibatch: dict[str, Any]) -> dict[str, Any]:
        """Has the optimizers of a turn make their steps, where they are due; gives what its loss named, and norms."""
        names: list[str] = []

        def step() -> list[Any]:
            told, gradients = self._gradients(turn, minibatch)
            for name, own in gradients.items():
                told |= self._apply(name, own)
            names[:] = told
            return list(told.values())

        def wait() -> list[Any]:
            losses = list(self._losses(turn, minibatch).values())
            return losses + [tf.constant(np.nan, tf.float32)] * (len(names) - len(losses))  # no gradients, no norms

        if turn.every == 1:
            values = step()
        else:
            is_due = tf.equal((self._parts.gradient_steps.value + 1) % turn.every, 0)
            values = tf.cond(is_due, step, wait)
        return dict(zip(names, values, strict=True))

    def _losses(self, turn: Turn, minibatch: dict[str, Any]) -> dict[str, Any]:
        """What a turn's loss names: scalars."""
        losses = {name: _scalar(name, value) for name, value in _mapping(turn.loss(minibatch)).items()}
        for name in turn.optimizers:
            if name not in losses:
                raise ConfigurationError(
                    f"loss() must give a value for the optimizer {name!r}; it gave {sorted(losses)}."
                )
        return losses

    def _gradients(
        self, turn: Turn, minibatch: dict[str, Any], weight: Any | None = None
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """What the loss of some rows named, and its gradients for each optimizer, both times `weight`."""
        parts = self._parts
        with tf.GradientTape(persistent=len(turn.optimizers) > 1) as tape:
            losses = self._losses(turn, minibatch)
            if weight is not None:
                losses = {name: weight * value for name, value in losses.items()}
        gradients = {}
        for name in turn.optimizers:
            variables = [variable.value for variable in parts.variables[name]]
            gradients[name] = tape.gradient(losses[name], variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return losses, gradients

    def _apply(self, name: str, gradients: list[Any], copies: int = 1) -> dict[str, Any]:
        """Makes an optimizer's step, which sums up what so many replicas give it; gives its norms, where wanted."""
        parts = self._parts
        norms = {}
        if parts.gradient_norms:
            norms[f"gradient_norm/{name}"] = tf.linalg.global_norm(gradients)
        if parts.max_grad_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, parts.max_grad_norm)
        if parts.gradient_norms:
            norms[f"clipped_gradient_norm/{name}"] = tf.linalg.global_norm(gradients)
        with parts.numbers[name].in_place():
            optimizer = parts.optimizers[name]
            optimizer.apply([each / copies for each in gradients] if copies > 1 else gradients, parts.variables[name])
        return norms

    def _update_targets(self) -> None:
        parts = self._parts
        tau = parts.tau
        if tau is None:
            return

        def move() -> None:
            for target, online in parts.targets:
                target.assign(tau * online + (1.0 - tau) * target)

        if parts.target_update_interval == 1:
            move()
            return
        is_due = tf.equal(parts.gradient_steps.value % parts.target_update_interval, 0)
        # Most steps move no target; a branch costs less than moving every target by nothing.
        tf.cond(is_due, move, lambda: None)


class CompiledCalls(ABC):
    """Functions, each compiled once for a layout and shape of its data: by XLA where it can, else as a plain graph.

    Args:
        jit_compile: Compile with XLA. When XLA cannot compile the loss, everything falls back to plain graphs.
        strict: Raise instead of falling back.
    """

    def __init__(self, *, jit_compile: bool, strict: bool) -> None:
        self._strict = strict
        self.jit_compile = jit_compile
        self._compiled: dict[tuple[Any, ...], Any] = {}

    @abstractmethod
    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs) -> Any:
        """The function for data of this layout and minibatches of this shape [K, B]."""

    def _call(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs) -> Any:
        """Calls the function for these inputs; the last of them tells how many rows there are."""
        key = (layout, shape, inputs[-1].shape)
        try:
            if key not in self._compiled:
                self._compiled[key] = self._compile(layout, shape, inputs)
            return self._compiled[key](*map(tf.constant, inputs))
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if not self.jit_compile or self._strict or not _is_compile_error(error):
                raise
            log.warning("XLA cannot compile this agent's loss; its update runs as a plain graph instead. (%s)", error)
            self.jit_compile = False
            self._compiled.clear()
            return self._call(layout, shape, inputs)


class CompiledUpdate(CompiledCalls):
    """Runs K gradient steps in one call.

    Args:
        steps: The agent's gradient steps.
        watched: Variables whose values are wanted after the update, as one flat vector.
        jit_compile: Compile updates of several gradient steps with XLA, and with `strict` all updates.
        strict: See `CompiledCalls`.
    """

    def __init__(
        self, steps: GradientSteps, watched: Sequence[Any], *, jit_compile: bool, strict: bool = False
    ) -> None:
        super().__init__(jit_compile=jit_compile, strict=strict)
        self._steps = steps
        self._watched = watched

    def __call__(self, batches: Batches) -> tuple[dict[str, Array], Array]:
        """Returns (name -> [K] values of each gradient step, flat values of the watched variables)."""
        data, indices, contiguous = batches
        layout = layout_of(data, contiguous)
        columns = [pack(data, layout), *(data[name] for name in layout.images)]
        inputs = [indices, *columns] if not layout.contiguous else columns
        values, watched = self._call(layout, indices.shape, inputs)
        return dict(zip(self._steps.names, values.numpy().T, strict=True)), watched.numpy()

    def _compile(self, layout: Layout, shape: tuple[int, ...], inputs: Inputs) -> Any:
        def run(*tensors: Any) -> tuple[Any, Any]:
            history = self._steps.run(shape[0], minibatches(layout, shape, tensors))
            watched = [tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in self._watched]
            return history, tf.concat(watched, 0) if watched else tf.zeros([0])

        specs = specs_of(inputs)
        # Without autograph, as Keras does it: an error in a loss stays the error that it is, with its own traceback.
        # XLA gains in the loop over minibatches. For a single one a plain graph is as fast, and ready much sooner.
        jit_compile = self.jit_compile and (self._strict or shape[0] > 1)
        return direct_call(tf.function(run, jit_compile=jit_compile, autograph=False).get_concrete_function(*specs))


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


def direct_call(function: Any) -> Callable[..., Any]:
    """Calls a concrete function with flat tensors, without the checks of arguments, a fifth of a short call."""
    captured, call_flat = list(function.captured_inputs), function.inference_fn.call_flat
    structure = function.structured_outputs

    def call(*inputs: Any) -> Any:
        return tf.nest.pack_sequence_as(structure, call_flat(*inputs, *captured))

    return call


def _mapping(losses: Any) -> dict[str, Any]:
    if not isinstance(losses, Mapping):
        kind = "Tensor" if tf.is_tensor(losses) else type(losses).__name__
        raise ConfigurationError(f"loss() must return a mapping such as {{'default': loss}}, it returned a {kind}.")
    return dict(losses)


def _scalar(name: str, value: Any) -> Any:
    value = tf.cast(tf.convert_to_tensor(value), tf.float32)
    if value.shape.rank != 0:
        raise ConfigurationError(
            f"loss() must give one number for {name!r} (take the mean over the minibatch); it gave shape {value.shape}."
        )
    return value


def _is_compile_error(error: Exception) -> bool:
    """Whether XLA could not compile something, as far as can be told from the words."""
    text = str(error).lower()
    return "xla" in text or "compile" in text or "unsupported" in text

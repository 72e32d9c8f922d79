"""Gradient steps: what an agent says of its losses becomes gradients, clipping, optimizer steps and target networks.

Numbers that may change are variables, so nothing has to be traced a second time (`agents.updates.compiled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.backend.tensorflow import tf
from agents.errors import ConfigurationError
from agents.updates.mutable import OptimizerNumbers

Array = np.ndarray[Any, Any]
Losses = Mapping[str, Any]

PRIORITIES = "priorities"
"""What a loss may name beside scalars, [B]: how much there was to learn from each row. It goes to the memory."""

LOSS_AFTER = "loss_after/"
"""Prefix of metrics: an optimizer's loss after its step, on the same minibatch (`KerasAgent.losses_after_steps`)."""


@dataclass(frozen=True)
class OptimizerStep:
    """A part of a gradient step: some optimizers step together, on losses of the weights as they are by then.

    Attributes:
        optimizers: Their names.
        loss: minibatch -> {name: scalar}; one scalar for each of them, others are metrics; and perhaps `PRIORITIES`.
        every: Gradient steps between their steps; the losses are computed all the same. Defaults to 1.
        after: minibatch -> {name: scalar}, with the weights as they are after the step: metrics that are not gradients'
            business, such as how far a policy has moved. NaN where no step is due. Defaults to none.
    """

    optimizers: Sequence[str]
    loss: Callable[[dict[str, Any]], Losses]
    every: int = 1
    after: Callable[[dict[str, Any]], Losses] | None = None


Turn = OptimizerStep
"""The name that it had before, for one version."""


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
        preprocess_minibatch: minibatch -> minibatch; see `KerasAgent.preprocess_minibatch`.
        pre_update: Rows of an update -> {name: scalar} of metrics, before its gradient steps; or None.
        gradient_norms: Whether the norms of each optimizer's gradients, before and after clipping, are told as metrics.
        losses_after: Whether each optimizer's loss after its step, on the same minibatch, is recorded as a metric.
    """

    optimizer_steps: Sequence[OptimizerStep]
    variables: Mapping[str, Sequence[Any]]
    optimizers: Mapping[str, Any]
    numbers: Mapping[str, OptimizerNumbers]
    targets: Sequence[tuple[Any, Any]]
    tau: Any | None
    target_update_interval: int
    gradient_steps: Any
    max_grad_norm: Any | None
    preprocess_minibatch: Callable[[dict[str, Any]], dict[str, Any]]
    pre_update: Callable[[dict[str, Any]], Losses] | None = None
    gradient_norms: bool = False
    losses_after: bool = False

    def __post_init__(self) -> None:
        """Refuses turns in which an optimizer is missing, unknown, or there twice."""
        if sorted(name for turn in self.optimizer_steps for name in turn.optimizers) != sorted(self.optimizers):
            told = [list(turn.optimizers) for turn in self.optimizer_steps]
            raise ConfigurationError(
                f"turns() must have each of the optimizers {sorted(self.optimizers)} in one turn; it gave {told}."
            )

    def only_turn(self) -> OptimizerStep:
        """The turn of all optimizers, for what knows of one only.

        Raises:
            ConfigurationError: They step in several, or the update has a `pre_update`.
        """
        if self.pre_update is not None:
            raise ConfigurationError(
                "A strategy parts minibatches among replicas, and an update of this agent opens with a step that needs "
                "all of its rows together: leave the strategy out."
            )
        if len(self.optimizer_steps) != 1:
            told = ", then ".join(" and ".join(turn.optimizers) for turn in self.optimizer_steps)
            raise ConfigurationError(
                f"A strategy trains agents all of whose optimizers step together (dqn, ppo, a2c, acer); this one's "
                f"step one after the other ({told}): leave the strategy out."
            )
        return self.optimizer_steps[0]


class GradientSteps:
    """The gradient steps of one agent, as TensorFlow operations on its variables. Only to be called while tracing.

    Attributes:
        names: The scalars that `loss` named, in order; known once a step has been traced.
    """

    def __init__(self, learnable: Learnable) -> None:
        """Args: learnable: the agent's parts."""
        self._parts = learnable
        self.names: tuple[str, ...] = ()

    @property
    def opens(self) -> bool:
        """Whether an update has a `pre_update`."""
        return self._parts.pre_update is not None

    def run(self, n_steps: int, minibatch: Callable[[Any], dict[str, Any]], rows: dict[str, Any] | None = None) -> Any:
        """Makes `n_steps` gradient steps, and `pre_update` before them; gives what each gave, [K, W], for `told`.

        Args:
            n_steps: K.
            minibatch: k -> the columns of minibatch k.
            rows: The columns of all rows, where there is a `pre_update`.
        """
        if rows is None:
            return self._steps(n_steps, minibatch)
        first = self._pre_update(rows)
        history = self._steps(n_steps, minibatch)
        self.names = (*first, *self.names)
        once = tf.stack(list(first.values()))[None]  # [1, names]: the same at every gradient step of the update
        return tf.concat([tf.tile(once, [n_steps, 1]), history], axis=1)

    def _pre_update(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Run `pre_update`; return what it named."""
        assert self._parts.pre_update is not None
        told = _mapping(self._parts.pre_update(self._parts.preprocess_minibatch(rows)))
        return {name: _scalar(name, value) for name, value in told.items()}

    def _steps(self, n_steps: int, minibatch: Callable[[Any], dict[str, Any]]) -> Any:
        if n_steps == 1:
            return self._step(minibatch(0))[None]
        array = tf.TensorArray(tf.float32, size=n_steps)

        def body(k: Any, array: Any) -> tuple[Any, Any]:
            return k + 1, array.write(k, self._step(minibatch(k)))

        _, array = tf.while_loop(lambda k, _: k < n_steps, body, (tf.constant(0), array))
        return array.stack()

    def _step(self, minibatch: dict[str, Any]) -> Any:
        values = self._learn(self._parts.preprocess_minibatch(minibatch))
        self._parts.gradient_steps.assign_add(1)
        self._update_targets()
        return values

    def _learn(self, minibatch: dict[str, Any]) -> Any:
        """Moves the variables by one gradient step; gives what the losses named, [W]."""
        told: dict[str, Any] = {}
        for turn in self._parts.optimizer_steps:
            told |= self._take(turn, minibatch)
        priorities = [told.pop(PRIORITIES)] if PRIORITIES in told else []
        self.names = tuple(told)
        return tf.concat([tf.stack(list(told.values())), *priorities], 0)

    def _take(self, turn: OptimizerStep, minibatch: dict[str, Any]) -> dict[str, Any]:
        """Has the optimizers of a turn make their steps, where they are due; gives what its loss named, and norms."""
        names: list[str] = []

        def step() -> list[Any]:
            told, gradients = self._gradients(turn, minibatch)
            for name, own in gradients.items():
                told |= self._apply(name, own)
            told |= self._after(turn, minibatch)
            if self._parts.losses_after:
                after = self._losses(turn, minibatch)
                told |= {LOSS_AFTER + name: after[name] for name in turn.optimizers}
            names[:] = told
            return list(told.values())

        def wait() -> list[Any]:
            losses = list(self._losses(turn, minibatch).values())
            return losses + [tf.constant(np.nan, tf.float32)] * (len(names) - len(losses))  # no step: nothing after it

        if turn.every == 1:
            values = step()
        else:
            is_due = tf.equal((self._parts.gradient_steps.value + 1) % turn.every, 0)
            values = tf.cond(is_due, step, wait)
        return dict(zip(names, values, strict=True))

    def _after(self, turn: OptimizerStep, minibatch: dict[str, Any], weight: Any = 1.0) -> dict[str, Any]:
        """Return the metrics that a turn has of the weights after its step, times `weight`."""
        if turn.after is None:
            return {}
        return {name: weight * _scalar(name, value) for name, value in _mapping(turn.after(minibatch)).items()}

    def _losses(self, turn: OptimizerStep, minibatch: dict[str, Any]) -> dict[str, Any]:
        """What a turn's loss names: scalars, and perhaps priorities."""
        losses = {
            name: _vector(name, value) if name == PRIORITIES else _scalar(name, value)
            for name, value in _mapping(turn.loss(minibatch)).items()
        }
        for name in turn.optimizers:
            if name not in losses:
                raise ConfigurationError(
                    f"loss() must give a value for the optimizer {name!r}; it gave {sorted(losses)}."
                )
        return losses

    def _gradients(
        self, turn: OptimizerStep, minibatch: dict[str, Any], weight: Any | None = None
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """What the loss of some rows named, and its gradients for each optimizer, both times `weight`."""
        parts = self._parts
        with tf.GradientTape(persistent=len(turn.optimizers) > 1) as tape:
            losses = self._losses(turn, minibatch)
            if weight is not None and PRIORITIES in losses:
                raise ConfigurationError(
                    f"loss() names {PRIORITIES!r}, which a strategy does not bring back to the memory from where rows "
                    f"are learned from: leave the strategy out."
                )
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


def told(names: Sequence[str], history: Array) -> dict[str, Array]:
    """What gradient steps gave, [..., K, W], by name: scalars [..., K], and priorities [..., K, B] where named."""
    n = len(names)
    values = {name: history[..., index] for index, name in enumerate(names)}
    return values | {PRIORITIES: history[..., n:]} if history.shape[-1] > n else values


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


def _vector(name: str, value: Any) -> Any:
    value = tf.cast(tf.convert_to_tensor(value), tf.float32)
    if value.shape.rank != 1:
        raise ConfigurationError(f"loss() must give one number a row for {name!r}; it gave shape {value.shape}.")
    return value

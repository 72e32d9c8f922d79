"""Gradient steps: from an agent's losses to gradients, clipping, optimizer steps and target networks.

Mutable hyperparameters are variables, so nothing is traced a second time (`agents.updates.compiled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.backend.tensorflow import tf
from agents.errors import ConfigurationError
from agents.updates.bound_optimizer import BoundOptimizer
from agents.updates.state_scope import NotFunctionalError, assign_flat, branch, in_state_scope, read_flat, repeat

Array = np.ndarray[Any, Any]
Losses = Mapping[str, Any]

PRIORITIES = "priorities"
"""Name of an optional non-scalar output of a loss, [B]: the new priority of each row, passed on to the buffer."""

LOSS_AFTER = "loss_after/"
"""Prefix of metrics: an optimizer's loss after its step, on the same minibatch (`KerasAgent.losses_after_steps`)."""


@dataclass(frozen=True)
class OptimizerStep:
    """A part of a gradient step: optimizers that step together, on losses of the weights at that moment.

    Attributes:
        optimizers: Names of the optimizers.
        loss: minibatch -> {name: scalar}; one scalar for each optimizer, any others are metrics; optionally
            `PRIORITIES`.
        every: Gradient steps between two steps of the optimizers; losses are computed at every gradient step, and
            learning-rate schedules count the steps of the optimizers. Defaults to 1.
        after: minibatch -> {name: scalar}, computed with the weights after the step: metrics that need no gradients,
            such as the change of a policy. NaN at gradient steps without an optimizer step. Defaults to none.
    """

    optimizers: Sequence[str]
    loss: Callable[[dict[str, Any]], Losses]
    every: int = 1
    after: Callable[[dict[str, Any]], Losses] | None = None


Turn = OptimizerStep
"""Deprecated alias, kept for one version."""


@dataclass(frozen=True, kw_only=True)
class Learnable:
    """The parts of an agent that an update needs.

    Attributes:
        optimizer_steps: Optimizers and their losses, in the order of their steps. Every optimizer is in exactly one.
        optimizers: Optimizer name -> Keras optimizer, with the variables that it updates.
        targets: Pairs (target variable, online variable).
        tau: Share of the online variables in a target update, or None without targets.
        target_update_interval: Gradient steps between target updates.
        gradient_steps: Counter of gradient steps, an int64 variable.
        max_grad_norm: Largest global norm of an optimizer's gradients (larger ones are scaled down), a number or a
            variable; or None.
        preprocess_minibatch: minibatch -> minibatch; see `KerasAgent.preprocess_minibatch`.
        pre_update: Rows of an update -> {name: scalar} of metrics, before its gradient steps; or None.
        gradient_norms: Whether the norms of each optimizer's gradients, before and after clipping, are metrics.
        losses_after: Whether each optimizer's loss after its step, on the same minibatch, is a metric.
        layer_states: Variables that layers may assign when they are called: moving averages, seeds.
    """

    optimizer_steps: Sequence[OptimizerStep]
    optimizers: Mapping[str, BoundOptimizer]
    targets: Sequence[tuple[Any, Any]]
    tau: Any | None
    target_update_interval: int
    gradient_steps: Any
    max_grad_norm: Any | None
    preprocess_minibatch: Callable[[dict[str, Any]], dict[str, Any]]
    pre_update: Callable[[dict[str, Any]], Losses] | None = None
    gradient_norms: bool = False
    losses_after: bool = False
    layer_states: Sequence[Any] = ()

    def groups(self) -> list[list[Any]]:
        """Return variables that change together: weights that an optimizer joins, and targets in the same order."""
        joined = [bound.weights for bound in self.optimizers.values() if bound.joins]
        alone = [[weight] for bound in self.optimizers.values() if not bound.joins for weight in bound.weights]
        return [*joined, *alone, *([target for target, _ in pairs] for pairs in self.target_pairs())]

    def target_pairs(self) -> list[list[tuple[Any, Any]]]:
        """Return the pairs of `targets`, those of each optimizer in the order of its weights, and all others."""
        left = {id(online): (target, online) for target, online in self.targets}
        found = []
        for bound in self.optimizers.values():
            own = [left.pop(id(weight)) for weight in bound.weights if id(weight) in left]
            found.append(own)
        return [own for own in (*found, list(left.values())) if own]

    def __post_init__(self) -> None:
        """Refuse optimizer steps in which an optimizer is missing, unknown or repeated."""
        if sorted(name for optimizer_step in self.optimizer_steps for name in optimizer_step.optimizers) != sorted(
            self.optimizers
        ):
            given = [list(optimizer_step.optimizers) for optimizer_step in self.optimizer_steps]
            raise ConfigurationError(
                f"optimizer_steps() must have each of the optimizers {sorted(self.optimizers)} in one step; "
                f"it gave {given}."
            )

    def only_optimizer_step(self) -> OptimizerStep:
        """Return the single step of all optimizers, for strategies that support only one.

        Raises:
            ConfigurationError: The optimizers step in several parts, or the update has a `pre_update`.
        """
        if self.pre_update is not None:
            raise ConfigurationError(
                "A strategy splits minibatches across replicas, and an update of this agent begins with a step that "
                "needs all of its rows together: leave the strategy out."
            )
        if len(self.optimizer_steps) != 1:
            order = ", then ".join(" and ".join(optimizer_step.optimizers) for optimizer_step in self.optimizer_steps)
            raise ConfigurationError(
                f"A strategy needs an agent with one step of all optimizers (dqn, ppo, a2c, acer); the optimizers "
                f"of this agent step one after the other ({order}): leave the strategy out."
            )
        if self.optimizer_steps[0].every != 1:
            raise ConfigurationError(
                f"A strategy needs an optimizer step in each gradient step, and this agent makes one in "
                f"{self.optimizer_steps[0].every}: leave the strategy out."
            )
        return self.optimizer_steps[0]


class GradientSteps:
    """The gradient steps of one agent, as TensorFlow operations on its variables. Call its methods only while tracing.

    Attributes:
        names: Names of the scalars of `loss`, in order; known once a step has been traced.
    """

    def __init__(self, learnable: Learnable) -> None:
        """Args: learnable: the agent's parts."""
        self._parts = learnable
        self.names: tuple[str, ...] = ()

    @property
    def opens(self) -> bool:
        """True if the update begins with a `pre_update`."""
        return self._parts.pre_update is not None

    def run(self, n_steps: int, minibatch: Callable[[Any], dict[str, Any]], rows: dict[str, Any] | None = None) -> Any:
        """Run `pre_update`, if any, and `n_steps` gradient steps; return their values [K, W] for `values_by_name`.

        Args:
            n_steps: K.
            minibatch: k -> the columns of minibatch k.
            rows: The columns of all rows; required by `pre_update`.
        """
        if rows is None:
            return self._steps(n_steps, minibatch)
        first = self._pre_update(rows)
        history = self._steps(n_steps, minibatch)
        self.names = (*first, *self.names)
        once = tf.stack(list(first.values()))[None]  # [1, names]: equal for all gradient steps of the update
        return tf.concat([tf.tile(once, [n_steps, 1]), history], axis=1)

    def _pre_update(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Run `pre_update` and return its metrics."""
        assert self._parts.pre_update is not None
        metrics = _mapping(self._parts.pre_update(self._parts.preprocess_minibatch(rows)))
        return {name: _scalar(name, value) for name, value in metrics.items()}

    def _steps(self, n_steps: int, minibatch: Callable[[Any], dict[str, Any]]) -> Any:
        if n_steps == 1:
            return self._step(minibatch(0))[None]
        return repeat(n_steps, lambda k: self._step(minibatch(k)))

    def _step(self, minibatch: dict[str, Any]) -> Any:
        values = self._learn(self._parts.preprocess_minibatch(minibatch))
        self._parts.gradient_steps.assign_add(1)
        self._update_targets()
        return values

    def _learn(self, minibatch: dict[str, Any]) -> Any:
        """Make one gradient step; return the values of the losses, [W]."""
        values: dict[str, Any] = {}
        for optimizer_step in self._parts.optimizer_steps:
            values |= self._take(optimizer_step, minibatch)
        priorities = [values.pop(PRIORITIES)] if PRIORITIES in values else []
        self.names = tuple(values)
        return tf.concat([tf.stack(list(values.values())), *priorities], 0)

    def _take(self, optimizer_step: OptimizerStep, minibatch: dict[str, Any]) -> dict[str, Any]:
        """Make the optimizer step if it is due; return the values of its loss and the norms of its gradients."""
        names: list[str] = []

        def step() -> list[Any]:
            values, gradients = self._gradients(optimizer_step, minibatch)
            for name, own in gradients.items():
                values |= self._apply(name, own)
            values |= self._after(optimizer_step, minibatch)
            if self._parts.losses_after:
                after = self._losses(optimizer_step, minibatch)
                values |= {LOSS_AFTER + name: after[name] for name in optimizer_step.optimizers}
            names[:] = values
            return list(values.values())

        def wait() -> list[Any]:
            losses = list(self._losses(optimizer_step, minibatch).values())
            return losses + [tf.constant(np.nan, tf.float32)] * (len(names) - len(losses))  # no step: nothing after it

        if optimizer_step.every == 1:
            values = step()
        else:
            is_due = tf.equal((self._parts.gradient_steps.value + 1) % optimizer_step.every, 0)
            optimizers = [self._parts.optimizers[name] for name in optimizer_step.optimizers]
            changes = [each for bound in optimizers for each in (*bound.weights, *bound.variables)]
            values = branch(is_due, step, wait, [*changes, *self._parts.layer_states])
        return dict(zip(names, values, strict=True))

    def _after(self, optimizer_step: OptimizerStep, minibatch: dict[str, Any], weight: Any = 1.0) -> dict[str, Any]:
        """Return the metrics of the weights after an optimizer step, times `weight`."""
        if optimizer_step.after is None:
            return {}
        return {
            name: weight * _scalar(name, value) for name, value in _mapping(optimizer_step.after(minibatch)).items()
        }

    def _losses(self, optimizer_step: OptimizerStep, minibatch: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the loss of an optimizer step: scalars, and priorities if any."""
        losses = {
            name: _vector(name, value) if name == PRIORITIES else _scalar(name, value)
            for name, value in _mapping(optimizer_step.loss(minibatch)).items()
        }
        for name in optimizer_step.optimizers:
            if name not in losses:
                raise ConfigurationError(
                    f"loss() must give a value for the optimizer {name!r}; it gave {sorted(losses)}."
                )
        return losses

    def _gradients(
        self, optimizer_step: OptimizerStep, minibatch: dict[str, Any], weight: Any | None = None
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return the values of the loss for some rows, and the gradients of each optimizer, both times `weight`."""
        parts = self._parts
        weights = {name: [each.value for each in parts.optimizers[name].weights] for name in optimizer_step.optimizers}
        with tf.GradientTape(persistent=len(optimizer_step.optimizers) > 1) as tape:
            tape.watch(weights)
            losses = self._losses(optimizer_step, minibatch)
            if weight is not None and PRIORITIES in losses:
                raise ConfigurationError(
                    f"loss() names {PRIORITIES!r}, which a strategy does not bring back to the buffer from the "
                    f"replicas: leave the strategy out."
                )
            if weight is not None:
                losses = {name: weight * value for name, value in losses.items()}
        for name in optimizer_step.optimizers:
            if any(
                each.value is not value
                for each, value in zip(parts.optimizers[name].weights, weights[name], strict=True)
            ):
                raise NotFunctionalError  # the loss assigns weights, to which gradients then belong (spectral norms)
        gradients = {}
        for name in optimizer_step.optimizers:
            gradients[name] = tape.gradient(
                losses[name], weights[name], unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
        return losses, gradients

    def _apply(self, name: str, gradients: list[Any], copies: int = 1) -> dict[str, Any]:
        """Make the step of an optimizer that sums the gradients of `copies` replicas; return the norms, if recorded."""
        with tf.name_scope("optimizer"):  # `benchmarks/training/budget.py` tells operations apart by these names
            return self._clip_and_apply(name, gradients, copies)

    def _clip_and_apply(self, name: str, gradients: list[Any], copies: int) -> dict[str, Any]:
        parts, optimizer = self._parts, self._parts.optimizers[name]
        gradients = optimizer.joined(gradients)
        norms = {}
        if parts.gradient_norms:
            norms[f"gradient_norm/{name}"] = tf.linalg.global_norm(gradients)
        if parts.max_grad_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, parts.max_grad_norm)
        if parts.gradient_norms:
            norms[f"clipped_gradient_norm/{name}"] = tf.linalg.global_norm(gradients)
        optimizer.apply([each / copies for each in gradients] if copies > 1 else gradients)
        return norms

    def _update_targets(self) -> None:
        parts = self._parts
        tau = parts.tau
        if tau is None:
            return

        def move() -> None:
            with tf.name_scope("targets"):
                for pairs in parts.target_pairs():
                    _move(pairs, tau)

        if parts.target_update_interval == 1:
            move()
            return
        is_due = tf.equal(parts.gradient_steps.value % parts.target_update_interval, 0)
        # Most steps update no target; a branch costs less than an update that changes nothing.
        branch(is_due, move, lambda: None, [target for target, _ in parts.targets])


def _move(pairs: Sequence[tuple[Any, Any]], tau: Any) -> None:
    """Move targets towards their online variables by a share `tau`; as one vector where variables are tensors."""
    if not in_state_scope():
        for target, online in pairs:
            target.assign(_moved(online, target, tau))
        return
    targets, onlines = zip(*pairs, strict=True)
    assign_flat(targets, _moved(read_flat(onlines), read_flat(targets), tau))


def _moved(online: Any, target: Any, tau: Any) -> Any:
    # One product only: of a sum of two, compilers round either the one or the other.
    return online - (1.0 - tau) * (online - target)


def values_by_name(names: Sequence[str], history: Array) -> dict[str, Array]:
    """Return the values of gradient steps [..., K, W] by name: scalars [..., K], priorities [..., K, B]."""
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

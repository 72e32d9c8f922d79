"""Gradient steps on several replicas: each computes its part of a minibatch, and all apply the summed gradient."""

from __future__ import annotations

from typing import Any

from agents.backend.tensorflow import tf
from agents.errors import ConfigurationError
from agents.updates.gradient_steps import GradientSteps, Learnable

_CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")
"""Arguments by which Keras's optimizers clip gradients."""


class DistributedSteps(GradientSteps):
    """The gradient steps of an agent whose variables are in the scope of a `tf.distribute` strategy.

    Args:
        learnable: The agent's parts.
        strategy: The strategy.

    Raises:
        ConfigurationError: The optimizers step one after the other, or clip gradients by themselves.
    """

    def __init__(self, learnable: Learnable, strategy: Any) -> None:
        super().__init__(learnable)
        self._strategy = strategy
        self._optimizer_step = learnable.only_optimizer_step()
        for bound in learnable.optimizers.values() if strategy.num_replicas_in_sync > 1 else ():
            for name in _CLIPPING:
                if getattr(bound.optimizer, name, None) is not None:
                    raise ConfigurationError(
                        f"The optimizer has {name}, which Keras compares with the share of a replica under this "
                        "strategy: leave it out, and set max_grad_norm, which limits the whole gradient."
                    )

    def _learn(self, minibatch: dict[str, Any]) -> Any:
        n_replicas = self._strategy.num_replicas_in_sync
        n_rows = tf.shape(next(iter(minibatch.values())))[0]

        def on_replica() -> Any:
            context = tf.distribute.get_replica_context()
            replica = context.replica_id_in_sync_group
            first, end = replica * n_rows // n_replicas, (replica + 1) * n_rows // n_replicas
            # With fewer rows than replicas, a replica without rows computes one row with weight 0: the loss of no rows
            # would be NaN.
            own = {name: values[first : tf.maximum(end, first + 1)] for name, values in minibatch.items()}
            weight = tf.cast(end - first, tf.float32) / tf.cast(n_rows, tf.float32)
            losses, gradients = self._gradients(self._optimizer_step, own, weight)
            for name, parts in gradients.items():
                # Summed here, as clipping needs the norm of the complete gradient; Keras sums once more.
                summed = context.all_reduce(tf.distribute.ReduceOp.SUM, parts)
                norms = self._apply(name, summed, copies=n_replicas)
                losses |= {norm: value / n_replicas for norm, value in norms.items()}  # summed again below
            losses |= self._after(self._optimizer_step, own, weight)
            self.names = tuple(losses)
            return tf.stack(list(losses.values()))

        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, self._strategy.run(on_replica), axis=None)

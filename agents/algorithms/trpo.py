"""Trust region policy optimization: Schulman et al. 2015, arXiv 1502.05477, with generalized advantages (1506.02438).

Each rollout moves the policy once, by a natural gradient up to the limit of the trust region; then the critic learns
from the rollout by its optimizer. Choices that the paper leaves open follow Stable-Baselines3's contributions: damping
of the Fisher matrix, advantages normalized within a rollout, acceptance of a step that improves the surrogate. The
divergence is that of the paper, of the new policy from the old one; Stable-Baselines3 measures the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agents.algorithms.actor_critic import ActorCritic, ActorCriticConfig
from agents.backend.tensorflow import keras, ops, tf
from agents.buffers import RolloutBuffer
from agents.config.agent_config import hyperparameter
from agents.errors import ConfigurationError
from agents.functional.trust_region import largest_step, line_search


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(ActorCriticConfig):
    """Hyperparameters of TRPO. Optimizer, learning rate, minibatches and epochs are those of the critic alone."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        1e-3,
        "Step size of the critic's optimizer; that of the policy follows from target_kl.",
        above=0.0,
        live=True,
        search=(1e-5, 1e-1),
        log=True,
    )
    optimizer: str = hyperparameter(
        "adam(epsilon=1e-05)",
        "Keras optimizer of the critic by name, optionally with arguments: sgd(momentum=0.9).",
        search=("adam(epsilon=1e-05)", "adamw(epsilon=1e-05)", "rmsprop", "sgd"),
    )
    batch_size: int = hyperparameter(
        128,
        "Largest number of rows in a minibatch of the critic; a rollout is split evenly.",
        low=1,
        search=(32, 64, 128, 256),
    )
    n_epochs: int = hyperparameter(10, "Epochs of the critic over each rollout.", low=1, search=(3, 20))
    max_grad_norm: float | None = hyperparameter(
        None, "Largest global norm of the critic's gradients; null: no clipping.", above=0.0, live=True
    )
    normalize_advantages: bool = hyperparameter(True, "Scale advantages within each rollout.")
    separate_rates: ClassVar[tuple[str, ...]] = ()

    target_kl: float = hyperparameter(
        0.01,
        "Largest divergence of the new policy from the old one, in nats.",
        above=0.0,
        live=True,
        search=(1e-3, 0.1),
        log=True,
    )
    cg_max_steps: int = hyperparameter(15, "Largest number of conjugate-gradient steps.", low=1)
    cg_damping: float = hyperparameter(
        0.1, "Added to the diagonal of the Fisher matrix.", low=0.0, live=True, search=(0.01, 0.5), log=True
    )
    line_search_shrinking_factor: float = hyperparameter(
        0.8, "Factor by which a rejected step is shortened.", above=0.0, high=0.99, live=True
    )
    line_search_max_iter: int = hyperparameter(
        10, "Largest number of line-search steps; then the policy stays unchanged.", low=1
    )

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.share_layers:
            raise ConfigurationError(
                "share_layers is true, but the critic's steps would move the policy out of its trust region: leave it "
                "out, or use PPO."
            )


class TRPO(ActorCritic):
    """Trust region policy optimization (Schulman et al. 2015, arXiv 1502.05477).

    For discrete, multi-discrete and continuous actions. The actor has no optimizer: the `pre_update` of each update
    moves it.

    ``agents.make("trpo", "CartPole-v1", target_kl=0.02)`` makes one; its hyperparameters are those of `TRPOConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: See `Agent`.
    """

    config_class = TRPOConfig
    config: TRPOConfig

    def optimized_networks(self) -> Mapping[str, tuple[str, ...]]:
        return {"critic": ("critic",)}

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> RolloutBuffer:
        config = self.config
        return RolloutBuffer(n_steps=config.n_steps, n_epochs=config.n_epochs, batch_size=config.batch_size, rng=rng)

    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        return self.policy_step

    def policy_step(self, rows: dict[str, Any]) -> Mapping[str, Any]:
        """Move the actor along the natural gradient of the surrogate, as far as the divergence may go."""
        live, variables = self.hyperparameters, self.networks["actor"].trainable_variables
        start = tf.concat([tf.reshape(variable.value, [-1]) for variable in variables], 0)  # [n]
        old = tf.stop_gradient(self._policy(start, rows))  # [M, A] or [M, 2 D]

        def surrogate(point: Any) -> Any:
            return self.surrogate(self._policy(point, rows), rows)

        def divergence(point: Any) -> Any:
            return ops.mean(self.distribution.divergence(old, self._policy(point, rows)))

        def fisher_product(vector: Any) -> Any:
            with tf.GradientTape() as outer:
                outer.watch(start)
                along = tf.reduce_sum(_gradient(divergence, start) * vector)
            return outer.gradient(along, start) + live.cg_damping * vector

        step = largest_step(_gradient(surrogate, start), fisher_product, live.target_kl, self.config.cg_max_steps)
        found = line_search(
            lambda point: (surrogate(point), divergence(point)),
            start,
            step,
            limit=live.target_kl,
            shrinking=live.line_search_shrinking_factor,
            max_tries=self.config.line_search_max_iter,
        )
        for variable, values in zip(variables, _split(found.point, variables), strict=True):
            variable.assign(values)
        return {
            "kl": found.distance,
            "surrogate_improvement": found.gain,
            "line_search_success": ops.cast(found.accepted, "float32"),
            "entropy": ops.mean(self.distribution.entropy(self._policy(found.point, rows))),
        }

    def _policy(self, point: Any, rows: dict[str, Any]) -> Any:
        """Return the actor's outputs for variables given as a point [n]; random layers are inactive."""
        variables = self.networks["actor"].trainable_variables
        mapping = list(zip(variables, _split(point, variables), strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return self.networks["actor"](rows["observations"], training=False)

    def surrogate(self, parameters: Any, rows: dict[str, Any]) -> Any:
        """Return the objective of a policy with parameters [M, ...], estimated from the behaviour policy's data."""
        ratio = ops.exp(self.distribution.log_prob(parameters, rows["actions"]) - rows["log_probs"])
        entropy = ops.mean(self.distribution.entropy(parameters))
        return ops.mean(ratio * rows["advantages"]) + self.hyperparameters.ent_coef * entropy

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        values = self.networks["critic"](batch["observations"], training=True)[:, 0]  # [B]
        value_loss = ops.mean(ops.square(values - batch["returns"]))
        return {"critic": value_loss, "value_loss": value_loss, "value_mean": ops.mean(values)}


def _gradient(function: Callable[[Any], Any], point: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(point)
        value = function(point)
    return tape.gradient(value, point)


def _split(point: Any, variables: Sequence[Any]) -> list[Any]:
    """Split a point [n] into values of variables."""
    parts = tf.split(point, [math.prod(variable.shape) for variable in variables])
    return [tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)]

"""Actor-critic with experience replay: Wang et al. 2016, arXiv 1611.01224, for discrete actions.

The agent learns from each new rollout, and then from trajectories of older rollouts: by Retrace, by truncated
importance weights with bias correction, and within a trust region around an average policy. The statistics of the
policy for the trust region are its probabilities.

Differences from the paper: actor and critic share no layers, since on small tasks the error of the action values, which
is the larger one, would shape the features of the policy; a truncated episode bootstraps from its final observation;
the entropy bonus is outside of the trust region; the number of replays is fixed (see `TrajectoryReplay`); and the
optimizer is Adam instead of RMSprop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from gymnasium import spaces

from agents.backend.tensorflow import keras, ops
from agents.buffers import TrajectoryReplay
from agents.config.agent_config import hyperparameter
from agents.config.network_config import NetworkConfig
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError
from agents.functional.retrace import retrace
from agents.networks.builders import gather_actions, network
from agents.networks.distributions import Categorical

Array = np.ndarray[Any, Any]

_SMALLEST = 1e-6
"""Lower bound of probabilities in denominators."""


@dataclass(frozen=True, kw_only=True)
class ACERConfig(NetworkConfig):
    """Hyperparameters of ACER. The defaults suit small tasks: few environments, so that updates are frequent."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        5e-4, "Step size of the optimizer.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    n_envs: int = hyperparameter(4, "Environments stepped in parallel.", low=1)
    n_steps: int = hyperparameter(20, "Steps per environment in a rollout.", low=1, search=(5, 10, 20, 50))
    gamma: float = hyperparameter(
        0.99, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999), complement=True
    )
    replay_ratio: int = hyperparameter(
        4, "Minibatches of older trajectories replayed after each rollout.", low=0, search=(1, 2, 4, 8)
    )
    buffer_size: int = hyperparameter(50_000, "Transitions in the replay buffer, in whole rollouts.", low=1)
    learning_starts: int = hyperparameter(1_000, "Environment steps before the first replays.", low=0)
    importance_c: float = hyperparameter(
        10.0, "Truncation threshold of importance weights.", above=0.0, live=True, search=(1.0, 20.0)
    )
    delta: float = hyperparameter(
        1.0,
        "Trust region: how far a gradient step may move the policy from the average policy.",
        above=0.0,
        live=True,
        search=(0.1, 2.0),
    )
    tau: float = hyperparameter(
        0.01,
        "Share of the newest policy in each update of the average policy.",
        above=0.0,
        high=1.0,
        live=True,
        search=(0.001, 0.1),
        log=True,
    )
    target_update_interval: int = hyperparameter(1, "Gradient steps between updates of the average policy.", low=1)
    ent_coef: float = hyperparameter(
        0.01, "Weight of the entropy bonus.", low=0.0, live=True, search=(1e-8, 0.1), log=True
    )
    vf_coef: float = hyperparameter(
        0.5, "Weight of the error of the action values.", low=0.0, live=True, search=(0.2, 1.0)
    )
    max_grad_norm: float | None = hyperparameter(
        10.0,
        "Largest global norm of gradients; null: no clipping.",
        above=0.0,
        live=True,
        search=(0.5, 20.0),
    )
    activation: str = hyperparameter("tanh", "Keras activation of the hidden layers.", search=("tanh", "relu"))

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.buffer_size < self.n_envs * self.n_steps:
            raise ConfigurationError(
                f"buffer_size must be at least n_envs * n_steps = {self.n_envs * self.n_steps}, got {self.buffer_size}."
            )


class ACER(KerasAgent):
    """Actor-critic with experience replay (Wang et al. 2016, arXiv 1611.01224) for discrete actions.

    ``agents.make("acer", "CartPole-v1", replay_ratio=2)`` makes one; its hyperparameters are those of `ACERConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not discrete.
    """

    config_class = ACERConfig
    config: ACERConfig
    target_networks: ClassVar[Mapping[str, str]] = {"average": "actor"}

    @property
    def rowwise(self) -> bool:
        return True

    def build(self) -> Mapping[str, keras.Model]:
        space = self.action_space
        if not isinstance(space, spaces.Discrete):
            raise self.unsupported_actions("discrete actions (its critic gives a value for each of them)")
        return {
            "actor": self._network("actor", "actor", int(space.n), 0.01),
            "critic": self._network("critic", "critic", int(space.n), 1.0),
            "average": self._network("average", "actor", int(space.n), 0.01),
        }

    def _network(self, name: str, like: str, n_actions: int, output_scale: float) -> keras.Sequential:
        layers = self.config.layers(like, self.observation_space)
        shared: dict[str, Any] = {"output_scale": output_scale, "name": name, **layers}
        return network(self.observation_space, outputs=n_actions, **shared)

    def act(self, observations: Array, explore: bool = False) -> Array:
        logits = self.infer("actor", observations)  # [N, A]
        return Categorical.sample(logits, self.rng) if explore else Categorical.mode(logits)

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> TrajectoryReplay:
        config = self.config
        return TrajectoryReplay(
            n_steps=config.n_steps,
            buffer_size=config.buffer_size,
            replay_ratio=config.replay_ratio,
            learning_starts=config.learning_starts,
            n_envs=n_envs,
            n_actions=int(cast("spaces.Discrete", self.action_space).n),
            rng=rng,
        )

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add the probabilities of all actions under the behaviour policy, [T, N, A]."""
        observations = data["observations"]
        logits = self.infer("actor", observations.reshape(-1, *observations.shape[2:]))  # [T * N, A]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = weights / weights.sum(axis=1, keepdims=True)
        return {**data, "probabilities": probabilities.reshape(*data["rewards"].shape, -1).astype(np.float32)}

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Add the Retrace targets of actions, which need complete trajectories of `n_steps` rows each."""
        observations = ops.concatenate([batch["observations"], batch["next_observations"]])  # [2 B, ...]
        policy = ops.softmax(self.networks["actor"](observations))  # [2 B, A]
        values = self.networks["critic"](observations)  # [2 B, A]
        next_values = ops.split(ops.sum(policy * values, axis=1), 2)[1]  # [B]
        actions = batch["actions"]
        behaviour = ops.maximum(gather_actions(batch["probabilities"], actions), _SMALLEST)  # [B]
        now, taken = (gather_actions(ops.split(each, 2)[0], actions) for each in (policy, values))  # [B] each

        def in_time(column: Any) -> Any:
            return ops.transpose(ops.reshape(column, (-1, self.config.n_steps)))  # [T, N]

        columns = {"taken": taken, "next_values": next_values, "ratios": now / behaviour}
        columns |= {name: batch[name] for name in ("rewards", "terminated", "truncated")}
        in_order = {name: in_time(values) for name, values in columns.items()}
        targets = retrace(**in_order, gamma=self.hyperparameters.gamma)
        return {**batch, "targets": ops.reshape(ops.transpose(targets), (-1,))}

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        observations, actions, targets = batch["observations"], batch["actions"], batch["targets"]
        logits = self.networks["actor"](observations, training=True)  # [B, A]
        values = self.networks["critic"](observations, training=True)  # [B, A]
        average = self.networks["average"](observations)  # [B, A]
        policy = ops.softmax(logits)
        gradient = policy_gradient(
            policy, batch["probabilities"], actions, values, targets, importance_c=self.hyperparameters.importance_c
        )
        bounded = within_trust_region(gradient, policy, ops.softmax(average), delta=self.hyperparameters.delta)
        # Linear in the probabilities, so that its gradient is the bounded gradient.
        policy_loss = -ops.mean(ops.sum(ops.stop_gradient(bounded) * policy, axis=1))
        value_loss = 0.5 * ops.mean(ops.square(targets - gather_actions(values, actions)))
        entropy = ops.mean(Categorical.entropy(logits))
        weights = self.hyperparameters
        return {
            "default": policy_loss + weights.vf_coef * value_loss - weights.ent_coef * entropy,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "value_mean": ops.mean(ops.sum(policy * values, axis=1)),
            # From the behaviour policies in the replay: a measure of how far off-policy the minibatch is.
            "approx_kl": ops.mean(ops.sum(batch["probabilities"] * _log_ratio(batch["probabilities"], policy), axis=1)),
            "kl_of_average": ops.mean(Categorical.divergence(average, logits)),
            "bounded_fraction": ops.mean(ops.cast(ops.any(bounded != gradient, axis=1), "float32")),
        }


def _log_ratio(one: Any, other: Any) -> Any:
    """Return the log ratio of two arrays of probabilities."""
    return ops.log(ops.maximum(one, _SMALLEST)) - ops.log(ops.maximum(other, _SMALLEST))


def policy_gradient(policy: Any, behaviour: Any, actions: Any, values: Any, targets: Any, *, importance_c: Any) -> Any:
    """Return the gradient of the policy objective with respect to the probabilities, [B, A].

    The taken action is weighted by its importance weight, truncated at `importance_c`; the bias correction of the
    truncation uses the values of all actions.

    Args:
        policy: [B, A] probabilities.
        behaviour: [B, A] probabilities under the behaviour policy.
        actions: [B] actions taken.
        values: [B, A] of all actions.
        targets: [B] Retrace targets of the actions taken.
        importance_c: Truncation threshold of importance weights.
    """
    floored = ops.maximum(policy, _SMALLEST)
    ratios = policy / ops.maximum(behaviour, _SMALLEST)  # [B, A]
    state_values = ops.sum(policy * values, axis=1, keepdims=True)  # [B, 1]
    gains = ops.minimum(ratios, importance_c) * (targets[:, None] - state_values) / floored
    taken = ops.expand_dims(actions, 1) == ops.arange(policy.shape[1], dtype=actions.dtype)  # [B, A]
    corrections = ops.relu(1.0 - importance_c * behaviour / floored) * (values - state_values)
    return ops.where(taken, gains, 0.0) + corrections


def within_trust_region(gradient: Any, policy: Any, average: Any, *, delta: Any) -> Any:
    """Project a gradient onto those that change the divergence from the average policy by at most `delta`, [B, A].

    Args:
        gradient: [B, A] with respect to the probabilities.
        policy: [B, A] probabilities.
        average: [B, A] probabilities of the average policy.
        delta: Largest growth, to first order, of the divergence of the policy from the average policy.
    """
    away = -average / ops.maximum(policy, _SMALLEST)  # [B, A] gradient of that divergence
    too_fast = ops.sum(away * gradient, axis=1, keepdims=True) - delta
    return gradient - ops.relu(too_fast) / ops.sum(ops.square(away), axis=1, keepdims=True) * away

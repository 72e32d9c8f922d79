"""Base class for on-policy actor-critic agents: two networks, their distribution, advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from agents.algorithms.policy_agent import PolicyAgent
from agents.backend.tensorflow import keras, ops
from agents.buffers.sequences import in_sequences
from agents.config.agent_config import MOST_COPIES, hyperparameter
from agents.config.memory_config import LONGEST, MemoryConfig
from agents.config.network_config import NetworkConfig
from agents.contract.rows import row_by_row
from agents.errors import ConfigurationError
from agents.functional.returns import generalized_advantages
from agents.networks.builders import headed
from agents.networks.memory import recurrent_network, recurrent_of, require_vectors
from agents.updates.normalization import RewardScaler, RunningNormalizer

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(NetworkConfig):
    """Base class for hyperparameters of on-policy actor-critic agents."""

    n_envs: int = hyperparameter(8, "Environments stepped in parallel.", low=1, high=MOST_COPIES)
    n_steps: int = hyperparameter(128, "Steps per environment in a rollout.", low=1, search=(32, 64, 128, 256, 512))
    gamma: float = hyperparameter(
        0.99, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999), complement=True
    )
    gae_lambda: float = hyperparameter(
        0.95,
        "GAE parameter; 0 gives one-step advantages, 1 Monte-Carlo ones.",
        low=0.0,
        high=1.0,
        live=True,
        search=(0.8, 1.0),
    )
    ent_coef: float = hyperparameter(
        0.0, "Weight of the entropy bonus.", low=0.0, live=True, search=(1e-8, 0.1), log=True
    )
    max_grad_norm: float | None = hyperparameter(
        0.5,
        "Largest global norm of gradients; null: no clipping.",
        above=0.0,
        live=True,
        search=(0.3, 5.0),
    )
    activation: str = hyperparameter("tanh", "Keras activation of the hidden layers.", search=("tanh", "relu"))
    share_layers: bool = hyperparameter(False, "Actor and critic share all layers but their last.")
    normalize_observations: bool = hyperparameter(
        False, "Scale observations, but not images, by their running mean and standard deviation.", search=(False, True)
    )
    normalize_rewards: bool = hyperparameter(
        False, "Scale rewards by the running standard deviation of their discounted sums.", search=(False, True)
    )
    normalize_advantages: bool = hyperparameter(True, "Scale advantages within each minibatch.")

    separate_rates: ClassVar[tuple[str, ...]] = ("actor", "critic")

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.normalize_advantages and self.n_steps * self.n_envs < 2:
            raise ConfigurationError(
                "normalize_advantages needs rollouts of at least two rows (a single advantage would be zero): "
                "raise n_steps or n_envs, or switch it off."
            )
        if self.share_layers and (self.separate or self.networks):
            raise ConfigurationError(
                "Networks with shared layers have one optimizer and one shape: leave out share_layers, or optimizers, "
                "networks and several learning rates."
            )

    @property
    def separate(self) -> bool:
        """Return whether each network has its own optimizer, because the config names one of the networks."""
        return any(name in self.optimizers for name in self.separate_rates)

    def structure(self) -> dict[str, Any]:
        """See `AgentConfig.structure`: one optimizer for both networks differs from two equal optimizers."""
        return super().structure() | {"n_optimizers": 2 if self.separate else 1}


@dataclass(frozen=True, kw_only=True)
class OneLossConfig(ActorCriticConfig, MemoryConfig):
    """Base class for hyperparameters of actor-critic agents with one loss; their networks may have memory."""

    vf_coef: float = hyperparameter(0.5, "Weight of the value loss.", low=0.0, live=True, search=(0.2, 1.0))

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.gru_units is None:
            return
        if self.sequence_length is None and self.n_steps > 1 and self.steps_of_sequences(self.n_steps) == 1:
            raise ConfigurationError(
                f"Rollouts of n_steps={self.n_steps} cannot be split into sequences of 2 to {LONGEST} steps, so no "
                "gradient would flow through the memory: choose another n_steps, such as a power of two, or set "
                "sequence_length=1."
            )
        self.steps_of_sequences(self.n_steps)
        if self.share_layers:
            raise ConfigurationError(
                "Actor and critic have memories of their own: leave out share_layers or gru_units."
            )


class ActorCritic(PolicyAgent):
    """Base class for agents with networks `actor` and `critic`, for discrete, multi-discrete and continuous actions.

    A subclass implements `make_buffer` (of rollouts) and `loss`. See `Agent` for the arguments.
    """

    config_class = ActorCriticConfig
    config: ActorCriticConfig

    @cached_property
    def memory_size(self) -> int:
        return 2 * self.config.memory_units  # the actor's and the critic's

    def build(self) -> Mapping[str, keras.Model]:
        config, space = self.config, self.observation_space
        if config.memory_units:
            require_vectors(space, self.interface.label)
            outputs, head = self.policy_outputs
            last = keras.layers.Dense(outputs, kernel_initializer=keras.initializers.Orthogonal(0.01))
            value = keras.layers.Dense(1, kernel_initializer=keras.initializers.Orthogonal(1.0))
            heads = {"actor": head or last, "critic": value}
            return {
                name: recurrent_network(space.shape[0], self.layers_of(name), config.memory_units, [own], name=name)
                for name, own in heads.items()
            }
        layers = self.layers_of("actor")
        actor = self.actor_of(layers)
        layers = layers if config.share_layers else self.layers_of("critic")
        return {"actor": actor, "critic": headed(space, layers, 1, output_scale=1.0, name="critic")}

    def optimized_networks(self) -> Mapping[str, Sequence[str]]:
        if not self.config.separate:
            return super().optimized_networks()
        return {"actor": ["actor"], "critic": ["critic"]}

    def start(self) -> None:
        super().start()
        self.scaler = RewardScaler() if self.config.normalize_rewards else None

    @row_by_row
    def act(self, observations: Array, explore: bool = False) -> Array:
        if not self.memory_size:
            return super().act(observations, explore)
        rows = self._normalized(observations)
        parameters, memory = self._evaluated("actor", rows)
        self.memory = np.concatenate([memory, self._evaluated("critic", rows)[1]], axis=1)
        return self.drawn(parameters, explore)

    def policy_parameters(self, observations: Array) -> Array:
        return self._evaluated("actor", self._normalized(observations))[0]

    def _normalized(self, rows: Array) -> Array:
        """Return rows [..., F] of observations, or [..., F + M] with memories, with normalized observations."""
        if self.normalizer is None or not self.memory_size:
            return super()._normalized(rows)
        n_features = self.observation_space.shape[0]
        return np.concatenate([self.normalizer(rows[..., :n_features]), rows[..., n_features:]], axis=-1)

    def _evaluated(self, name: str, rows: Array) -> tuple[Array, Any]:
        """Return a network's outputs for rows [R, ...], and its new memories [R, H], None without memory."""
        if not self.memory_size:
            return self.infer(name, rows), None
        units = self.config.memory_units
        n_features = self.observation_space.shape[0]
        own = rows[:, n_features + units * (name == "critic") :][:, :units]
        both = self.infer(name, np.concatenate([rows[:, :n_features], own], axis=1))
        return both[:, :-units], both[:, -units:]

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add advantages, value targets and the log-probabilities of the actions under the behaviour policy.

        If observations are normalized, a rollout updates the statistics before the update, so that networks learn from
        observations as they will be scaled in the next rollout; the first rollout is therefore scaled differently from
        how it was collected. The log-probabilities are those of the behaviour policy, with the statistics of that time.
        """
        observations, successors = data["observations"], data["next_observations"]
        acted_on = observations
        if self.normalizer is not None:
            acted_on = self._normalized(observations)
            shape = self.observation_space.shape
            seen = observations[..., : shape[0]] if self.memory_size else observations
            self.normalizer.update(seen.reshape(-1, *shape))
            observations, successors = self._normalized(observations), self._normalized(successors)
        rewards = data["rewards"]
        if self.scaler is not None:
            rewards = self.scaler(rewards, data["terminated"] | data["truncated"], self.hyperparameters.gamma)
        n_steps, n_envs = rewards.shape
        actions = self._flat(data["actions"].reshape(n_steps * n_envs, *data["actions"].shape[2:]))

        def infer(name: str, inputs: Array) -> Array:
            return self._evaluated(name, inputs.reshape(-1, *inputs.shape[2:]))[0]  # [T * N, outputs]

        log_probs = self.distribution.log_prob_numpy(infer("actor", acted_on), actions)
        values = infer("critic", observations).reshape(n_steps, n_envs)
        advantages = generalized_advantages(
            rewards,
            values,
            infer("critic", successors).reshape(n_steps, n_envs),
            data["terminated"],
            data["truncated"],
            gamma=self.hyperparameters.gamma,
            gae_lambda=self.hyperparameters.gae_lambda,
        )
        columns = {
            "observations": observations,
            "actions": actions.reshape(n_steps, n_envs, *actions.shape[1:]),
            "log_probs": log_probs.reshape(n_steps, n_envs).astype(np.float32),
            "advantages": advantages,
            "returns": advantages + values,
        }
        if not self.memory_size:
            return columns
        length = cast("MemoryConfig", self.config).steps_of_sequences(n_steps)
        columns["observations"], memories = np.split(observations, [-self.memory_size], axis=2)
        return in_sequences(columns, memories, data["terminated"] | data["truncated"], length)

    def outputs(self, name: str, batch: dict[str, Any], *, training: bool = True) -> Any:
        """Return a network's outputs in a loss: for the rows of a minibatch, or all steps of its sequences [B * L]."""
        units = self.config.memory_units
        if not units:
            return self.networks[name](batch["observations"], training=training)
        memory = batch["memory"][:, units:] if name == "critic" else batch["memory"][:, :units]
        given, _ = recurrent_of(self.networks[name]).sequence(batch["observations"], memory, batch["begins"])
        return ops.reshape(given, (-1, given.shape[2]))

    def steps(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a minibatch whose other columns are as long as `outputs`: sequences [B, L, ...] as [B * L, ...]."""
        if not self.memory_size:
            return batch
        kept = ("observations", "memory", "begins")
        return {n: c if n in kept else ops.reshape(c, (-1, *c.shape[2:])) for n, c in batch.items()}

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        advantages = batch["advantages"]
        if not self.config.normalize_advantages:
            return batch
        return {**batch, "advantages": (advantages - ops.mean(advantages)) / (ops.std(advantages) + 1e-8)}

    def losses(self, policy_loss: Any, value_loss: Any, entropy: Any) -> dict[str, Any]:
        """Return the result of `loss` for these three scalars: for one optimizer, or for one per network."""
        policy = policy_loss - self.hyperparameters.ent_coef * entropy
        value = self.hyperparameters.vf_coef * value_loss
        parts = {"default": policy + value} if "default" in self.optimizers else {"actor": policy, "critic": value}
        return {**parts, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}

    # State ----------------------------------------------------------------------------------------------------

    def restart(self, environments: Array | None) -> None:
        super().restart(environments)
        if environments is None and self.scaler is not None:
            self.scaler.sums = np.zeros(0)

    def running_state(self) -> dict[str, Any]:
        return {} if self.scaler is None else {"reward_sums": self.scaler.sums.copy()}

    def set_running_state(self, state: Mapping[str, Any]) -> None:
        if self.scaler is not None and "reward_sums" in state:  # those of earlier versions are in that of the scaler
            self.scaler.sums = np.array(state["reward_sums"])

    def _scales(self) -> dict[str, RunningNormalizer | RewardScaler]:
        """Return the scalers of observations and rewards, if any."""
        return {**super()._scales(), **({} if self.scaler is None else {"scaler": self.scaler})}


def approximate_kl(log_ratio: Any) -> Any:
    """Estimate the KL divergence of a new policy from the old policy that drew the actions: never negative.

    Schulman, "Approximating KL divergence" (2020): the estimator k3, which is unbiased and of small variance.

    Args:
        log_ratio: Log-probability of each action under the new policy minus that under the old policy, [B].
    """
    return ops.mean(ops.exp(log_ratio) - 1.0 - log_ratio)

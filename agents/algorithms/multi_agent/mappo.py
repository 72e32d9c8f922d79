"""Multi-agent PPO: Yu et al. 2021, "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", 2103.01955.

All agents act on their own observations; critics see the state of the environment, or all observations. Followed from
the paper: value normalisation, the global state with the agent's own observation, weights shared by all agents (an
option), and death masks: an agent that has left sees zeros, and does not count in the loss of the policy. The team goes
on without it, so that with the reward of the team its values still enter those of its last step, and are learned (the
authors train them too: ``--use_value_active_masks`` of their SMAC scripts switches these masks off). With rewards of
its own, it counts in no loss. Left out: the clipping of the value loss and Huber's loss. With
``central_critic=False`` this is independent PPO (IPPO: de Witt et al. 2020, 2011.09533).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from agents.algorithms.multi_agent.joint import (
    JointAgent,
    JointConfig,
    mask,
    mask_numpy,
    mean_in_part,
    mean_over_agents,
)
from agents.algorithms.multi_agent.joint_normalizer import JointNormalizer
from agents.algorithms.ppo import PPO, PPOConfig
from agents.backend.tensorflow import keras, ops
from agents.buffers.sequences import in_sequences
from agents.config.agent_config import hyperparameter
from agents.contract.rows import row_by_row
from agents.environments.joint_space import JointView
from agents.errors import ConfigurationError
from agents.functional.returns import generalized_advantages
from agents.networks.distributions import Categorical, DiagonalGaussian
from agents.networks.several_agents import LogDeviations, agents_sequence
from agents.updates.normalization import RewardScaler, RunningNormalizer

Array = np.ndarray[Any, Any]

_FEWEST = 1e-8
"""Lower bound of the agents for each row, where all have left."""


@dataclass(frozen=True, kw_only=True)
class MAPPOConfig(PPOConfig, JointConfig):
    """Hyperparameters of MAPPO. One row of a minibatch is one step of all agents."""

    central_critic: bool = hyperparameter(
        True, "The critic sees the global state, or all observations; false: independent PPO."
    )
    team_reward: bool = hyperparameter(
        True, "Each agent learns from the reward of the team; false: from its own reward."
    )
    normalize_values: bool = hyperparameter(
        True, "The critic predicts returns scaled by their running mean and standard deviation."
    )

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.share_layers:
            raise ConfigurationError("share_layers is for agents whose actor and critic see the same: leave it out.")


class MAPPO(JointAgent, PPO):
    """MAPPO for discrete and continuous actions. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The environment has a single agent, or parameters are shared and spaces differ.
    """

    config_class = MAPPOConfig
    config: MAPPOConfig

    def build(self) -> Mapping[str, keras.Model]:
        self.check_spaces()
        space, config = self.space, self.config
        head = [] if space.discrete else [LogDeviations(config.share_parameters)]
        central = space.n_features + space.central_size * config.central_critic
        if config.central_critic and not space.state_size:
            central = space.central_size  # contains the agent's own observation
        return {
            "actor": self.network_of_agents(
                "actor", space.n_features, space.n_actions, output_scale=0.01, head=head, name="actor"
            ),
            "critic": self.network_of_agents("critic", central, 1, output_scale=1.0, name="critic"),
        }

    @cached_property
    def memory_size(self) -> int:
        return self.space.n_agents * super().memory_size

    def start(self) -> None:
        self.distribution = Categorical if self.space.discrete else DiagonalGaussian
        self.normalizer = JointNormalizer(self.space) if self.config.normalize_observations else None
        self.scaler = RewardScaler() if self.config.normalize_rewards else None
        self.value_normalizer = RunningNormalizer((), clip=np.inf) if self.config.normalize_values else None

    # Acting ---------------------------------------------------------------------------------------------------

    @row_by_row
    def act(self, observations: Array, explore: bool = False) -> Array:
        vectors, memory = self._parted(observations)
        view = self.space.view(self._normalized(vectors))
        parameters, actor_memory = self._parameters(view, memory)  # [N * A, ...]
        if self.memory_size:
            _, critic_memory = self._values(view, memory)
            both = np.concatenate([actor_memory, critic_memory], axis=2)  # [N, A, 2 H]
            self.memory = both.reshape(len(observations), -1)
        chosen = self.distribution.sample(parameters, self.rng) if explore else self.distribution.mode(parameters)
        return self.space.join_actions(chosen.reshape(len(observations), self.space.n_agents, -1))

    def _parted(self, rows: Array) -> tuple[Array, Array]:
        """Return joint observations [..., W] and memories [..., A, 2 H] of rows that may end with memories."""
        size, n_agents = self.space.shape[0], self.space.n_agents
        memory = rows[..., size:].reshape(*rows.shape[:-1], n_agents, 2 * self.config.memory_units)
        return rows[..., :size], memory

    def _normalized(self, vectors: Array) -> Array:
        return vectors if self.normalizer is None else self.normalizer(vectors)

    def _parameters(self, view: JointView, memory: Array) -> tuple[Array, Array]:
        """Return the parameters of all agents' policies [N * A, ...] and the actor's memories [N, A, H]."""
        units = self.config.memory_units
        both = self.infer("actor", np.concatenate([view.observations, memory[..., :units]], axis=2))  # [N, A, n + H]
        parameters, after = both[..., : both.shape[2] - units], both[..., both.shape[2] - units :]
        parameters = mask_numpy(parameters, view) if self.space.discrete else self._of_existing(parameters, np)
        return parameters.reshape(-1, parameters.shape[-1]), after

    def _of_existing(self, parameters: Any, library: Any) -> Any:
        """Return Gaussian parameters [..., A, 2 D] with constants for the dimensions that an agent lacks.

        These have no entropy then, and the same density of the 0 that pads actions: ratios do not depend on them.

        Args:
            parameters: Means, then logarithms of standard deviations.
            library: NumPy, or `keras.ops` for tensors.
        """
        existing = self.space.existing
        if existing.all():
            return parameters
        absent = np.concatenate([0.0 * existing, np.full_like(existing, DiagonalGaussian.NO_ENTROPY)], axis=1)
        return library.where(np.concatenate([existing, existing], axis=1) > 0.0, parameters, absent)

    # Learning -------------------------------------------------------------------------------------------------

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add advantages and value targets of each agent; see `ActorCritic.preprocess_batch`."""
        space = self.space
        (seen, memory), (following, after) = (self._parted(data[n]) for n in ("observations", "next_observations"))
        acted_on = space.view(self._normalized(seen))  # [T, N, ...]
        if self.normalizer is not None:
            self.normalizer.update(_merged(seen))
        now, then = space.view(self._normalized(seen)), space.view(self._normalized(following))
        actions = space.split_actions(data["actions"])  # [T, N, A, D]
        lead = actions.shape[:3]
        parameters, _ = self._parameters(_flat(acted_on), _merged(memory))
        flat = actions.reshape(-1) if space.discrete else actions.reshape(-1, space.n_actions)
        log_probs = self.distribution.log_prob_numpy(parameters, flat).reshape(lead)
        values, next_values = (
            self._values(_flat(view), _merged(own))[0].reshape(lead) for view, own in ((now, memory), (then, after))
        )
        rewards, terminated = self._rewards_and_ends(data, now, then)
        truncated = np.broadcast_to(data["truncated"][..., None], lead)
        by_agent = [np.moveaxis(each, 2, 1) for each in (rewards, values, next_values, terminated, truncated)]
        gamma, gae_lambda = self.hyperparameters.gamma, self.hyperparameters.gae_lambda
        # [T, A, N], as hyperparameters of a population are [N]
        advantages = generalized_advantages(*by_agent, gamma=gamma, gae_lambda=gae_lambda)
        advantages = np.moveaxis(advantages, 1, 2)
        returns = advantages + values
        masks = {} if now.allowed is None else {"allowed": now.allowed}
        columns = {
            **masks,
            "observations": now.observations,
            "central": self._central(now),
            "actions": actions[..., 0].astype(np.int32) if space.discrete else actions,
            "alive": now.alive,
            "log_probs": log_probs.astype(np.float32),
            "advantages": advantages,
            "returns": self._scaled(returns, self._valued(now.alive)),
        }
        if not self.memory_size:
            return columns
        length = self.config.steps_of_sequences(lead[0])
        return in_sequences(columns, memory, data["terminated"] | data["truncated"], length)

    def _valued(self, alive: Array) -> Array:
        """Return which values [..., A] are learned: all with the reward of the team, else those of agents alive."""
        return np.ones(alive.shape, bool) if self.config.team_reward else alive > 0.0

    def _rewards_and_ends(self, data: dict[str, Array], now: JointView, then: JointView) -> tuple[Array, Array]:
        """Return the reward of each agent, and whether it has left for good, [T, N, A] each."""
        if self.config.team_reward:
            rewards = np.repeat(data["rewards"][..., None], self.space.n_agents, axis=2)
            terminated = np.repeat(data["terminated"][..., None], self.space.n_agents, axis=2)
        else:
            rewards = then.rewards
            terminated = data["terminated"][..., None] | (then.alive == 0.0)
        if self.scaler is not None:
            ended, counted = terminated | data["truncated"][..., None], self._valued(now.alive)
            flat = [each.reshape(len(rewards), -1) for each in (rewards, ended, counted)]  # [T, N * A]
            scaled = self.scaler(flat[0], flat[1], self.hyperparameters.gamma, flat[2])
            rewards = scaled.reshape(rewards.shape)
        return rewards, terminated

    def _central(self, view: JointView) -> Array:
        """Return the input of the critic for each agent, [..., A, C]."""
        if not self.config.central_critic:
            return cast("Array", view.observations)
        shape = (*view.observations.shape[:-1], self.space.central_size)
        state = np.broadcast_to(view.state[..., None, :], shape)
        state = state * view.alive[..., None]  # an agent that has left sees zeros
        return np.concatenate([state, view.observations], axis=-1) if self.space.state_size else state

    def _values(self, view: JointView, memory: Array) -> tuple[Array, Array]:
        """Return the values of all agents [N, A], in the scale of rewards, and the critic's memories [N, A, H]."""
        units = self.config.memory_units
        both = self.infer("critic", np.concatenate([self._central(view), memory[..., units:]], axis=2))
        values, after = both[..., 0], both[..., 1:]
        known = self.value_normalizer
        if known is not None:
            values = (values * np.sqrt(known.variance + 1e-8) + known.mean).astype(np.float32)
        return values, after

    def _scaled(self, returns: Array, valued: Array) -> Array:
        """Return the targets of the critic, after an update of their statistics."""
        known = self.value_normalizer
        if known is None:
            return returns
        known.update(returns[valued])
        return known(returns)

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        advantages, alive = batch["advantages"], batch["alive"]  # [B, A], or [B, L, A] of sequences
        n_alive = ops.maximum(ops.mean(ops.sum(alive, axis=-1)), _FEWEST)
        batch = {**batch, "n_alive": n_alive * ops.ones_like(alive[..., 0])}
        if not self.config.normalize_advantages:
            return batch
        centred = advantages - mean_over_agents(advantages, alive)
        deviation = ops.sqrt(mean_over_agents(ops.square(centred), alive))
        return {**batch, "advantages": centred / (deviation + 1e-8)}

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        parameters, values = self.outputs("actor", batch), self.outputs("critic", batch)[:, :, 0]  # [B, A, n], [B, A]
        batch = self.steps(batch)
        alive = batch["alive"]  # [B, A]
        if self.space.discrete:
            parameters = mask(parameters, JointView(None, None, batch["allowed"], alive, None))
        else:
            parameters = self._of_existing(parameters, ops)
        parameters = ops.reshape(parameters, (-1, parameters.shape[2]))  # [B * A, n]
        actions = ops.reshape(batch["actions"], (-1,) if self.space.discrete else (-1, self.space.n_actions))

        def by_agent(values: Any) -> Any:
            return ops.reshape(values, (-1, self.space.n_agents))  # [B, A]

        def mean(values: Any) -> Any:
            return mean_in_part(values, alive, batch["n_alive"])

        log_ratio = by_agent(self.distribution.log_prob(parameters, actions)) - batch["log_probs"]
        log_ratio = log_ratio * alive
        ratio = ops.exp(log_ratio)
        clip = self.hyperparameters.clip_range
        clipped = ops.clip(ratio, 1.0 - clip, 1.0 + clip)
        gains = ops.minimum(ratio * batch["advantages"], clipped * batch["advantages"])
        policy_loss = -mean(gains)
        errors = ops.square(values - batch["returns"])
        value_loss = ops.mean(errors) if self.config.team_reward else mean(errors)
        entropy = mean(by_agent(self.distribution.entropy(parameters)))
        return {
            **self.losses(policy_loss, value_loss, entropy),
            "value_mean": mean(values),
            "approx_kl": mean(ratio - 1.0 - log_ratio),
            "clip_fraction": mean(ops.cast(ops.abs(ratio - 1.0) > clip, "float32")),
        }

    def outputs(self, name: str, batch: dict[str, Any], *, training: bool = True) -> Any:
        features = batch["central"] if name == "critic" else batch["observations"]
        units = self.config.memory_units
        if not units:
            return self.networks[name](features, training=training)
        memory = batch["memory"][..., units:] if name == "critic" else batch["memory"][..., :units]
        given, _ = agents_sequence(self.networks[name], features, memory, batch["begins"])  # [B, L, A, outputs]
        return ops.reshape(given, (-1, *given.shape[2:]))

    def _scales(self) -> dict[str, RunningNormalizer | RewardScaler]:
        known = {} if self.value_normalizer is None else {"values": self.value_normalizer}
        return {**super()._scales(), **known}


def _merged(array: Array) -> Array:
    """Return an array [T, N, ...] as [T * N, ...]."""
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def _flat(view: JointView) -> JointView:
    """Return views of [T, N, ...] as [T * N, ...]."""
    return JointView(*(None if part is None else _merged(part) for part in view))

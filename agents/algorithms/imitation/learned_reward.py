"""Base classes of rewards that are learned from demonstrations by a discriminator.

A discriminator tells the steps of the expert from those of the agent; the agent's reward is what it says. Any
algorithm can be combined with one (`agents.algorithms.imitation.composed`): rewards are replaced by those of the newest
discriminator, and each gradient step of the agent also trains the discriminator, on the rows of the minibatch and as
many of the expert.

Earlier policies. Rewards that are learned from the steps of the newest policy alone forget the states that earlier
policies visited, and a fresh agent cannot be trained by them: on CartPole-v1 the reward of the absorbing state rises
again when the agent does not fall any more. Half of the agent's steps that the discriminator sees are therefore steps
of earlier policies, as in Fu et al. 2018 (arXiv 1710.11248). Where we differ: these are drawn uniformly from all steps
so far, not from the last 20 iterations. Their log-probabilities are those under the policies that took them, as in the
implementation of the authors; under the newest policy they are so low that rewards of early states fall without end.

The end of an episode (`agents.algorithms.imitation.features`) is learned too: the discriminator sees as many steps of
the absorbing state as an episode has on average under the discount, 1 / (1 - gamma).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from agents.algorithms.imitation.expert import ExpertAgent, ExpertConfig, rows_first
from agents.algorithms.imitation.features import LEAST, ObservationScale, action_vectors, with_absorbing
from agents.algorithms.imitation.reservoir import Reservoir
from agents.algorithms.imitation.rewritten_reward import STEP_COLUMNS, RewrittenReward, RewrittenRewardConfig
from agents.backend.tensorflow import keras, ops, tf
from agents.config.agent_config import hyperparameter
from agents.config.buffer_config import ReplayConfig
from agents.config.optimizers import OptimizerSpec
from agents.contract.restoring import is_restoring
from agents.contract.rows import row_by_row
from agents.environments.plain_space import plain_space
from agents.environments.transforms import Transform, observation_transform
from agents.errors import ConfigurationError
from agents.updates.gradient_steps import OptimizerStep

Array = np.ndarray[Any, Any]

REWARD = "reward"
"""Name of the optimizer of the reward networks, and of the network whose output is the reward."""

LEARNED_REWARD = "learned_reward"
"""Name, in the state of an agent, of what belongs to its reward besides the networks."""

HISTORY = "reward_history"
"""Name, in the state of an agent, of steps of its earlier policies."""

_RATE = 1e-3
"""Usual learning rate of the reward networks."""


def _learns_from_rollouts(config: Any) -> bool:
    """Return whether an agent learns from rollouts; a replay has steps of earlier policies itself."""
    return not isinstance(config, ReplayConfig)


@dataclass(frozen=True, kw_only=True)
class LearnedRewardConfig(RewrittenRewardConfig, ExpertConfig):
    """Base class for hyperparameters of a learned reward. It comes last among the bases of an agent's config."""

    reward_hidden_sizes: tuple[int, ...] = hyperparameter((64, 64), "Units of the reward network's hidden layers.")
    reward_history: int = hyperparameter(
        2_000,
        "Steps of earlier policies on which the reward network is trained as well as on rollouts; 0: none.",
        low=0,
        when=_learns_from_rollouts,
    )
    reward_update_interval: int = hyperparameter(
        1, "Gradient steps of the agent between two of the reward network.", low=1, search=(1, 16), log=True
    )
    gradient_penalty: float | None = hyperparameter(
        1.0,
        "Weight of the penalty on gradients of the reward network between steps of expert and agent; null: none.",
        above=0.0,
        live=True,
        search=(0.1, 10.0),
        log=True,
    )
    spectral_norm: bool = hyperparameter(False, "Bound the reward network's layers by their spectral norm.")

    def structure(self) -> dict[str, Any]:
        """See `AgentConfig.structure`: the reward networks have their own optimizer, also where none is set."""
        own = super().structure()
        return own | {"optimizers": {**own["optimizers"], REWARD: self.optimizer_spec(REWARD).structure()}}

    def follows_learning_rate(self, optimizer: str) -> bool:
        """Return whether a change of `learning_rate` changes that of an optimizer; not that of the reward networks."""
        return optimizer != REWARD and super().follows_learning_rate(optimizer)

    def optimizer_spec(self, name: str = "default") -> OptimizerSpec:
        """Return the specification of an optimizer; that of the reward networks does not follow the agent's."""
        if name != REWARD:
            return super().optimizer_spec(name)
        own = {"optimizer": "adam", "learning_rate": _RATE, **self.optimizers.get(REWARD, {})}
        spec = OptimizerSpec.of(own.pop("optimizer"))
        return replace(spec, learning_rate=own.pop("learning_rate"), arguments={**spec.arguments, **own})


class Pairs(NamedTuple):
    """Steps of the agent, or of the expert, as reward networks see them."""

    inputs: Array  # [R, D]
    log_probs: Array | None = None  # [R] of the actions under the agent's policy, where the reward needs them


class LearnedReward(RewrittenReward, ExpertAgent):
    """Base class of the part of an agent that learns its reward. See `Agent` for the arguments.

    Raises:
        ConfigurationError: Observations that are no vectors, several agents, or demonstrations that do not fit.
    """

    config_part = LearnedRewardConfig
    reward_networks: ClassVar[tuple[str, ...]] = (REWARD,)
    reward_name: ClassVar[str]
    """Prefix of the agent's name, as in ``"gail-ppo"``."""

    # Networks -------------------------------------------------------------------------------------------------

    def build(self) -> Mapping[str, keras.Model]:
        if not hasattr(self.config, "gamma"):
            raise ConfigurationError(
                f"{self.algorithm_name} has no hyperparameter gamma, by which rewards after the end of an episode are "
                f"discounted: add it to {type(self.config).__name__.removeprefix(self.title)}."
            )
        return {**super().build(), **{name: self._reward_network(name) for name in self.reward_networks}}

    @abstractmethod
    def reward_input_size(self, name: str) -> int:
        """Return the length of a reward network's inputs."""

    def _reward_network(self, name: str) -> keras.Model:
        def layer(units: int, activation: str | None = None) -> keras.layers.Layer:
            dense = keras.layers.Dense(units, activation=activation)
            return keras.layers.SpectralNormalization(dense) if self.config.spectral_norm else dense

        hidden = [layer(units, "tanh") for units in self.config.reward_hidden_sizes]
        return keras.Sequential([keras.Input((self.reward_input_size(name),)), *hidden, layer(1)], name=name)

    def optimized_networks(self) -> Mapping[str, Sequence[str]]:
        others = {
            owner: [name for name in names if name not in self.reward_networks]
            for owner, names in super().optimized_networks().items()
        }
        return {**others, REWARD: self.reward_networks}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        others = [
            replace(step, optimizers=[name for name in step.optimizers if name != REWARD])
            for step in super().optimizer_steps()
        ]
        return [*others, OptimizerStep([REWARD], self.reward_loss, every=self.config.reward_update_interval)]

    # Steps as inputs ------------------------------------------------------------------------------------------

    @cached_property
    def _expert_scale(self) -> ObservationScale:
        return ObservationScale.of(self.demonstrations.observations[: self.n_learned])

    @property
    def scale(self) -> ObservationScale:
        """Scale of the observations: of the demonstrations, or of the state that was set."""
        return self._scale_of_state or self._expert_scale

    def start(self) -> None:
        super().start()
        self._scale_of_state: ObservationScale | None = None
        size = self.config.reward_history
        self.history = Reservoir(size) if size and _learns_from_rollouts(self.config) else None

    @property
    def rowwise(self) -> bool:
        return super().rowwise and self.history is None  # which differs between members

    @property
    def n_features(self) -> int:
        """Length of the features of an observation."""
        return int(np.prod(self.observation_space.shape)) + 1

    @cached_property
    def _actions(self) -> Transform:
        return observation_transform(self.action_space, self.interface.label)

    @property
    def n_action_features(self) -> int:
        """Length of the features of an action."""
        return int(np.prod(self._actions.space.shape))

    def action_features(self, actions: Array) -> Array:
        """Return actions [R, ...] as vectors [R, D], numbered ones one-hot."""
        return action_vectors(actions, self._actions)

    def extra_state(self) -> dict[str, Any]:
        """Add what a later run needs to use the reward without demonstrations (`agents.learned_reward`)."""
        state = super().extra_state()
        if not is_restoring():  # without demonstrations, there is no scale yet
            about = {**self.scale._asdict(), "actions": plain_space(self.action_space)}
            state = {**state, LEARNED_REWARD: {"learned_by": self.reward_name, **about}}
        return state if self.history is None else {**state, HISTORY: self.history.get_state()}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        if LEARNED_REWARD in state:  # states of earlier versions have none
            self._scale_of_state = ObservationScale(state[LEARNED_REWARD]["mean"], state[LEARNED_REWARD]["std"])
        if self.history is not None and HISTORY in state:
            self.history.set_state(state[HISTORY])

    @abstractmethod
    def pairs(self, observations: Array, actions: Array, successors: Array, terminated: Array) -> Pairs:
        """Return steps [R, ...] as inputs of the reward networks."""

    @property
    @abstractmethod
    def absorbing_inputs(self) -> Array:
        """Inputs of a step of the absorbing state, [1, D]."""

    @abstractmethod
    def logits(self, networks: Callable[[str, Any], Any], inputs: Any) -> Any:
        """Return the logarithm of the odds [...] that the expert took steps with these inputs [..., D].

        Where `pairs` has log-probabilities, they are still to be subtracted.

        Args:
            networks: Name of a reward network, inputs [..., D] -> outputs [...]; of arrays or of tensors.
            inputs: Of `pairs`.
        """

    # Rewards --------------------------------------------------------------------------------------------------

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Rewrite the rewards, and add the steps of agent and expert as the reward networks see them."""
        shape = data["rewards"].shape  # [T, N] of a rollout, [M] of replayed steps
        expert = self.demonstrations
        rows = self.rows_of_expert(shape).ravel()
        mix = rows_first(shape, self.rng.random)
        own = [data[name].reshape(-1, *data[name].shape[len(shape) :]) for name in STEP_COLUMNS]
        theirs = [getattr(expert, name)[rows] for name in STEP_COLUMNS]
        columns = {"reward_mix": mix.astype(np.float32)}
        for who, steps in (("agent", own), ("expert", theirs)):
            pairs = self.pairs(*steps)
            columns[f"{who}_inputs"] = pairs.inputs.reshape(*shape, -1)
            columns[f"{who}_ends"] = steps[-1].reshape(shape).astype(np.float32)
            if pairs.log_probs is not None:
                columns[f"{who}_log_probs"] = pairs.log_probs.reshape(shape).astype(np.float32)
        rewards = self._rewritten(columns)
        if self.history is not None:
            columns |= self._mixed(self.history, {name: columns[name] for name in columns if name.startswith("agent")})
        return {**super().preprocess_batch({**data, "rewards": rewards}), **columns}

    def _mixed(self, history: Reservoir, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Return the agent's steps [T, N, ...], half of them replaced by steps of earlier policies; keep them all."""
        ends = columns["agent_ends"]
        own = {name: column.reshape(ends.size, *column.shape[ends.ndim :]) for name, column in columns.items()}
        mixed = dict(own)
        if len(history):
            replaced = self.rng.random(ends.size) < 0.5
            earlier = history.draw(int(replaced.sum()), self.rng)
            for name, column in own.items():
                mixed[name] = column.copy()
                mixed[name][replaced] = earlier[name]
        history.add(own, self.rng)
        return {name: mixed[name].reshape(column.shape) for name, column in columns.items()}

    def _rewritten(self, columns: Mapping[str, Array]) -> Array:
        """Return the learned rewards of the agent's steps, those of the absorbing state included."""

        def infer(name: str, inputs: Array) -> Array:
            return self.infer(name, inputs.reshape(-1, inputs.shape[-1])).reshape(inputs.shape[:-1])

        inputs, ends = columns["agent_inputs"], columns["agent_ends"]
        rewards = self.logits(infer, inputs) - columns.get("agent_log_probs", 0.0)
        if ends.any():
            one_step = np.broadcast_to(self.absorbing_inputs[0], inputs.shape[-2:])  # [N, D] or [M, D]
            absorbing = self.logits(infer, one_step)
            rewards = with_absorbing(rewards, ends, absorbing, self.hyperparameters.gamma)
        return np.asarray(rewards, np.float32)

    def reward_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the cross-entropy of the discriminator, and how many steps it takes for whose they are."""
        agent, expert = (self._tensor_logits(batch[f"{who}_inputs"]) for who in ("agent", "expert"))
        if "agent_log_probs" in batch:
            agent, expert = agent - batch["agent_log_probs"], expert - batch["expert_log_probs"]
        absorbing = self._tensor_logits(tf.constant(self.absorbing_inputs))[0]
        after = 1.0 / ops.maximum(1.0 - self.hyperparameters.gamma, LEAST)
        weights = batch.get("weights", 1.0)  # as if the agent's steps were drawn uniformly from a replay
        agent_loss = _weighted(ops.softplus(agent), ops.softplus(absorbing), after * batch["agent_ends"], weights)
        expert_loss = _weighted(ops.softplus(-expert), ops.softplus(-absorbing), after * batch["expert_ends"])
        total = agent_loss + expert_loss
        if "gradient_penalty" in self.live:
            total = total + self.hyperparameters.gradient_penalty * self._penalty(batch)
        return {
            REWARD: total,
            "reward_accuracy_agent": ops.mean(ops.cast(agent < 0.0, "float32")),
            "reward_accuracy_expert": ops.mean(ops.cast(expert > 0.0, "float32")),
        }

    def _tensor_logits(self, inputs: Any) -> Any:
        return self.logits(lambda name, rows: self.networks[name](rows, training=True)[:, 0], inputs)

    def _penalty(self, batch: dict[str, Any]) -> Any:
        """Return the mean squared distance of the gradients' norms from 1, at points between agent and expert.

        Gulrajani et al. 2017, arXiv 1704.00028.
        """
        mix = batch["reward_mix"][:, None]
        between = mix * batch["expert_inputs"] + (1.0 - mix) * batch["agent_inputs"]
        with tf.GradientTape() as tape:
            tape.watch(between)
            total = ops.sum(self._tensor_logits(between))
        norms = ops.sqrt(ops.sum(ops.square(tape.gradient(total, between)), axis=1) + 1e-12)
        return ops.mean(ops.square(norms - 1.0))


def _weighted(values: Any, absorbing: Any, after: Any, weights: Any = 1.0) -> Any:
    """Return the weighted mean of values [B] and of those of the absorbing steps that follow them, `after` [B] each."""
    return ops.sum(weights * (values + after * absorbing)) / ops.sum(weights * (1.0 + after))

"""Multi-agent DDPG: Lowe et al. 2017, "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments".

arXiv 1706.02275. Each agent has an actor of its own observation and a critic of all observations and actions, and
learns from its own reward, so that agents may cooperate or compete. Discrete actions are drawn by the Gumbel-softmax
(Jang et al. 2016, arXiv 1611.01144), through which the critic's gradient reaches the actor: straight-through, one-hot
forward. Policies are not inferred from observations, and there are no ensembles of policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from agents.algorithms.ddpg import DDPG, DDPGConfig
from agents.algorithms.multi_agent.joint import JointAgent, JointConfig, mask, mask_numpy, mean_over_agents
from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import explores, hyperparameter
from agents.contract.rows import row_by_row
from agents.environments.joint_space import JointView
from agents.errors import ConfigurationError
from agents.exploration.sampling import gumbel
from agents.updates.gradient_steps import OptimizerStep

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class MADDPGConfig(DDPGConfig, JointConfig):
    """Hyperparameters of MADDPG. A transition is one step of all agents."""

    gamma: float = hyperparameter(
        0.95, "Discount.", low=0.0, high=1.0, live=True, search=(0.9, 0.9999), complement=True
    )
    tau: float = hyperparameter(
        0.01,
        "Share of the online networks in an update of the target networks.",
        above=0.0,
        high=1.0,
        live=True,
        search=(0.001, 0.08),
        log=True,
    )
    max_grad_norm: float | None = hyperparameter(
        0.5, "Largest global norm of gradients; null: no clipping.", above=0.0, live=True
    )
    hidden_sizes: tuple[int, ...] | None = hyperparameter(
        None, "Units of the hidden layers of each network; null: 64, 64."
    )
    n_step: int = hyperparameter(1, "Steps until the bootstrap: 1, as each agent has its own reward.", low=1, high=1)
    share_parameters: bool = hyperparameter(
        False, "All agents share their networks' weights; needs equal spaces.", search=(True, False)
    )
    policy_regularization: float = hyperparameter(
        1e-3, "Weight of the squared outputs of the actors in their loss.", low=0.0, live=True
    )
    temperature: float = hyperparameter(
        1.0, "Temperature of the Gumbel-softmax of discrete actions.", above=0.0, live=True, search=(0.3, 3.0), log=True
    )
    noise: str | None = hyperparameter(
        "gaussian",
        "Noise on continuous actions by name (see agents.exploration); null: none. Discrete actions are drawn.",
        acting=True,
        when=explores,
    )

    usual_sizes: ClassVar[tuple[int, ...]] = (64, 64)


class MADDPG(JointAgent, DDPG):
    """MADDPG for discrete actions, and continuous ones within bounds. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The environment has a single agent, or opponents (`Opponents`); continuous actions have no
            bounds; or parameters are shared and spaces differ.
    """

    config_class = MADDPGConfig
    config: MADDPGConfig
    judged_greedily: ClassVar[bool] = False  # its usual actions are discrete

    @property
    def rowwise(self) -> bool:
        return self.space.discrete or super().rowwise

    def build(self) -> Mapping[str, keras.Model]:
        self.check_spaces()
        space = self.space
        if space.has_opponents:
            raise ConfigurationError(
                "The critics of maddpg learn from the actions of all agents, and Opponents replaces those of the other "
                "sides: take mappo, or leave the wrapper out, so that all agents learn."
            )
        if not space.discrete and not cast("Any", self.action_space).is_bounded():
            raise self.unsupported_actions("continuous actions within bounds")
        joint = space.central_size + space.n_agents * space.n_actions
        made: dict[str, keras.Model] = {}
        for actor, critic in (("actor", "critic"), ("target_actor", "target_critic")):
            head = [] if space.discrete else [keras.layers.Activation("tanh")]
            made[actor] = self.network_of_agents("actor", space.n_features, space.n_actions, head=head, name=actor)
            made[critic] = self.network_of_agents("critic", joint, 1, name=critic)
        return made

    def start(self) -> None:
        super().start()
        if self.space.discrete:
            self.noise = None

    # Acting ---------------------------------------------------------------------------------------------------

    @row_by_row
    def act(self, observations: Array, explore: bool = False) -> Array:
        if not self.space.discrete:
            return super().act(observations, explore)
        view = self.space.view(observations)
        logits = self.infer("actor", view.observations)  # [N, A, n]
        if explore:
            own = np.zeros_like(logits) if self.warming_up else logits
            logits = own + gumbel(logits.shape, self.rng)
        actions: Array = np.argmax(mask_numpy(logits, view), axis=2)
        return actions

    @row_by_row
    def chosen(self, observations: Array, explore: bool) -> Array:
        return self.space.join_actions(self.infer("actor", self.space.view(observations).observations))

    # Learning -------------------------------------------------------------------------------------------------

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Split the actions by agent, and draw the noise of the Gumbel-softmax."""
        space, rows = self.space, len(data["rewards"])
        if not space.discrete:
            return {**data, "actions": space.split_actions(data["actions"].reshape(rows, -1))}
        shape = (rows, space.n_agents, space.n_actions)
        actions = np.zeros(shape, np.float32)
        np.put_along_axis(actions, data["actions"][..., None], 1.0, axis=2)
        draws = gumbel((rows, 2, *shape[1:]), self.rng).astype(np.float32)
        return {**data, "actions": actions, "noise": draws[:, 0], "next_noise": draws[:, 1]}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        return [
            OptimizerStep(["critic"], self.critic_loss),
            OptimizerStep(["actor"], self.actor_loss, every=self.config.policy_delay),
        ]

    def critic_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the squared errors of all agents' critics against their own rewards and the target policies."""
        now, then = self.space.view(batch["observations"]), self.space.view(batch["next_observations"])
        next_actions = self._relaxed(self.networks["target_actor"](then.observations), then, batch, "next_noise")
        next_values = self._values("target_critic", then, next_actions)  # [B, A]
        going = (1.0 - ops.cast(batch["terminated"], "float32"))[:, None] * then.alive
        targets = ops.stop_gradient(then.rewards + self.hyperparameters.gamma * going * next_values)
        values = self._values("critic", now, batch["actions"])
        errors = (values - targets) * now.alive
        rows = ops.sum(ops.square(errors), axis=1)  # [B] summed over agents, whose critics are separate
        return {
            "critic": self.mean(batch, rows),
            "q_mean": mean_over_agents(values, now.alive),
            "td_error": mean_over_agents(ops.abs(errors), now.alive),
            **self.priorities(ops.mean(ops.abs(errors), axis=1)),
        }

    def actor_loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the negative values of each agent's own actions beside those of the others in the batch."""
        now = self.space.view(batch["observations"])
        outputs = self.networks["actor"](now.observations, training=True)  # [B, A, n]
        own = self._relaxed(outputs, now, batch, "noise")
        n_agents = self.space.n_agents
        is_own = ops.eye(n_agents, dtype="float32")[None, :, :, None]  # critic i takes action i from the policy
        together = is_own * own[:, None] + (1.0 - is_own) * batch["actions"][:, None]  # [B, A, A, n]
        values = self._values("critic", now, ops.reshape(together, (-1, n_agents, n_agents * self.space.n_actions)))
        kept = ops.where(now.allowed > 0.0, outputs, 0.0) if self.space.discrete else own
        size = ops.mean(ops.square(kept), axis=2)  # [B, A]
        losses = (self.hyperparameters.policy_regularization * size - values) * now.alive
        return {"actor": self.mean(batch, ops.sum(losses, axis=1))}

    def _relaxed(self, outputs: Any, view: JointView, batch: dict[str, Any], noise: str) -> Any:
        """Return actions that gradients can pass: one-hot draws of discrete ones, [B, A, n].

        Dimensions that an agent lacks are 0, as in the replay buffer: critics have never seen other values there.
        """
        if not self.space.discrete:
            return outputs * self.space.existing
        soft = ops.softmax(mask(outputs + batch[noise], view) / self.hyperparameters.temperature)
        hard = ops.one_hot(ops.argmax(soft, axis=2), self.space.n_actions, dtype="float32")
        return ops.stop_gradient(hard - soft) + soft

    def _values(self, critic: str, view: JointView, actions: Any) -> Any:
        """Return the agents' values [B, A] of actions [B, A, n], or [B, A, A * n] where each critic has its own."""
        n_agents = self.space.n_agents
        if actions.shape[2] == self.space.n_actions:
            joined = ops.reshape(actions, (-1, 1, n_agents * self.space.n_actions))
            actions = ops.repeat(joined, n_agents, axis=1)
        state = ops.repeat(view.state[:, None], n_agents, axis=1)  # [B, A, S]
        return self.networks[critic](ops.concatenate([state, actions], axis=2))[:, :, 0]

"""Value-decomposition networks: Sunehag et al. 2017, arXiv 1706.05296.

Each agent has action values of its own observation; the value of the team is their sum, and only that is learned from,
with the reward of the team. Weights are shared by all agents (an option).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from agents.algorithms.dqn import DQN, DQNConfig
from agents.algorithms.multi_agent.joint import (
    joint_space_of,
    mask,
    mask_numpy,
    require_discrete,
    require_equal_agents,
    require_shared_memory,
)
from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import hyperparameter
from agents.config.network_config import USUAL_SIZES
from agents.contract.rows import row_by_row
from agents.environments.joint_space import JointSpace, JointView
from agents.errors import ConfigurationError
from agents.exploration import greedy
from agents.networks.builders import gather_actions
from agents.networks.memory import split_memory, steps_after
from agents.networks.several_agents import agents_network, agents_sequence

Array = np.ndarray[Any, Any]

_OPPOSED = -0.3
"""Correlation of two agents' rewards below which they are competitors."""

_ENOUGH = 64
"""Rows from which correlations are judged."""


@dataclass(frozen=True, kw_only=True)
class VDNConfig(DQNConfig):
    """Hyperparameters of VDN. A transition is one step of all agents."""

    share_parameters: bool = hyperparameter(
        True, "All agents share their networks' weights; needs equal spaces.", search=(True, False)
    )
    double: bool = hyperparameter(True, "Double Q-learning: the online networks choose the next actions.")

    def __post_init__(self) -> None:
        """Refuse what these agents do not have."""
        super().__post_init__()
        for name, usual in (("noisy", False), ("dueling", False), ("n_atoms", 1), ("convolutions", None)):
            if getattr(self, name) != usual:
                raise ConfigurationError(
                    f"{name} is for a single agent's networks: leave it out, got {getattr(self, name)!r}."
                )
        if self.replay == "hindsight":
            raise ConfigurationError(
                "replay='hindsight' is for a single agent with goals: take uniform or prioritized."
            )


class VDN(DQN):
    """VDN for discrete actions and one common reward. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The environment has a single agent, actions are continuous, parameters are shared and
            spaces differ, or (when learning begins) rewards show that agents compete.
    """

    config_class = VDNConfig
    config: VDNConfig

    @property
    def space(self) -> JointSpace:
        """The joint observation space."""
        return cast("JointSpace", self.observation_space)

    def build(self) -> Mapping[str, keras.Model]:
        space = joint_space_of(self)
        require_discrete(self, space, "maddpg and mappo")
        if self.config.share_parameters:
            require_equal_agents(self, space)
        require_shared_memory(self, shared=self.config.share_parameters, memory=self.config.memory_units > 0)
        return {"q": self._agents_values("q"), "target": self._agents_values("target")}

    def _agents_values(self, name: str) -> keras.Sequential:
        space, config = self.space, self.config
        settings = config.layers("q")
        sizes = USUAL_SIZES if settings["hidden_sizes"] is None else settings["hidden_sizes"]
        return agents_network(
            space.n_agents, space.n_features, sizes, space.n_actions, activation=settings["activation"],
            shared=config.share_parameters, memory=config.memory_units, name=name,
        )  # fmt: skip

    @property
    def memory_size(self) -> int:
        return self.space.n_agents * self.config.memory_units

    @row_by_row
    def act(self, observations: Array, explore: bool = False) -> Array:
        size = self.space.shape[0]
        view = self.space.view(observations[:, :size])
        memory = observations[:, size:].reshape(len(observations), self.space.n_agents, -1)  # [N, A, H]
        outputs = self.infer("q", np.concatenate([view.observations, memory], axis=2))  # [N, A, n + H]
        if self.memory_size:
            self.memory = outputs[..., self.space.n_actions :].reshape(len(outputs), -1)
        values = mask_numpy(outputs[..., : self.space.n_actions], view)  # [N, A, n]
        flat = values.reshape(-1, values.shape[-1])
        actions = self.policy.select(flat, self.rng) if explore else greedy(flat)
        return actions.reshape(len(observations), self.space.n_agents)

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Check that agents do not compete; split memories from the observations of sequences."""
        if self.memory_size:
            data = split_memory(data, self.memory_size)
        rewards = self.space.view(data["next_observations"]).rewards  # [M, A]
        rewards = rewards.reshape(-1, self.space.n_agents)
        if len(rewards) >= _ENOUGH:
            _check_common(rewards, self)
        return data

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        if self.memory_size:
            outputs, following = self._of_sequences("q", batch)
            _, successors = self._of_sequences("target", batch)
            batch = {**steps_after(batch, self.config.burn_in)}
            batch["lengths"] = ops.ones_like(batch["rewards"])
            now, then = self.space.view(batch["observations"]), self.space.view(batch["next_observations"])
            chooser = following if self.config.double else successors
        else:
            now, then = self.space.view(batch["observations"]), self.space.view(batch["next_observations"])
            outputs = self.networks["q"](now.observations, training=True)  # [B, A, n]
            successors = self.networks["target"](then.observations)
            chooser = self.networks["q"](then.observations) if self.config.double else successors
        values = self._of_actions(outputs, batch["actions"]) * now.alive
        best = ops.argmax(mask(chooser, then), axis=2)  # [B, A]
        next_values = self._of_actions(successors, ops.cast(best, "int32")) * then.alive
        team = self.mixed("mixer", values, now)  # [B]
        targets = self.bootstrapped(batch, self.mixed("target_mixer", next_values, then))
        errors = team - targets
        return {
            "default": self.mean(batch, ops.square(errors)),
            "q_mean": ops.mean(team),
            "td_error": ops.mean(ops.abs(errors)),
            **self.priorities(ops.abs(errors)),
        }

    def _of_sequences(self, name: str, batch: dict[str, Any]) -> tuple[Any, Any]:
        """Return a network's outputs after the burn-in for all steps and their successors, [B * L, A, n] each."""
        space, units, burn_in = self.space, self.config.memory_units, self.config.burn_in
        n_steps, network = batch["observations"].shape[1], self.networks[name]

        def features(column: str) -> Any:
            flat = space.view(ops.reshape(batch[column], (-1, space.shape[0]))).observations
            return ops.reshape(flat, (-1, n_steps, space.n_agents, space.n_features))

        seen, begins = features("observations"), batch["begins"]
        memory = ops.reshape(batch["memory"], (-1, space.n_agents, units))
        if burn_in:
            _, memories = agents_sequence(network, seen[:, :burn_in], memory, begins[:, :burn_in])
            memory = ops.stop_gradient(memories[:, -1])
        outputs, memories = agents_sequence(network, seen[:, burn_in:], memory, begins[:, burn_in:])
        rows = ops.concatenate([features("next_observations")[:, burn_in:], memories], axis=3)
        following = network(ops.reshape(rows, (-1, *rows.shape[2:])))[..., : space.n_actions]
        return ops.reshape(outputs, (-1, *outputs.shape[2:])), following

    def _of_actions(self, values: Any, actions: Any) -> Any:
        """Return the values [B, A] of the agents' actions [B, A] from all their values [B, A, n]."""
        rows = ops.reshape(values, (-1, self.space.n_actions))
        return ops.reshape(gather_actions(rows, ops.reshape(actions, (-1,))), (-1, self.space.n_agents))

    def mixed(self, mixer: str, values: Any, view: JointView) -> Any:
        """Return the value of the team [B] from those of its agents [B, A].

        Args:
            mixer: Name of the mixing network, or of its target network.
            values: Values of the agents' actions; 0 for agents that have left.
            view: The observations that the values belong to.
        """
        return ops.sum(values, axis=1)


def _check_common(rewards: Array, agent: VDN) -> None:
    """Raise `ConfigurationError` where two agents' rewards oppose each other."""
    varying = np.flatnonzero(rewards.std(axis=0) > 0.0)
    if len(varying) < 2:
        return
    correlations = np.corrcoef(rewards[:, varying], rowvar=False)
    i, j = np.unravel_index(np.argmin(correlations), correlations.shape)
    if correlations[i, j] < _OPPOSED:
        one, other = (agent.space.agents[int(varying[k])] for k in (i, j))
        raise ConfigurationError(
            f"{type(agent).__name__} learns one value for the whole team, and the rewards of {one!r} and {other!r} in "
            f"{agent.interface.label!r} oppose each other (correlation {correlations[i, j]:.2f}): competitors. "
            f"take maddpg, or mappo with team_reward=false."
        )

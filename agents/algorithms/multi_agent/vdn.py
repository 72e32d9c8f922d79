"""Value-decomposition networks: Sunehag et al. 2017, arXiv 1706.05296.

Each agent has action values of its own observation; the value of the team is their sum, and only that is learned from,
with the reward of the team. Weights are shared by all agents (an option).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from agents.algorithms.dqn import DQN, DQNConfig
from agents.algorithms.multi_agent.joint import JointAgent, JointConfig, mask, mask_numpy
from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import hyperparameter
from agents.contract.rows import row_by_row
from agents.environments.joint_space import JointView
from agents.environments.transforms import space_text
from agents.errors import ConfigurationError
from agents.exploration import greedy
from agents.networks.builders import gather_actions
from agents.networks.memory import after_burn_in, split_memory, steps_after
from agents.networks.several_agents import agents_sequence

Array = np.ndarray[Any, Any]

_OPPOSED = -0.3
"""Correlation of two agents' rewards below which they are competitors."""

_ENOUGH, _CHECKED = 64, 4096
"""Rows of two agents from which their correlation is judged, and rows after which none is judged any more."""


_REWARDS = "rewards_seen"
"""Name of the rewards that are judged, in the state of an agent: a resumed run judges the rest, not all again."""


@dataclass(frozen=True, kw_only=True)
class VDNConfig(DQNConfig, JointConfig):
    """Hyperparameters of VDN. A transition is one step of all agents."""

    double: bool = hyperparameter(True, "Double Q-learning: the online networks choose the next actions.")

    def __post_init__(self) -> None:
        """Refuse what these agents do not have."""
        super().__post_init__()
        for name, usual in (("noisy", False), ("dueling", False), ("n_atoms", 1)):
            if getattr(self, name) != usual:
                raise ConfigurationError(
                    f"{name} is for a single agent's networks: leave it out, got {getattr(self, name)!r}."
                )


class VDN(JointAgent, DQN):
    """VDN for discrete actions and one common reward. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The environment has a single agent, actions are continuous, parameters are shared and
            spaces differ, or (when learning begins) rewards show that agents compete.
    """

    config_class = VDNConfig
    config: VDNConfig

    def build(self) -> Mapping[str, keras.Model]:
        self.check_spaces()
        space = self.space
        if not space.discrete:
            actions = space_text(self.interface.actions)
            raise ConfigurationError(
                f"{type(self).__name__} takes discrete actions, and those of {self.interface.label!r} are continuous "
                f"({actions}); maddpg and mappo take these."
            )
        return {
            name: self.network_of_agents("q", space.n_features, space.n_actions, name=name) for name in ("q", "target")
        }

    def start(self) -> None:
        super().start()
        self._rewards_seen = np.zeros((0, self.space.n_agents, 2), np.float32)  # and 1 where an agent was alive

    @cached_property
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
        if len(self._rewards_seen) < _CHECKED:
            rewards = self.space.view(data["next_observations"]).rewards
            alive = self.space.view(data["observations"]).alive  # opponents are no part of the team, and not alive
            seen = np.stack([rewards, alive], axis=-1).reshape(-1, self.space.n_agents, 2)
            self._rewards_seen = np.concatenate([self._rewards_seen, seen])
            self._check_common(self._rewards_seen)
        return data

    def _check_common(self, seen: Array) -> None:
        """Raise `ConfigurationError` where the rewards of two agents oppose each other.

        Args:
            seen: [M, A, 2] rewards, and 1 where an agent was alive.
        """
        for i, j in combinations(range(self.space.n_agents), 2):
            both = seen[(seen[:, i, 1] > 0.0) & (seen[:, j, 1] > 0.0)][:, [i, j], 0]
            if len(both) < _ENOUGH or not np.ptp(both, axis=0).all():
                continue
            correlation = np.corrcoef(both, rowvar=False)[0, 1]
            if correlation < _OPPOSED:
                raise ConfigurationError(
                    f"{type(self).__name__} learns one value for the whole team, and the rewards of "
                    f"{self.space.agents[i]!r} and {self.space.agents[j]!r} in {self.interface.label!r} oppose each "
                    f"other (correlation {correlation:.2f}): they compete. Take maddpg, or mappo with "
                    f"team_reward=false."
                )

    def extra_state(self) -> dict[str, Any]:
        return {**super().extra_state(), _REWARDS: self._rewards_seen}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        if _REWARDS in state:  # those of earlier versions have none
            self._rewards_seen = np.array(state[_REWARDS])

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        if self.memory_size:
            outputs, following = self._of_sequences("q", batch)
            _, successors = self._of_sequences("target", batch)
            batch = steps_after(batch, self.config.burn_in)
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
        run = partial(agents_sequence, network)
        outputs, memories = after_burn_in(run, seen, memory, begins, burn_in)
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

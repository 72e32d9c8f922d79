"""Deep Q-learning: Mnih et al. 2015 ("Human-level control through deep reinforcement learning").

With its usual parts as options: double Q-learning (van Hasselt et al. 2015, arXiv 1509.06461), the dueling network
(Wang et al. 2015, arXiv 1511.06581) and n-step targets (Hessel et al. 2017, arXiv 1710.02298).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from gymnasium import spaces

from agents.backend import keras, ops
from agents.config import hyperparameter
from agents.errors import ConfigurationError
from agents.exploration import AdaptiveEpsilonGreedy, Policy, greedy, make_policy
from agents.networks import DuelingHead, network, of_actions
from agents.off_policy import OffPolicyAgent, OffPolicyConfig

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Hyperparameters of DQN."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        1e-3, "Step size of the optimizer.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    target_update_interval: int = hyperparameter(
        250, "Gradient steps between updates of the target network.", low=1, search=(10, 1000), log=True
    )
    exploration_initial_eps: float = hyperparameter(
        1.0, "Probability of a random action at first.", low=0.0, high=1.0, acting=True
    )
    exploration_final_eps: float = hyperparameter(
        0.05, "The same at the end.", low=0.0, high=1.0, acting=True, search=(0.01, 0.2)
    )
    exploration_steps: int = hyperparameter(
        10_000,
        "Environment steps from the first to the final probability.",
        low=1,
        acting=True,
        search=(1000, 50_000),
        log=True,
    )
    policy: str | None = hyperparameter(
        None, "Another exploration policy by name (see agents.exploration); null: the epsilon schedule.", acting=True
    )
    policy_kwargs: Mapping[str, Any] = hyperparameter({}, "Arguments of that policy.", acting=True)
    double: bool = hyperparameter(False, "The online network chooses the action whose target value is taken.")
    dueling: bool = hyperparameter(False, "Separate state value and advantages.")
    max_grad_norm: float | None = hyperparameter(
        10.0, "Gradients are scaled down to this global norm; null switches it off.", above=0.0, live=True
    )

    def __post_init__(self) -> None:
        """Refuses what contradicts itself."""
        super().__post_init__()
        if self.policy is None and self.policy_kwargs:
            raise ConfigurationError(f"policy_kwargs {dict(self.policy_kwargs)!r} need a policy: name one.")
        if self.policy is None and self.exploration_final_eps > self.exploration_initial_eps:
            raise ConfigurationError(
                f"exploration_final_eps must be at most exploration_initial_eps = {self.exploration_initial_eps:g}, "
                f"got {self.exploration_final_eps:g}."
            )


class DQN(OffPolicyAgent):
    """DQN for discrete actions. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not discrete.
    """

    config_class = DQNConfig
    config: DQNConfig
    target_networks: ClassVar[Mapping[str, str]] = {"target": "q"}

    @property
    def rowwise(self) -> bool:
        return self.policy.rowwise

    def build(self) -> Mapping[str, keras.Model]:
        if not isinstance(self.action_space, spaces.Discrete):
            raise ConfigurationError(f"DQN takes discrete actions, not {self.action_space}; PPO takes continuous ones.")
        return {"q": self._network("q"), "target": self._network("target")}

    def _network(self, name: str) -> keras.Sequential:
        config, n_actions = self.config, int(cast("spaces.Discrete", self.action_space).n)
        head = DuelingHead(n_actions) if config.dueling else None
        shared: dict[str, Any] = {"activation": config.activation, "head": head, "name": name}
        return network(self.observation_space, config.hidden_sizes, n_actions, **shared)

    def start(self) -> None:
        config = self.config
        self.policy: Policy = (
            AdaptiveEpsilonGreedy(
                config.exploration_initial_eps, config.exploration_final_eps, n_steps=config.exploration_steps
            )
            if config.policy is None
            else make_policy(config.policy, **config.policy_kwargs)
        )

    def act(self, observations: Array, explore: bool = True) -> Array:
        values = self.infer("q", observations)  # [N, A]
        return self.policy.select(values, self.rng) if explore else greedy(values)

    def check_poolable(self) -> None:
        if not self.policy.rowwise:
            raise ConfigurationError(
                f"{type(self.policy).__name__} keeps what it has chosen, and each process of a pool would keep its "
                f"own: choose another policy, or train without a pool."
            )

    def advance(self, env_steps: int) -> None:
        super().advance(env_steps)
        self.policy.step(env_steps)

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        values = self.networks["q"](batch["observations"], training=True)  # [B, A]
        next_values = self.networks["target"](batch["next_observations"])  # [B, A]
        if self.config.double:
            chooser = self.networks["q"](batch["next_observations"])  # [B, A]
            bootstrap = of_actions(next_values, ops.argmax(chooser, axis=1))  # [B]
        else:
            bootstrap = ops.max(next_values, axis=1)  # [B]
        targets = self.bootstrapped(batch, bootstrap)  # [B]
        chosen = of_actions(values, batch["actions"])  # [B]
        errors = targets - chosen  # [B]
        huber = ops.where(ops.abs(errors) <= 1.0, 0.5 * ops.square(errors), ops.abs(errors) - 0.5)
        return {
            "default": self.mean(batch, huber),
            "q_mean": ops.mean(chosen),
            "td_error": ops.mean(ops.abs(errors)),
            **self.priorities(ops.abs(errors)),
        }

    def extra_state(self) -> dict[str, Any]:
        return {"policy": self.policy.get_state()}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        self.policy.set_state(state["policy"])

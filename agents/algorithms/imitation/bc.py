"""Behaviour cloning: Pomerleau 1991 (Neural Computation 3). The policy learns the expert's actions by likelihood.

The environment is only played in: steps of it give the returns by which the policy is judged, and nothing is learned
from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.algorithms.imitation.demonstration_buffer import DemonstrationBuffer
from agents.algorithms.imitation.expert import ExpertAgent, ExpertConfig
from agents.algorithms.policy_agent import PolicyAgent
from agents.backend.tensorflow import keras, ops
from agents.config.agent_config import MOST_COPIES, hyperparameter
from agents.config.network_config import NetworkConfig
from agents.contract.rows import row_by_row

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class BCConfig(NetworkConfig, ExpertConfig):
    """Hyperparameters of behaviour cloning."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        1e-3, "Step size of the optimizer.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    n_envs: int = hyperparameter(8, "Environments played in parallel.", low=1, high=MOST_COPIES)
    n_steps: int = hyperparameter(32, "Steps of each environment between two updates.", low=1)
    gradient_steps: int = hyperparameter(32, "Gradient steps of an update.", low=1)
    batch_size: int = hyperparameter(64, "Rows of a minibatch.", low=1, search=(32, 64, 128, 256), log=True)
    ent_coef: float = hyperparameter(
        1e-3, "Weight of the entropy bonus.", low=0.0, live=True, search=(1e-5, 0.1), log=True
    )
    activation: str = hyperparameter("tanh", "Keras activation of the hidden layers.", search=("tanh", "relu"))
    normalize_observations: bool = hyperparameter(
        True, "Scale observations by the mean and standard deviation of the expert's."
    )


class BC(PolicyAgent, ExpertAgent):
    """Behaviour cloning for discrete, multi-discrete and continuous actions.

    ``agents.make("bc", "CartPole-v1", expert="CartPole/expert")`` makes one; its hyperparameters are those of
    `BCConfig`. See `Agent` for the arguments.

    Raises:
        ConfigurationError: There are no demonstrations, they do not fit, or all of them are held out.
    """

    config_class = BCConfig
    config: BCConfig

    @property
    def rowwise(self) -> bool:
        return True  # observations are scaled by the same numbers for all members

    def build(self) -> Mapping[str, keras.Model]:
        return {"actor": self.actor_of(self.layers_of("actor"))}

    def start(self) -> None:
        super().start()
        self.scale_as_expert()

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> DemonstrationBuffer:
        config, expert, n = self.config, self.demonstrations, self.n_learned
        columns = {"observations": expert.observations, "actions": self._flat(expert.actions)}
        return DemonstrationBuffer(
            {name: values[:n] for name, values in columns.items()},
            held_out={name: values[n:] for name, values in columns.items()} if n < len(expert) else None,
            n_steps=config.n_steps, n_envs=n_envs, gradient_steps=config.gradient_steps,
            batch_size=config.batch_size, rng=rng,
        )  # fmt: skip

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Scale observations as they are scaled for acting."""
        seen = [name for name in ("observations", "held_out_observations") if name in data]
        return {**data, **{name: self._normalized(data[name]) for name in seen}}

    def cloning_loss(self, batch: dict[str, Any], training: bool = True) -> Any:
        """Return the mean negative log-likelihood of actions, whatever their standard deviations."""
        parameters = self.networks["actor"](batch["observations"], training=training)
        return -ops.mean(self.distribution.log_prob(parameters, batch["actions"]))

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        parameters = self.networks["actor"](batch["observations"], training=True)
        log_likelihood = ops.mean(self.distribution.log_prob(parameters, batch["actions"]))
        entropy = ops.mean(self.distribution.entropy(parameters))
        loss = -log_likelihood - self.hyperparameters.ent_coef * entropy
        return {"default": loss, "log_likelihood": log_likelihood, "entropy": entropy}

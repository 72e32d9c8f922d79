"""Twin delayed DDPG: Fujimoto et al. 2018, arXiv 1802.09477.

It adds to DDPG a second critic, of which the smaller value counts; noise on the target actor's actions; and delayed
updates of actor and targets, at every second gradient step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agents.algorithms.ddpg import DDPG, DDPGConfig
from agents.backend.tensorflow import ops
from agents.config.agent_config import hyperparameter
from agents.contract.rows import row_by_row

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class TD3Config(DDPGConfig):
    """Hyperparameters of TD3."""

    policy_delay: int = hyperparameter(2, "Gradient steps of the critics between those of the actor.", low=1)
    target_update_interval: int = hyperparameter(2, "Gradient steps between updates of the targets.", low=1)
    target_noise: float = hyperparameter(
        0.2, "Standard deviation of the noise on the target actor's actions.", low=0.0, live=True, search=(0.05, 0.5)
    )
    target_noise_clip: float = hyperparameter(0.5, "Clipping range of that noise.", low=0.0, live=True)


class TD3(DDPG):
    """Twin delayed DDPG (Fujimoto et al. 2018, arXiv 1802.09477) for continuous actions.

    ``agents.make("td3", "Pendulum-v1", policy_delay=3)`` makes one; its hyperparameters are those of `TD3Config`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not continuous, or have no bounds.
    """

    config_class = TD3Config
    config: TD3Config
    critics: ClassVar[tuple[str, ...]] = ("critic", "second_critic")
    target_networks: ClassVar[Mapping[str, str]] = {
        "target_critic": "critic",
        "target_second_critic": "second_critic",
        "target_actor": "actor",
    }

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add the standard normal noise [M, D] of the target actor's actions."""
        noise = self.rng.standard_normal((len(data["rewards"]), self.n_dimensions))
        return {**data, "noise": noise.astype(np.float32)}

    def next_actions(self, batch: dict[str, Any]) -> Any:
        limit = self.hyperparameters.target_noise_clip
        noise = ops.clip(self.hyperparameters.target_noise * batch["noise"], -limit, limit)
        return ops.clip(super().next_actions(batch) + noise, -1.0, 1.0)

"""Rainbow: Hessel et al. 2017, arXiv 1710.02298: DQN with all of its parts.

Double and dueling, n-step targets, prioritised replay, noisy networks and distributions of returns. The paper's numbers
are those of Atari games; where these differ, it is for small tasks, as everywhere here.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.algorithms.dqn import DQN, DQNConfig
from agents.config import hyperparameter


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(DQNConfig):
    """Hyperparameters of Rainbow: those of DQN, with other defaults."""

    double: bool = hyperparameter(True, "The online network chooses the action whose target value is taken.")
    dueling: bool = hyperparameter(True, "Separate state value and advantages.")
    n_step: int = hyperparameter(3, "Steps until the bootstrap.", low=1, search=(1, 3, 5))
    replay: str = hyperparameter("prioritized", "How transitions are drawn; see DQN.")
    priority_alpha: float = hyperparameter(
        0.5,
        "How much errors count when transitions are drawn; 0 draws uniformly.",
        **{"low": 0.0, "high": 1.0, "live": True, "search": (0.2, 0.9)},
    )
    noisy: bool = hyperparameter(True, "Noise on the weights, of a size that is learned, explores.")
    n_atoms: int = hyperparameter(
        51, "Returns whose probabilities the network gives of each action.", low=1, search=(21, 51, 101)
    )


class Rainbow(DQN):
    """Rainbow for discrete actions. See `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not discrete.
    """

    config_class = RainbowConfig
    config: RainbowConfig

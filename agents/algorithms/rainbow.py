"""Rainbow: Hessel et al. 2017, arXiv 1710.02298: DQN with all of its parts.

Double and dueling, n-step targets, prioritised replay, noisy networks and distributions of returns. The paper's numbers
are those of Atari games; where these differ, it is for small tasks, as everywhere here.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.algorithms.dqn import DQN, DQNConfig, has_atoms
from agents.config.agent_config import hyperparameter
from agents.config.buffer_config import is_prioritized


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(DQNConfig):
    """Hyperparameters of Rainbow: those of DQN, with other defaults."""

    double: bool = hyperparameter(True, "The online network chooses the action whose target value is taken.")
    dueling: bool = hyperparameter(True, "Separate state value and advantages.")
    n_step: int = hyperparameter(
        3, "Steps until the bootstrap.", low=1, search=(1, 3, 5), when=lambda config: config.replay != "hindsight"
    )
    replay: str = hyperparameter("prioritized", "How transitions are drawn; see DQN.")
    priority_alpha: float = hyperparameter(
        0.5,
        "How much errors count when transitions are drawn; 0 draws uniformly.",
        **{"low": 0.0, "high": 1.0, "live": True, "search": (0.2, 0.9), "when": is_prioritized},
    )
    noisy: bool = hyperparameter(True, "Noise on the weights, of a size that is learned, explores.")
    v_min: float = hyperparameter(
        -10.0,
        "The smallest of these returns, discounted as they are.",
        **{"live": True, "search": (-300.0, 0.0), "when": has_atoms},
    )
    v_max: float = hyperparameter(
        10.0,
        "The largest of them; what is beyond counts as that. Set both for the returns of your environment.",
        **{"live": True, "search": (1.0, 500.0), "log": True, "when": has_atoms},
    )
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

"""Rainbow: Hessel et al. 2017, arXiv 1710.02298: DQN with all of its extensions.

Double and dueling, n-step targets, prioritized replay, noisy networks and distributions of returns. The paper's
hyperparameters are for Atari games; defaults that differ suit small tasks, as in all agents here.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.algorithms.dqn import DQN, DQNConfig, has_atoms
from agents.config.agent_config import hyperparameter
from agents.config.buffer_config import is_prioritized


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(DQNConfig):
    """Hyperparameters of Rainbow: those of DQN, with other defaults."""

    double: bool = hyperparameter(True, "Double Q-learning: the online network chooses the next action.")
    dueling: bool = hyperparameter(True, "Separate state value and advantages.")
    n_step: int = hyperparameter(
        3, "Steps until the bootstrap.", low=1, search=(1, 3, 5), when=lambda config: config.replay != "hindsight"
    )
    replay: str = hyperparameter("prioritized", "How transitions are drawn; see DQN.")
    priority_alpha: float = hyperparameter(
        0.5,
        "Exponent of errors in priorities; 0: uniform sampling.",
        **{"low": 0.0, "high": 1.0, "live": True, "search": (0.2, 0.9), "when": is_prioritized},
    )
    noisy: bool = hyperparameter(True, "Explore by noise of learned size on the weights.")
    v_min: float = hyperparameter(
        -10.0,
        "Smallest atom: a discounted return.",
        **{"live": True, "search": (-300.0, 0.0), "when": has_atoms},
    )
    v_max: float = hyperparameter(
        10.0,
        "Largest atom; larger returns count as this one. Set both for the returns of your environment.",
        **{"live": True, "search": (1.0, 500.0), "log": True, "when": has_atoms},
    )
    n_atoms: int = hyperparameter(
        51, "Atoms of the distribution of returns of each action.", low=1, search=(21, 51, 101)
    )


class Rainbow(DQN):
    """Rainbow (Hessel et al. 2017, arXiv 1710.02298) for discrete actions: DQN with all of its extensions.

    ``agents.make("rainbow", "CartPole-v1", v_max=500.0)`` makes one; its hyperparameters are those of `RainbowConfig`.
    See `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not discrete.
    """

    config_class = RainbowConfig
    config: RainbowConfig

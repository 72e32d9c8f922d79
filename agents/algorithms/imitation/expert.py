"""Base classes of agents that learn from demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agents.algorithms.imitation.features import LEAST_STD
from agents.config.agent_config import AgentConfig, hyperparameter
from agents.contract.keras_agent import KerasAgent
from agents.demonstrations.dataset import Demonstrations, load_demonstrations
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ExpertConfig(AgentConfig):
    """Base class for hyperparameters of agents that learn from demonstrations."""

    expert: str | tuple[str, ...] = hyperparameter(
        "", "Demonstrations: name or folder of a Minari dataset, or several of them."
    )
    expert_episodes: int | None = hyperparameter(None, "Number of demonstrations; null: all.", low=1)


class ExpertAgent(KerasAgent):
    """Base class for agents, and for parts of agents, that learn from demonstrations. See `Agent` for the arguments.

    Raises:
        ConfigurationError: There are no demonstrations, or they do not fit; see `load_demonstrations`.
    """

    config: Any

    @cached_property
    def demonstrations(self) -> Demonstrations:
        """The expert's steps."""
        config = self.config
        if not config.expert:
            raise ConfigurationError(f"{type(self).__name__} needs demonstrations: set expert to a Minari dataset.")
        return load_demonstrations(config.expert, self.interface, self.environment, n_episodes=config.expert_episodes)

    def rows_of_expert(self, shape: tuple[int, ...]) -> Array:
        """Draw steps of the expert by number, [T, N] or [M]."""
        return rows_first(shape, lambda size: self.rng.integers(0, len(self.demonstrations), size))

    def start(self) -> None:
        super().start()
        _ = self.demonstrations  # loaded here, so that members of a population share them

    def scale_as_expert(self, observations: Array) -> None:
        """Begin the running statistics of observations, where the agent has them, with those of demonstrations.

        Entries that do not vary there are only shifted: with a variance of 0, any other value would be the largest.

        Args:
            observations: [M, ...] of the expert.
        """
        normalizer = getattr(self, "normalizer", None)
        if normalizer is not None:
            normalizer.update(observations)
            normalizer.variance = np.where(normalizer.variance > LEAST_STD**2, normalizer.variance, 1.0)


def rows_first(shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], Array]) -> Array:
    """Draw numbers of a shape [T, N] or [M], environments or rows first: each member has a generator."""
    return draw(shape[::-1]).T

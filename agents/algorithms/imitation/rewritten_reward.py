"""Base classes of parts that replace the rewards of an environment before an algorithm learns from them.

Rewards of a rollout or of replayed steps are replaced in `preprocess_batch`, just before they are learned from. Episode
returns stay those of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agents.backend.tensorflow import keras
from agents.buffers import Buffer
from agents.buffers.trajectories import TrajectoryReplay
from agents.config.agent_config import AgentConfig
from agents.contract.keras_agent import KerasAgent
from agents.environments.joint_space import JointSpace
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]

STEP_COLUMNS = ("observations", "actions", "next_observations", "terminated")
"""Columns of a buffer on which the reward of a step may depend."""


@dataclass(frozen=True, kw_only=True)
class RewrittenRewardConfig(AgentConfig):
    """Base class for hyperparameters of such a part. It comes last among the bases of an agent's config."""

    def __post_init__(self) -> None:
        """Refuse what rewards cannot be replaced with."""
        super().__post_init__()
        for name, usual in (("n_step", 1), ("gru_units", None)):
            if getattr(self, name, usual) != usual:
                raise ConfigurationError(
                    f"Learned rewards are of single steps: {name} must be {usual!r}, got {getattr(self, name)!r}."
                )
        if getattr(self, "replay", "uniform") == "hindsight":
            raise ConfigurationError(
                "replay='hindsight' computes rewards itself: take 'uniform' or 'prioritized' with a learned reward."
            )


class RewrittenReward(KerasAgent):
    """Base class of the part of an agent that replaces rewards. It comes first among the bases of an agent's class.

    Class attributes:
        title: Beginning of the names of agents' classes.
        about: End of the first sentence about such an agent, after the name of its algorithm.
        config_part: Config of the part.
        ranges: Ranges of the algorithm's hyperparameters in searches that are others with the part.

    Raises:
        ConfigurationError: Observations that are no vectors, or several agents.
    """

    title: ClassVar[str]
    about: ClassVar[str]
    config_part: ClassVar[type[RewrittenRewardConfig]]

    ranges: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    config: Any

    @staticmethod
    def defaults(config_class: type[AgentConfig]) -> Mapping[str, Any]:
        """Return the other defaults that a config class gets with the part.

        Rewards are scaled where the algorithm can scale them: learned ones have no scale of their own, and those of
        steps that end an episode are a hundred times those of others.
        """
        return {"normalize_rewards": True}

    @property
    def algorithm_name(self) -> str:
        """Name of the class of the algorithm that learns from the reward."""
        own: type[Any] = type(self)
        while issubclass(own, RewrittenReward):
            own = own.__bases__[-1]
        return own.__name__

    def build(self) -> Mapping[str, keras.Model]:
        if isinstance(self.observation_space, JointSpace):
            raise ConfigurationError("Rewards are learned for single agents; this environment has several.")
        shape = self.observation_space.shape
        if len(shape) != 1:
            raise ConfigurationError(
                f"Learned rewards need vectors as observations, and {self.interface.label!r} has the shape "
                f"{list(shape)}: flatten them (--wrapper FlattenObservation)."
            )
        return super().build()  # type: ignore[safe-super] # of the algorithm, the next base

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> Buffer:
        buffer = super().make_buffer(n_envs, rng)  # type: ignore[safe-super]
        if isinstance(buffer, TrajectoryReplay):
            raise ConfigurationError(
                f"{self.algorithm_name} replays rollouts with the rewards of their time, which a learned reward makes "
                f"old: take another algorithm."
            )
        return buffer

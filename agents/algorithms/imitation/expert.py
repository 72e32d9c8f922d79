"""Base classes of agents that learn from demonstrations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from agents.algorithms.imitation.features import LEAST_STD
from agents.backend.tensorflow import keras
from agents.config.agent_config import AgentConfig, hyperparameter
from agents.contract.agent import HELD_OUT_LOSS
from agents.contract.keras_agent import KerasAgent
from agents.contract.restoring import is_restoring
from agents.contract.rows import row_by_row
from agents.demonstrations.dataset import Demonstrations, load_demonstrations
from agents.demonstrations.folders import fixed_source
from agents.errors import ConfigurationError
from agents.updates.gradient_steps import OptimizerStep

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ExpertConfig(AgentConfig):
    """Base class for hyperparameters of agents that learn from demonstrations."""

    expert: str | tuple[str, ...] = hyperparameter(
        "", "Demonstrations: name or folder of a Minari dataset, or several of them."
    )
    expert_episodes: int | None = hyperparameter(None, "Number of demonstrations; null: all.", low=1)
    held_out_episodes: int = hyperparameter(
        0, "Last demonstrations that are not learned from; the loss on them is the loss of the study.", low=0
    )

    def __post_init__(self) -> None:
        """Take paths too, and fix versions and folders: a study and its further trials have the same demonstrations."""
        several = isinstance(self.expert, list | tuple)
        given: tuple[Any, ...] = tuple(self.expert) if several else (self.expert,)
        fixed = [fixed_source(each) if each and isinstance(each, str | os.PathLike) else each for each in given]
        object.__setattr__(self, "expert", tuple(fixed) if several else fixed[0])
        super().__post_init__()


class ExpertAgent(KerasAgent):
    """Base class for agents, and for parts of agents, that learn from demonstrations. See `Agent` for the arguments.

    Raises:
        ConfigurationError: There are no demonstrations, or they do not fit; see `load_demonstrations`.
    """

    config: Any
    cloning_loss: Callable[..., Any]

    @cached_property
    def demonstrations(self) -> Demonstrations:
        """The expert's steps."""
        config = self.config
        if not config.expert:
            raise ConfigurationError(
                f"{type(self).__name__} needs demonstrations: set expert to a Minari dataset (--expert NAME). "
                f"finder play RUN --record NAME records one."
            )
        return load_demonstrations(config.expert, self.interface, self.environment, n_episodes=config.expert_episodes)

    @cached_property
    def n_learned(self) -> int:
        """Number of the expert's first steps that are learned from; those of held-out episodes follow them."""
        lengths, held_out = self.demonstrations.lengths, self.config.held_out_episodes
        if held_out >= len(lengths):
            raise ConfigurationError(
                f"held_out_episodes is {held_out}, and there are {len(lengths)} demonstrations: nothing is left to "
                f"learn from."
            )
        return int(lengths[: len(lengths) - held_out].sum())

    def rows_of_expert(self, shape: tuple[int, ...]) -> Array:
        """Draw steps of the expert by number, [T, N] or [M]."""
        return rows_first(shape, lambda size: self.rng.integers(0, self.n_learned, size))

    def set_initial_weights(self, networks: Mapping[str, keras.Model]) -> None:
        super().set_initial_weights(networks)
        _ = self.n_learned  # demonstrations are loaded here: errors come early, and members of a population share them
        if self.config.held_out_episodes and getattr(self, "cloning_loss", None) is None:
            raise ConfigurationError(
                f"{type(self).__name__} has no loss on demonstrations: leave out held_out_episodes."
            )

    # Held-out demonstrations ----------------------------------------------------------------------------------

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add as many steps of held-out demonstrations, if there are any."""
        columns = super().preprocess_batch(data)
        if not self.config.held_out_episodes:
            return columns
        first, after = self.n_learned, len(self.demonstrations)
        rows = rows_first(data["rewards"].shape, lambda size: self.rng.integers(first, after, size))
        return {**columns, **self.steps_of_expert("held_out", rows)}

    def steps_of_expert(self, prefix: str, rows: Array) -> dict[str, Array]:
        """Return steps of the expert by number as columns for `cloning_loss`, ``PREFIX_observations`` and so on."""
        observations = self.demonstrations.observations[rows]
        normalizer = getattr(self, "normalizer", None)
        if normalizer is not None:
            observations = normalizer(observations)
        return {f"{prefix}_observations": observations, f"{prefix}_actions": self.demonstrations.actions[rows]}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        first, *others = super().optimizer_steps()
        if not self.config.held_out_episodes:
            return [first, *others]

        def loss(batch: dict[str, Any]) -> Mapping[str, Any]:
            held_out = self.cloning_loss(columns_of("held_out", batch), training=False)
            return {**first.loss(batch), HELD_OUT_LOSS: held_out}

        return [replace(first, loss=loss), *others]

    # Scaling --------------------------------------------------------------------------------------------------

    def scale_as_expert(self) -> None:
        """Begin the running statistics of observations, where the agent has them, with those of demonstrations.

        Entries that do not vary there are only shifted: with a variance of 0, any other value would be the largest.
        """
        normalizer = getattr(self, "normalizer", None)
        if normalizer is not None and not is_restoring():
            normalizer.update(self.demonstrations.observations[: self.n_learned])
            normalizer.variance = np.where(normalizer.variance > LEAST_STD**2, normalizer.variance, 1.0)


def columns_of(prefix: str, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps of `ExpertAgent.steps_of_expert` without their prefix."""
    return {name: batch[f"{prefix}_{name}"] for name in ("observations", "actions")}


def rows_first(shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], Array]) -> Array:
    """Draw numbers of a shape [T, N] or [M], environments or rows first: each member has a generator."""
    return draw(shape[::-1]).T

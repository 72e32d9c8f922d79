"""Hyperparameters of replay buffers, and the buffer that they describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.buffers import HindsightReplay, PrioritizedReplay, UniformReplay
from agents.buffers.hindsight import STRATEGIES
from agents.buffers.prioritized import Priorities
from agents.config.agent_config import AgentConfig, hyperparameter
from agents.environments.goals import Goals
from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import place_of

REPLAYS = ("uniform", "prioritized", "hindsight")


def is_prioritized(config: Any) -> bool:
    """Return whether transitions are drawn by priority."""
    return bool(config.replay == "prioritized")


def _hindsight(config: Any) -> bool:
    return bool(config.replay == "hindsight")


@dataclass(frozen=True, kw_only=True)
class ReplayConfig(AgentConfig):
    """Base class for configs of agents with a replay buffer."""

    buffer_size: int = hyperparameter(50_000, "Capacity of the replay buffer, in transitions.", low=2)
    learning_starts: int = hyperparameter(1_000, "Environment steps before the first update.", low=0)
    batch_size: int = hyperparameter(64, "Rows per minibatch.", low=1, search=(32, 64, 128, 256))
    train_freq: int = hyperparameter(1, "Steps of the environments between updates.", low=1, search=(1, 4, 16))
    gradient_steps: int = hyperparameter(1, "Gradient steps per update.", low=1, search=(1, 2, 4))
    n_step: int = hyperparameter(
        1, "Steps until the bootstrap.", low=1, search=(1, 3, 5), when=lambda config: not _hindsight(config)
    )
    replay: str = hyperparameter(
        "uniform",
        "How transitions are drawn: uniform; prioritized, in proportion to their errors (arXiv 1511.05952); or "
        "hindsight, with desired goals replaced by achieved ones (arXiv 1707.01495).",
    )
    priority_alpha: float = hyperparameter(
        0.6,
        "Exponent of the errors as priorities; 0 draws uniformly.",
        **{"low": 0.0, "high": 1.0, "live": True, "search": (0.2, 0.9), "when": is_prioritized},
    )
    priority_beta: float = hyperparameter(
        0.4,
        "Initial exponent of the importance weights, which correct the bias of priorities.",
        **{"low": 0.0, "high": 1.0, "live": True, "search": (0.2, 1.0), "when": is_prioritized},
    )
    priority_beta_steps: int = hyperparameter(
        100_000,
        "Environment steps until the exponent of the importance weights is 1.",
        **{"low": 1, "search": (10_000, 1_000_000), "log": True, "when": is_prioritized},
    )
    priority_eps: float = hyperparameter(
        1e-6, "Added to errors, so that every transition can be drawn.", above=0.0, live=True, when=is_prioritized
    )
    initial_td_error: float = hyperparameter(
        1.0,
        "Priority of the first transitions; later ones start with the largest priority so far.",
        above=0.0,
        when=is_prioritized,
    )
    n_sampled_goal: int = hyperparameter(
        4,
        "Hindsight: transitions with a replaced goal per transition with its own goal.",
        **{"low": 0, "search": (2, 8), "when": _hindsight},
    )
    goal_selection_strategy: str = hyperparameter(
        "future",
        "Hindsight: goals achieved later in the episode (future), at its end (final), or at any step (episode).",
        when=_hindsight,
    )
    goal_function: str | None = hyperparameter(
        None,
        "Hindsight: module:function (in Python also the function itself) that returns rewards [M] and ends [M] for "
        "achieved and desired goals [M, G]; null: the environment's compute_reward and compute_terminated.",
    )

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        given: Any = self.goal_function
        if callable(given):  # a function itself, whose place is recorded
            object.__setattr__(self, "goal_function", place_of(given))
        super().__post_init__()
        if self.buffer_size // self.n_envs <= self.n_step:
            raise ConfigurationError(
                f"buffer_size must be at least n_envs * (n_step + 1) = {self.n_envs * (self.n_step + 1)}, got "
                f"{self.buffer_size}."
            )
        if self.replay not in REPLAYS:
            raise unknown_name("replay", self.replay, REPLAYS)
        if self.goal_selection_strategy not in STRATEGIES:
            raise unknown_name("goal_selection_strategy", self.goal_selection_strategy, STRATEGIES)
        if self.replay == "hindsight" and self.n_step > 1:
            raise ConfigurationError(
                f"n_step must be 1 with replay='hindsight' (rewards of several steps cannot be recomputed), "
                f"got {self.n_step}."
            )
        if self.replay != "hindsight" and self.goal_function is not None:
            raise ConfigurationError("goal_function needs replay='hindsight'.")

    def make_replay(self, n_envs: int, rng: np.random.Generator, goals: Callable[[], Goals]) -> UniformReplay:
        """Return an empty replay buffer of this kind.

        Args:
            n_envs: Number of environment copies.
            rng: Generator for samples.
            goals: Returns the description of the environment's goals for hindsight.
        """
        shared: dict[str, Any] = {
            **{"buffer_size": self.buffer_size, "batch_size": self.batch_size, "learning_starts": self.learning_starts},
            **{"train_freq": self.train_freq, "gradient_steps": self.gradient_steps, "n_step": self.n_step},
            **{"gamma": getattr(self, "gamma", 1.0), "n_envs": n_envs, "rng": rng},
        }
        if self.replay == "uniform":
            return UniformReplay(**shared)
        if self.replay == "prioritized":
            priorities = Priorities(
                alpha=self.priority_alpha,
                beta=self.priority_beta,
                beta_steps=self.priority_beta_steps,
                eps=self.priority_eps,
                initial=self.initial_td_error,
            )
            return PrioritizedReplay(priorities, **shared)
        return HindsightReplay(
            goals=goals(), n_sampled_goal=self.n_sampled_goal, strategy=self.goal_selection_strategy, **shared
        )

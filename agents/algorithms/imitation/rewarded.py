"""The part of an agent that learns from the reward of an earlier run, without demonstrations.

Fu et al. 2018, arXiv 1710.11248: the reward that AIRL has learned trains a fresh agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from agents.algorithms.imitation.rewritten_reward import STEP_COLUMNS, RewrittenReward, RewrittenRewardConfig
from agents.algorithms.imitation.saved_reward import SAVED_REWARD, SavedReward, learned_reward
from agents.config.agent_config import hyperparameter
from agents.contract.restoring import is_restoring
from agents.contract.rows import row_by_row
from agents.demonstrations.checks import same_space
from agents.environments.transforms import space_text
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class RewardedConfig(RewrittenRewardConfig):
    """Hyperparameters of an agent with the reward of an earlier run."""

    reward_from: str = hyperparameter(
        "", "Folder or checkpoint of the run whose learned reward replaces that of the environment."
    )

    def __post_init__(self) -> None:
        """Make the path absolute, so that it is found from other folders."""
        super().__post_init__()
        if self.reward_from:
            object.__setattr__(self, "reward_from", str(Path(self.reward_from).resolve()))


class Rewarded(RewrittenReward):
    """The part of an agent with the reward of an earlier run. See `Agent` for the arguments.

    Raises:
        ConfigurationError: There is no such run, it has no learned reward, or that is of other spaces.
    """

    title, about = "Rewarded", "with the learned reward of an earlier run"
    config_part = RewardedConfig

    def build(self) -> Any:
        networks = super().build()
        if not is_restoring():
            self._check_spaces(self._reward_of_run)
        return networks

    @cached_property
    def _reward_of_run(self) -> SavedReward:
        if not self.config.reward_from:
            raise ConfigurationError(
                "The reward of an earlier run is needed: set reward_from to its folder (finder train --reward RUN)."
            )
        return learned_reward(self.config.reward_from)

    def _check_spaces(self, reward: SavedReward) -> None:
        wanted, given = len(reward.scale.mean), self.observation_space.shape[0]
        source = f"The reward of {self.config.reward_from}"
        if wanted != given:
            raise ConfigurationError(
                f"{source} is one of observations of {wanted} numbers; {self.interface.label!r} has {given}. Take the "
                f"reward of a run in an environment with the same observations."
            )
        if reward.takes_actions and not same_space(reward.action_space, self.action_space):
            raise ConfigurationError(
                f"{source} is one of actions in {space_text(reward.action_space)}; those of {self.interface.label!r} "
                f"are in {space_text(self.action_space)}. Take the reward of a run with the same actions, or of AIRL, "
                f"whose reward does not depend on them."
            )

    def start(self) -> None:
        super().start()
        self._reward_of_state: SavedReward | None = None

    @property
    def reward(self) -> SavedReward:
        """The reward: of the state that was set, or of the run."""
        return self._reward_of_state or self._reward_of_run

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Replace the rewards by those of the run."""
        shape = data["rewards"].shape  # [T, N] of a rollout, [M] of replayed steps
        steps = [data[name].reshape(-1, *data[name].shape[len(shape) :]) for name in STEP_COLUMNS]
        gamma = np.broadcast_to(self.hyperparameters.gamma, shape).ravel()
        return super().preprocess_batch({**data, "rewards": self.reward(*steps, gamma=gamma).reshape(shape)})

    def extra_state(self) -> dict[str, Any]:
        """Add the reward, so that a resumed training has the same one when the run has been trained further."""
        if is_restoring():
            return super().extra_state()
        return {**super().extra_state(), SAVED_REWARD: {**self.reward.to_plain(), "run": self.config.reward_from}}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        saved = state.get(SAVED_REWARD, {})
        if saved.get("run") == self.config.reward_from:  # weights may come from an agent with another reward
            self._reward_of_state = SavedReward.of_plain(saved)

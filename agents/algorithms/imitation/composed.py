"""Agents whose reward is learned: any algorithm with GAIL or AIRL, such as ``"gail-ppo"`` and ``"airl-sac"``.

``"rewarded-ppo"`` is trained by the reward that an earlier run has learned.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.algorithms.imitation.airl import AIRL
from agents.algorithms.imitation.gail import GAIL
from agents.algorithms.imitation.rewarded import Rewarded
from agents.config.agent_config import AgentConfig, hyperparameter
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError, unknown_name

REWARDS: Mapping[str, Any] = {"gail": GAIL, "airl": AIRL, "rewarded": Rewarded}
"""Prefix of an agent's name -> the part that replaces its rewards."""


@functools.cache
def with_learned_reward(agent_class: type[KerasAgent], reward: str) -> type[KerasAgent]:
    """Return the class of an agent with a learned reward.

    Args:
        agent_class: An algorithm.
        reward: ``"gail"`` or ``"airl"``, learned from demonstrations; ``"rewarded"``, that of an earlier run.

    Raises:
        ConfigurationError: The name is unknown, or the class is no Keras agent.
    """
    if reward not in REWARDS:
        raise unknown_name("learned reward", reward, REWARDS)
    if not (isinstance(agent_class, type) and issubclass(agent_class, KerasAgent)):
        raise ConfigurationError(f"{agent_class!r} is no agents.KerasAgent: its reward cannot be learned.")
    part = REWARDS[reward]
    name = f"{part.title}{agent_class.__name__}"
    about = f"{agent_class.__name__} {part.about}. See `Agent` for the arguments."
    module = {"__module__": __name__, "__qualname__": name}
    own = _scaled_rewards(agent_class.config_class)
    bases = (agent_class.config_class, part.config_part)
    config = type(f"{name}Config", bases, {**module, **own, "__qualname__": f"{name}Config", "__doc__": about})
    made = {
        **module,
        "__doc__": about,
        "reward_name": reward,
        "config_class": dataclass(frozen=True, kw_only=True)(config),
    }
    return type(name, (part, agent_class), made)


def _scaled_rewards(config_class: type[AgentConfig]) -> dict[str, Any]:
    """Return the field of a config class that scales rewards by default, where the algorithm can scale them.

    Learned rewards have no scale of their own, and those of episodes that end are a hundred times those of other steps.
    """
    described = config_class.describe().get("normalize_rewards")
    if described is None:
        return {}
    return {
        "__annotations__": {"normalize_rewards": bool},
        "normalize_rewards": hyperparameter(True, described.help),
    }

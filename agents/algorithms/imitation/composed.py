"""Agents made of an algorithm and parts that learn from demonstrations: ``"gail-ppo"``, ``"bc-airl-sac"``.

``"rewarded-ppo"`` is trained by the reward that an earlier run has learned.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.algorithms.imitation.airl import AIRL
from agents.algorithms.imitation.bc import BC
from agents.algorithms.imitation.gail import GAIL
from agents.algorithms.imitation.pretrained import Pretrained
from agents.algorithms.imitation.rewarded import Rewarded
from agents.config.hyperparameters import other_defaults
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError, unknown_name

PARTS: Mapping[str, Any] = {"airl": AIRL, "bc": Pretrained, "gail": GAIL, "rewarded": Rewarded}
"""Prefix -> the part of the agent."""


def with_prefixes(agent_class: type[KerasAgent], prefixes: Sequence[str]) -> type[KerasAgent]:
    """Return the class of an agent with parts that learn from demonstrations.

    Args:
        agent_class: An algorithm.
        prefixes: ``"gail"`` or ``"airl"`` to learn the reward, ``"rewarded"`` to take that of an earlier run, ``"bc"``
            to start from a clone of the expert; ``("bc", "airl")`` does both.

    Raises:
        ConfigurationError: A name is unknown, two of them learn the reward, or the class is no Keras agent.
    """
    if not (isinstance(agent_class, type) and issubclass(agent_class, KerasAgent)):
        raise ConfigurationError(f"{agent_class!r} is no agents.KerasAgent: it cannot learn from demonstrations.")
    if issubclass(agent_class, BC):
        raise ConfigurationError(
            f"{agent_class.__name__} learns from demonstrations alone: leave out {', '.join(prefixes)}."
        )
    if len(prefixes) > 1 + ("bc" in prefixes) or len({*prefixes}) < len(prefixes):
        raise ConfigurationError(
            f"An agent learns one reward and starts from one clone, got the prefixes {', '.join(prefixes)}: "
            f"leave one out."
        )
    for prefix in sorted(prefixes, key="bc".__eq__):  # a clone of the expert comes first, whatever is learned after it
        agent_class = _with_part(agent_class, prefix)
    return agent_class


@functools.cache
def _with_part(agent_class: type[KerasAgent], prefix: str) -> type[KerasAgent]:
    if prefix not in PARTS:
        raise unknown_name("part of an agent", prefix, PARTS)
    part = PARTS[prefix]
    name = f"{part.title}{agent_class.__name__}"
    about = f"{agent_class.__name__} {part.about}. See `Agent` for the arguments."
    module = {"__module__": __name__, "__qualname__": name}
    plain = issubclass(part.config_part, agent_class.config_class)  # AgentConfig itself
    bases = (part.config_part,) if plain else (agent_class.config_class, part.config_part)
    own = other_defaults(part.defaults(agent_class.config_class), *bases, ranges=part.ranges)
    config = type(f"{name}Config", bases, {**module, **own, "__qualname__": f"{name}Config", "__doc__": about})
    made = {**module, "__doc__": about, "prefix": prefix, "config_class": dataclass(frozen=True, kw_only=True)(config)}
    return type(name, (part, agent_class), made)

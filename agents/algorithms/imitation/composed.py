"""Agents made of an algorithm and parts that learn from demonstrations: ``"gail-ppo"``, ``"bc-airl-sac"``.

``"rewarded-ppo"`` is trained by the reward that an earlier run has learned.
"""

from __future__ import annotations

import copyreg
import functools
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
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
    plain = issubclass(part.config_part, agent_class.config_class)  # AgentConfig itself
    bases = (part.config_part,) if plain else (agent_class.config_class, part.config_part)
    own = other_defaults(part.defaults(agent_class.config_class), *bases, ranges=part.ranges)
    config_names = {**_names(f"{name}Config", about), **own, "made_by": (_config_class, (agent_class, prefix))}
    config = _metaclass(bases)(f"{name}Config", bases, config_names)
    config_class = _registered(dataclass(frozen=True, kw_only=True)(config))
    parts = {"prefix": prefix, "made_by": (_with_part, (agent_class, prefix)), "config_class": config_class}
    names = {**_names(name, about), **parts}
    made: type[KerasAgent] = _registered(_metaclass((agent_class,))(name, (part, agent_class), names))
    return made


def _config_class(agent_class: type[KerasAgent], prefix: str) -> Any:
    return _with_part(agent_class, prefix).config_class


# Pickling -----------------------------------------------------------------------------------------------------------
# Classes that are made here are made again in another process, of the same parts: copies of them would not be the
# classes that names such as "gail-ppo" stand for there.


class _Composed(ABCMeta):
    """Class of the classes that are made here.

    Attributes:
        made_by: Function and its arguments that return the class. Subclasses have none of their own.
    """

    made_by: tuple[Callable[..., Any], tuple[Any, ...]]


def _reduced(made: _Composed) -> Any:
    return vars(made).get("made_by", made.__qualname__)


copyreg.pickle(_Composed, _reduced)


def _metaclass(bases: Sequence[type[Any]]) -> Any:
    """Return the class of a class with these bases, which may have metaclasses of their own."""
    further = [kind for kind in dict.fromkeys(map(type, bases)) if not issubclass(_Composed, kind)]
    if not further:
        return _Composed
    made: Any = type(_Composed.__name__, (_Composed, *further), {})
    copyreg.pickle(made, _reduced)
    return made


_MADE = count(1)


def _names(name: str, about: str) -> dict[str, str]:
    """Return the names of a new class; that within the module is unique."""
    within = f"{name}_{next(_MADE)}" if name in globals() else name
    return {"__module__": __name__, "__qualname__": within, "__doc__": about}


def _registered(made: Any) -> Any:
    """Put a class where its name says that it is, as pickling by reference demands."""
    globals()[made.__qualname__] = made
    return made

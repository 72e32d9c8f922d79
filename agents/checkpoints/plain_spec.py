"""An agent's spec and its spaces as plain values, if they contain no code of the user.

Such a checkpoint is read without unpickling: of a built-in algorithm, in an environment given by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agents.contract.registry import agent_class, built_in_name, is_built_in
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.environments.places import check_environment_id
from agents.environments.plain_space import plain_space, space_of_plain
from agents.errors import ConfigurationError
from agents.state_files.plain_state import split

_REGISTERED = ("entry_point", "reward_threshold", "nondeterministic", "max_episode_steps", "order_enforce",
               "disable_env_checker", "kwargs")  # fmt: skip
"""The plain fields of an environment's registration."""


def plain_spec(spec: AgentSpec, interface: Interface) -> dict[str, Any] | None:
    """Return a spec and its agent's spaces as plain values; None if they contain code of the user."""
    name = built_in_name(spec.agent)
    config = spec.config.to_dict()
    sides = [plain_space(interface.observations), plain_space(interface.actions)]
    environment = _plain_environment(spec.environment)
    if name is None or environment is None or None in sides or "__main__:" in repr(config):
        return None
    plain = {"agent": name, "config": config, "environment": environment, "spaces": sides, "label": interface.label}
    return None if split(plain).objects else {**plain, "path": list(sys.path)}


def spec_of_plain(plain: Mapping[str, Any]) -> tuple[AgentSpec, Interface]:
    """Return the spec and the spaces of a result of `plain_spec`. Names are resolved here, not later.

    Raises:
        ConfigurationError: It names a module that is not allowed (`agents.trust.allowed_modules`), or something that
            does not exist any more; or it is damaged.
    """
    try:
        return _found(plain)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise ConfigurationError(f"The checkpoint describes no agent: {type(error).__name__}: {error}") from error


def _found(plain: Mapping[str, Any]) -> tuple[AgentSpec, Interface]:
    of = dict(plain["environment"])
    registration = of.pop("registration")
    if registration is not None and registration["id"] not in gym.registry:
        check_environment_id(registration["entry_point"])
        gym.registry[registration["id"]] = EnvSpec(**registration)
    check_environment_id(of["id"])
    if not is_built_in(plain["agent"]):
        raise KeyError(plain["agent"])
    found = agent_class(plain["agent"])
    spec = AgentSpec(found, EnvironmentSpec(**of), found.config_class.from_dict(plain["config"]))
    observations, actions = map(space_of_plain, plain["spaces"])
    return spec, Interface(observations, actions, plain["label"])


def _plain_environment(environment: EnvironmentSpec) -> dict[str, Any] | None:
    """Return an environment's fields, with its registration if its name is not sufficient; None if that is code."""
    fields = environment.__getstate__()
    if not isinstance(environment.id, str):
        return None
    known = fields["registration"]
    fields["registration"] = None
    if known is None or ":" in environment.id:
        return fields
    if not isinstance(known.entry_point, str) or known.additional_wrappers:
        return None
    if not known.entry_point.startswith("gymnasium."):
        registered = {name: getattr(known, name) for name in _REGISTERED}
        fields["registration"] = {"id": known.id, **registered}
    return fields

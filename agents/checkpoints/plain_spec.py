"""An agent's spec and its spaces as plain values, where nothing in them is code of the user's.

A checkpoint with these is read without unpickling: a built-in algorithm, in an environment that is known by its text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from agents.checkpoints.plain_state import split
from agents.contract.registry import ALGORITHMS, agent_class
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.environments.places import check_environment_id
from agents.errors import ConfigurationError

_REGISTERED = ("entry_point", "reward_threshold", "nondeterministic", "max_episode_steps", "order_enforce",
               "disable_env_checker", "kwargs")  # fmt: skip
"""Of what an environment was registered with, that which is plain."""


def plain_spec(spec: AgentSpec, interface: Interface) -> dict[str, Any] | None:
    """Return a spec and its agent's spaces as plain values; None where something in them is code of the user's."""
    name = next((name for name, place in ALGORITHMS.items() if place == _place(spec.agent)), None)
    config = spec.config.to_dict()
    sides = [_plain_space(interface.observations), _plain_space(interface.actions)]
    environment = _plain_environment(spec.environment)
    if name is None or environment is None or None in sides or "__main__:" in repr(config):
        return None
    told = {"agent": name, "config": config, "environment": environment, "spaces": sides, "label": interface.label}
    return None if split(told).objects else {**told, "path": list(sys.path)}


def spec_of_plain(told: Mapping[str, Any]) -> tuple[AgentSpec, Interface]:
    """Return the spec that `plain_spec` told, and its agent's spaces. What text names is found here, and not later.

    Raises:
        ConfigurationError: It names a module that may not be named here (`agents.trust.allowed_modules`), or something
            that is not there any more; or it is damaged.
    """
    try:
        return _found(told)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise ConfigurationError(f"It describes no agent: {type(error).__name__}: {error}") from error


def _found(told: Mapping[str, Any]) -> tuple[AgentSpec, Interface]:
    of = dict(told["environment"])
    registration = of.pop("registration")
    if registration is not None and registration["id"] not in gym.registry:
        check_environment_id(registration["entry_point"])
        gym.registry[registration["id"]] = EnvSpec(**registration)
    check_environment_id(of["id"])
    found = agent_class(ALGORITHMS[told["agent"]])
    spec = AgentSpec(found, EnvironmentSpec(**of), found.config_class.from_dict(told["config"]))
    observations, actions = map(_space, told["spaces"])
    return spec, Interface(observations, actions, told["label"])


def _place(agent: Any) -> str:
    found = agent_class(agent)
    return f"{found.__module__}:{found.__qualname__}"


def _plain_environment(environment: EnvironmentSpec) -> dict[str, Any] | None:
    """Its fields, and its registration where its text alone does not say where it is; None where that is code."""
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


def _plain_space(space: gym.Space[Any]) -> dict[str, Any] | None:
    """A space as plain values; None for a kind of the user's own."""
    own: Any = space
    kind: Any = type(space)
    told: dict[Any, Callable[[], dict[str, Any]]] = {
        spaces.Box: lambda: {"low": own.low, "high": own.high, "dtype": own.dtype.str},
        spaces.Discrete: lambda: {"n": int(own.n), "start": int(own.start)},
        spaces.MultiDiscrete: lambda: {"nvec": own.nvec, "start": own.start, "dtype": own.dtype.str},
        spaces.MultiBinary: lambda: {"n": own.n},
        spaces.Dict: lambda: {"parts": [(name, _plain_space(part)) for name, part in own.spaces.items()]},
        spaces.Tuple: lambda: {"parts": [(None, _plain_space(part)) for part in own.spaces]},
    }
    if kind not in told:
        return None
    plain = told[kind]()
    return None if any(part is None for _, part in plain.get("parts", ())) else {"kind": kind.__name__, **plain}


def _space(told: Mapping[str, Any]) -> gym.Space[Any]:
    kind = told["kind"]
    if kind == "Box":
        return spaces.Box(told["low"], told["high"], dtype=np.dtype(told["dtype"]).type)
    if kind == "Discrete":
        return spaces.Discrete(told["n"], start=told["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(told["nvec"], dtype=np.dtype(told["dtype"]).type, start=told["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(told["n"])
    if kind == "Dict":
        return spaces.Dict([(name, _space(part)) for name, part in told["parts"]])
    return spaces.Tuple([_space(part) for _, part in told["parts"]])

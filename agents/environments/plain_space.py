"""Spaces as plain values, for files that are read without unpickling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def plain_space(space: gym.Space[Any]) -> dict[str, Any] | None:
    """Return a space as plain values; None for a kind of the user's own."""
    own: Any = space
    kind: Any = type(space)
    makers: dict[Any, Callable[[], dict[str, Any]]] = {
        spaces.Box: lambda: {"low": own.low, "high": own.high, "dtype": own.dtype.str},
        spaces.Discrete: lambda: {"n": int(own.n), "start": int(own.start)},
        spaces.MultiDiscrete: lambda: {"nvec": own.nvec, "start": own.start, "dtype": own.dtype.str},
        spaces.MultiBinary: lambda: {"n": own.n},
        spaces.Dict: lambda: {"parts": [(name, plain_space(part)) for name, part in own.spaces.items()]},
        spaces.Tuple: lambda: {"parts": [(None, plain_space(part)) for part in own.spaces]},
    }
    if kind not in makers:
        return None
    plain = makers[kind]()
    return None if any(part is None for _, part in plain.get("parts", ())) else {"kind": kind.__name__, **plain}


def space_of_plain(plain: Mapping[str, Any]) -> gym.Space[Any]:
    """Return the space of a result of `plain_space`."""
    kind = plain["kind"]
    if kind == "Box":
        return spaces.Box(plain["low"], plain["high"], dtype=np.dtype(plain["dtype"]).type)
    if kind == "Discrete":
        return spaces.Discrete(plain["n"], start=plain["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(plain["nvec"], dtype=np.dtype(plain["dtype"]).type, start=plain["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(plain["n"])
    if kind == "Dict":
        return spaces.Dict([(name, space_of_plain(part)) for name, part in plain["parts"]])
    return spaces.Tuple([space_of_plain(part) for _, part in plain["parts"]])

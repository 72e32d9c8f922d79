"""Observations for the comparison of members with equal single agents, before the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from agents.contract.agent import Agent
from agents.errors import NonFiniteError

Array = np.ndarray[Any, Any]

_PROBES = 8
"""Number of steps of all environments."""


def probe_observations(space: spaces.Box, n_envs: int, memory_size: int = 0) -> Array:
    """Return observations [T, N, ...] within the space, the same at every call; with memories, [T, N, F + M]."""
    rng, shape = np.random.default_rng(0), (_PROBES, n_envs, *space.shape)
    if memory_size:
        return rng.standard_normal((_PROBES, n_envs, space.shape[0] + memory_size)).astype(np.float32)
    if np.issubdtype(space.dtype, np.integer):
        return rng.integers(0, 256, shape).astype(space.dtype)
    return rng.standard_normal(shape).astype(np.float32)


def action_at(agent: Agent, probe: Array) -> Array | None:
    """Return the actions at one probe, or None if there are none.

    Probes do not come from an environment, so an agent may forbid every action.
    """
    try:
        return agent.act(probe, explore=False)
    except NonFiniteError:
        return None


def agreement(one: Sequence[Array | None], other: Sequence[Array | None]) -> float:
    """Return the share of equal actions in two lists, [T] of [N, ...] each."""
    pairs = zip(one, other, strict=True)
    same = [a is b if a is None or b is None else np.isclose(a, b, rtol=1e-3, atol=1e-4).mean() for a, b in pairs]
    return float(np.mean(same))

"""Small decision processes for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.functional.tabular import TabularModel

Array = np.ndarray[Any, Any]


def two_states(*, end: bool = False, horizon: int | None = 2, gamma: float = 1.0) -> TabularModel:
    """Return a process whose actions are to stay and to go to the other state; state 1 is terminal if `end`."""
    stay, go = np.eye(2), 1.0 - np.eye(2)
    return TabularModel(
        transitions=np.stack([stay, go], axis=1), initial=np.array([1.0, 0.0]), terminal=np.array([False, end]),
        horizon=horizon, gamma=gamma,
    )  # fmt: skip


def random_model(
    seed: int,
    *,
    n_states: int = 5,
    n_actions: int = 3,
    n_terminal: int = 1,
    horizon: int | None = 6,
    gamma: float = 1.0,
) -> TabularModel:
    """Return a process with random transitions, in which every state may follow every other one."""
    rng = np.random.default_rng(seed)
    return TabularModel(
        transitions=rng.dirichlet(np.full(n_states, 0.7), (n_states, n_actions)),
        initial=np.append(rng.dirichlet(np.ones(n_states - n_terminal)), np.zeros(n_terminal)),
        terminal=np.arange(n_states) >= n_states - n_terminal,
        rewards=rng.normal(size=(n_states, n_actions)), horizon=horizon, gamma=gamma,
    )  # fmt: skip


def random_policy(model: TabularModel, seed: int, *, stationary: bool = False) -> Array:
    """Return a random policy: [T, S, A] with a horizon T, unless it is stationary."""
    rng = np.random.default_rng(seed)
    times = () if stationary or model.horizon is None else (model.horizon,)
    return rng.dirichlet(np.ones(model.n_actions), (*times, model.n_states))

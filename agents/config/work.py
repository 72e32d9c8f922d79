"""The time of an environment step and the gradient steps of a run, as far as hyperparameters tell them."""

from __future__ import annotations

import itertools
from typing import Any

from agents.config.hyperparameters import Config

_STEP = 300_000.0
"""Work of an environment step without the update: weights that are multiplied by a row in the same time."""

_USUAL_SIZES = (64, 64)
_NETWORKS = 2
"""Hidden layers and networks of an agent whose hyperparameters do not tell."""


def relative_work(config: Config) -> float:
    """Estimate the time of an environment step from the hyperparameters alone, in arbitrary units.

    It orders agents by their time without building them: rows of the updates for each environment step, times the
    weights of the hidden layers. A hyperparameter that a config does not have counts as usual.
    """

    def value(name: str, usual: Any) -> Any:
        found = getattr(config, name, None)
        return usual if found is None else found

    sizes = value("hidden_sizes", _USUAL_SIZES)
    weights = _NETWORKS * sum(a * b for a, b in itertools.pairwise((sizes[0] if sizes else 1, *sizes, 1)))
    if hasattr(config, "gradient_steps") and hasattr(config, "train_freq"):
        rows = value("batch_size", 1) * value("gradient_steps", 1) / (value("train_freq", 1) * value("n_envs", 1))
    else:
        rows = float(value("n_epochs", 1))
    return float(_STEP + weights * rows)


def gradient_steps_in(config: Config, env_steps: int) -> float | None:
    """Estimate the gradient steps of a run from the hyperparameters alone; None if they do not tell.

    Args:
        config: Hyperparameters of the agent.
        env_steps: Environment steps of the run.
    """
    n_envs = getattr(config, "n_envs", 1)
    if hasattr(config, "replay_ratio"):
        return None  # the number of replays of a rollout is random
    per_update = getattr(config, "gradient_steps", None)
    if per_update is not None:
        every = n_envs * getattr(config, "train_freq", getattr(config, "n_steps", 1))
        return float(max(0, env_steps - (getattr(config, "learning_starts", None) or 0)) * per_update / every)
    n_steps = getattr(config, "n_steps", None)
    if n_steps is None:
        return None
    rows = n_steps * n_envs
    n_minibatches = -(-rows // (getattr(config, "batch_size", None) or rows))
    return float(env_steps // rows * getattr(config, "n_epochs", 1) * n_minibatches)

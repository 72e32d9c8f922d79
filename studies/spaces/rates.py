"""Names of hyperparameters that are learning rates."""

from __future__ import annotations


def is_learning_rate(name: str) -> bool:
    """Return whether a parameter is a learning rate: `learning_rate`, `actor.learning_rate`, `policy_learning_rate`.

    The first rate of a schedule, such as `initial_learning_rate`, says nothing of the constant rates beside it.
    """
    last = name.rpartition(".")[2]
    return last == "learning_rate" or (last.endswith("_learning_rate") and not last.endswith("initial_learning_rate"))

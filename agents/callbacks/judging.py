"""By what a training is judged while it goes on: by the returns of its own episodes, or by evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

JudgedBy = Literal["training", "evaluation"]
"""``"training"``: returns of the training's own episodes, played with exploration. ``"evaluation"``: mean returns of
the evaluations of `agents.Evaluate`."""


def check_judge(trainer: Trainer, judged_by: JudgedBy, what: str) -> None:
    """Refuse to judge by evaluations that nobody makes.

    Args:
        trainer: The trainer, with its callbacks.
        judged_by: By what `what` judges.
        what: The callback, for the message.

    Raises:
        ConfigurationError: There is no such way to judge, or nobody evaluates.
    """
    if judged_by not in ("training", "evaluation"):
        raise ConfigurationError(f"judged_by must be 'training' or 'evaluation', got {judged_by!r}.")
    from agents.callbacks.evaluate import Evaluate

    if judged_by == "evaluation" and not any(isinstance(each, Evaluate) for each in trainer.callbacks.callbacks):
        raise ConfigurationError(
            f"{what} is judged by evaluations, and nobody makes any: add agents.Evaluate, or judge by 'training'."
        )

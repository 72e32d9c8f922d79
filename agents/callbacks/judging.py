"""The measure of a running training: returns of its own episodes, or of evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

JudgedBy = Literal["training", "evaluation"]
"""``"training"``: returns of the training's own episodes, played with exploration. ``"evaluation"``: mean returns of
the evaluations of `agents.Evaluate`."""


def check_judge(trainer: Trainer, judged_by: JudgedBy, what: str) -> None:
    """Check that evaluations exist if a callback judges by them.

    Args:
        trainer: The trainer, with its callbacks.
        judged_by: The measure of the callback.
        what: The callback, for the message.

    Raises:
        ConfigurationError: The measure is unknown, or no callback evaluates.
    """
    if judged_by not in ("training", "evaluation"):
        raise ConfigurationError(f"judged_by must be 'training' or 'evaluation', got {judged_by!r}.")
    from agents.callbacks.evaluate import Evaluate

    if judged_by == "evaluation" and not any(isinstance(each, Evaluate) for each in trainer.callbacks.callbacks):
        raise ConfigurationError(
            f"{what} judges by evaluations, and no callback evaluates: add agents.Evaluate or set judged_by='training'."
        )

"""Callbacks for a training that stops improving: lower the learning rate, or stop.

A plateau is detected from checks of the mean return. Judged by training, there is a check each time that `window`
further episodes have ended, of their mean return; judged by evaluations, a check of the mean return of each. A check is
an improvement if its value is above the best earlier one by more than `min_change`. After `patience` checks in a row
without an improvement, the callback acts, and the count begins anew. Checks before `from_step` environment steps do not
count.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.callbacks.callback import Callback
from agents.callbacks.evaluate import JudgedBy, check_judge
from agents.config.agent_config import AgentConfig
from agents.contract.agent import Agent
from agents.errors import ConfigurationError, check_at_least, whole_number
from agents.training.records import Episode, Evaluation
from agents.training.training import require_alone

if TYPE_CHECKING:
    from agents.training.trainer import Trainer


class PlateauDetector(Callback):
    """Base class for callbacks that act on a plateau. See the module for its definition.

    Args:
        patience: Number of checks without improvement, >= 1.
        from_step: Environment steps before which checks do not count. Defaults to 0.
        judged_by: The measure of a check. Defaults to ``"training"``.
        window: Number of episodes in a check of training, >= 1. Defaults to 100.
        min_change: Smallest improvement, >= 0. Defaults to 0.

    Raises:
        ConfigurationError: A bad value.
    """

    def __init__(
        self,
        patience: int,
        *,
        from_step: int = 0,
        judged_by: JudgedBy = "training",
        window: int = 100,
        min_change: float = 0.0,
    ) -> None:
        check_at_least(0, from_step=from_step, min_change=min_change)
        self.patience = whole_number(1, "patience", patience) or 1
        self.from_step = from_step
        self.judged_by: JudgedBy = judged_by
        self.window = whole_number(1, "window", window) or 1
        self.min_change = min_change
        self.best: float | None = None
        """The best value of a check so far, None before the first."""
        self.waited = 0
        """The number of checks since the best value."""

    @abstractmethod
    def on_plateau(self, trainer: Trainer) -> None:
        """Act on a plateau."""

    def on_train_begin(self, trainer: Trainer) -> None:
        require_alone(trainer, type(self).__name__)
        check_judge(trainer, self.judged_by, type(self).__name__)

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        if self.judged_by == "training" and (episode.index + 1) % self.window == 0:
            self._check(trainer, trainer.history.mean_return(self.window))

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        if self.judged_by == "evaluation":
            self._check(trainer, evaluation.mean_return)

    def reset_state(self) -> None:
        self.best, self.waited = None, 0

    def get_state(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]

    def _check(self, trainer: Trainer, value: float) -> None:
        if trainer.env_steps < self.from_step:
            return
        if self.best is None or value > self.best + self.min_change:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            self.on_plateau(trainer)


class ReduceOnPlateau(PlateauDetector):
    """Lower the learning rates of all optimizers when a training stops improving.

    Args:
        factor: Factor of the learning rates, between 0 and 1. Defaults to 0.9.
        patience: Number of checks without improvement. Defaults to 10.
        min_learning_rate: Lower bound of the learning rates. Defaults to 0.
        **checks: See `PlateauDetector`.

    Raises:
        ConfigurationError: A bad value; when training begins, an optimizer whose learning rate follows a schedule.
    """

    def __init__(
        self, factor: float = 0.9, patience: int = 10, *, min_learning_rate: float = 0.0, **checks: Any
    ) -> None:
        super().__init__(patience, **checks)
        if not 0.0 < factor < 1.0:
            raise ConfigurationError(f"factor must be between 0 and 1, got {factor}.")
        check_at_least(0, min_learning_rate=min_learning_rate)
        self.factor = factor
        self.min_learning_rate = min_learning_rate

    def on_train_begin(self, trainer: Trainer) -> None:
        super().on_train_begin(trainer)
        refuse_schedules(trainer.agent.config, list(trainer.agent.optimizers))

    def on_plateau(self, trainer: Trainer) -> None:
        agent: Agent = trainer.agent
        alone = len(agent.optimizers) == 1
        for name in agent.optimizers:
            rate = agent.get_learning_rate(name)
            lower = max(rate * self.factor, self.min_learning_rate)
            if lower < rate:
                trainer.set_hyperparameter("learning_rate" if alone else f"{name}.learning_rate", lower)


class EarlyStopping(PlateauDetector):
    """Stop a training that no longer improves.

    Args:
        patience: Number of checks without improvement, >= 1. Defaults to 3.
        **checks: See `PlateauDetector`.

    Raises:
        ConfigurationError: A bad value.
    """

    state_name = "EarlyStop"  # as checkpoints of earlier versions name it

    def __init__(self, patience: int = 3, **checks: Any) -> None:
        super().__init__(patience, **checks)

    def on_plateau(self, trainer: Trainer) -> None:
        checks = "1 check" if self.patience == 1 else f"{self.patience} checks"
        trainer.stop(f"no better than a mean return of {self.best:g} for {checks} (judged by {self.judged_by})")


EarlyStop = EarlyStopping
"""Deprecated alias, kept for one version."""


def refuse_schedules(config: AgentConfig, optimizers: Sequence[str]) -> None:
    """Raise `ConfigurationError` if one of these optimizers follows a schedule, which cannot be lowered."""
    for name in optimizers:
        if isinstance(config.optimizer_spec(name).learning_rate, Mapping):
            raise ConfigurationError(
                f"The optimizer {name!r} follows a learning-rate schedule, which ReduceOnPlateau cannot lower: give it "
                f"a number, or leave ReduceOnPlateau out."
            )

"""Base class for callbacks that write the numbers of a training over its environment steps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.callbacks.callback import Callback
from agents.callbacks.checkpoint import Checkpoint
from agents.callbacks.intervals import Every, IntervalTimer
from agents.callbacks.signals import REASON as INTERRUPTED
from agents.contract.agent import UpdateMetrics
from agents.contract.mutable_agent import MutableAgent
from agents.errors import ConfigurationError
from agents.state_files.header import list_checkpoints
from agents.training.records import Episode, Evaluation, summaries
from agents.training.training import require_alone

if TYPE_CHECKING:
    from agents.training.run import Run
    from agents.training.trainer import Trainer


class ScalarLog(Callback):
    """Base class for loggers, which implement `open`, `write` and `close`.

    `episode/return` and `episode/length` at the end of each episode; `evaluation/mean_return`, its extremes and further
    results of evaluations; `custom_metrics/NAME/mean`, `/min` and `/max` over the episodes since the last interval; and
    at every interval, as means over the updates since the last one: `loss/OPTIMIZER`, `train/NAME` of all other values
    of the agent's loss (entropy, approx_kl, value_loss, and the critics' outputs, value_mean or q_mean, ...),
    `gradient_norm/OPTIMIZER` and `clipped_gradient_norm/OPTIMIZER`, and the current `learning_rate/OPTIMIZER`.

    Args:
        every: Interval between means: environment steps, ``"50 episodes"`` or ``"60 s"``. Defaults to 1000.
        gradient_norms: Whether norms are written: of the gradients of each optimizer, before and after clipping to
            `max_grad_norm` (an optimizer's own `clipnorm` comes after that). Without them, updates have no overhead.
            Defaults to True.

    Raises:
        ConfigurationError: When training begins, gradient norms are requested of an agent whose updates are computed in
            several processes.
    """

    last = ends_last = True

    def __init__(self, *, every: int | str | Every = 1000, gradient_norms: bool = True) -> None:
        self.every = Every.of(every)
        self.gradient_norms = gradient_norms
        self._timer: IntervalTimer | None = None
        self._has_ended = False
        self._sums: dict[str, tuple[float, int]] = {}  # name -> sum and number of values since the last interval
        self._measured: list[Episode] = []  # episodes with custom metrics since the last interval

    @abstractmethod
    def open(self, trainer: Trainer) -> None:
        """Begin to write; also called where a resumed training continues."""

    @abstractmethod
    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Write finite numbers by name."""

    @abstractmethod
    def close(self, trainer: Trainer) -> None:
        """End writing; called also after an error."""

    def on_train_begin(self, trainer: Trainer) -> None:
        agent = require_alone(trainer, type(self).__name__)
        if self.gradient_norms and isinstance(agent, MutableAgent):
            if getattr(agent, "team", None) is not None:
                raise ConfigurationError(
                    "Gradient norms are not available if several processes share updates: set gradient_norms=False."
                )
            agent.record_gradient_norms()
        self._timer, self._has_ended = IntervalTimer(self.every, trainer), False
        self.open(trainer)

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        self._write(episode.env_steps, {"episode/return": episode.episode_return, "episode/length": episode.length})
        if episode.custom_metrics:
            self._measured.append(episode)

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        named = {f"loss/{name}": values for name, values in update.losses.items()}
        named |= {name if "/" in name else f"train/{name}": values for name, values in update.metrics.items()}
        for name, values in named.items():
            finite = values[~np.isnan(values)]  # optimizers without a step have no norm
            total, n = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + float(finite.sum()), n + len(finite))

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        results = {name: getattr(evaluation, name) for name in ("mean_return", "min_return", "max_return")}
        results |= evaluation.metrics
        self._write(evaluation.env_steps, {f"evaluation/{name}": value for name, value in results.items()})

    def on_step_end(self, trainer: Trainer) -> None:
        if self._timer is not None and self._timer.due(trainer):
            self._write_means(trainer)

    def on_run_end(self, trainer: Trainer, run: Run) -> None:
        self._has_ended = True
        if (self._sums or self._measured) and run.stop_reason != INTERRUPTED:  # a resumed training has the rest of it
            self._write_means(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        self.close(trainer)

    def ending(self, trainer: Trainer) -> str:
        """Return how the training ended: ``"finished"``, ``"interrupted"`` or ``"failed"``."""
        if trainer.callbacks.raised is not None:
            return "failed"
        return "finished" if self._has_ended and trainer.run.stop_reason != INTERRUPTED else "interrupted"

    def reset_state(self) -> None:
        self._sums, self._measured = {}, []

    def flush(self) -> None:
        """Store what was written so far: a checkpoint is about to be written. Defaults to nothing."""
        return

    def get_state(self) -> dict[str, Any]:
        self.flush()  # a training that resumes does not write again what is from before its checkpoint
        return {"sums": dict(self._sums), "measured": [tuple(episode) for episode in self._measured]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._sums = dict(state["sums"])
        self._measured = [Episode(*episode) for episode in state.get("measured", ())]

    def _write_means(self, trainer: Trainer) -> None:
        agent = require_alone(trainer, type(self).__name__)
        means = {name: total / n for name, (total, n) in self._sums.items() if n}
        means |= {f"learning_rate/{name}": agent.get_learning_rate(name) for name in agent.optimizers}
        for name, summary in summaries(self._measured).items():
            means |= {f"custom_metrics/{name}/{part}": getattr(summary, part) for part in ("mean", "min", "max")}
        self._sums, self._measured = {}, []
        self._write(trainer.env_steps, means)

    def _write(self, env_steps: int, values: Mapping[str, float]) -> None:
        self.write(env_steps, {name: float(value) for name, value in values.items() if math.isfinite(value)})


def settings_of(trainer: Trainer) -> dict[str, Any]:
    """Return the settings of a training: agent, environment, seed and hyperparameters."""
    agent = require_alone(trainer, "A logger")
    return {
        "agent": type(agent).__name__.lower(),
        "environment": trainer.environment.label,
        "seed": trainer.run.seed,
        **agent.config.to_dict(),
    }


def checkpoints_of(trainer: Trainer) -> list[Path]:
    """Return the files of the training's `Checkpoint` callback: the best and the newest ones that it has kept."""
    folders = [each.folder for each in trainer.callbacks.callbacks if isinstance(each, Checkpoint)]
    return [path for folder in folders if folder.is_dir() for path in sorted(list_checkpoints(folder))]

"""TensorBoard events of a training. TensorFlow writes them; TensorBoard itself is not required."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.backend.tensorflow import tf
from agents.callbacks.callback import Callback
from agents.callbacks.intervals import Every, IntervalTimer
from agents.callbacks.signals import REASON as INTERRUPTED
from agents.contract.agent import UpdateMetrics
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError
from agents.training.records import Episode, Evaluation, summaries
from agents.training.training import require_alone

if TYPE_CHECKING:
    from agents.training.run import Run
    from agents.training.trainer import Trainer

_FLUSH_SECONDS = 5.0


class TensorBoard(Callback):
    """Write scalars over environment steps, for ``tensorboard --logdir FOLDER``.

    `episode/return` and `episode/length` at the end of each episode; `evaluation/mean_return`, its extremes and further
    results of evaluations; `custom_metrics/NAME/mean`, `/min` and `/max` over the episodes since the last interval; and
    at every interval, as means over the updates since the last one: `loss/OPTIMIZER`, `train/NAME` of all other values
    of the agent's loss (entropy, approx_kl, value_loss, and the critics' outputs, value_mean or q_mean, ...),
    `gradient_norm/OPTIMIZER` and `clipped_gradient_norm/OPTIMIZER`, and the current `learning_rate/OPTIMIZER`.

    Args:
        folder: Folder of the events. A resumed training keeps the events before its checkpoint.
        every: Interval between means: environment steps, ``"50 episodes"`` or ``"60 s"``. Defaults to 1000.
        gradient_norms: Whether norms are written: of the gradients of each optimizer, before and after clipping to
            `max_grad_norm` (an optimizer's own `clipnorm` comes after that). Without them, updates have no overhead.
            Defaults to True.

    Raises:
        ConfigurationError: When training begins, gradient norms are requested of an agent whose updates are computed in
            several processes.
    """

    last = True

    def __init__(self, folder: str | Path, *, every: int | str | Every = 1000, gradient_norms: bool = True) -> None:
        self.folder = Path(folder)
        self.every = Every.of(every)
        self.gradient_norms = gradient_norms
        self._timer: IntervalTimer | None = None
        self._events: Any = None
        self._flushed = 0.0
        self._sums: dict[str, tuple[float, int]] = {}  # name -> sum and number of values since the last interval
        self._measured: list[Episode] = []  # episodes with custom metrics since the last interval

    def on_train_begin(self, trainer: Trainer) -> None:
        agent = require_alone(trainer, "TensorBoard")
        if self.gradient_norms and isinstance(agent, KerasAgent):
            if agent.team is not None:
                raise ConfigurationError(
                    "Gradient norms are not available if several processes share updates: set gradient_norms=False."
                )
            agent.record_gradient_norms()
        self._timer = IntervalTimer(self.every, trainer)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._events = tf.io.TFRecordWriter(str(self.folder / name))
        self._put(file_version="brain.Event:2")
        if trainer.env_steps or trainer.resumed:  # events of an earlier process after the checkpoint are hidden
            log = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
            self._put(session_log=log, step=trainer.env_steps + 1)

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
        if (self._sums or self._measured) and run.stop_reason != INTERRUPTED:  # a resumed training has the rest of it
            self._write_means(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def get_state(self) -> dict[str, Any]:
        return {"sums": dict(self._sums), "measured": [tuple(episode) for episode in self._measured]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._sums = dict(state["sums"])
        self._measured = [Episode(*episode) for episode in state.get("measured", ())]

    def _write_means(self, trainer: Trainer) -> None:
        agent = require_alone(trainer, "TensorBoard")
        means = {name: total / n for name, (total, n) in self._sums.items() if n}
        means |= {f"learning_rate/{name}": agent.get_learning_rate(name) for name in agent.optimizers}
        for name, summary in summaries(self._measured).items():
            means |= {f"custom_metrics/{name}/{part}": getattr(summary, part) for part in ("mean", "min", "max")}
        self._sums, self._measured = {}, []
        self._write(trainer.env_steps, means)

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        summary = tf.compat.v1.Summary()
        for name, value in values.items():
            if math.isfinite(value):
                summary.value.add(tag=name, simple_value=float(value))
        self._put(summary=summary, step=step)

    def _put(self, **content: Any) -> None:
        event = tf.compat.v1.Event(wall_time=time.time(), **content)
        self._events.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._events.flush()
            self._flushed = time.monotonic()

"""What TensorBoard shows of a training. The events are written by TensorFlow; TensorBoard itself is not needed here."""

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
    """Writes scalars over environment steps, for ``tensorboard --logdir FOLDER``.

    `episode/return` and `episode/length` at the end of each episode; `evaluation/mean_return`, its extremes and what
    else was evaluated; `custom_metrics/NAME/mean`, `/min` and `/max` of what callbacks measured of the episodes since
    the last interval; and at every interval, as means over the updates since the last one: `loss/OPTIMIZER`,
    `train/NAME` of whatever else the agent's loss names (entropy, approx_kl, value_loss, and the critics'
    outputs, value_mean or q_mean, ...),
    `gradient_norm/OPTIMIZER` and `clipped_gradient_norm/OPTIMIZER`, and `learning_rate/OPTIMIZER` as it is then.

    Args:
        folder: Where. One that a training goes on in keeps what was there before its checkpoint.
        every: How often means are written: environment steps, ``"50 episodes"`` or ``"60 s"``. Defaults to 1000.
        gradient_norms: Whether the norms are there: of the gradients of each optimizer, and of what `max_grad_norm`
            leaves of them (an optimizer's own `clipnorm` comes after that). Without, updates cost nothing more.
            Defaults to True.

    Raises:
        ConfigurationError: When training begins, norms of an agent whose updates other processes make parts of.
    """

    last = True

    def __init__(self, folder: str | Path, *, every: int | str | Every = 1000, gradient_norms: bool = True) -> None:
        self.folder = Path(folder)
        self.every = Every.of(every)
        self.gradient_norms = gradient_norms
        self._beat: IntervalTimer | None = None
        self._events: Any = None
        self._flushed = 0.0
        self._sums: dict[str, tuple[float, int]] = {}  # name -> sum and number of values since the last interval
        self._measured: list[Episode] = []  # since the last interval, those of which callbacks measured something

    def on_train_begin(self, trainer: Trainer) -> None:
        agent = require_alone(trainer, "TensorBoard")
        if self.gradient_norms and isinstance(agent, KerasAgent):
            if agent.team is not None:
                raise ConfigurationError("No gradient norms are told by processes that share updates: leave them out.")
            agent.tell_gradient_norms()
        self._beat = IntervalTimer(self.every, trainer)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._events = tf.io.TFRecordWriter(str(self.folder / name))
        self._put(file_version="brain.Event:2")
        if trainer.env_steps or trainer.went_on:  # what an earlier process wrote beyond the checkpoint is not shown
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
            finite = values[~np.isnan(values)]  # an optimizer that made no step has no norm
            total, n = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + float(finite.sum()), n + len(finite))

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        told = {name: getattr(evaluation, name) for name in ("mean_return", "min_return", "max_return")}
        told |= evaluation.metrics
        self._write(evaluation.env_steps, {f"evaluation/{name}": value for name, value in told.items()})

    def on_step_end(self, trainer: Trainer) -> None:
        if self._beat is not None and self._beat.due(trainer):
            self._write_means(trainer)

    def on_run_end(self, trainer: Trainer, run: Run) -> None:
        if (self._sums or self._measured) and run.stop_reason != INTERRUPTED:  # who goes on then has the rest of it
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
        told = {name: total / n for name, (total, n) in self._sums.items() if n}
        told |= {f"learning_rate/{name}": agent.get_learning_rate(name) for name in agent.optimizers}
        for name, summary in summaries(self._measured).items():
            told |= {f"custom_metrics/{name}/{part}": getattr(summary, part) for part in ("mean", "min", "max")}
        self._sums, self._measured = {}, []
        self._write(trainer.env_steps, told)

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

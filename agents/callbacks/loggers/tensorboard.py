"""TensorBoard events of a training. TensorFlow writes them; TensorBoard itself is not required."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.backend.tensorflow import tf
from agents.callbacks.intervals import Every
from agents.callbacks.loggers.scalar_log import ScalarLog

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

_FLUSH_SECONDS = 5.0


class TensorBoard(ScalarLog):
    """Write scalars over environment steps, for ``tensorboard --logdir FOLDER``; `ScalarLog` lists them.

    Args:
        folder: Folder of the events. A resumed training keeps the events before its checkpoint.
        every: See `ScalarLog`. Defaults to 1000.
        gradient_norms: See `ScalarLog`. Defaults to True.

    Raises:
        ConfigurationError: See `ScalarLog`.
    """

    def __init__(self, folder: str | Path, *, every: int | str | Every = 1000, gradient_norms: bool = True) -> None:
        super().__init__(every=every, gradient_norms=gradient_norms)
        self.folder = Path(folder)
        self._events: Any = None
        self._flushed = 0.0

    def open(self, trainer: Trainer) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._events = tf.io.TFRecordWriter(str(self.folder / name))
        self._put(file_version="brain.Event:2")
        if trainer.env_steps or trainer.resumed:  # events of an earlier process after the checkpoint are hidden
            log = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
            self._put(session_log=log, step=trainer.env_steps + 1)

    def write(self, env_steps: int, values: Mapping[str, float]) -> None:
        summary = tf.compat.v1.Summary()
        for name, value in values.items():
            summary.value.add(tag=name, simple_value=value)
        self._put(summary=summary, step=env_steps)

    def flush(self) -> None:
        if self._events is not None:
            self._events.flush()
            self._flushed = time.monotonic()

    def close(self, trainer: Trainer) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def _put(self, **content: Any) -> None:
        event = tf.compat.v1.Event(wall_time=time.time(), **content)
        self._events.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

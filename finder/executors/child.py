"""What runs in a child process. Importing this module imports TensorFlow and does nothing with it.

The fork server imports it once, so that the children that it forks have it already.
"""

# ruff: noqa: E402 - TensorFlow is imported first, and quietly

from __future__ import annotations

import signal
import sys
import traceback
from typing import Any

from finder.silence import import_tensorflow

import_tensorflow()

import tensorflow as tf

import agents.algorithms.dqn
import agents.algorithms.ppo  # noqa: F401
from finder.executors.orphans import end_with_parent
from finder.executors.pickling import loads
from finder.trial import Outcome, run_trial
from studies.records import EpisodeRecord


def main(number: int, payload: bytes, board: Any, threads: int, path: list[str]) -> None:
    """Runs one trial and tells the board.

    Args:
        number: The trial's number.
        payload: The pickled `TrialSpec`.
        board: Proxy of the board.
        threads: Cores that this process may use.
        path: The parent's `sys.path`, so that a user's modules are found.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and asks us to stop
    end_with_parent()
    sys.path[:] = path
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    try:
        trial = loads(payload)
    except Exception as error:  # noqa: BLE001 - a user's module that cannot be imported here may raise anything
        reason = f"It cannot be unpacked in its process: {type(error).__name__}: {error}"
        board.finish(number, "", "", Outcome(state="failed", reason=reason, traceback=traceback.format_exc()))
        return
    outcome = run_trial(trial, _Told(board))
    board.finish(number, trial.label, trial.agent.config.optimizer, outcome)


class _Told:
    """A trial's listener that tells the board."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self._board.post("started", number, configuration)

    def episodes(self, number: int, records: list[EpisodeRecord]) -> str | None:
        answer: str | None = self._board.post("episodes", number, records)
        return answer

    def report(self, number: int, env_steps: int, value: float) -> str | None:
        answer: str | None = self._board.post("report", number, (env_steps, value))
        return answer

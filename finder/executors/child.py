"""What runs in a child process. Importing this module imports TensorFlow and does nothing with it.

The fork server imports it once, so that the children that it forks have it already.
"""

# ruff: noqa: E402 - TensorFlow is imported first, and quietly

from __future__ import annotations

import signal
import sys
from typing import Any

from finder.silence import import_tensorflow

import_tensorflow()

import dill
import tensorflow as tf

import agents.algorithms.dqn
import agents.algorithms.ppo  # noqa: F401
from finder.trial import TrialSpec, run_trial
from studies.records import EpisodeRecord


def main(payload: bytes, board: Any, threads: int, path: list[str]) -> None:
    """Runs one trial and tells the board.

    Args:
        payload: The pickled `TrialSpec`.
        board: Proxy of the board.
        threads: Cores that this process may use.
        path: The parent's `sys.path`, so that a user's modules are found.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and asks us to stop
    sys.path[:] = path
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    trial: TrialSpec = dill.loads(payload)
    outcome = run_trial(trial, _Told(board))
    spec = trial.agent
    board.finish(trial.number, spec.label, spec.config.optimizer, outcome)


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

"""What runs in a child process. Importing this module imports TensorFlow and does nothing with it.

The fork server imports it once, so that the children that it forks have it already.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.contract.pickling import unpickled
from agents.contract.registry import import_all
from agents.processes.child_process import begin
from finder.trials.cohort import run_cohort
from finder.trials.groups import Workshops
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord

import_all()


def main(worker: int, board: Any, rope: Any, threads: int, path: list[str], *, shared: str) -> None:
    """Runs one batch of trials after another, and tells the board.

    Args:
        worker: Number of this worker.
        board: Proxy of the board.
        rope: Connection to the parent's bell: it rings when there is something on the board.
        threads: Cores that this process may use.
        path: The parent's `sys.path`, so that a user's modules are found.
        shared: Where shared objects are (`agents.shared_objects`).
    """
    begin(threads, shared)
    sys.path[:] = path
    workshops = Workshops()
    while (batch := board.take(worker)) is not None:
        payloads, waits = batch
        trials = _unpacked(worker, board, payloads)
        rope.send_bytes(b".")
        if trials:
            run_cohort(trials, _Told(worker, board, rope, waits), workshops)


def _unpacked(worker: int, board: Any, payloads: Mapping[int, bytes]) -> list[TrialSpec]:
    trials = []
    for number, payload in payloads.items():
        try:
            trials.append(unpickled(payload))
        except Exception as error:  # noqa: BLE001 - a user's module that cannot be imported here may raise anything
            reason = f"It cannot be unpacked in its process: {type(error).__name__}: {error}"
            outcome = Outcome(state="failed", reason=reason, traceback=traceback.format_exc())
            board.finish(worker, number, outcome)
    return trials


class _Told:
    """The listener of a cohort that tells the board."""

    def __init__(self, worker: int, board: Any, rope: Any, waits: bool) -> None:
        self._worker = worker
        self._board = board
        self._rope = rope
        self._waits = waits

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self._board.post("started", self._worker, (number, configuration))

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        answer: str | None = self._board.post("episodes", self._worker, records)
        return answer

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        self._board.post("rung", self._worker, (env_steps, dict(values)))
        self._rope.send_bytes(b".")
        return self._board.answer(self._worker) if self._waits else {}

    def alive(self) -> None:
        self._board.post("episodes", self._worker, {})

    def hangs(
        self, numbers: Sequence[int], reason: str, fresh: Callable[[], Mapping[int, list[EpisodeRecord]]]
    ) -> None:
        self._board.post("episodes", self._worker, fresh())
        self._board.post("hangs", self._worker, (list(numbers), reason))
        self._rope.send_bytes(b".")

    def ended(self, number: int, outcome: Outcome) -> None:
        self._board.finish(self._worker, number, outcome)
        self._rope.send_bytes(b".")

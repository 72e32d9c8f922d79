"""Processes of a crew, wherever they are, get the time that they need."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from fakes import SMALL_PPO, Remembering

from agents import AgentSpec
from finder.executors.batches import Batching
from finder.executors.board import Board
from finder.executors.crew import Run
from finder.trials.trial import Outcome, TrialSpec


class Waiting:
    """A process that waits for room before it runs its trials, which end at once."""

    cause = "is gone"

    def __init__(self, board: Board, seconds: float) -> None:
        self._board, self._seconds = board, seconds
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.killed = False

    def _run(self) -> None:
        time.sleep(self._seconds)
        while (batch := self._board.take(0)) is not None:
            for number in batch[0]:
                self._board.post("started", 0, (number, {}))
                self._board.finish(0, number, Outcome(state="complete", value=1.0))

    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self.killed

    def kill(self) -> None:
        self.killed = True

    def join(self, seconds: float | None = None) -> None:
        if not self.killed:
            self._thread.join(seconds)


class WaitingCrew:
    """Has room for a process after a second."""

    def __init__(self) -> None:
        self.board = Board()

    def start(self, number: int) -> Waiting:
        return Waiting(self.board, 1.0)

    def wait(self, processes: Any) -> None:
        time.sleep(0.02)


def test_a_trial_that_waits_for_room_does_not_hang(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.executors.crew.STOP_SECONDS", 0.1)
    monkeypatch.setattr("finder.executors.crew.MOST_DEATHS", 1)
    agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO)
    trials = iter(
        TrialSpec(number=number, agent=agent, env_steps=32, report_marks=(32,), seeds=(0,), hang_seconds=0.1)
        for number in range(2)
    )
    listener = Remembering()
    Run(
        WaitingCrew(), n_jobs=1, batching=Batching(), name="waiting", reuses=True,
        next_trial=lambda: next(trials, None), listener=listener,
    ).loop()  # fmt: skip
    assert {number: outcome.state for number, outcome in listener.outcomes.items()} == {0: "complete", 1: "complete"}

"""The shared board of a study in processes: what children write and the parent reads, behind one lock.

The board lives in a `multiprocess` manager's own process and holds the shared dicts. Its lock is taken there,
inside each call, and never by a child: a child that is killed can therefore not leave it locked, and loses only
itself.
"""

from __future__ import annotations

import threading
from typing import Any

from multiprocess.managers import BaseManager

from studies.records import EpisodeRecord

Event = tuple[str, int, Any]


class Board:
    """Shared dicts and the events that the parent has not read yet.

    Attributes (read them with `values`):
        rewards: Trial number -> return of every episode.
        losses: Trial number -> loss of every episode that had one.
        logs: `best_reward` (from -1e9), `best_loss` (from 1e9), `best_agent`, `best_opt`: the best mean over a trial's
            episodes so far, and whose it is. For `best_loss`, `best_loss_agent` and `best_loss_opt`.
    """

    def __init__(self, keep_values: bool = False) -> None:
        self._keep_values = keep_values
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._stops: dict[int, str] = {}
        self.rewards: dict[int, list[float]] = {}
        self.losses: dict[int, list[float]] = {}
        self.logs: dict[str, Any] = {"best_reward": -1e9, "best_loss": 1e9, "best_agent": None, "best_opt": None}

    def post(self, kind: str, number: int, content: Any) -> str | None:
        """A child tells something; it is answered with the reason why it should stop, or None."""
        with self._lock:
            self._events.append((kind, number, content))
            if kind == "episodes" and self._keep_values:
                self._append(number, content)
            return self._stops.get(number)

    def finish(self, number: int, agent: str, optimizer: str, outcome: Any) -> None:
        """A child's last word: its trial's outcome. Its means are compared and `logs` updated."""
        with self._lock:
            self._events.append(("ended", number, outcome))
            if outcome.state == "complete":
                self._compare(number, agent, optimizer)

    def drain(self) -> list[Event]:
        """What was told since the last call, in order."""
        with self._lock:
            events, self._events = self._events, []
            return events

    def stop(self, number: int, reason: str) -> None:
        """Asks the trial to stop."""
        with self._lock:
            self._stops[number] = reason

    def values(self) -> dict[str, Any]:
        """Copies of `rewards`, `losses` and `logs`."""
        with self._lock:
            return {"rewards": dict(self.rewards), "losses": dict(self.losses), "logs": dict(self.logs)}

    def _append(self, number: int, records: list[EpisodeRecord]) -> None:
        self.rewards.setdefault(number, []).extend(record.episode_return for record in records)
        self.losses.setdefault(number, []).extend(record.loss for record in records if record.loss is not None)

    def _compare(self, number: int, agent: str, optimizer: str) -> None:
        rewards, losses = self.rewards.get(number), self.losses.get(number)
        if rewards and (mean := sum(rewards) / len(rewards)) > self.logs["best_reward"]:
            self.logs |= {"best_reward": mean, "best_agent": agent, "best_opt": optimizer}
        if losses and (mean := sum(losses) / len(losses)) < self.logs["best_loss"]:
            self.logs |= {"best_loss": mean, "best_loss_agent": agent, "best_loss_opt": optimizer}


class BoardManager(BaseManager):
    """Serves a `Board` to other processes."""


BoardManager.register("Board", Board, exposed=("post", "finish", "drain", "stop", "values"))

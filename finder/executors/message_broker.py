"""The shared broker of a study in processes: what children write and the parent reads, behind one lock.

The broker lives in a `multiprocess` manager's own process and holds the shared dicts. Its lock is taken there,
inside each call, and never by a child: a child that is killed can therefore not leave it locked, and loses only
itself.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any

from multiprocess.managers import BaseManager

from studies.database.records import EpisodeRecord

Event = tuple[str, int, Any]

Values = dict[tuple[int, int], float]
"""Seed and number of an episode -> value."""


class MessageBroker:
    """Shared dicts, the events that the parent has not read yet, and what it has for its workers.

    Args:
        keep_values: Whether it keeps the return and the loss of every episode (`values`).
    """

    def __init__(self, keep_values: bool = False) -> None:
        self._keep_values = keep_values
        self._changed = threading.Condition()
        self._events: list[Event] = []
        self._stops: dict[int, str] = {}
        self._work: dict[int, Any] = {}
        self._answers: dict[int, dict[int, str]] = {}
        self._rewards: dict[int, Values] = {}
        self._losses: dict[int, Values] = {}

    # Called by workers ----------------------------------------------------------------------------------------

    def receive_batch(self, worker: int) -> Any:
        """Waits for a batch of trials; None when there will be no more. That is the first word of a worker."""
        with self._changed:
            self._changed.wait_for(lambda: worker in self._work)
            self._events.append(("taken", worker, None))
            return self._work.pop(worker)

    def post(self, kind: str, worker: int, content: Any) -> str | None:
        """A worker tells something; it is answered with the reason why it should stop, or None."""
        with self._changed:
            self._events.append((kind, worker, content))
            if kind == "started":
                self._forget(content[0])
            elif kind == "episodes" and self._keep_values:
                self._append(content)
            return self._stops.get(worker)

    def await_reply(self, worker: int) -> dict[int, str]:
        """Waits for what the parent says to the worker's rung."""
        with self._changed:
            self._changed.wait_for(lambda: worker in self._answers)
            return self._answers.pop(worker)

    def finish(self, worker: int, number: int, outcome: Any) -> None:
        """Takes the outcome of a trial."""
        with self._changed:
            self._events.append(("ended", worker, (number, outcome)))

    # Called by the parent -------------------------------------------------------------------------------------

    def send_batch(self, worker: int, batch: Any) -> None:
        """Has a batch of trials for a worker; None sends it home."""
        with self._changed:
            self._work[worker] = batch
            self._changed.notify_all()

    def drain_events(self) -> list[Event]:
        """What was told since the last call, in order."""
        with self._changed:
            events, self._events = self._events, []
            return events

    def reply(self, worker: int, verdicts: Mapping[int, str]) -> None:
        """Says which trials of a worker are to stop at its rung, and why."""
        with self._changed:
            self._answers[worker] = dict(verdicts)
            self._changed.notify_all()

    def stop(self, worker: int, reason: str) -> None:
        """Asks a worker to end all its trials; one that waits at a rung need not wait any more."""
        with self._changed:
            self._stops[worker] = reason
            self._answers.setdefault(worker, {})
            self._changed.notify_all()

    def values(self) -> dict[str, dict[int, list[float]]]:
        """Returns the `rewards` and `losses` of every trial, by its number.

        One of each for an episode: its return, and the loss of the newest update when it ended, NaN before the first
        update. They are in the order of the seeds, and those of a seed in the order in which its episodes ended.
        """
        with self._changed:
            told = {"rewards": self._rewards, "losses": self._losses}
            return {
                name: {number: [own[episode] for episode in sorted(own)] for number, own in values.items()}
                for name, values in told.items()
            }

    def _forget(self, number: int) -> None:
        """A trial begins, perhaps again after its process has died: then all of its episodes are told again."""
        for values in (self._rewards, self._losses):
            values.pop(number, None)

    def _append(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
        for number, own in records.items():
            rewards, losses = self._rewards.setdefault(number, {}), self._losses.setdefault(number, {})
            for record in own:  # one that is told again, as its run begins anew, takes the place of what it was
                rewards[record.seed, record.episode] = record.episode_return
                losses[record.seed, record.episode] = math.nan if record.loss is None else record.loss


class BrokerManager(BaseManager):
    """Serves a `MessageBroker` to other processes."""


BrokerManager.register(
    "MessageBroker",
    MessageBroker,
    exposed=("receive_batch", "post", "await_reply", "finish", "send_batch", "drain_events", "reply", "stop", "values"),
)

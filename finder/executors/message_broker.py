"""The message broker between the worker processes of a study and their parent.

The broker runs in the process of a `multiprocess` manager and holds the shared dicts. Its lock is held within that
process for the time of a call, never by a worker: a worker that is killed cannot leave the broker locked.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any

from multiprocess.managers import BaseManager

from studies.database.records import EpisodeRecord
from studies.errors import StudyError

Event = tuple[str, int, Any]

Values = dict[tuple[int, int], float]
"""Seed and index of an episode -> value."""


class BrokerEndedError(StudyError):
    """The process of the message broker has ended, so that a study cannot continue in its worker processes."""


class MessageBroker:
    """Queues of the events of workers and of the batches and replies for them, and the shared dicts of values.

    Args:
        keep_values: Whether to keep the return and the loss of every episode (`values`). Defaults to False.
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
        """Wait for a batch of trials; None means that the worker has to end. The first call of a worker."""
        with self._changed:
            self._changed.wait_for(lambda: worker in self._work)
            self._events.append(("taken", worker, None))
            return self._work.pop(worker)

    def post(self, kind: str, worker: int, content: Any) -> str | None:
        """Add an event of a worker; return the reason why the worker has to stop, or None."""
        with self._changed:
            self._events.append((kind, worker, content))
            if kind == "started":
                self._forget(*content)
            elif kind == "episodes" and self._keep_values:
                self._append(content)
            return self._stops.get(worker)

    def await_reply(self, worker: int) -> dict[int, str]:
        """Wait for the reply of the parent to the rung of a worker: trial -> reason to stop."""
        with self._changed:
            self._changed.wait_for(lambda: worker in self._answers)
            return self._answers.pop(worker)

    # Called by the parent -------------------------------------------------------------------------------------

    def send_batch(self, worker: int, batch: Any) -> None:
        """Assign a batch of trials to a worker; None ends the worker."""
        with self._changed:
            self._work[worker] = batch
            self._changed.notify_all()

    def drain_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        with self._changed:
            events, self._events = self._events, []
            return events

    def reply(self, worker: int, verdicts: Mapping[int, str]) -> None:
        """Reply to the rung of a worker with its trials that have to stop, and the reasons."""
        with self._changed:
            self._answers[worker] = dict(verdicts)
            self._changed.notify_all()

    def stop(self, worker: int, reason: str) -> None:
        """Ask a worker to end all of its trials, also if the worker waits for a reply."""
        with self._changed:
            self._stops[worker] = reason
            self._answers.setdefault(worker, {})
            self._changed.notify_all()

    def values(self) -> dict[str, dict[int, list[float]]]:
        """Return the `rewards` and `losses` of every trial by its number.

        Each episode has one of both: its return, and the loss of the newest update at its end, NaN before the first
        update. The lists are ordered by seed and within a seed by the end of the episodes.
        """
        with self._changed:
            by_name = {"rewards": self._rewards, "losses": self._losses}
            return {
                name: {number: [own[episode] for episode in sorted(own)] for number, own in values.items()}
                for name, values in by_name.items()
            }

    def _forget(self, number: int, configuration: Mapping[str, Any]) -> None:
        """Remove the episodes of runs that start; after the death of their process they are reported again."""
        for values in (self._rewards, self._losses):
            left = {key: own for key, own in values.pop(number, {}).items() if key[0] not in configuration["seeds"]}
            if left:
                values[number] = left

    def _append(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
        for number, own in records.items():
            rewards, losses = self._rewards.setdefault(number, {}), self._losses.setdefault(number, {})
            for record in own:  # an episode of a restarted run replaces the earlier one
                rewards[record.seed, record.episode] = record.episode_return
                losses[record.seed, record.episode] = math.nan if record.loss is None else record.loss


class BrokerManager(BaseManager):
    """Serves a `MessageBroker` to other processes."""


BrokerManager.register(
    "MessageBroker",
    MessageBroker,
    exposed=("receive_batch", "post", "await_reply", "send_batch", "drain_events", "reply", "stop", "values"),
)

"""The main function of a worker process. Importing this module imports TensorFlow without using it.

The fork server imports it once, so that forked workers do not have to.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agents.contract.pickling import unpickled
from agents.contract.registry import import_all
from agents.population import TemplateCache
from finder.trials.cohort import run_cohort
from finder.trials.speed import KEPT_STRUCTURES
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord
from studies.population_based.population_based import Perturbation

import_all()


def main(worker: int, broker: Any, wakeup: Any) -> None:
    """Run one batch of trials after another, and report events to the broker.

    Args:
        worker: Number of this worker.
        broker: Proxy of the broker.
        wakeup: Connection that wakes the parent when there are new events.
    """
    templates = TemplateCache(KEPT_STRUCTURES)
    while (batch := broker.receive_batch(worker)) is not None:
        payloads, waits = batch
        trials = _unpack(worker, broker, payloads)
        wakeup.send_bytes(b".")
        if trials:
            run_cohort(trials, _BrokerListener(worker, broker, wakeup, waits), templates)


def _unpack(worker: int, broker: Any, payloads: Mapping[int, bytes]) -> list[TrialSpec]:
    trials = []
    for number, payload in payloads.items():
        try:
            trials.append(unpickled(payload))
        except Exception as error:  # noqa: BLE001 - importing a module of the user may raise anything
            reason = f"It cannot be unpacked in its process: {type(error).__name__}: {error}"
            outcome = Outcome(state="failed", reason=reason, traceback=traceback.format_exc())
            broker.post("ended", worker, (number, outcome))
    return trials


class _BrokerListener:
    """Reports the events of a cohort to the broker."""

    def __init__(self, worker: int, broker: Any, wakeup: Any, waits: bool) -> None:
        self._worker = worker
        self._broker = broker
        self._wakeup = wakeup
        self._waits = waits

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self._broker.post("started", self._worker, (number, configuration))

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        answer: str | None = self._broker.post("episodes", self._worker, records)
        return answer

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Mapping[int, str]:
        self._broker.post("rung", self._worker, (env_steps, dict(values)))
        self._wakeup.send_bytes(b".")
        return self._broker.await_reply(self._worker) if self._waits else {}

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int]
    ) -> Sequence[Perturbation]:
        raise AssertionError("A population that exchanges members is trained in the process of its study.")

    def alive(self) -> None:
        self._broker.post("episodes", self._worker, {})

    def hangs(
        self, numbers: Sequence[int], reason: str, fresh: Callable[[], Mapping[int, list[EpisodeRecord]]]
    ) -> None:
        self._broker.post("episodes", self._worker, fresh())
        self._broker.post("hangs", self._worker, (list(numbers), reason))
        self._wakeup.send_bytes(b".")

    def ended(self, number: int, outcome: Outcome) -> None:
        self._broker.post("ended", self._worker, (number, outcome))
        self._wakeup.send_bytes(b".")

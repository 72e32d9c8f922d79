"""Dispatches trials to a pool of worker processes, on this machine or in a cluster, and replaces dead processes.

The processes communicate with this one through a `MessageBroker`; only this one writes the study.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agents.contract.pickling import pickled
from agents.processes.interrupts import defer_interrupts
from finder.executors.batches import Batching
from finder.executors.divided_trials import DividedTrials
from finder.executors.executor import NextTrial, StudyListener
from finder.executors.message_broker import BrokerEndedError, Event
from finder.executors.worker_pool import STOP_SECONDS, Worker, Workers, kill_processes
from finder.trials.execution import with_executor
from finder.trials.speed import KEPT_STRUCTURES
from finder.trials.trial import INTERRUPTED, Outcome, TrialSpec
from studies.database.retries import StorageAwayError
from studies.spec.attributes import FailureKind

log = logging.getLogger(__name__)

MOST_STOP_SECONDS = 30.0
"""Seconds in all after which a process that has to stop is killed, also while it sends events (`STOP_SECONDS`)."""

HANGS = 1.75
"""Multiple of `hang_seconds` after which a silent process is killed.

A process that hangs in compiled code reports that earlier, unless the code holds the global interpreter lock.
"""

BUILD_SECONDS = 120.0
"""Additional seconds for building the agents of a batch, during which a process sends no heartbeats."""

STOPPED_SECONDS = 5.0
"""A longer time between two steps of the loop means that this process was stopped (Ctrl-Z)."""

BEAT_SECONDS = 1.0  # between heartbeats to the listener
MAX_CRASHES = 3
"""Number of processes that may die under a trial before it has failed; until then another one resumes it."""


class TrialDispatcher:
    """Runs trials in worker processes until there are no more.

    Processes that run several batches are left for another dispatcher, with their compiled agents.

    Args:
        workers: The processes.
        listener: Receives all events.
        n_jobs: Number of processes.
        batching: Forms the batches of trials that a process runs at the same time.
        name: Name of the executor in records.
        reuses: Whether a process runs one batch after another although the batching does not ask for it.
    """

    def __init__(
        self,
        workers: Workers,
        listener: StudyListener,
        *,
        n_jobs: int,
        batching: Batching,
        name: str,
        reuses: bool = False,
    ) -> None:
        self.reuses = reuses
        self.workers = workers
        self.listener = listener
        self.pool, self.broker = workers.pool, workers.broker
        self.n_jobs = n_jobs
        self.batching = batching
        self.name = name
        self.events: deque[Event] = deque()  # received, but not handled yet
        self.exhausted = False
        self.unassigned: deque[list[TrialSpec]] = deque()  # batches of processes that have died
        self.crashes: Counter[tuple[int, tuple[int, ...]]] = Counter()  # of a trial, and the seeds of the part
        self.divided = DividedTrials()
        self.checked = self.beaten = time.monotonic()

    @property
    def n_busy(self) -> int:
        """Number of workers that run trials."""
        return sum(bool(worker.running) for worker in self.workers.values())

    @property
    def keeps_workers(self) -> bool:
        """True if a process runs several batches, and all workers reach rungs together."""
        return self.batching.members is not None

    def run(self, next_trial: NextTrial) -> None:
        """Run the trials that `next_trial` returns, until it returns None and every trial has ended.

        Args:
            next_trial: Returns the next trial.

        Raises:
            BrokerEndedError: The process of the message broker has ended.
        """
        self.workers.forget_dead()  # idle ones may have died since the last run, for lack of memory, for example
        try:
            while True:
                # Ctrl-C interrupts waiting, not the start of a process, a call of the broker or a write.
                with defer_interrupts():
                    self._fill(next_trial)
                if not self.unassigned and not self.n_busy:
                    if not self.keeps_workers:
                        self.workers.close()
                    return
                if self.exhausted and not self.keeps_workers:  # another process may wait for its resources
                    self.workers.end_idle()
                self.pool.wait([worker.process for worker in self.workers.values()])
                with defer_interrupts():
                    self._forward_events()
                    self._send_heartbeat()
                    self._kill_hung()
                    self._reassign_dead()
                    self._answer_rungs()
        except (OSError, EOFError) as error:
            self._stop_all()
            if self._broker_answers():
                raise
            raise BrokerEndedError(
                "The process of the message broker has ended (killed, perhaps for lack of memory). All trials that had "
                "ended are recorded: start the study again to continue."
            ) from error
        except BaseException:
            self._stop_all()
            raise

    # Work for workers -----------------------------------------------------------------------------------------

    def _fill(self, next_trial: NextTrial) -> None:
        """Request trials for idle workers. Workers that reach rungs together get their batches together."""
        while self.unassigned and self.n_busy < self.n_jobs:
            self._assign(self.unassigned.popleft())
        n_busy = self.n_busy
        if self.exhausted or (n_busy and self.keeps_workers) or n_busy >= self.n_jobs:
            return
        batches = self.batching.next(next_trial, self.n_jobs - n_busy, self.listener)
        self.exhausted = not batches
        self.divided.begin(batches)
        for batch in batches:
            self._assign(batch)

    def _assign(self, batch: list[TrialSpec]) -> None:
        structures = {trial.agent.structure() for trial in batch}
        idle = [number for number, worker in self.workers.items() if not worker.running]
        idle.sort(key=lambda number: -len(structures.intersection(self.workers[number].structures)))
        number = idle[0] if idle and (self.keeps_workers or self.reuses) else self.workers.start()
        worker = self.workers[number]
        worker.structures = list(dict.fromkeys([*structures, *worker.structures]))[:KEPT_STRUCTURES]
        worker.batch, worker.running, worker.started = batch, {trial.number for trial in batch}, False
        if worker.last_contact is not None:
            worker.last_contact = time.monotonic()
        payloads = {trial.number: pickled(trial.agent, trial) for trial in batch}
        self.broker.send_batch(number, (payloads, self.listener.prunes))

    # Events of workers ----------------------------------------------------------------------------------------

    def _forward_events(self) -> None:
        """Handle the events of the workers."""
        self.events.extend(self.broker.drain_events())
        self._handle_events()

    def _send_heartbeat(self) -> None:
        """Let the listener check its budget, also while no worker sends an event."""
        if (now := time.monotonic()) - self.beaten >= BEAT_SECONDS:
            self.beaten = now
            self.listener.episodes({})

    def _handle_events(self) -> None:
        while self.events:  # one by one: if the listener raises, `_stop_all` handles the rest
            self._handle(*self.events.popleft())

    def _handle_last_events(self) -> None:
        """Handle the events that are left. During an outage of the storage the listener keeps all endings in a file."""
        away: StorageAwayError | None = None
        while self.events:
            try:
                self._handle_events()
            except StorageAwayError as error:
                away = away or error
        if away is not None:
            raise away

    def _handle(self, kind: str, worker: int, content: Any) -> None:
        if worker not in self.workers:
            return
        self.workers[worker].last_contact = time.monotonic()
        self.workers[worker].started = kind != "taken"
        if kind == "started":
            number, configuration = content
            if number in self.workers[worker].running and (whole := self.divided.built(number, configuration)):
                self.listener.started(number, with_executor(whole, self.name, self.n_jobs))
        elif kind == "episodes":
            self.listener.episodes(content)
        elif kind == "hangs":
            self._kill(self.workers[worker], *content)
        elif kind == "rung":
            if self.listener.prunes:
                self.workers[worker].rung = content
            elif known := self.divided.rung(*content):
                self.listener.rung(content[0], known)
        elif kind == "ended":
            self._end(worker, *content)
            if not (self.keeps_workers or self.reuses):
                self.workers.end_idle()

    def _answer_rungs(self) -> None:
        """Report the rungs that all workers of a group have reached, and reply to the workers."""
        waiting = {number: worker for number, worker in self.workers.items() if worker.rung is not None}
        can_reassign = self.unassigned and self.n_busy < self.n_jobs
        if not waiting or can_reassign:  # reassigned trials reach the rung again
            return
        if not self.keeps_workers:
            for number, worker in waiting.items():
                self._answer({number: worker})
        elif all(worker.rung is not None for worker in self.workers.values() if worker.running):
            first = min(worker.rung[0] for worker in waiting.values() if worker.rung is not None)
            together = {n: worker for n, worker in waiting.items() if worker.rung and worker.rung[0] == first}
            self._answer(together)

    def _answer(self, workers: dict[int, Worker]) -> None:
        values: dict[int, dict[int, float]] = {}
        env_steps = 0
        for worker in workers.values():
            assert worker.rung is not None
            env_steps = worker.rung[0]
            values |= self.divided.rung(*worker.rung)
        reasons = self.listener.rung(env_steps, values) if values else {}
        self.exhausted = self.exhausted and not self.listener.pauses
        for number, worker in workers.items():
            assert worker.rung is not None
            own = {trial: why for trial, why in reasons.items() if trial in worker.rung[1]}
            self.broker.reply(number, own | self.divided.stopped(worker.rung[1]))
            worker.rung, worker.last_contact = None, time.monotonic()

    # How trials and workers end -------------------------------------------------------------------------------

    def _end(self, worker: int, number: int, outcome: Outcome) -> None:
        if number in self.workers[worker].running:
            self.workers[worker].running.remove(number)
            self._report_end(number, outcome)

    def _report_end(self, number: int, outcome: Outcome) -> None:
        if (joined := self.divided.ended(number, outcome)) is not None:
            self.listener.ended(number, joined)
            self.exhausted = self.exhausted and not self.listener.pauses  # a paused trial may be promoted now

    def _kill_hung(self) -> None:
        """Kill the workers that were silent for so long that they hang in compiled code (see `watchdog`)."""
        now, before = time.monotonic(), self.checked
        self.checked = now
        for worker in self.workers.values():
            if worker.last_contact is None:  # it waits for resources of its cluster
                continue
            if now - before > STOPPED_SECONDS:  # this process was stopped, most likely with its workers
                worker.last_contact = now
            limit = worker.batch[0].hang_seconds if worker.running else 0.0
            silent = time.monotonic() - worker.last_contact - (0.0 if worker.started else BUILD_SECONDS)
            if limit and worker.rung is None and silent > HANGS * limit:
                reason = f"No call returned for {limit:g} s: the environment or the agent hangs in compiled code."
                self._kill(worker, sorted(worker.running), reason)

    def _kill(self, worker: Worker, numbers: Sequence[int], reason: str) -> None:
        """Kill a worker that hangs in compiled code. If only one trial can be the cause, the trial fails."""
        kill_processes([worker.process])
        worker.hung = True
        if len(numbers) == 1:
            worker.suspects = {
                numbers[0]: f"HungError: {reason} Its process was killed, because compiled code cannot be interrupted."
            }

    def _reassign_dead(self) -> None:
        """Reassign the trials of processes that have died, up to `MAX_CRASHES` times for each trial."""
        dead = [number for number, worker in self.workers.items() if not worker.process.is_alive()]
        if dead:
            self._forward_events()  # an outcome may have arrived just before
        for number in dead:
            worker = self.workers.get(number)
            if worker is None:
                continue
            for trial, reason in worker.suspects.items():
                self._end(number, trial, Outcome(state="failed", reason=reason, failure="hung"))
            cause = "hung, and was killed" if worker.hung else self.pool.cause(worker.process)
            self._reassign(number, cause)
            self.workers.pop(number, None)

    def _reassign(self, number: int, cause: str) -> None:
        """Reassign the trials of a worker; trials that have lost `MAX_CRASHES` processes fail.

        Args:
            number: Number of the worker.
            cause: Why it has ended, as the end of a sentence.
        """
        worker = self.workers[number]
        kind: FailureKind = "hung" if worker.hung else "killed"
        for trial in (trial for trial in worker.batch if trial.number in worker.running):
            self.crashes[trial.number, trial.seeds] += 1
            if self.crashes[trial.number, trial.seeds] >= MAX_CRASHES:
                often = f", {MAX_CRASHES} times" if MAX_CRASHES > 1 else ""
                reason = f"its process {cause}{often}"
                self._end(number, trial.number, Outcome(state="failed", reason=reason, failure=kind))
        left = [trial for trial in worker.batch if trial.number in worker.running]
        if not left:
            return
        some, own = f"Trial {left[0].number} resumes", "its"
        if len(left) > 1:
            some, own = f"{len(left):,} trials resume", "their"
        log.warning("%s in another process: %s process %s", some, own, cause)
        # One of the trials may be the cause: the second time each gets a process of its own.
        again = any(self.crashes[trial.number, trial.seeds] > 1 for trial in left)
        self.unassigned.extend([[trial] for trial in left] if again else [left])

    def _stop_all(self) -> None:
        """Stop every worker, then kill those that do not stop, and end every trial as interrupted."""
        try:
            with suppress(OSError, EOFError):  # the broker has ended, so workers do not receive the request
                for number in self.workers:
                    self.broker.stop(number, INTERRUPTED)
                    self.broker.send_batch(number, None)
                self._await_ends()
            kill_processes(worker.process for worker in self.workers.values())
            with suppress(OSError, EOFError):
                self.events.extend(self.broker.drain_events())
            self._handle_last_events()
            for number, worker in list(self.workers.items()):
                for trial in sorted(worker.running):
                    self._end(number, trial, Outcome(state="interrupted", reason=INTERRUPTED))
            for waiting in [trial for batch in self.unassigned for trial in batch]:
                self._report_end(waiting.number, Outcome(state="interrupted", reason=INTERRUPTED))
        finally:  # also after a second Ctrl-C, which does not wait
            self.workers.kill_all()
            self.unassigned = deque()

    def _await_ends(self) -> None:
        """Wait until workers have ended. A worker that sends events is still in its step, or writes its checkpoint."""
        began, is_reported = time.monotonic(), False
        last_event_at = dict.fromkeys(self.workers, began)
        while left := [
            worker.process
            for number, worker in self.workers.items()
            if worker.process.is_alive() and time.monotonic() - last_event_at[number] < STOP_SECONDS
        ]:
            seconds = time.monotonic() - began
            if seconds > MOST_STOP_SECONDS:
                return
            if seconds > STOP_SECONDS and not is_reported:
                is_reported = True
                log.warning("Processes have not ended their steps yet: Ctrl-C ends them at once.")
            self.pool.wait(left)
            for event in self.broker.drain_events():
                self.events.append(event)
                last_event_at[event[1]] = time.monotonic()

    def _broker_answers(self) -> bool:
        with suppress(OSError, EOFError):
            self.broker.values()
            return True
        return False

"""Trials in a pool of processes, wherever those are: who gets which, what they tell, and what becomes of the dead.

The processes talk to this one through a `MessageBroker`; only this one writes the study.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.contract.pickling import pickled
from finder.executors.batches import Batching
from finder.executors.executor import NextTrial, StudyListener
from finder.executors.message_broker import Event, MessageBroker
from finder.executors.signals import defer_interrupts
from finder.trials.trial import FELL_BEHIND, INTERRUPTED, Outcome, TrialSpec

log = logging.getLogger(__name__)

STOP_SECONDS = 10.0
"""How long a process may take to stop when it is asked to, before it is killed."""

HANGS = 1.75
"""Multiple of a trial's `hang_seconds` after which a process is killed of which nothing is heard at all.

One that hangs in compiled code says so before; unless that code lets no other thread run.
"""

BUILD_SECONDS = 120.0
"""How much longer than that a process may build the agents of its trials, in which it shows no life."""

STOPPED_SECONDS = 5.0
"""Between two turns of its loop this process takes less, unless it is stopped (Ctrl-Z)."""

MAX_CRASHES = 3
"""How often the process of a trial may die before the trial has failed. Until then it goes on in another one."""


class WorkerProcess(Protocol):
    """A process of a pool."""

    @property
    def cause(self) -> str:
        """Why it is gone, as the end of a sentence."""

    def is_alive(self) -> bool:
        """Whether it is there."""

    def kill(self) -> None:
        """Ends it at once."""

    def join(self, seconds: float | None = None) -> None:
        """Waits until it is gone, so long at most."""


class WorkerPool(Protocol):
    """Starts processes that run `finder.executors.worker_process.main`.

    Attributes:
        broker: What they and this process tell each other.
    """

    broker: MessageBroker

    def start(self, number: int) -> WorkerProcess:
        """Starts one."""

    def wait(self, processes: Sequence[WorkerProcess]) -> None:
        """Waits for a moment, or until one of them has something to tell or is gone."""


@dataclass
class _Worker:
    """A process and the trials that it runs."""

    process: WorkerProcess
    batch: list[TrialSpec] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    rung: tuple[int, dict[int, dict[int, float]]] | None = None  # at which it waits: environment steps and values
    last_contact: float | None = None  # None until it runs: it may wait for a place in a cluster
    started: bool = False  # whether anything was heard of its batch: it shows no life while it builds agents
    hung: bool = False  # and was killed
    suspects: dict[int, str] = field(default_factory=dict)  # the trial that it hung in, and what to tell of it


class TrialDispatcher:
    """Has a pool run trials until there are no more.

    Args:
        pool: Starts processes.
        n_jobs: Processes at the same time.
        batching: Which trials a process runs at the same time.
        name: What records call this way of running trials.
        next_trial: Gives the next trial.
        listener: Hears of everything.
        reuses: Whether a process runs one batch after another, where that is not what the batching says already.
    """

    def __init__(
        self,
        pool: WorkerPool,
        *,
        n_jobs: int,
        batching: Batching,
        name: str,
        next_trial: NextTrial,
        listener: StudyListener,
        reuses: bool = False,
    ) -> None:
        self.reuses = reuses
        self.pool = pool
        self.broker = pool.broker
        self.n_jobs = n_jobs
        self.batching = batching
        self.name = name
        self.next_trial = next_trial
        self.listener = listener
        self.workers: dict[int, _Worker] = {}
        self.n_started = 0
        self.events: deque[Event] = deque()  # told, but not passed on yet
        self.exhausted = False
        self.unassigned: deque[list[TrialSpec]] = deque()  # their process has died, and another one goes on with them
        self.crashes: Counter[int] = Counter()
        self.checked = time.monotonic()

    @property
    def n_busy(self) -> int:
        """Workers that run trials."""
        return sum(bool(worker.running) for worker in self.workers.values())

    @property
    def keeps_workers(self) -> bool:
        """Whether a process runs more than one batch, and the workers go from rung to rung together."""
        return self.batching.members is not None

    def run(self) -> None:
        try:
            while True:
                # Ctrl-C is heard while waiting, not in the middle of a start, of a talk with the broker or of a write.
                with defer_interrupts():
                    self._fill()
                if not self.unassigned and not self.n_busy:
                    self._dismiss(list(self.workers))
                    return
                if self.exhausted and not self.keeps_workers:  # another one may wait for the place that this one has
                    self._dismiss([number for number, worker in self.workers.items() if not worker.running])
                self.pool.wait([worker.process for worker in self.workers.values()])
                with defer_interrupts():
                    self._forward_events()
                    self._kill_hung()
                    self._reassign_dead()
                    self._answer_rungs()
        except (OSError, EOFError) as error:
            self._stop_all()
            if self._broker_answers():
                raise
            raise ConnectionError(
                "The process in which running trials leave their results is gone (killed, perhaps for lack of memory). "
                "Everything that had ended is kept: start the study again to go on."
            ) from error
        except BaseException:
            self._stop_all()
            raise

    # Work for workers -----------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Asks for trials where there is room. Workers that go together get their batches together."""
        while self.unassigned and self.n_busy < self.n_jobs:
            self._assign(self.unassigned.popleft())
        n_busy = self.n_busy
        if self.exhausted or (n_busy and self.keeps_workers) or n_busy >= self.n_jobs:
            return
        batches = self.batching.next(self.next_trial, self.n_jobs - n_busy, self.listener)
        self.exhausted = not batches
        for batch in batches:
            self._assign(batch)

    def _assign(self, batch: list[TrialSpec]) -> None:
        idle = [number for number, worker in self.workers.items() if not worker.running]
        number = idle[0] if idle and (self.keeps_workers or self.reuses) else self._start()
        worker = self.workers[number]
        worker.batch, worker.running, worker.started = batch, {trial.number for trial in batch}, False
        if worker.last_contact is not None:
            worker.last_contact = time.monotonic()
        payloads = {trial.number: pickled(trial.agent, trial) for trial in batch}
        self.broker.send_batch(number, (payloads, self.listener.prunes))

    def _start(self) -> int:
        number, self.n_started = self.n_started, self.n_started + 1
        self.workers[number] = _Worker(self.pool.start(number))
        return number

    def _dismiss(self, numbers: list[int]) -> None:
        """Lets workers end that have nothing left to do."""
        for number in numbers:
            self.broker.send_batch(number, None)
        for number in numbers:
            process = self.workers.pop(number).process
            process.join(STOP_SECONDS)
            if process.is_alive():
                process.kill()

    # What workers tell ----------------------------------------------------------------------------------------

    def _forward_events(self) -> None:
        """Gives the listener what the workers have told."""
        self.events.extend(self.broker.drain_events())
        while self.events:  # one by one: where the listener raises, the rest is still there to be told by `_stop_all`
            self._handle(*self.events.popleft())

    def _handle(self, kind: str, worker: int, content: Any) -> None:
        if worker not in self.workers:
            return
        self.workers[worker].last_contact = time.monotonic()
        self.workers[worker].started = kind != "taken"
        if kind == "started":
            number, configuration = content
            if number in self.workers[worker].running:
                self.listener.started(number, {**configuration, "executor": self.name})
        elif kind == "episodes":
            self.listener.episodes(content)
        elif kind == "hangs":
            self._kill(self.workers[worker], *content)
        elif kind == "rung":
            if self.listener.prunes:
                self.workers[worker].rung = content
            else:
                self.listener.rung(*content)
        elif kind == "ended":
            self._end(worker, *content)
            if not (self.keeps_workers or self.reuses or self.workers[worker].running):
                self._dismiss([worker])

    def _answer_rungs(self) -> None:
        """Tells the listener of rungs to which all that go together have come."""
        waiting = {number: worker for number, worker in self.workers.items() if worker.rung is not None}
        can_reassign = self.unassigned and self.n_busy < self.n_jobs
        if not waiting or can_reassign:  # those come to the rung again
            return
        if not self.keeps_workers:
            for number, worker in waiting.items():
                self._answer({number: worker})
        elif all(worker.rung is not None for worker in self.workers.values() if worker.running):
            first = min(worker.rung[0] for worker in waiting.values() if worker.rung is not None)
            together = {n: worker for n, worker in waiting.items() if worker.rung and worker.rung[0] == first}
            self._answer(together)

    def _answer(self, workers: dict[int, _Worker]) -> None:
        values: dict[int, dict[int, float]] = {}
        env_steps = 0
        for worker in workers.values():
            assert worker.rung is not None
            env_steps = worker.rung[0]
            values |= worker.rung[1]
        pruned = self.listener.rung(env_steps, values)
        for number, worker in workers.items():
            assert worker.rung is not None
            self.broker.reply(number, {trial: FELL_BEHIND for trial in pruned if trial in worker.rung[1]})
            worker.rung, worker.last_contact = None, time.monotonic()

    # How trials and workers end -------------------------------------------------------------------------------

    def _end(self, worker: int, number: int, outcome: Outcome) -> None:
        running = self.workers[worker].running
        if number not in running:
            return
        running.remove(number)
        self.listener.ended(number, outcome)

    def _kill_hung(self) -> None:
        """Kills the workers of which nothing was heard for so long that they hang in compiled code (see `watchdog`)."""
        now, before = time.monotonic(), self.checked
        self.checked = now
        for worker in self.workers.values():
            if worker.last_contact is None:  # it waits for room in its cluster, for however long
                continue
            if now - before > STOPPED_SECONDS:  # this process was away itself: stopped, most likely with its workers
                worker.last_contact = now
            limit = worker.batch[0].hang_seconds if worker.running else 0.0
            silent = time.monotonic() - worker.last_contact - (0.0 if worker.started else BUILD_SECONDS)
            if limit and worker.rung is None and silent > HANGS * limit:
                told = f"Nothing came back for {limit:g} s: the environment or the agent hangs in compiled code."
                self._kill(worker, sorted(worker.running), told)

    def _kill(self, worker: _Worker, numbers: Sequence[int], reason: str) -> None:
        """Kills a worker that hangs in compiled code. Where one trial alone can be the cause, it has failed."""
        worker.process.kill()
        worker.process.join()
        worker.hung = True
        if len(numbers) == 1:
            worker.suspects = {
                numbers[0]: f"HungError: {reason} Its process was killed, as compiled code hears no signal."
            }

    def _reassign_dead(self) -> None:
        """The trials of a process that is gone without a last word go on in another one, unless that happens often."""
        dead = [number for number, worker in self.workers.items() if not worker.process.is_alive()]
        if not dead:
            return
        self._forward_events()  # it may have told an outcome just before
        for number in dead:
            worker = self.workers.get(number)
            if worker is None:
                continue
            for trial, reason in worker.suspects.items():
                self._end(number, trial, Outcome(state="failed", reason=reason))
            cause = "hung, and was killed" if worker.hung else worker.process.cause
            self._reassign(number, f"its process {cause}")
            self.workers.pop(number, None)

    def _reassign(self, number: int, reason: str) -> None:
        """Has the trials of a worker run by another one; those that have lost too many have failed."""
        worker = self.workers[number]
        self.crashes.update(worker.running)
        for trial in sorted(worker.running):
            if self.crashes[trial] >= MAX_CRASHES:
                often = f", {MAX_CRASHES} times" if MAX_CRASHES > 1 else ""
                self._end(number, trial, Outcome(state="failed", reason=f"{reason}{often}"))
        left = [trial for trial in worker.batch if trial.number in worker.running]
        if not left:
            return
        log.warning("Trials go on in another process, as theirs is gone: %s", reason)
        # One of them may be the cause: the second time each gets a process of its own.
        again = any(self.crashes[trial.number] > 1 for trial in left)
        self.unassigned.extend([[trial] for trial in left] if again else [left])

    def _stop_all(self) -> None:
        """Ends every worker, first by asking, and every trial as interrupted."""
        deadline = time.monotonic() + STOP_SECONDS
        processes = [worker.process for worker in self.workers.values()]
        try:
            for number in self.workers:
                self.broker.stop(number, INTERRUPTED)
                self.broker.send_batch(number, None)
        except (OSError, EOFError):
            deadline = time.monotonic()  # the broker is gone: nobody hears of it
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        with suppress(OSError, EOFError):
            self._forward_events()
        for number, worker in list(self.workers.items()):
            for trial in sorted(worker.running):
                self._end(number, trial, Outcome(state="interrupted", reason=INTERRUPTED))
        for waiting in [trial for batch in self.unassigned for trial in batch]:
            self.listener.ended(waiting.number, Outcome(state="interrupted", reason=INTERRUPTED))
        self.workers, self.unassigned = {}, deque()

    def _broker_answers(self) -> bool:
        try:
            self.broker.values()
        except (OSError, EOFError):
            return False
        return True

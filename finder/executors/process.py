"""A process a trial, through `multiprocess`, several at the same time.

Children are forked from a fork server that has imported TensorFlow and done nothing with it, so that a trial does
not wait for the import, and never from a process in which TensorFlow has run. They talk to the parent through a
`Board`; only the parent writes the study.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import multiprocess
from multiprocess import forkserver, resource_tracker
from multiprocess.connection import wait

from agents.errors import ConfigurationError
from finder.executors.board import Board, BoardManager, Event
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.executors.orphans import end_with_parent
from finder.executors.pickling import dumps
from finder.executors.signals import interrupts_wait
from finder.trial import INTERRUPTED, Outcome, TrialSpec

POLL_SECONDS = 0.05
STOP_SECONDS = 10.0
"""How long a child may take to stop when it is asked to, before it is killed."""


class ProcessExecutor(Executor):
    """Runs each trial in a process of its own.

    Args:
        n_jobs: Processes at the same time, >= 1. Each gets an equal share of the cores.
        keep_values: Whether the board keeps all rewards and losses of all trials (`Board.values`).
    """

    def __init__(self, n_jobs: int = 1, keep_values: bool = False) -> None:
        if n_jobs < 1:
            raise ConfigurationError(f"n_jobs must be >= 1, got {n_jobs}.")
        self.n_jobs = n_jobs
        self._keep_values = keep_values
        self.values: dict[str, Any] = {}
        """What the board's dicts held at the end of the last run."""

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        context = multiprocess.get_context("forkserver")
        context.set_forkserver_preload(["finder.executors.child"])
        with _without_main_module():
            _await_fork_server(context)
            with _started(BoardManager(ctx=context)) as manager:
                board = manager.Board(self._keep_values)
                _Run(context, board, self.n_jobs, next_trial, listener).loop()
                self.values = board.values()


class _Run:
    """One call of `ProcessExecutor.run`."""

    def __init__(self, context: Any, board: Any, n_jobs: int, next_trial: NextTrial, listener: StudyListener) -> None:
        self.context = context
        self.board: Board = board
        self.n_jobs = n_jobs
        self.next_trial = next_trial
        self.listener = listener
        self.children: dict[int, Any] = {}
        self.events: deque[Event] = deque()  # told, but not passed on yet
        self.pruned: dict[int, tuple[int, float]] = {}
        self.last_report: dict[int, int] = {}
        self.exhausted = False

    def loop(self) -> None:
        try:
            while True:
                # Ctrl-C is heard while waiting, not in the middle of a start, of a talk with the board or of a write.
                with interrupts_wait():
                    self._fill()
                if not self.children:
                    return
                wait([child.sentinel for child in self.children.values()], timeout=POLL_SECONDS)
                with interrupts_wait():
                    self._pass_on()
                    self._bury_dead()
        except (OSError, EOFError) as error:
            self._stop_all()
            if self._board_answers():
                raise
            raise ConnectionError(
                "The process in which running trials leave their results is gone (killed, perhaps for lack of memory). "
                "Everything that had ended is kept: start the study again to go on."
            ) from error
        except BaseException:
            self._stop_all()
            raise

    def _fill(self) -> None:
        while not self.exhausted and len(self.children) < self.n_jobs:
            trial = self.next_trial()
            if trial is None:
                self.exhausted = True
                return
            self._start(trial)

    def _start(self, trial: TrialSpec) -> None:
        from finder.executors.child import main

        threads = max(1, (os.cpu_count() or 1) // self.n_jobs)
        arguments = (trial.number, dumps(trial), self.board, threads, list(sys.path))
        child = self.context.Process(target=main, args=arguments, name=f"trial-{trial.number}", daemon=True)
        child.start()
        self.children[trial.number] = child

    def _pass_on(self) -> None:
        """Gives the listener what the children have told."""
        self.events.extend(self.board.drain())
        while self.events:  # one by one: where the listener raises, the rest is still there to be told by `_stop_all`
            self._tell(*self.events.popleft())

    def _tell(self, kind: str, number: int, content: Any) -> None:
        if number not in self.children:
            return
        if kind == "started":
            self.listener.started(number, {**content, "executor": "process"})
        elif kind == "episodes":
            self.listener.episodes(number, content)
        elif kind == "report":
            env_steps, value = content
            self.last_report[number] = env_steps
            if number not in self.pruned and self.listener.report(number, env_steps, value):
                self.pruned[number] = (env_steps, value)
                self.board.stop(number, "pruned: it fell behind")
        else:
            self._end(number, content)

    def _end(self, number: int, outcome: Outcome) -> None:
        if number in self.pruned:
            env_steps, value = self.pruned[number]
            ran_on = outcome.state == "complete" and self.last_report[number] > env_steps
            if ran_on or outcome.state == "pruned":
                # It ran on a little before it heard of it; the record says where it was decided.
                outcome = Outcome(**{**vars(outcome), "state": "pruned", "env_steps": env_steps, "value": value})
            # A trial that is complete with the report at which it fell behind has nothing left to prune.
        child = self.children.pop(number)
        self.listener.ended(number, outcome)
        child.join(STOP_SECONDS)
        if child.is_alive():
            child.kill()

    def _bury_dead(self) -> None:
        """A child that is gone without a last word has lost its trial, and nothing else."""
        dead = [number for number, child in self.children.items() if not child.is_alive()]
        if not dead:
            return
        self._pass_on()  # it may have told its outcome just before
        for number in dead:
            if number in self.children:
                code = self.children[number].exitcode
                self._end(number, Outcome(state="failed", reason=f"its process {_cause_of_death(code)}"))

    def _stop_all(self) -> None:
        """Ends every child, first by asking, and every trial as interrupted."""
        running = dict(self.children)
        deadline = time.monotonic() + STOP_SECONDS
        try:
            for number in running:
                self.board.stop(number, INTERRUPTED)
        except (OSError, EOFError):
            deadline = time.monotonic()  # the board is gone: nobody hears of it
        for child in running.values():
            child.join(max(0.0, deadline - time.monotonic()))
            if child.is_alive():
                child.kill()
                child.join()
        with suppress(OSError, EOFError):
            self._pass_on()
        for number in list(self.children):
            self._end(number, Outcome(state="interrupted", reason=INTERRUPTED))

    def _board_answers(self) -> bool:
        try:
            self.board.values()
        except (OSError, EOFError):
            return False
        return True


def _cause_of_death(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "an unknown signal"
        hint = " (out of memory, perhaps)" if -code == signal.SIGKILL else ""
        return f"was killed by signal {-code} ({name}){hint}"
    return f"ended with exit code {code} before its trial was done"


def _await_fork_server(context: Any) -> None:
    """Waits until the fork server has imported what it should.

    A terminal sends Ctrl-C to it too: it is started with that signal blocked, for itself and its children, because
    the parent hears it and ends them all. A Ctrl-C in these seconds leaves nothing behind but a process that does
    nothing. From then on processes start in milliseconds, in which Ctrl-C waits.
    """
    resource_tracker.ensure_running()  # first, because its start unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    first = context.Process(target=os.getpid, daemon=True)
    first.start()
    first.join()


@contextmanager
def _started(manager: BoardManager) -> Iterator[BoardManager]:
    try:
        with interrupts_wait():
            manager.start(initializer=end_with_parent)
        yield manager
    finally:
        if hasattr(manager, "shutdown"):  # not before it was started
            manager.shutdown()


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Keeps children from importing the user's script again.

    What a trial needs of it is pickled by value, so that scripts need no ``if __name__ == "__main__"`` and
    notebooks work.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    main.__spec__ = None
    if file is not None:
        del main.__file__
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file

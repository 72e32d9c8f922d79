"""Trainer of a training function, which is resumed from one report to the next.

The function runs in a thread. Only one thread runs at a time: the trainer waits while the function runs, and the
function waits in its report until the trainer resumes it. So several runs are interleaved, as agents are, and compared
at equal environment steps; thread-local state of libraries (whether gradients are recorded, the current device) is
separate for each run. When a run is over, `RunEnded` ends its function in its report; a function that is not in a
report is ended at its next line of Python.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from agents.config.hyperparameters import Config
from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.training.global_generators import GlobalGenerators
from agents.training.listeners import EVENTS, CallbackList, Listener
from agents.training.records import Episode
from agents.training.run import Budget, Run
from agents.training.training_run import RunEnded, TrainingRun

log = logging.getLogger(__name__)

FUNCTION_EVENTS = ("on_train_begin", "on_episode_end", "on_run_end", "on_train_end")
"""Events of a training function's run."""

LOOK_SECONDS = 1.0
"""Seconds between the checks of a trainer that waits for a report."""

END_SECONDS = 5.0
"""Seconds that a function may take to end before its thread is abandoned."""


@dataclass(frozen=True)
class OwnTraining:
    """A training function with a seed: what a run trains in place of an agent."""

    spec: FunctionSpec
    seed: int
    optimizers: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """The known optimizers: none."""

    @property
    def config(self) -> Config:
        """The keyword arguments of the function, as a config."""
        return self.spec.config

    def trainer(
        self, callbacks: Iterable[Listener] = (), waiting: Callable[[], str | None] = lambda: None
    ) -> FunctionTrainer:
        """Return the trainer of the function; see `FunctionTrainer`."""
        return FunctionTrainer(self, callbacks, waiting)


def learner_of(spec: AgentSpec, seed: int, strategy: Any = None) -> Agent | OwnTraining:
    """Return what a run of a spec trains: its agent, or its training function with a seed."""
    return OwnTraining(spec, seed) if isinstance(spec, FunctionSpec) else spec.build(seed, strategy)


def check_callbacks(spec: AgentSpec, callbacks: Iterable[Listener]) -> None:
    """Check that a training of a spec has all events that callbacks receive.

    Raises:
        ConfigurationError: A training function has no such event.
    """
    if not isinstance(spec, FunctionSpec):
        return
    for callback in callbacks:
        for event in EVENTS:
            if callback.listens_to(event) and event not in FUNCTION_EVENTS:
                spec.refuse_functions(
                    f"{type(callback).__name__} receives no {event}, only {', '.join(FUNCTION_EVENTS)}."
                )


class FunctionTrainer:
    """Train one run of a training function, as `agents.training.trainer.Trainer` trains an agent.

    Callbacks receive the begin and the end of the training, the end of the run, and episodes.

    Args:
        training: The function and its seed.
        callbacks: Callbacks.
        waiting: Called at intervals while the function runs; a reason that it returns ends the run.
    """

    def __init__(
        self,
        training: OwnTraining,
        callbacks: Iterable[Listener] = (),
        waiting: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.agent = training
        self.environment = training.spec.environment
        self.callbacks = CallbackList(callbacks)
        self.runs = [Run(seed=training.seed)]
        self.wall_seconds = 0.0
        """Seconds of training so far, without the time of other runs."""
        self._waiting = waiting
        self._generators = GlobalGenerators(training.seed)
        self._handle: TrainingRun | None = None
        self._thread: threading.Thread | None = None
        self._permissions: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether the function continues
        self._reports: queue.SimpleQueue[Episode | None] = queue.SimpleQueue()  # None: it has ended
        self._error: BaseException | None = None
        self._is_running = False
        self._has_ended = False
        self._end_requested = False

    @property
    def run(self) -> Run:
        """The run."""
        return self.runs[0]

    @property
    def env_steps(self) -> int:
        """The environment steps so far, by the last report."""
        return self.run.env_steps

    @property
    def present(self) -> tuple[int, ...]:
        """The only member, unless it was stopped."""
        return () if self.run.over else (0,)

    @property
    def vectorization(self) -> str:
        """The vectorization, which is up to the function."""
        return self.environment.vectorization

    def call_environments(self, method: str, *arguments: Any, member: int | None = None) -> NoReturn:
        """Raise an error: the trainer has no environments.

        Raises:
            ConfigurationError: Always; the message names the function.
        """
        self.agent.spec.refuse_functions(
            f"its environments belong to it, and their {method!r} cannot be called from outside."
        )

    def stop(self, reason: str, member: int | None = None) -> None:
        """End the run when the function is resumed next. The first reason is kept."""
        self.run.stop_reason = self.run.stop_reason or reason

    def iterate(self, budget: Budget) -> Generator[int]:
        """Yield the environment steps so far after each report of the function.

        Raises:
            BaseException: The error of the function.
        """
        handle = TrainingRun(
            self.environment,
            seed=self.run.seed,
            env_steps=budget.env_steps,
            episodes=budget.episodes,
            on_episode=self._send_episode,
        )
        self._handle, handle.progress = handle, self.run
        with self.callbacks.during(self), contextlib.closing(self):
            while not handle.is_over() and (episode := self._resume(handle)) is not None:
                # Without the time of other runs, in which this run waits.
                self.run.history.episodes[-1] = episode = episode._replace(wall_seconds=self.wall_seconds)
                self.callbacks.call("on_episode_end", self, episode)
                episode.user_data.clear()
                if handle.is_over():
                    self._end()
                yield self.env_steps
            if not handle.ended:
                self._end()
            self.callbacks.call("on_run_end", self, self.run)

    def close(self) -> None:
        """End the function, wherever it runs."""
        if self._thread is None or self._has_ended:
            return
        self._request_end()
        try:
            self._thread.join(END_SECONDS)
        finally:
            if self._thread.is_alive():
                log.warning(
                    "A training function did not end with its run; its thread is abandoned: %s", self.agent.spec.label
                )
            elif self._error is not None:
                log.warning("A training function that was ended raised %s: %s", type(self._error).__name__, self._error)

    # Exchange, on the trainer's side ------------------------------------------------------------------------

    def _resume(self, handle: TrainingRun) -> Episode | None:
        """Resume the function until its next report; return None if it has ended."""
        with self._generators.installed(), self._clock():
            self._is_running = True
            if self._thread is None:
                name = f"training of {self.agent.spec.label}"
                work = (self._work, handle)  # with the restriction of imports of this thread
                self._thread = threading.Thread(
                    target=contextvars.copy_context().run, args=work, name=name, daemon=True
                )
                self._thread.start()
            else:
                self._permissions.put(True)
            episode = self._receive()
        if episode is None:
            self._raise_its_error()
        return episode

    def _end(self) -> None:
        """End the function in its report; it may take time to clean up, and may fail at that."""
        if self._thread is None or self._has_ended:
            return
        with self._generators.installed(), self._clock():
            self._is_running = True
            self._permissions.put(False)
            while self._receive() is not None:
                pass
        self._raise_its_error()

    def _receive(self) -> Episode | None:
        """Wait for an episode of the function, or None when it has ended."""
        while True:
            try:
                episode = self._reports.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if reason := self._waiting():
                    self.stop(reason)
                    self._request_end()
                    return None
            else:
                self._is_running, self._has_ended = False, episode is None
                return episode

    def _request_end(self) -> None:
        """Ask the function to end: in its report, or else at its next line of Python."""
        assert self._thread is not None
        assert self._handle is not None
        if self._end_requested:  # it may be cleaning up
            return
        self._end_requested = self._handle.ended = True
        self._permissions.put(False)
        if self._is_running and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(RunEnded))

    def _raise_its_error(self) -> None:
        error: BaseException | None = self.run.error or self._error
        if isinstance(error, Exception):
            raise error
        if error is not None:  # SystemExit, for example, would end the complete study
            raise RuntimeError(f"{self.agent.spec.label} ended with {error!r}.") from error

    @contextlib.contextmanager
    def _clock(self) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wall_seconds += time.perf_counter() - began

    # Exchange, on the function's side -----------------------------------------------------------------------

    def _work(self, handle: TrainingRun) -> None:
        """Run the function in its thread."""
        with contextlib.suppress(RunEnded):  # may be raised at any line
            try:
                self.agent.spec.call(handle)
            except RunEnded:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again by the trainer
                self._error = error
            finally:
                self._reports.put(None)

    def _send_episode(self, episode: Episode) -> None:
        self._reports.put(episode)
        if not self._permissions.get():
            assert self._handle is not None
            self._handle.ended = True
            raise RunEnded

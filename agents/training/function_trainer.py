"""The trainer of a training function: it goes on from one report to the next, whenever it has its turn.

The function runs in a thread. Only one thread runs at a time: the trainer waits while the function has its turn, and
the function waits in its report until it has the next one. So several runs are driven in turns, as agents are, and
compared at equal environment steps; what a library keeps for each thread (whether gradients are wanted, on which
device) is each run's own. The function of a run that is over is ended by a `RunEnded` in its report; one that is not
there is ended where it is, as soon as it runs a line of Python.
"""

from __future__ import annotations

import contextlib
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

EVENTS_TOLD = ("on_train_begin", "on_episode_end", "on_run_end", "on_train_end")
"""What callbacks hear of a training function's run."""

LOOK_SECONDS = 1.0
"""How often the trainer looks up while it waits for a report."""

END_SECONDS = 5.0
"""How long a function may take to end when it is asked to, before it is left behind."""


@dataclass(frozen=True)
class OwnTraining:
    """A training function with a seed: what a run is of, where there is no agent of ours."""

    spec: FunctionSpec
    seed: int
    optimizers: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Those that we know of."""

    @property
    def config(self) -> Config:
        """What the function is called with."""
        return self.spec.config

    def trainer(
        self, callbacks: Iterable[Listener] = (), waiting: Callable[[], str | None] = lambda: None
    ) -> FunctionTrainer:
        """See `FunctionTrainer`."""
        return FunctionTrainer(self, callbacks, waiting)


def learner_of(spec: AgentSpec, seed: int, strategy: Any = None) -> Agent | OwnTraining:
    """Return what a run of a spec trains: its agent, or its training function with a seed."""
    return OwnTraining(spec, seed) if isinstance(spec, FunctionSpec) else spec.build(seed, strategy)


def check_callbacks(spec: AgentSpec, callbacks: Iterable[Listener]) -> None:
    """Check that every event that callbacks listen to happens in a training of a spec.

    Raises:
        ConfigurationError: A training function has no such event.
    """
    if not isinstance(spec, FunctionSpec):
        return
    for callback in callbacks:
        for event in EVENTS:
            if callback.listens_to(event) and event not in EVENTS_TOLD:
                spec.refuse_functions(
                    f"nobody tells {type(callback).__name__} of {event}, only of {', '.join(EVENTS_TOLD)}."
                )


class FunctionTrainer:
    """Drives one run of a training function: what `agents.training.trainer.Trainer` is for an agent alone.

    Callbacks hear of the begin and the end of the training, of the end of the run, and of episodes.

    Args:
        training: The function and its seed.
        callbacks: Who wants to hear of it.
        waiting: Is called now and then while the function has its turn; a reason that it gives ends the run.
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
        """Seconds of training so far, without those of other runs' turns."""
        self._waiting = waiting
        self._generators = GlobalGenerators(training.seed)
        self._handle: TrainingRun | None = None
        self._thread: threading.Thread | None = None
        self._turns: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether the function goes on
        self._told: queue.SimpleQueue[Episode | None] = queue.SimpleQueue()  # None: it has ended
        self._error: BaseException | None = None
        self._has_turn = False
        self._has_ended = False
        self._is_let_go = False

    @property
    def run(self) -> Run:
        """The run."""
        return self.runs[0]

    @property
    def env_steps(self) -> int:
        """Environment steps so far, by the last report."""
        return self.run.env_steps

    @property
    def present(self) -> tuple[int, ...]:
        """The one member, as long as it was not stopped."""
        return () if self.run.over else (0,)

    @property
    def vectorization(self) -> str:
        """How environments are stepped, as far as that is known: the function does it."""
        return self.environment.vectorization

    def call_environments(self, method: str, *arguments: Any, member: int | None = None) -> NoReturn:
        """There are none here.

        Raises:
            ConfigurationError: Says whose they are.
        """
        self.agent.spec.refuse_functions(f"its environments are its own, and nobody else calls their {method!r}.")

    def stop(self, reason: str, member: int | None = None) -> None:
        """Has the run end at its next turn."""
        self.run.stop_reason = reason

    def iterate(self, budget: Budget) -> Generator[int]:
        """A turn of the function, from one report to the next, and the environment steps so far, again and again.

        Raises:
            BaseException: What the function raises.
        """
        handle = TrainingRun(
            self.environment,
            seed=self.run.seed,
            env_steps=budget.env_steps,
            episodes=budget.episodes,
            told=self._hand_over,
        )
        self._handle, handle.progress = handle, self.run
        self.callbacks.call("on_train_begin", self)
        try:
            while not handle.is_over() and (episode := self._turn(handle)) is not None:
                # Without the turns of other runs, in which this one waits.
                self.run.history.episodes[-1] = episode = episode._replace(wall_seconds=self.wall_seconds)
                self.callbacks.call("on_episode_end", self, episode)
                episode.user_data.clear()
                if handle.is_over():
                    self._end()
                yield self.env_steps
            if not handle.ended:
                self._end()
            self.callbacks.call("on_run_end", self, self.run)
        finally:
            self.close()
            self.callbacks.call_each("on_train_end", self)

    def close(self) -> None:
        """End the function, wherever it is."""
        if self._thread is None or self._has_ended:
            return
        self._let_go()
        try:
            self._thread.join(END_SECONDS)
        finally:
            if self._thread.is_alive():
                log.warning(
                    "A training function did not end when its run did, and is left behind: %s", self.agent.spec.label
                )
            elif self._error is not None:
                log.warning("A training function that was ended raised %s: %s", type(self._error).__name__, self._error)

    # Turns, from the trainer's side ---------------------------------------------------------------------------

    def _turn(self, handle: TrainingRun) -> Episode | None:
        """Let the function go on to its next report; None where it has ended."""
        with self._generators.in_force(), self._clock():
            self._has_turn = True
            if self._thread is None:
                name = f"training of {self.agent.spec.label}"
                self._thread = threading.Thread(target=self._work, args=(handle,), name=name, daemon=True)
                self._thread.start()
            else:
                self._turns.put(True)
            episode = self._hear()
        if episode is None:
            self._raise_its_error()
        return episode

    def _end(self) -> None:
        """Has the function end in the report in which it waits; it may take its time to tidy up, and fail at that."""
        if self._thread is None or self._has_ended:
            return
        with self._generators.in_force(), self._clock():
            self._has_turn = True
            self._turns.put(False)
            while self._hear() is not None:
                pass
        self._raise_its_error()

    def _hear(self) -> Episode | None:
        """Wait for what the function tells: an episode, or None when it has ended."""
        while True:
            try:
                told = self._told.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if reason := self._waiting():
                    self.stop(reason)
                    self._let_go()
                    return None
            else:
                self._has_turn, self._has_ended = False, told is None
                return told

    def _let_go(self) -> None:
        """Tell the function to end: in the report in which it waits, or else wherever it is."""
        assert self._thread is not None
        assert self._handle is not None
        if self._is_let_go:  # it may be tidying up
            return
        self._is_let_go = self._handle.ended = True
        self._turns.put(False)
        if self._has_turn and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(RunEnded))

    def _raise_its_error(self) -> None:
        error: BaseException | None = self.run.error or self._error
        if isinstance(error, Exception):
            raise error
        if error is not None:  # SystemExit, say, would end the whole study
            raise RuntimeError(f"{self.agent.spec.label} ended with {error!r}.") from error

    @contextlib.contextmanager
    def _clock(self) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wall_seconds += time.perf_counter() - began

    # Turns, from the function's side --------------------------------------------------------------------------

    def _work(self, handle: TrainingRun) -> None:
        """What the thread does."""
        with contextlib.suppress(RunEnded):  # it may come at any line
            try:
                self.agent.spec.call(handle)
            except RunEnded:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again by the trainer
                self._error = error
            finally:
                self._told.put(None)

    def _hand_over(self, episode: Episode) -> None:
        self._told.put(episode)
        if not self._turns.get():
            assert self._handle is not None
            self._handle.ended = True
            raise RunEnded

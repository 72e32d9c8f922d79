"""The collector with a pool of processes; the trainer uses it like a `Collector`."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agents.buffers import Buffer, Transition
from agents.collection.collector import Actor, Collected, EndedEpisode
from agents.collection.engine import N_SLOTS, Engine, ProcessEnded
from agents.collection.pool import Pool
from agents.collection.worker import Array, EnvironmentInfo, Shapes, StepsReport, Task, rows_of
from agents.contract.pickling import spec_of
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.processes.hanging import HungError, under_way

log = logging.getLogger(__name__)

_Question = tuple[str, tuple[Any, ...]]
"""Method of a process's `CollectorWorker`, and its arguments."""

_SLOT_BYTES = 32 * 2**20
_MOST_STEPS = 1_024
_CHUNK = 16
_DEATHS = 5
"""Number of processes in one place that may die in succession without an answer before training fails."""


@dataclass
class _Chunk:
    """Collected steps of all environments, which are returned one after another."""

    rows: dict[str, Array]  # each [T, N, ...]
    ended: dict[int, list[EndedEpisode]] = field(default_factory=dict)  # by step
    errors: dict[int, Exception] = field(default_factory=dict)  # by step
    renewed: tuple[int, ...] = ()  # environments that were replaced before the first step
    n_steps: int = 0
    given: int = 0

    def next(self) -> Collected:
        t, self.given = self.given, self.given + 1
        # Copies, because the rows are overwritten later and a buffer may keep its arrays.
        transition = Transition(**{name: values[t].copy() for name, values in self.rows.items()})
        errors = {0: self.errors[t]} if t in self.errors else {}
        return Collected(transition, self.ended.get(t, []), errors, () if t else self.renewed)

    def rest(self) -> _Chunk:
        """Return the steps that were not returned yet, as a chunk."""
        at = self.given
        rows = {name: values[at : self.n_steps].copy() for name, values in self.rows.items()}
        ended = {t - at: episodes for t, episodes in self.ended.items() if t >= at}
        errors = {t - at: error for t, error in self.errors.items() if t >= at}
        return _Chunk(rows, ended, errors, () if at else self.renewed, self.n_steps - at)


def pool_collector(
    pool: Pool, agent: Any, environment: EnvironmentSpec, seeds: Sequence[int], buffer: Buffer
) -> PoolCollector:
    """Start the processes of a pool.

    Args:
        pool: Number and kind of processes.
        agent: The agent that learns.
        environment: The environment to make in each process.
        seeds: Seeds of the members that learn: one.
        buffer: The agent's buffer.

    Raises:
        ConfigurationError: The agent is a population, has fewer environments than there are processes, or is on-policy
            with ``updates="async"``.
    """
    if len(seeds) != 1:
        raise ConfigurationError("A population cannot have a pool: its members act together in one process.")
    if agent.config.n_envs < pool.processes:
        raise ConfigurationError(
            f"{pool.processes} processes need at least as many environments: give the agent n_envs="
            f"{pool.processes} (it has {agent.config.n_envs})."
        )
    if pool.updates == "async" and not buffer.off_policy:
        raise ConfigurationError(
            f"{type(agent).__name__} learns from transitions of its newest weights, and collectors that step during "
            f"updates use older weights: use updates='sync', or an agent with a replay buffer."
        )
    agent.check_poolable()
    return PoolCollector(pool, agent, environment, seeds[0])


class PoolCollector:
    """Collect chunks of steps in the processes of a pool, and return them to the trainer step by step.

    A process that dies is replaced: its environments begin new episodes, and steps that it had not sent are collected
    again.

    Args:
        pool: Number and kind of processes.
        agent: The learner.
        environment: The environment to make.
        seed: Seed of the run.
    """

    def __init__(self, pool: Pool, agent: Any, environment: EnvironmentSpec, seed: int) -> None:
        self.pool = pool
        self.n_envs = int(agent.config.n_envs)
        self.started = False
        self._agent = agent
        self._tasks = _tasks(pool, agent, environment, seed)
        self._chunks: deque[_Chunk] = deque()
        self._wanted = 1
        self._requested: tuple[int, int] | None = None  # slot and steps of the chunk in collection
        self._slot = 0
        self._renewed: set[int] = set()
        self._deaths = [0] * len(self._tasks)  # deaths since the last answer
        rows = rows_of(agent, self.n_envs)
        size = sum(np.dtype(dtype).itemsize * int(np.prod(shape)) for shape, dtype in rows.values())
        self._most = max(1, min(_MOST_STEPS, _SLOT_BYTES // size))
        slots = {name: ((N_SLOTS, self._most, *shape), dtype) for name, (shape, dtype) in rows.items()}
        acting = {str(i): (values.shape, values.dtype) for i, values in enumerate(agent.acting_state())}
        self._engine = _engine(pool, slots, acting)
        try:
            for task in self._tasks:
                self._engine.start(task)
            self.environments: EnvironmentInfo = self._request_all("environment_info")[0]
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Begin the first episodes, with the first step."""
        self.started = True

    def plan(self, n_steps: int) -> None:
        """Set the number of steps until the next update or the end of training."""
        self._wanted = n_steps

    def step(self, _actor: Actor, _explore: bool = False) -> Collected:
        """Return one step of every environment; the actor and `explore` are those of the processes."""
        if not self._chunks:
            if self._requested is None:
                self._begin()
            self._chunks.append(self._receive())
        chunk = self._chunks[0]
        # Request the next chunk with the first step of the last chunk, also if a state was taken in between.
        if self.pool.updates == "async" and chunk.given == 0 and self._requested is None and len(self._chunks) == 1:
            self._begin()
        collected = chunk.next()
        if chunk.given >= chunk.n_steps:
            self._chunks.popleft()
        self._wanted -= 1
        return collected

    def _begin(self) -> None:
        """Request the next chunk, with the agent's current weights."""
        steps = self.pool.chunk or _CHUNK if self.pool.updates == "async" else max(1, self._wanted)
        self._slot = (self._slot + 1) % N_SLOTS
        requested = (self._slot, min(steps, self._most))
        acting = self._agent.acting_state()
        with self._abort_on_interrupt():
            self._engine.publish(acting)
            self._ask([("collect", requested)] * len(self._tasks))
        self._requested = requested

    def _receive(self) -> _Chunk:
        assert self._requested is not None
        requested, self._requested = self._requested, None
        slot, _ = requested
        under_way.environment = self._tasks[0].environment.label
        under_way.begin("step")
        try:
            reports: list[StepsReport] = self._answers([("collect", requested)] * len(self._tasks))
        finally:
            under_way.end()
        chunk = _Chunk({name: values[slot] for name, values in self._engine.rows.items()})
        # If an environment of one process fails, the steps of all processes end there.
        chunk.n_steps = min(each.n_steps for each in reports)
        for each in reports:
            for t, episode in each.ended:
                chunk.ended.setdefault(t, []).append(episode)
            for t, error in each.errors:
                chunk.errors.setdefault(t, error)
        chunk.renewed, self._renewed = tuple(sorted(self._renewed)), set()
        return chunk

    @property
    def steps_ahead(self) -> int:
        """The number of steps per environment that are made and not returned to the trainer yet."""
        return sum(chunk.n_steps - chunk.given for chunk in self._chunks)

    def call(self, method: str, arguments: Sequence[Any], _position: int | None = None) -> list[Any]:
        """Call a method of every environment, in all processes, after the current chunk.

        A process that replaces another one repeats the newest call of each method.
        """
        if self._requested is not None:
            self._chunks.append(self._receive())
        answers = self._request_all("call", method, tuple(arguments))
        self._tasks = [replace(task, calls={**task.calls, method: tuple(arguments)}) for task in self._tasks]
        return [answer for each in answers for answer in each]

    # Requests -----------------------------------------------------------------------------------------------

    def _ask(self, questions: Sequence[_Question]) -> None:
        for index, (method, arguments) in enumerate(questions):
            self._engine.ask(index, method, *arguments)

    def _answers(self, questions: Sequence[_Question]) -> list[Any]:
        """Return the answers of all processes. An error is raised after all answers have been received."""
        answers, errors = [], []
        for index, question in enumerate(questions):
            try:
                with self._abort_on_interrupt():
                    answers.append(self._answer(index, question))
            except HungError:
                raise  # ends all other processes
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    @contextlib.contextmanager
    def _abort_on_interrupt(self) -> Generator[None]:
        """Guard an exchange with processes: an interruption leaves open requests unknown, so all processes are ended.

        They are replaced if training continues.
        """
        try:
            yield
        except BaseException as error:
            if isinstance(error, HungError) or not isinstance(error, Exception):  # others are answers of processes
                self.close()
                self._deaths = [0] * len(self._tasks)
            raise

    def _answer(self, index: int, question: _Question) -> Any:
        while True:
            try:
                answer = self._engine.answer(index)
                self._deaths[index] = 0
                return answer
            except ProcessEnded as gone:
                self._replace(index, gone)
                method, arguments = question
                self._engine.ask(index, method, *arguments)

    def _request_all(self, method: str, *arguments: Any) -> list[Any]:
        questions = [(method, arguments)] * len(self._tasks)
        self._ask(questions)
        return self._answers(questions)

    def _replace(self, index: int, gone: ProcessEnded) -> None:
        task = self._tasks[index]
        deaths = self._deaths[index]
        self._deaths[index] += 1
        if deaths >= _DEATHS or not self.started:
            before = f", as {deaths} before it" if deaths else ""
            raise RuntimeError(
                f"The collector process {index} has ended ({gone}){before}: check its environment, or give it more "
                f"memory. Training can be resumed from its last checkpoint."
            ) from None
        message = "The collector process %d has ended (%s). A new process replaces it, and begins new episodes."
        log.warning(message, index, gone)
        task = self._tasks[index] = replace(task, life=task.life + 1, state=self._agent.get_state())
        self._engine.start(task)
        self._renewed.update(task.copies)

    # As in `Collector` ----------------------------------------------------------------------------------------

    def select(self, _positions: Sequence[int]) -> None:
        """Select members; a single agent cannot leave a population."""

    def close(self) -> None:
        """End the processes."""
        self._engine.close()

    def get_state(self, *, environments: bool = True) -> dict[str, Any]:
        """Return the state of the episodes, and the collected steps that were not returned yet.

        ``"environments"`` is None if they cannot be copied, or if not requested: then steps not returned yet are lost.
        """
        if self._requested is not None:
            self._chunks.append(self._receive())
        parts = self._request_all("get_state", environments)
        copied = self.started and all(part["collector"]["environments"] is not None for part in parts)
        chunks = [vars(chunk.rest()) for chunk in self._chunks] if copied else []
        return {
            "started": self.started,
            "environments": copied or None,
            "parts": parts,
            "chunks": chunks,
            "renewed": sorted(self._renewed),
            "lives": [task.life for task in self._tasks],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; environments that could not be copied begin new episodes.

        Raises:
            ConfigurationError: The state belongs to a pool of another size, or to no pool.
        """
        theirs = len(state.get("parts", ()))
        if theirs != len(self._tasks):
            raise ConfigurationError(
                f"A pool of {len(self._tasks)} processes cannot resume from the state of "
                f"{f'a pool of {theirs}' if theirs else 'a trainer without a pool'}: use the same number of processes."
            )
        if self._requested is not None:
            self._receive()
        learner = self._agent.get_state()
        lives = zip(self._tasks, state["lives"], strict=True)
        self._tasks = [replace(task, life=max(task.life, life)) for task, life in lives]
        questions = [("set_state", (part, learner)) for part in state["parts"]]
        self._ask(questions)
        self._answers(questions)
        continues = state["environments"] is not None
        self.started = state["started"] and continues
        self._renewed = set(state["renewed"]) if continues else set()
        self._chunks = deque(_Chunk(**chunk) for chunk in state["chunks"])


def _tasks(pool: Pool, agent: Any, environment: EnvironmentSpec, seed: int) -> list[Task]:
    n_envs = agent.config.n_envs
    shares = np.array_split(np.arange(n_envs), pool.processes)
    spec, state = spec_of(agent, environment), agent.get_state()
    return [
        Task(index, range(int(share[0]), int(share[-1]) + 1), n_envs, spec, state, environment, seed, agent.interface)
        for index, share in enumerate(shares)
    ]


def _engine(pool: Pool, rows: Shapes, acting: Shapes) -> Engine:
    if pool.engine == "ray":
        from agents.collection.ray_engine import RayEngine

        return RayEngine(pool.processes, 1.0 if pool.cpus is None else pool.cpus, rows, acting)
    from agents.collection.processes import ProcessEngine

    return ProcessEngine(pool.processes, rows, acting)

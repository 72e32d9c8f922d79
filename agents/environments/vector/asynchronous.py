"""Vector environment with one process per copy, through Gymnasium's `AsyncVectorEnv` and shared memory.

For environments whose single step takes some milliseconds: for faster ones, the communication costs more than it saves.
Searches run in several processes anyway, so this is for single long runs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from agents.environments.vector.vector_env import (
    Array,
    Called,
    Stepped,
    VectorEnv,
    as_error,
    as_step_error,
    called,
    check_shape,
    checked_step,
    encode_result,
    first_observation,
    info_as_bytes,
)
from agents.errors import portable, with_cause
from agents.processes.ending import end, kill_at_exit
from agents.processes.hanging import HungError
from agents.processes.orphans import end_with_parent, leave_signals_to_parent
from agents.shared_objects import address_for_processes, use_address

CLOSE_SECONDS = 5.0
"""Seconds that an environment may take to close before its process is killed."""


class AsyncCopies(VectorEnv):
    """Vector environment that steps each copy in a process of its own.

    Args:
        make: Makes one environment; pickled.
        n: Number of copies, >= 1.
        infos: Whether to return the infos of each step, which are then pickled.
    """

    kind = "async"

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], n: int, *, infos: bool = False) -> None:
        self.n = n
        self._wants_infos = infos
        shared = address_for_processes()
        guarded = [_Guarded(make, shared, i, infos) for i in range(n)]
        self._vector = _Processes(guarded, autoreset_mode=AutoresetMode.SAME_STEP)
        for process in self._vector.processes:
            kill_at_exit(process)
        self._kept = np.arange(n)
        self._actions: Array | None = None
        self._waiting = False  # for copies that have not answered yet
        self.single_observation_space = self._vector.single_observation_space
        self.single_action_space = self._vector.single_action_space

    def reset(self, seeds: Sequence[int]) -> Array:
        everywhere: list[int | None] = [0] * self._vector.num_envs
        for position, seed in zip(self._kept, seeds, strict=True):
            everywhere[position] = seed
        self._waiting = True
        with self._naming_ended_copies():
            observations, infos = self._vector.reset(seed=everywhere)
        self._waiting = False
        for error in self._errors(infos).values():
            raise error
        return np.asarray(observations[self._kept])

    def step(self, actions: Array) -> Stepped:
        if self._actions is None:
            self._actions = np.zeros((self._vector.num_envs, *actions.shape[1:]), actions.dtype)
        self._actions[self._kept] = actions  # the rows of copies that left are not used
        self._waiting = True
        try:
            with self._naming_ended_copies():
                observations, rewards, terminated, truncated, infos = self._vector.step(self._actions)
        except HungError as error:
            raise HungError(f"{error} No answer came from {self._silent()}.") from None
        self._waiting = False
        kept, errors = self._kept, self._errors(infos)
        rewards, terminated, truncated = rewards[kept], terminated[kept], truncated[kept]
        for i in errors:  # also copies that failed in the reset after an episode
            rewards[i], terminated[i], truncated[i] = 0.0, False, False
        finals = {int(i): infos["final_obs"][kept[i]] for i in np.flatnonzero(terminated | truncated)}
        kept_infos = self._infos(infos) if self._wants_infos else None
        return Stepped(observations[kept], rewards, terminated, truncated, finals, errors, kept_infos)

    @contextlib.contextmanager
    def _naming_ended_copies(self) -> Generator[None]:
        """Say which processes have ended, where Gymnasium finds their pipes closed."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            codes = {i: self._vector.processes[at].exitcode for i, at in enumerate(self._kept)}
            ended = [f"copy {i} (exit code {code})" for i, code in codes.items() if code is not None]
            raise with_cause(
                RuntimeError(
                    f"The process of {', '.join(ended) or 'a copy'} of the environment has ended: the environment "
                    "could not be made there (see the error above), or the process was killed, perhaps for lack of "
                    "memory."
                ),
                "environment",
            ) from error

    def _silent(self) -> str:
        """Return a description of the copies that did not answer."""
        silent = [i for i, at in enumerate(self._kept) if not self._vector.parent_pipes[at].poll()]
        return f"cop{'y' if len(silent) == 1 else 'ies'} {', '.join(map(str, silent))}" if silent else "a copy in time"

    def _infos(self, infos: dict[str, Any]) -> list[dict[str, Any] | None]:
        """Return the infos of the copies' steps; where an episode ended, the info of the reset is ignored."""
        nothing = np.full(self._vector.num_envs, None)
        own, final = infos.get(_INFO, nothing), infos.get("final_info", {}).get(_INFO, nothing)
        packed = [own[i] if final[i] is None else final[i] for i in self._kept]
        return [None if each is None else cloudpickle.loads(each) for each in packed]

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        places = {int(self._kept[i]): i for i in copies}
        self._waiting = True
        # Calls a method of the guard: an error in the worker itself would end all copies.
        with self._naming_ended_copies():
            given = self._vector.call("answer", cloudpickle.dumps((method, tuple(arguments), set(places))))
        self._waiting = False
        return {i: cloudpickle.loads(given[at]) for at, i in places.items() if given[at] is not None}

    def _errors(self, infos: dict[str, Any]) -> dict[int, Exception]:
        """Return the errors that copies have raised, by position."""
        packed = infos.get(_ERROR, np.full(self._vector.num_envs, None))
        return {i: cloudpickle.loads(own) for i, own in enumerate(packed[self._kept]) if own is not None}

    def select(self, positions: Sequence[int]) -> None:
        left = np.delete(self._kept, list(positions))
        self._kept = self._kept[list(positions)]
        self._vector.end([int(at) for at in left], kill=self._waiting)
        self.n = len(self._kept)

    def close(self) -> None:
        self._vector.close(terminate=self._waiting)  # a copy that did not answer will not close either


class _Processes(AsyncVectorEnv):
    """Gymnasium's processes; they leave SIGTERM, by which it terminates them, to their parent, and are killed."""

    def end(self, places: Sequence[int], *, kill: bool) -> None:
        """Close some of the environments and end their processes; the others keep their places.

        Args:
            places: Indices of the processes, which have not ended yet.
            kill: Whether they are killed, as those that did not answer; else after `CLOSE_SECONDS`.
        """
        for at in places:
            if kill:
                self.processes[at].kill()
            else:
                with contextlib.suppress(OSError):  # it was killed
                    self.parent_pipes[at].send(("close", None))
        pipes: list[Any] = self.parent_pipes
        for at in places:
            end(self.processes[at], CLOSE_SECONDS)
            if pipes[at] is not None:  # Gymnasium removes the pipes of workers that raised
                pipes[at].close()
            pipes[at] = _EndedPipe()

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        if not terminate:
            super().close_extras(timeout)
            return
        running = [process for process in self.processes if process.is_alive()]
        for process in running:
            process.kill()
        for process in running:
            process.join()
        for pipe in filter(None, self.parent_pipes):
            pipe.close()


class _EndedPipe:
    """Answer in place of a process that was ended: Gymnasium sends every command to as many processes as it started."""

    closed = False

    def __init__(self) -> None:
        self._command = ""

    def send(self, command: tuple[str, Any]) -> None:
        self._command = command[0]

    def recv(self) -> tuple[Any, bool]:
        return {"reset": (None, {}), "step": (None, 0.0, False, False, {})}.get(self._command), True

    def poll(self, timeout: float | None = 0.0) -> bool:
        return True

    def close(self) -> None:
        pass


_ERROR = "error of the environment"
_INFO = "info of the environment"


class _Guarded:
    """Factory of environments whose errors are returned as infos: a worker that raises would end all copies."""

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], shared: str, index: int, infos: bool) -> None:
        self.make = make
        self.shared = shared  # address of shared objects
        self.index = index
        self.infos = infos
        self.starter = os.getpid()

    def __call__(self) -> gym.Env[Any, Any]:
        use_address(self.shared)
        if os.getpid() != self.starter:  # the parent makes one too, to read its spaces
            end_with_parent(multiprocessing)
            leave_signals_to_parent()
        return _Guard(self.make(), self.index, self.infos)


class _Guard(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any], index: int, infos: bool) -> None:
        super().__init__(env)
        self._index = index
        self._wants_infos = infos
        self._shape = self.observation_space.shape or ()
        self._dead = False

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        if self._dead:
            return self._nothing(), {}
        try:
            observation = first_observation(self.env.reset(**arguments), self._shape)
        except BaseException as error:  # noqa: BLE001 - a foreign environment may raise anything
            return self._nothing(), self._died(error)
        return observation, {}  # infos of resets are not used, and may not be picklable

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._dead:
            return self._nothing(), 0.0, False, False, {}
        try:
            observation, reward, terminated, truncated, info = checked_step(self.env.step(action))
            check_shape(observation, self._shape)
            packed = {_INFO: info_as_bytes(info)} if self._wants_infos else {}
        except BaseException as error:  # noqa: BLE001 - as above
            return self._nothing(), 0.0, False, False, self._died(as_step_error(error))
        if terminated or truncated:
            observation = np.array(observation)  # a copy: the reset may write into the same array
        return observation, reward, terminated, truncated, packed

    def answer(self, question: bytes) -> bytes | None:
        """Return the result of a method call; None if the call is not for this copy, or the copy has failed."""
        try:
            method, arguments, copies = cloudpickle.loads(question)
        except Exception as error:  # noqa: BLE001 - a user's class may raise anything when unpickled
            return encode_result(Called(error=error))
        if self._dead or self._index not in copies:
            return None
        return encode_result(called(self.env, method, arguments))

    def _nothing(self) -> Any:
        space: Any = self.observation_space
        return np.zeros(space.shape, space.dtype)

    def _died(self, error: BaseException) -> dict[str, Any]:
        """Return the info that contains the error. It is pickled, as only cloudpickle supports some classes."""
        self._dead = True
        return {_ERROR: cloudpickle.dumps(portable(as_error(error)))}

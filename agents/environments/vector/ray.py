"""Vector environment in the actors of a Ray cluster: the extra `ray`.

For environments whose single step is slow, or that need more memory than one machine has: a step calls all actors
concurrently and waits for the last one, which costs about 0.4 ms per actor beside the environment's own time. Actors
reserve no CPUs: a trial that is an actor itself, and holds the CPUs of its machine, would wait for them for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np

from agents.environments.spec import EnvironmentSpec
from agents.environments.vector.asynchronous import AsyncCopies
from agents.environments.vector.sync import SyncCopies
from agents.environments.vector.vector_env import (
    Array,
    Called,
    Stepped,
    VectorEnv,
    as_bytes,
    encode_result,
    info_as_bytes,
)
from agents.errors import ConfigurationError, portable
from agents.processes.module_path import search_first
from agents.shared_objects import address_for_actors, use_address
from agents.shared_objects.ray_connection import connected_ray, first_line, get_result
from agents.trust.signatures import from_own_bytes

CLOSE_SECONDS = 5.0
"""Seconds that environments may take to close before their actors are killed."""


class RayCopies(VectorEnv):
    """Vector environment that steps copies in Ray actors.

    Args:
        spec: Specification of the environment. Functions, classes and registrations of a script are sent with it.
        n: Number of copies, >= 1.
        kind: ``"ray"``: one actor per copy. ``"ray-subproc"``: one actor per machine of the cluster that has CPUs, with
            one process per copy; copies are distributed by the number of CPUs.
        infos: Whether to return the infos of each step, which are then pickled.

    Raises:
        ConfigurationError: Ray is not installed, its cluster cannot be reached, or the environment cannot be sent
            to or made in an actor.
    """

    def __init__(self, spec: EnvironmentSpec, n: int, kind: str = "ray", *, infos: bool = False) -> None:
        self._ray = connected_ray(f"The vectorization {kind!r}")
        self.kind = kind
        self._wants_infos = infos
        try:
            self._payload = cloudpickle.dumps((spec, AsyncCopies if kind == "ray-subproc" else SyncCopies, infos))
        except Exception as error:
            raise ConfigurationError(
                f"Environment {spec.label!r} cannot be sent to a Ray actor: {error}. Make what cannot be pickled when "
                f"the environment is made."
            ) from error
        self._open(n)

    def _open(self, n: int) -> None:
        self.n = n
        self._waiting = False  # for actors that have not get_result yet
        self._handles: list[_ActorHandle] = []
        try:
            begin = 0
            for where, share in self._shares(n):
                actor = self._ray.remote(_CopiesActor).options(num_cpus=0, max_restarts=0, scheduling_strategy=where)
                self._handles.append(_ActorHandle(actor.remote(), np.arange(begin, begin + share)))
                begin += share
            path, shared = list(sys.path), address_for_actors()
            spaces = self._answers("open", lambda handle: (self._payload, len(handle.copies), path, shared))
        except BaseException:
            self.close()
            raise
        self.single_observation_space, self.single_action_space = spaces[0]

    def _shares(self, n: int) -> Iterator[tuple[Any, int]]:
        """Yield the scheduling strategy of each actor, and its number of copies."""
        if self.kind == "ray":
            yield from [("SPREAD", 1)] * n
            return
        cpus = {node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in self._ray.nodes() if node["Alive"]}
        able = {node: own for node, own in cpus.items() if own} or dict.fromkeys(cpus, 1.0)
        shares = dict.fromkeys(able, 0)
        for _ in range(n):
            shares[min(able, key=lambda node: (shares[node] + 1) / able[node])] += 1
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        yield from [(strategy(node, soft=False), share) for node, share in shares.items() if share]

    def reset(self, seeds: Sequence[int]) -> Array:
        observations = self._nothing()
        given = self._answers("reset", lambda handle: ([seeds[i] for i in handle.copies],))
        for handle, own in zip(self._handles, given, strict=True):
            observations[handle.copies] = own
        return observations

    def step(self, actions: Array) -> Stepped:
        n = self.n
        all_of_it = Stepped(self._nothing(), np.zeros(n), np.zeros(n, bool), np.zeros(n, bool), {}, {})
        if self._wants_infos:
            all_of_it = all_of_it._replace(infos=[None] * n)
        handles = [handle for handle in self._handles if not handle.gone]
        for handle, own in zip(
            handles, self._ask(handles, "step", lambda handle: (actions[handle.copies],)), strict=True
        ):
            if isinstance(own, Exception):
                handle.gone = _actor_died(own)
                all_of_it.errors.update(dict.fromkeys(handle.copies.tolist(), handle.gone))
            else:
                _put(own, handle.copies, all_of_it)
        return all_of_it

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        wanted, called = set(copies), {}
        handles = [
            handle for handle in self._handles if not handle.gone and wanted.intersection(handle.copies.tolist())
        ]
        question = cloudpickle.dumps((method, tuple(arguments)))

        def own(handle: _ActorHandle) -> tuple[bytes, list[int]]:
            return question, [i for i, copy in enumerate(handle.copies.tolist()) if copy in wanted]

        for handle, answers in zip(handles, self._ask(handles, "call", own), strict=True):
            if isinstance(answers, Exception):
                raise _actor_died(answers)
            called.update({int(handle.copies[i]): cloudpickle.loads(answer) for i, answer in answers.items()})
        return dict(sorted(called.items()))

    def _nothing(self) -> Array:
        space: Any = self.single_observation_space
        return np.zeros((self.n, *space.shape), space.dtype)

    def select(self, positions: Sequence[int]) -> None:
        places = {old: new for new, old in enumerate(positions)}
        empty = []
        for handle in self._handles:
            stay = [i for i, old in enumerate(handle.copies.tolist()) if old in places]
            if not stay:
                empty.append(handle)
            elif len(stay) < len(handle.copies) and not handle.gone:
                handle.actor.select.remote(stay)  # actors execute calls in order
            handle.copies = np.array([places[old] for old in handle.copies[stay].tolist()], int)
        self._handles = [handle for handle in self._handles if len(handle.copies)]
        self.n = len(places)
        self._end(empty)

    def close(self) -> None:
        self._end(self._handles)
        self._handles = []

    def _end(self, handles: list[_ActorHandle]) -> None:
        if handles and not self._waiting:  # an actor that did not answer will not close either
            closed = [handle.actor.close.remote() for handle in handles if not handle.gone]
            with suppress(Exception):
                self._ray.wait(closed, num_returns=len(closed), timeout=CLOSE_SECONDS)
        for handle in handles:
            with suppress(Exception):
                self._ray.kill(handle.actor, no_restart=True)

    def get_state(self) -> list[bytes] | None:
        """Return one state per copy; None for ``"ray-subproc"``, and where copies cannot be copied or are gone."""
        if self.kind == "ray-subproc" or any(handle.gone for handle in self._handles):
            return None
        states: list[bytes | None] = [None] * self.n
        for handle, state in zip(self._handles, self._answers("get_state", lambda handle: ()), strict=True):
            states[handle.copies[0]] = state
        return [state for state in states if state is not None] if all(states) else None

    def set_state(self, state: list[bytes]) -> None:
        if len(state) != self.n or any(handle.gone for handle in self._handles):
            self.close()
            self._open(len(state))
        self._answers("set_state", lambda handle: (state[handle.copies[0]],))

    def _answers(self, method: str, arguments: Callable[[_ActorHandle], tuple[Any, ...]]) -> list[Any]:
        """Return the answer of every actor; raise the error of one of them, or that it is gone."""
        for handle in self._handles:
            if handle.gone:
                raise handle.gone
        answers = self._ask(self._handles, method, arguments)
        for answer in answers:
            if isinstance(answer, self._ray.exceptions.RayTaskError):
                raise answer.cause from answer
            if isinstance(answer, Exception):
                raise _actor_died(answer)
        return answers

    def _ask(
        self, handles: Sequence[_ActorHandle], method: str, arguments: Callable[[_ActorHandle], tuple[Any, ...]]
    ) -> list[Any]:
        """Return the answers of actors that are called concurrently; an error takes the place of an answer."""
        self._waiting = True
        references = [getattr(handle.actor, method).remote(*arguments(handle)) for handle in handles]
        try:
            answers = get_result(references)
        except self._ray.exceptions.RayError:
            answers = [self._answer(each) for each in references]
        self._waiting = False
        return list(answers)

    def _answer(self, reference: Any) -> Any:
        try:
            return get_result(reference)
        except self._ray.exceptions.RayError as error:
            return error


@dataclass
class _ActorHandle:
    """Handle of an actor."""

    actor: Any
    copies: Array  # positions of the actor's copies among all copies, in the actor's order
    gone: Exception | None = None  # why the actor no longer answers


def _put(own: Stepped, positions: Array, all_of_it: Stepped) -> None:
    """Write the results of one actor's copies to their positions among all copies."""
    for whole, part in zip(all_of_it[:4], own[:4], strict=True):
        whole[positions] = part
    all_of_it.finals.update({int(positions[i]): final for i, final in own.finals.items()})
    all_of_it.errors.update({int(positions[i]): error for i, error in own.errors.items()})
    if all_of_it.infos is not None:
        for i, info in enumerate(own.infos or ()):
            all_of_it.infos[positions[i]] = None if info is None else cloudpickle.loads(info)


def _actor_died(error: Exception) -> RuntimeError:
    cause = getattr(error, "cause", None) or error
    return RuntimeError(f"The Ray actor that stepped this copy of the environment is gone: {first_line(cause)}")


def _sendable(infos: list[Any] | None, errors: dict[int, Exception]) -> list[Any] | None:
    """Return the pickled infos of copies; a copy whose info cannot be pickled is added to `errors`."""
    sent: list[Any] = [None] * len(infos or ())
    for i, info in enumerate(infos or ()):
        if info is not None:
            try:
                sent[i] = info_as_bytes(info)
            except ConfigurationError as error:
                errors[i] = portable(error)
    return None if infos is None else sent


class _CopiesActor:
    """Actor that steps some of the copies."""

    def open(self, payload: bytes, n: int, path: list[str], shared: str) -> tuple[gym.Space[Any], gym.Space[Any]]:
        """Make the copies and return the spaces of one."""
        use_address(shared)
        search_first(path)
        spec, kind, infos = cloudpickle.loads(payload)
        self._copies: VectorEnv = kind(spec.make, n, infos=infos)
        return self._copies.single_observation_space, self._copies.single_action_space

    def reset(self, seeds: Sequence[int]) -> Array:
        """Start new episodes in all copies."""
        return self._copies.reset(seeds)

    def step(self, actions: Array) -> Stepped:
        """Step every copy."""
        # Arrays of Ray are read-only, and an environment may write into its action.
        stepped = self._copies.step(np.array(actions))
        errors = {i: portable(error) for i, error in stepped.errors.items()}
        return stepped._replace(errors=errors, infos=_sendable(stepped.infos, errors))

    def call(self, question: bytes, copies: Sequence[int]) -> dict[int, bytes]:
        """Call a method of some copies; return copy -> result."""
        method, arguments = cloudpickle.loads(question)
        return {i: encode_result(called) for i, called in self._copies.call(method, arguments, copies).items()}

    def select(self, positions: Sequence[int]) -> None:
        """Keep only these copies."""
        self._copies.select(positions)

    def get_state(self) -> bytes | None:
        """Return the pickled state of the copies, None where it cannot be copied or pickled."""
        return as_bytes(self._copies.get_state())

    def set_state(self, state: bytes) -> None:
        """Continue from a state of `get_state`."""
        self._copies.set_state(from_own_bytes(state))

    def close(self) -> None:
        """Close the copies."""
        self._copies.close()

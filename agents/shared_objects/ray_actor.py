"""Shared objects in an actor of a Ray cluster, one actor per connected program (a job of Ray).

The actor lives as long as the program, and the actor's name contains the job: two studies in one cluster that use the
same object name do not share the object.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import cloudpickle

from agents.errors import ConfigurationError
from agents.shared_objects.ray_connection import first_line, get_result, on_this_machine
from agents.shared_objects.store import MovedError, ObjectStore, RemoteStore, answer

NAMESPACE = "finder"

AT_ONCE = 100
"""Maximum number of concurrent calls; further calls wait."""


def connected() -> Any:
    """Return the module `ray` if this process is connected to a cluster, else None. Does not import Ray."""
    ray = sys.modules.get("ray")
    return ray if ray is not None and getattr(ray, "is_initialized", bool)() else None


class RayStore(RemoteStore):
    """Objects in the actor of this program.

    Args:
        ray: The module, connected to a cluster.
        objects: Initial objects by name, used where the actor does not exist yet.

    Raises:
        ConnectionError: This process is a worker, and the program itself has not created the actor.
        ConfigurationError: One of the objects cannot be sent to the actor.
    """

    def __init__(self, ray: Any, objects: Mapping[str, Any]) -> None:
        self._used_names = set(objects)
        context = ray.get_runtime_context()
        self._job = context.get_job_id()
        name = f"shared-objects-{self._job}"
        if context.worker.mode != ray.SCRIPT_MODE:
            try:
                self._actor = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                raise ConnectionError(
                    "There are no shared objects in this Ray program, or the program has ended: call "
                    "agents.distributed.shared in the program itself before its tasks and actors do. Shared objects "
                    "live as long as the program."
                ) from None
            return
        options = {"name": name, "namespace": NAMESPACE, "get_if_exists": True, "max_concurrency": AT_ONCE}
        actor = ray.remote(_Actor).options(num_cpus=0, scheduling_strategy=on_this_machine(ray), **options)
        self._actor = actor.remote({name: _packed(name, value) for name, value in objects.items()})

    def is_of(self, ray: Any) -> bool:
        """Return whether the actor belongs to the program that this process is connected to now."""
        return bool(ray.get_runtime_context().get_job_id() == self._job)

    def lost(self) -> dict[str, str]:
        """Return the reason why each object that this process has used is gone, once the process has left Ray."""
        return dict.fromkeys(self._used_names, "it lived in Ray, which this process has left.")

    def _ask(self, name: str, request: bytes) -> bytes:
        self._used_names.add(name)
        ray = connected()
        if ray is None:
            raise MovedError
        try:
            return bytes(get_result(self._actor.answer.remote(request)))
        except ray.exceptions.RayError as error:
            raise ConnectionError(
                f"The shared object {name!r} is gone with the Ray actor it lived in: {first_line(error)}"
            ) from error


class _Actor:
    """The actor that holds the objects.

    Args:
        objects: Pickled objects by name.
    """

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._store = ObjectStore({name: cloudpickle.loads(packed) for name, packed in objects.items()})

    def answer(self, request: bytes) -> bytes:
        """Execute the request of a process."""
        return answer(request, self._store.call)


def _packed(name: str, value: Any) -> bytes:
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        raise ConfigurationError(
            f"The shared object {name!r} cannot go to the Ray cluster with which this process is connected now "
            f"({error}): connect (ray.init) before its first use."
        ) from error

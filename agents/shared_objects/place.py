"""The location of shared objects, as this process sees it.

`FINDER_SHARED` holds the address; processes inherit the variable or receive the address from the process that starts
them. A process without an address is the first process: it holds and serves the objects itself, or uses an actor where
it is connected to Ray. Objects move to Ray when the first process connects to Ray later, and are lost when the process
disconnects. The first process handles calls of the processes that it serves like its own calls. Children forked from a
process of Ray, in which Ray does not work, therefore reach the actor through their parent.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from agents.errors import ConfigurationError
from agents.shared_objects.addresses import reachable
from agents.shared_objects.ray_actor import RayStore, connected
from agents.shared_objects.sockets import Address, Server, SocketStore
from agents.shared_objects.store import Call, MovedError, ObjectStore, Store

VARIABLE = "FINDER_SHARED"


class Place:
    """Location of the shared objects, as one process knows it."""

    def __init__(self, *, forked_from_ray: bool = False) -> None:
        self._store: Store | None = None
        self._server: Server | None = None
        self._changing = threading.RLock()
        self._forked_from_ray = forked_from_ray

    def call(self, call: Call) -> Any:
        """Call a method of an object."""
        while True:
            try:
                return self.store().call(call)
            except MovedError:  # the objects moved to or from Ray while this call waited for the lock
                continue

    def store(self) -> Store:
        """Return the store of the objects."""
        store = self._store
        if store is not None and self._fits(store):
            return store
        with self._changing:
            if self._store is None or not self._fits(self._store):
                self._store = self._find_store(self._store)
            return self._store

    def _fits(self, store: Store) -> bool:
        """Return whether the objects are still in a store."""
        ray = self._ray()
        if isinstance(store, RayStore):
            return ray is not None and store.is_of(ray)
        return ray is None or isinstance(store, SocketStore)

    def _find_store(self, before: Store | None) -> Store:
        address = os.environ.get(VARIABLE)
        if address and self._server is None:
            return SocketStore(Address.of(address))
        ray = self._ray()
        if ray is None:
            found: Store = ObjectStore(lost=before.lost() if isinstance(before, RayStore) else None)
        else:
            found = _moved(before, ray)
        if self._server is None:
            self._server = Server(self.call)
            os.environ[VARIABLE] = str(self._server.listen())
        return found

    def _ray(self) -> Any:
        return None if self._forked_from_ray else connected()

    def serve(self, host: str, port: int) -> Address:
        """Serve the objects of this process to other machines."""
        store = self.store()
        if self._server is None:
            assert isinstance(store, SocketStore)
            at = f"{store.address.host}:{store.address.port}"
            raise ConfigurationError(f"This process uses the shared objects of {at} ({VARIABLE}): serve them there.")
        return self._server.listen(host, port)._replace(host=reachable(host))

    def after_fork(self) -> Place:
        """Return the place for a process forked from this one: it starts empty, and connections stay untouched."""
        if self._server is not None:
            self._server.abandon()
        was_connected = isinstance(self._store, RayStore) or connected() is not None
        return Place(forked_from_ray=self._forked_from_ray or was_connected)


def _moved(before: Store | None, ray: Any) -> RayStore:
    """Return the store in Ray, with the objects that this process held before."""
    if not isinstance(before, ObjectStore):
        return RayStore(ray, {})
    try:
        return RayStore(ray, before.take_all())
    except BaseException:
        before.keep_all()
        raise


_here = Place()


def here() -> Place:
    """Return the place of this process."""
    return _here


def _forget() -> None:
    global _here  # noqa: PLW0603 - a forked process needs a place of its own
    _here = _here.after_fork()


os.register_at_fork(after_in_child=_forget)


def address_for_processes() -> str:
    """Return the address for processes of this machine, to pass to `use_address` or to set as `FINDER_SHARED`."""
    here().store()
    return os.environ[VARIABLE]


def address_for_actors() -> str:
    """Return the address for actors of the connected Ray cluster, "" where the objects live in Ray."""
    store = here().store()
    return str(store.address) if isinstance(store, SocketStore) else ""


def use_address(address: str) -> None:
    """Share the objects of the process that `address` belongs to. Call before any object is shared here."""
    if address:
        os.environ[VARIABLE] = address
    else:
        os.environ.pop(VARIABLE, None)

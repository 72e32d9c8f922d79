"""Where this process finds shared objects.

`FINDER_SHARED` says it; processes inherit that, or are handed it by who starts them. A process that has none is the
first one: it keeps the objects itself and serves them, or, when it is connected to Ray, asks an actor. One that comes
to be connected to Ray later takes its objects there, and one that leaves Ray loses them with it. A first process calls
for those that it serves as it calls for itself: so children that were forked from a process of Ray, in which Ray does
not work, ask through that one.
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
    """What a process knows of where shared objects are."""

    def __init__(self, *, forked_from_ray: bool = False) -> None:
        self._store: Store | None = None
        self._server: Server | None = None
        self._changing = threading.RLock()
        self._forked_from_ray = forked_from_ray

    def call(self, call: Call) -> Any:
        """Calls a method of an object."""
        while True:
            try:
                return self.store().call(call)
            except MovedError:  # to Ray, or away with it, while this waited for its turn
                continue

    def store(self) -> Store:
        """The objects, wherever they are."""
        store = self._store
        if store is not None and self._fits(store):
            return store
        with self._changing:
            if self._store is None or not self._fits(self._store):
                self._store = self._found(self._store)
            return self._store

    def _fits(self, store: Store) -> bool:
        """Whether a store is still where the objects are."""
        ray = self._ray()
        if isinstance(store, RayStore):
            return ray is not None and store.is_of(ray)
        return ray is None or isinstance(store, SocketStore)

    def _found(self, before: Store | None) -> Store:
        told = os.environ.get(VARIABLE)
        if told and self._server is None:
            return SocketStore(Address.of(told))
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
        """Serves the objects of this process to other machines."""
        store = self.store()
        if self._server is None:
            assert isinstance(store, SocketStore)
            at = f"{store.address.host}:{store.address.port}"
            raise ConfigurationError(f"The objects of this process are those of {at} ({VARIABLE}): serve them there.")
        return self._server.listen(host, port)._replace(host=reachable(host))

    def after_fork(self) -> Place:
        """What a process that was forked from this one knows: nothing, and it leaves the connections alone."""
        if self._server is not None:
            self._server.abandon()
        was_connected = isinstance(self._store, RayStore) or connected() is not None
        return Place(forked_from_ray=self._forked_from_ray or was_connected)


def _moved(before: Store | None, ray: Any) -> RayStore:
    """The store in Ray, with the objects that were here before."""
    if not isinstance(before, ObjectStore):
        return RayStore(ray, {})
    try:
        return RayStore(ray, before.take_all())
    except BaseException:
        before.keep_all()
        raise


_here = Place()


def here() -> Place:
    """What this process knows."""
    return _here


def _forget() -> None:
    global _here  # noqa: PLW0603 - a process that was forked is another one
    _here = _here.after_fork()


os.register_at_fork(after_in_child=_forget)


def address_for_processes() -> str:
    """What processes of this machine need to share objects with this one: for `use_address`, or as `FINDER_SHARED`."""
    here().store()
    return os.environ[VARIABLE]


def address_for_actors() -> str:
    """The same for actors of the Ray cluster with which this process is connected: "" where objects are in Ray."""
    store = here().store()
    return str(store.address) if isinstance(store, SocketStore) else ""


def use_address(address: str) -> None:
    """Has this process share objects with the one that gave the address. Called before anything is shared here."""
    if address:
        os.environ[VARIABLE] = address
    else:
        os.environ.pop(VARIABLE, None)

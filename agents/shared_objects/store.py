"""Objects by name, each behind a lock of its own, in the process where they live; and what others ask of them."""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import cloudpickle

from agents.errors import ConfigurationError, portable


class Call(NamedTuple):
    """A method of a shared object that is called."""

    name: str  # of the object
    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    make: Callable[[], Any] | None = None  # makes the object where there is none yet; None where that is not known


class Store(Protocol):
    """Where shared objects are, as one process sees it."""

    def call(self, call: Call) -> Any:
        """Calls a method of an object; gives what it gives, and raises what it raises."""


class UnknownObjectError(KeyError):
    """There is no object of this name yet, and the call does not say how to make it."""


class MovedError(Exception):
    """The objects have just left this store for another one."""


@dataclass
class _Entry:
    lock: Any = field(default_factory=threading.RLock)
    objects: list[Any] = field(default_factory=list)  # none until it is made


class ObjectStore:
    """Objects of this process.

    Args:
        objects: By name. Defaults to none.
        lost: Why a name can no longer be had, for those that were lost with another store. Defaults to none.
    """

    def __init__(self, objects: Mapping[str, Any] | None = None, lost: Mapping[str, str] | None = None) -> None:
        self._entries = {name: _Entry(objects=[value]) for name, value in (objects or {}).items()}
        self._lost = dict(lost or {})
        self._closed = False

    def call(self, call: Call) -> Any:
        """Calls a method of an object, which is made first where it does not exist.

        Raises:
            UnknownObjectError: It does not exist, and the call does not say how to make it.
            AttributeError: It has no such method.
            ConnectionError: It was lost: to begin again with a new one would be silent.
            MovedError: The objects were taken away.
        """
        if call.name in self._lost:
            raise ConnectionError(f"The shared object {call.name!r} is gone: {self._lost[call.name]}")
        entry = self._entries.setdefault(call.name, _Entry())
        with entry.lock:
            if self._closed:
                raise MovedError
            if not entry.objects:
                if call.make is None:
                    raise UnknownObjectError(call.name)
                entry.objects.append(call.make())
            [shared] = entry.objects
            method = getattr(shared, call.method, None)
            if call.method.startswith("_") or not callable(method):
                known = ", ".join(name for name in dir(shared) if not name.startswith("_"))
                kind = type(shared).__name__
                raise AttributeError(
                    f"The shared object {call.name!r}, a {kind}, has no method {call.method!r}: {known}."
                )
            return method(*call.args, **call.kwargs)

    def take_all(self) -> dict[str, Any]:
        """Gives up all objects, as soon as nobody is in the middle of a call."""
        self._closed = True
        taken = {}
        for name, entry in list(self._entries.items()):
            with entry.lock:
                if entry.objects:
                    [taken[name]] = entry.objects
        return taken

    def keep_all(self) -> None:
        """Goes on with the objects that it gave up."""
        self._closed = False


class RemoteStore(ABC):
    """Objects of another process."""

    def call(self, call: Call) -> Any:
        """Calls a method of an object there.

        Raises:
            ConnectionError: Where it lives cannot be reached; the message names the object.
        """
        kind, value = pickle.loads(self._ask(call.name, cloudpickle.dumps(call._replace(make=None))))
        if kind == "unknown":  # how to make it need not be sent with every call
            kind, value = pickle.loads(self._ask(call.name, cloudpickle.dumps(call)))
        if kind == "raised":
            raise value
        return value

    @abstractmethod
    def _ask(self, name: str, request: bytes) -> bytes:
        """Sends what asks for a call of an object, and waits for what `answer` makes of it there."""


def answer(request: bytes, call: Callable[[Call], Any]) -> bytes:
    """Does what another process asks for, where the objects live; whatever goes wrong goes back to who asked."""
    asked = None
    try:
        loaded = pickle.loads(request)
        if not (isinstance(loaded, Call) and isinstance(loaded.name, str) and isinstance(loaded.method, str)):
            raise ConfigurationError(f"A shared object was sent {type(loaded).__name__}, which is no call of a method.")
        asked = loaded
        return bytes(cloudpickle.dumps(("value", call(asked))))
    except UnknownObjectError:
        return bytes(cloudpickle.dumps(("unknown", None)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is raised again in the process that asked
        if asked is not None:
            error.add_note(f"(in {asked.method!r} of the shared object {asked.name!r}, in the process where it lives)")
        return bytes(cloudpickle.dumps(("raised", portable(error))))

"""Objects by name, each with its own lock, in the process where they live; and the requests of other processes."""

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
    """A method call on a shared object."""

    name: str  # of the object
    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    make: Callable[[], Any] | None = None  # creates a missing object; None if not sent with the call


class Store(Protocol):
    """Access of one process to the shared objects."""

    def call(self, call: Call) -> Any:
        """Call a method of an object; return its result or raise its error."""


class UnknownObjectError(KeyError):
    """No object of this name exists yet, and the call does not contain how to create it."""


class MovedError(Exception):
    """The objects have just moved from this store to another one."""


@dataclass
class _Entry:
    lock: Any = field(default_factory=threading.RLock)
    objects: list[Any] = field(default_factory=list)  # empty until the object is created


class ObjectStore:
    """Objects of this process.

    Args:
        objects: Initial objects by name. Defaults to none.
        lost: Reason by name, for objects that were lost with another store. Defaults to none.
    """

    def __init__(self, objects: Mapping[str, Any] | None = None, lost: Mapping[str, str] | None = None) -> None:
        self._entries = {name: _Entry(objects=[value]) for name, value in (objects or {}).items()}
        self._lost = dict(lost or {})
        self._closed = False

    def call(self, call: Call) -> Any:
        """Call a method of an object, and create the object first if it does not exist.

        Raises:
            UnknownObjectError: The object does not exist, and the call does not contain how to create it.
            AttributeError: The object has no such method.
            ConnectionError: The object was lost. A new object would silently restart from its initial state.
            MovedError: The objects have moved to another store.
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
        """Hand over all objects, as soon as no call is in progress."""
        self._closed = True
        taken = {}
        for name, entry in list(self._entries.items()):
            with entry.lock:
                if entry.objects:
                    [taken[name]] = entry.objects
        return taken

    def keep_all(self) -> None:
        """Use the objects again that `take_all` handed over."""
        self._closed = False


class RemoteStore(ABC):
    """Objects of another process."""

    def call(self, call: Call) -> Any:
        """Call a method of an object in the process where the object lives.

        Raises:
            ConnectionError: The process where the object lives cannot be reached; the message names the object.
        """
        kind, value = pickle.loads(self._ask(call.name, cloudpickle.dumps(call._replace(make=None))))
        if kind == "unknown":  # the factory is only sent when it is needed
            kind, value = pickle.loads(self._ask(call.name, cloudpickle.dumps(call)))
        if kind == "raised":
            raise value
        return value

    @abstractmethod
    def _ask(self, name: str, request: bytes) -> bytes:
        """Send the request for a call of an object, and wait for the response of `answer`."""


def answer(request: bytes, call: Callable[[Call], Any]) -> bytes:
    """Execute the request of another process, where the objects live, and return its result or its error."""
    asked = None
    try:
        loaded = pickle.loads(request)
        if not (isinstance(loaded, Call) and isinstance(loaded.name, str) and isinstance(loaded.method, str)):
            raise ConfigurationError(f"A shared object received {type(loaded).__name__}, which is not a method call.")
        asked = loaded
        return bytes(cloudpickle.dumps(("value", call(asked))))
    except UnknownObjectError:
        return bytes(cloudpickle.dumps(("unknown", None)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - raised again in the calling process
        if asked is not None:
            error.add_note(f"(in {asked.method!r} of the shared object {asked.name!r}, in the process where it lives)")
        return bytes(cloudpickle.dumps(("raised", portable(error))))

"""Shared objects as they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from agents.errors import ConfigurationError
from agents.shared_objects.counter import Counter
from agents.shared_objects.place import here
from agents.shared_objects.store import Call

T = TypeVar("T")


@overload
def shared(name: str) -> Counter: ...
@overload
def shared(name: str, make: Callable[[], T]) -> T: ...
def shared(name: str, make: Callable[[], Any] = Counter) -> Any:
    """The object of a name, which all processes of a study share: environments, callbacks, and the script itself.

    Its public methods are called where it lives, one at a time for each object; what they give and raise comes back.
    Attributes that are not methods cannot be reached. Whoever calls first makes the object, and it lives as long as the
    first process of the study. What methods are given and give is copied between processes, but not within the one
    where the object lives: a method should give a copy of what changes. A method must not call other shared objects.

    A call takes about 2 µs in the process where the object lives, 0.1 ms from another one of the same machine (2 ms if
    the former computes in Python), and 1 ms where the object is in Ray; measured on two cores. An environment that is
    stepped in microseconds should add up its steps and tell of them at the end of an episode.

    Args:
        name: Its name, the same everywhere.
        make: Makes it, where there is none of this name yet: a class, or a function without arguments. It is sent there
            by cloudpickle. Defaults to `Counter`.

    Returns:
        Something that has the object's methods; it can be pickled.

    Raises:
        ConfigurationError: The name is empty.
        ConnectionError: By its methods, when the process in which the object lives is gone. The message names it.

    Example:
        >>> steps = agents.distributed.shared("steps")  # in `step` of an environment, and in a callback
        >>> steps.add(1)
        1
    """
    if not name:
        raise ConfigurationError("A shared object needs a name.")
    here().store()  # so that processes that are started from now on find it
    return SharedObject(name, make)


def serve_shared(address: str = "0.0.0.0:0") -> str:
    """Lets other machines share the objects of this process: for workers of a study (`finder worker`) elsewhere.

    Args:
        address: ``HOST:PORT`` of the interface to listen on. Defaults to ``"0.0.0.0:0"``: all, and a free port.

    Returns:
        What to export there as `FINDER_SHARED`. It has a key in it, with which anybody who reaches the port can run
        code in this process: keep it to yourself.

    Raises:
        ConfigurationError: The address cannot be listened on, or this process shares the objects of another one.
    """
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit()):
        raise ConfigurationError(f"address must be HOST:PORT, such as 0.0.0.0:13001, got {address!r}.")
    return str(here().serve(host, int(port)))


class SharedObject:
    """What `shared` gives: calls of its methods go to where the object lives."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self._name, self._make = name, make

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        name, make = self._name, self._make

        def call(*args: Any, **kwargs: Any) -> Any:
            return here().call(Call(name, method, args, kwargs, make))

        return call

    def __reduce__(self) -> tuple[Any, ...]:
        return (shared, (self._name, self._make))

    def __repr__(self) -> str:
        return f"shared({self._name!r})"

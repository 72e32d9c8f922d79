"""Shared objects for other processes, over TCP, with a secret key: a client that knows the key can run code here."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from typing import Any, NamedTuple

from agents.errors import ConfigurationError
from agents.shared_objects.store import Call, RemoteStore, answer

CONNECT_SECONDS = 10.0
"""Time limit of authentication, for client and server, in seconds."""

MAX_UNAUTHENTICATED = 256
"""Maximum number of connections that have not authenticated yet. The oldest ones are closed first."""

SILENT_SECONDS = 30
"""Idle seconds after which TCP keepalive checks whether the other machine is still there."""


class Address(NamedTuple):
    """Address of served objects and their key; as text ``KEY@HOST:PORT``."""

    host: str
    port: int
    key: str

    def __str__(self) -> str:
        return f"{self.key}@{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"  # the key is a secret: it allows running code here

    @classmethod
    def of(cls, text: str) -> Address:
        """Parse an address.

        Raises:
            ConfigurationError: The text is not an address.
        """
        key, at, place = text.partition("@")
        host, colon, port = place.rpartition(":")
        if not (key and at and host and colon and port.isdigit()):
            raise ConfigurationError(
                f"FINDER_SHARED is not KEY@HOST:PORT (at {place or 'no place'}): set it to the result of "
                "agents.distributed.serve_shared(), or unset it."
            )
        return cls(host, int(port), key)


class Server:
    """Server of calls, with one thread of this process per connection.

    Args:
        call: Executes a call.
    """

    def __init__(self, call: Callable[[Call], Any]) -> None:
        self.key = secrets.token_hex(16)
        self._call = call
        self._listeners: list[Listener] = []
        self._connections: set[Connection] = set()
        self._unauthenticated: dict[Connection, None] = {}  # oldest first
        self._door = threading.Lock()

    def listen(self, host: str = "127.0.0.1", port: int = 0) -> Address:
        """Listen at one more address.

        Args:
            host: Interface; ``0.0.0.0`` for all.
            port: Port number; 0 for a free port.

        Raises:
            ConfigurationError: The address cannot be listened on.
        """
        try:
            listener = Listener((host, port), backlog=1024)  # hundreds of processes may connect at once
        except OSError as error:
            raise ConfigurationError(f"Shared objects cannot be served at {host}:{port}: {error}.") from error
        self._listeners.append(listener)
        threading.Thread(target=self._accept, args=(listener,), name="shared-objects", daemon=True).start()
        address: Any = listener.address
        return Address(host, address[1], self.key)

    def abandon(self) -> None:
        """Close the inherited listeners and connections in a process forked from the serving process."""
        for listener in self._listeners:
            listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.close()

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except OSError:  # for example too many open files
                time.sleep(0.1)
                continue
            with self._door:
                if len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
                    first = next(iter(self._unauthenticated))
                    del self._unauthenticated[first]
                    _shut_down(first)
                self._unauthenticated[connection] = None
            threading.Thread(target=self._serve, args=(connection,), name="shared-objects", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        self._connections.add(connection)
        try:
            with connection, suppress(EOFError, OSError, AuthenticationError):
                self._authenticate(connection)
                while True:
                    connection.send_bytes(answer(connection.recv_bytes(), self._call))
        finally:
            self._connections.discard(connection)

    def _authenticate(self, connection: Connection) -> None:
        """Authenticate a connection. Any machine can connect and then send nothing."""
        try:
            _wait_at_most(CONNECT_SECONDS, connection)
            deliver_challenge(connection, self.key.encode())
            answer_challenge(connection, self.key.encode())
            _wait_at_most(0, connection)
        finally:
            with self._door:
                self._unauthenticated.pop(connection, None)


def _socket_of(connection: Connection) -> socket.socket:
    """Return the socket of a connection, which owns its own file descriptor."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def _wait_at_most(seconds: float, connection: Connection) -> None:
    """Make reading from a connection raise an `OSError` after `seconds` without data; 0 for no limit."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with _socket_of(connection) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _shut_down(connection: Connection) -> None:
    """Shut down a connection, so that the thread that reads from it returns."""
    with suppress(OSError), _socket_of(connection) as made:
        made.shutdown(socket.SHUT_RDWR)


class SocketStore(RemoteStore):
    """Objects that another process serves.

    Args:
        address: Address of the serving process.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._own = threading.local()  # each thread has a connection

    def _ask(self, name: str, request: bytes) -> bytes:
        try:
            connection = getattr(self._own, "connection", None) or self._connected()
            connection.send_bytes(request)
            return bytes(connection.recv_bytes())
        except (EOFError, OSError, AuthenticationError) as error:
            self._disconnect()
            raise ConnectionError(
                f"The shared object {name!r} is gone with the process in which it lives, or cannot be reached at "
                f"{self.address.host}:{self.address.port} ({type(error).__name__}: {error}). For processes on other "
                f"machines it must be served (agents.distributed.serve_shared)."
            ) from error
        except BaseException:  # after an interruption, the next call would read this call's answer
            self._disconnect()
            raise

    def _connected(self) -> Connection:
        host, port, key = self.address
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS) as made:
            made.setblocking(True)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENT_SECONDS // 3)
            connection = Connection(made.detach())
        self._own.connection = connection
        if not connection.poll(CONNECT_SECONDS):
            raise TimeoutError(f"it does not answer for {CONNECT_SECONDS:g} s")
        answer_challenge(connection, key.encode())
        deliver_challenge(connection, key.encode())
        return connection

    def _disconnect(self) -> None:
        connection, self._own.connection = getattr(self._own, "connection", None), None
        if connection is not None:
            connection.close()

"""Client of `studies.servers.proxy`: Optuna's calls and Finder's share one channel, and every call has a deadline."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import time
from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, cast

import grpc
from optuna.storages import GrpcStorageProxy
from optuna.storages._grpc.auto_generated import api_pb2_grpc
from optuna.storages._grpc.client import GrpcClientCache

from studies.adapters.quiet_optuna import without_experimental_warnings
from studies.database.episodes import EpisodeTable
from studies.database.leases import Lease, LeaseTable
from studies.database.names import StudyNames
from studies.database.retries import RetryPolicy, StorageAwayError, storage_failure
from studies.errors import StudyError
from studies.storage.access import AUTHORITY_VARIABLE, authority_of_environment, bearer, token_of_environment
from studies.storage.proxy_fences import fence_metadata, lost_leases
from studies.storage.proxy_messages import CALLS, PATH, UNLIMITED, decoded, encoded

READY_SECONDS = 10.0
"""Seconds for the first answer of a server."""

_LOOK_SECONDS = 1.0
"""Seconds between checks whether a call may go on waiting."""

_RECONNECT_MS = 5_000
"""Maximum delay before a channel reconnects."""


class Proxy:
    """Connection to a server of `studies.servers.proxy.make_proxy`.

    Args:
        host: Host of the server.
        port: Port of the server.
        retry_policy: Policy of the calls, with their current timeout.
        tls: Whether to use TLS (``grpcs://``). Defaults to `False`.

    Raises:
        StudyError: If no server answers, it is another kind of server, or it rejects the token of `FINDER_TOKEN`.
    """

    def __init__(self, host: str, port: int, retry_policy: RetryPolicy, *, tls: bool = False) -> None:
        label = f"{'grpcs' if tls else 'grpc'}://{host}:{port}"
        token = token_of_environment()
        options = [*UNLIMITED, ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS)]
        if tls:
            credentials = grpc.ssl_channel_credentials(authority_of_environment())
            bare = grpc.secure_channel(f"{host}:{port}", credentials, options=options)
        else:
            bare = grpc.insecure_channel(f"{host}:{port}", options=options)
        self._channel = _Channel(bare, retry_policy, token)
        self._channel_call: Callable[[bytes], bytes] = self._channel.unary_unary(PATH)
        try:
            grpc.channel_ready_future(bare).result(timeout=min(READY_SECONDS, retry_policy.call_seconds))
            self._check(label)
            self.optuna: GrpcStorageProxy = _OptunaProxy(host, port, self._channel)
        except grpc.FutureTimeoutError:
            self.close()
            raise StudyError(_no_answer_text(label, host, port, tls)) from None
        except BaseException:
            self.close()
            raise

    @property
    def episodes(self) -> EpisodeTable:
        """Episodes of the studies."""
        return cast("EpisodeTable", _RemoteEpisodes(self._call, "episodes"))

    @property
    def leases(self) -> LeaseTable:
        """Leases of the studies."""
        return cast("LeaseTable", _RemoteLeases(self._call, "leases"))

    @property
    def names(self) -> StudyNames:
        """Names of the studies."""
        return cast("StudyNames", _RemoteTable(self._call, "names"))

    def close(self) -> None:
        """Close the connections."""
        self._channel.close()

    def _call(self, table: str, method: str, *arguments: Any) -> Any:
        return decoded(json.loads(self._channel_call(json.dumps([table, method, encoded(arguments)]).encode())))

    def _check(self, label: str) -> None:
        """Make one call, so that a server that rejects all calls, or is older, is found before a study is opened."""
        try:
            self._call("episodes", "return_extremes", "")
        except grpc.RpcError as error:
            failure = storage_failure(error)
            message = error.code().name if failure is None else failure.message
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise StorageAwayError(
                    f"{label} is not a storage server of Finder ({message}): start one there with finder serve."
                ) from None
            raise StorageAwayError(f"{label} rejects the call ({message}).") from None


class _OptunaProxy(GrpcStorageProxy):
    """Client of Optuna on an existing channel."""

    def __init__(self, host: str, port: int, channel: _Channel) -> None:
        self._given = channel
        with without_experimental_warnings():
            super().__init__(host=host, port=port)

    def _setup(self) -> None:
        self._channel = self._given
        self._stub = api_pb2_grpc.StorageServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._cache = GrpcClientCache(self._stub)


class _Channel:
    """Channel whose calls have a deadline, and send the token and the fence of their thread.

    gRPC runs in a thread of its own for each call. Ctrl-C raises an exception in the main thread, which would leave
    locks of the channel held within the code of gRPC, so that no later call would be answered; and a call would not end
    before its deadline where Ctrl-C is deferred. A call that was given up ends at its deadline, or with the channel.

    Args:
        channel: Channel.
        retry_policy: Policy of the calls, with their current timeout: without one, a stopped server blocks them.
        token: Token; empty for none.
    """

    def __init__(self, channel: grpc.Channel, retry_policy: RetryPolicy, token: str) -> None:
        self._channel, self._retry_policy = channel, retry_policy
        self._token = [("authorization", bearer(token))] if token else []

    def unary_unary(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """See `grpc.Channel`."""
        return functools.partial(self._call, self._channel.unary_unary(*args, **options))

    def _call(self, call: grpc.UnaryUnaryMultiCallable, request: Any) -> Any:
        began, seconds, metadata = time.monotonic(), self._retry_policy.call_seconds, [*self._token, *fence_metadata()]
        answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

        def answer() -> None:
            try:
                answers.put((call(request, timeout=seconds, metadata=metadata), None))
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
                answers.put((None, error))

        start_new_thread(answer, ())  # `threading.Thread.start` itself waits for a lock that Ctrl-C may leave held
        while True:
            with contextlib.suppress(Empty):
                response, error = answers.get(timeout=_LOOK_SECONDS)
                break
            if not self._retry_policy.may_wait(began):
                raise TimeoutError("the call was given up")
        if error is not None:
            raise lost_leases(error) or error  # no error of gRPC is its context: that would count as an outage
        return response

    def close(self) -> None:
        """Close the connections."""
        self._channel.close()


def _no_answer_text(label: str, host: str, port: int, tls: bool) -> str:
    """Return why a server did not answer the first call, and what to do."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return f"nothing answers at {label}: start it with finder serve --host {host} --port {port}."
    if tls:
        return (
            f"what listens at {host}:{port} does not answer over TLS: if finder serve runs there without --tls-cert, "
            f"write grpc://; if its certificate is of your own making, set {AUTHORITY_VARIABLE} to that file."
        )
    return (
        f"what listens at {host}:{port} does not answer: if finder serve runs there with --tls-cert, write grpcs://; "
        f"if it was stopped, start it again."
    )


class _RemoteTable:
    """A table of the server, with the methods of `CALLS`."""

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        self._call, self._name = call, name

    def __getattr__(self, method: str) -> Any:
        if method not in CALLS[self._name]:
            raise AttributeError(method)
        return functools.partial(self._call, self._name, method)


class _RemoteEpisodes(_RemoteTable):
    frame = EpisodeTable.frame


class _RemoteLeases(_RemoteTable):
    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> int:
        return int(self._call("leases", "take", study, number, owner, seconds, instead_of))

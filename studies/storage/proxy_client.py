"""Client of `studies.servers.proxy`: Optuna's calls and Finder's share one channel, and every call has a deadline."""

from __future__ import annotations

import functools
import json
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

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
from studies.storage.proxy_fences import ClientFences, lost_leases
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
        intercepted = grpc.intercept_channel(bare, _TokenAndDeadline(retry_policy, token), ClientFences())
        self._channel = _Channel(intercepted, retry_policy)
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
    """Channel whose calls raise the errors of fences, and end early after Ctrl-C: their deadlines are fixed before.

    Args:
        channel: Channel.
        retry_policy: Policy of the calls.
    """

    def __init__(self, channel: grpc.Channel, retry_policy: RetryPolicy) -> None:
        self._channel, self._retry_policy = channel, retry_policy

    def unary_unary(self, *args: Any, **options: Any) -> Callable[..., Any]:
        """See `grpc.Channel`."""
        return functools.partial(self._call, self._channel.unary_unary(*args, **options))

    def _call(self, call: grpc.UnaryUnaryMultiCallable, request: Any, **options: Any) -> Any:
        began, pending = time.monotonic(), call.future(request, **options)
        try:
            while True:
                try:
                    return pending.result(timeout=_LOOK_SECONDS)
                except grpc.FutureTimeoutError:
                    if not self._retry_policy.may_wait(began):
                        break
        except grpc.RpcError as error:
            if (lost := lost_leases(error)) is not None:
                raise lost from None
            raise
        except BaseException:
            pending.cancel()
            raise
        pending.cancel()
        raise TimeoutError("the call was given up")

    def close(self) -> None:
        """Close the connections."""
        self._channel.close()


class _Details(NamedTuple):
    """Details of a call, as gRPC's interceptors expect them."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str]] | None
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _TokenAndDeadline(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Interceptor that adds the token and a deadline to every call: without one, a stopped server blocks it forever."""

    def __init__(self, retry_policy: RetryPolicy, token: str) -> None:
        self._retry_policy = retry_policy
        self._token = [("authorization", bearer(token))] if token else []

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        sent = _Details(
            details.method,
            self._retry_policy.call_seconds,
            [*(details.metadata or ()), *self._token],
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
        return continuation(sent, request)


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

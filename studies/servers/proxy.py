"""Server through which many processes use one storage: Optuna's gRPC proxy, with Finder's tables.

Workers need neither a driver nor the password of the database, and a SQLite file is written by one process, the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from studies.database.retries import storage_failure
from studies.errors import StudyError
from studies.servers.ports import check_port
from studies.storage.access import TOKEN_VARIABLE, Access
from studies.storage.proxy_fences import ServerFences, around
from studies.storage.proxy_messages import CALLS, PATH, UNLIMITED, decoded, encoded

if TYPE_CHECKING:
    from studies.storage.storage import StudyStorage

_THREADS = 32


def make_proxy(storage: StudyStorage, host: str, port: int, access: Access | None = None) -> tuple[grpc.Server, int]:
    """Return a server for a storage, bound but not started, and its port.

    A SQLite file is marked for good as one that others may have written (`StudyStorage.foreign`).

    Args:
        storage: An open storage in a database; it must stay open while the server runs.
        host: Interface to listen on. Clients may read and change every study.
        port: Port to listen on, 0 for a free one.
        access: Access control. Defaults to `None`: `Access.of(host)`, which requires a token if other machines can
            connect.

    Raises:
        StudyError: If the storage cannot be served, the port is taken or not allowed, or there would be no
            authentication.
    """
    from optuna.storages._grpc.auto_generated import api_pb2_grpc
    from optuna.storages._grpc.servicer import OptunaStorageProxyService

    if storage.url.startswith(("memory", "journal", "grpc")):
        kind = storage.url.partition(":")[0]
        raise StudyError(
            f"a storage of the kind {kind!r} cannot be served: use sqlite:///finder.db or a database server."
        )
    access = access or Access.of(host)
    check_port(host, port)  # gRPC would write its reason into the log alone
    # Otherwise a second server on the same port would take half of the calls.
    server = grpc.server(
        ThreadPoolExecutor(_THREADS),
        options=[*UNLIMITED, ("grpc.so_reuseport", 0)],
        interceptors=(_Authentication(access), _ErrorCodes(), ServerFences()),
    )
    service = OptunaStorageProxyService(storage.optuna)
    api_pb2_grpc.add_StorageServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    server.add_generic_rpc_handlers((_handler(storage),))
    try:
        if access.certificate is None or access.key is None:
            bound = server.add_insecure_port(f"{host}:{port}")
        else:
            pair = access.key.read_bytes(), access.certificate.read_bytes()
            bound = server.add_secure_port(f"{host}:{port}", grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        raise StudyError(f"port {port} on {host} is taken or not allowed: choose another --port or --host.") from None
    storage.mark_served()
    return server, bound


def _handler(storage: StudyStorage) -> grpc.GenericRpcHandler:
    def call(request: bytes, _context: Any) -> bytes:
        table, method, arguments = json.loads(request)
        if method not in CALLS.get(table, ()):
            raise StudyError(f"there is no call {table}.{method}: use the same version of Finder on both sides.")
        result = getattr(getattr(storage, table), method)(*decoded(arguments))
        return json.dumps(encoded(result)).encode()

    service, _, name = PATH[1:].rpartition("/")
    return grpc.method_handlers_generic_handler(service, {name: grpc.unary_unary_rpc_method_handler(call)})


class _Authentication(grpc.ServerInterceptor):  # type: ignore[misc]
    """Interceptor that rejects every call without the token, before its message is read."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        sent = dict(details.invocation_metadata or ()).get("authorization", "")
        if self._access.admits(sent if isinstance(sent, str) else ""):
            return continuation(details)
        return grpc.stream_unary_rpc_method_handler(_reject)


def _reject(_messages: Any, context: Any) -> None:
    message = f"the token is missing or wrong: set {TOKEN_VARIABLE} to the server's token"
    context.abort(grpc.StatusCode.UNAUTHENTICATED, message)


class _ErrorCodes(grpc.ServerInterceptor):  # type: ignore[misc]
    """Interceptor whose errors tell clients whether a retry is useful; gRPC itself answers UNKNOWN to all of them."""

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        return around(continuation(details), _answer)


def _answer(call: Callable[[Any, Any], Any], request: Any, context: Any) -> Any:
    try:
        return call(request, context)
    except Exception as error:
        if context.code() is not None:  # answered already, such as for a trial that does not exist
            raise
        failure = storage_failure(error)
        if failure is not None:
            context.abort(grpc.StatusCode.UNAVAILABLE, failure.message)
        message = " ".join(str(error).split())[:200]
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{type(error).__name__}: {message}")

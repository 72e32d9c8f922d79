"""Many processes on one storage through one server: Optuna's gRPC proxy, and our own tables beside it.

Workers need neither a driver nor the password of the database, and a SQLite file keeps its one writer, the server.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optuna.exceptions import ExperimentalWarning

from studies.episodes import EpisodeTable
from studies.errors import StudyError
from studies.leases import Lease, LeaseTable
from studies.records import EpisodeRecord

if TYPE_CHECKING:
    import grpc
    from optuna.storages import GrpcStorageProxy

    from studies.storage import StudyStorage

READY_SECONDS = 10.0
"""How long a server may take to answer for the first time."""

_THREADS = 32
_PATH = "/finder.Tables/Call"
_CALLS = {
    "episodes": ("add", "curve", "curves", "count", "delete"),
    "leases": ("take", "renew", "release", "held", "delete"),
}
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def make_proxy(storage: StudyStorage, host: str, port: int) -> tuple[grpc.Server, int]:
    """Returns a server for a storage, bound but not started, and its port.

    Args:
        storage: An open storage in a database; it must stay open while the server runs.
        host: Interface to listen on. There is no password: whoever reaches it may read and change every study.
        port: Port to listen on, 0 for a free one.

    Raises:
        StudyError: If the storage cannot be served, or the port is taken or not allowed.
    """
    import grpc
    from optuna.storages._grpc.auto_generated import api_pb2_grpc
    from optuna.storages._grpc.servicer import OptunaStorageProxyService

    if storage.url.startswith(("memory", "journal", "grpc")):
        kind = storage.url.partition(":")[0]
        raise StudyError(
            f"a storage of the kind {kind!r} cannot be served: use sqlite:///finder.db or a database server."
        )
    # Without this, a second server on the same port takes half of the calls.
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=[*_UNLIMITED, ("grpc.so_reuseport", 0)])
    service = OptunaStorageProxyService(storage.optuna)
    api_pb2_grpc.add_StorageServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    server.add_generic_rpc_handlers((_handler(storage),))
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        raise StudyError(f"port {port} on {host} is taken or not allowed: choose another --port or --host.") from None
    return server, bound


def _handler(storage: StudyStorage) -> grpc.GenericRpcHandler:
    import grpc

    def call(request: bytes, _context: Any) -> bytes:
        table, method, arguments = json.loads(request)
        if method not in _CALLS[table]:
            raise ValueError(f"there is no call {table}.{method}")
        result = getattr(getattr(storage, table), method)(*_decoded(arguments))
        return json.dumps(_encoded(result)).encode()

    service, _, name = _PATH[1:].rpartition("/")
    return grpc.method_handlers_generic_handler(service, {name: grpc.unary_unary_rpc_method_handler(call)})


class Proxy:
    """A server of `make_proxy`, as its clients see it.

    Args:
        host: Its host.
        port: Its port.

    Raises:
        StudyError: Nothing answers there.
    """

    def __init__(self, host: str, port: int) -> None:
        import grpc
        from optuna.storages import GrpcStorageProxy

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self.optuna: GrpcStorageProxy = GrpcStorageProxy(host=host, port=port)
        try:
            self.optuna.wait_server_ready(timeout=READY_SECONDS)
        except ConnectionError:
            self.optuna.close()
            raise StudyError(
                f"nothing answers at grpc://{host}:{port}: start it with finder serve --host {host} --port {port}."
            ) from None
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=_UNLIMITED)
        self._channel_call: Callable[[bytes], bytes] = self._channel.unary_unary(_PATH)

    @property
    def episodes(self) -> EpisodeTable:
        """The episodes."""
        return _RemoteEpisodes(self._call)

    @property
    def leases(self) -> LeaseTable:
        """Who holds which trial."""
        return _RemoteLeases(self._call)

    def _call(self, table: str, method: str, *arguments: Any) -> Any:
        return _decoded(json.loads(self._channel_call(json.dumps([table, method, _encoded(arguments)]).encode())))

    def close(self) -> None:
        """Ends the connections."""
        self._channel.close()
        self.optuna.close()


class _RemoteEpisodes(EpisodeTable):
    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def add(self, study_name: str, batch: Sequence[tuple[int, EpisodeRecord]]) -> None:
        if batch:
            self._call("episodes", "add", study_name, batch)

    def curve(self, study_name: str, trial_number: int) -> list[EpisodeRecord]:
        found: list[EpisodeRecord] = self._call("episodes", "curve", study_name, trial_number)
        return found

    def curves(self, study_name: str) -> dict[int, list[EpisodeRecord]]:
        found: dict[int, list[EpisodeRecord]] = self._call("episodes", "curves", study_name)
        return found

    def count(self, study_name: str) -> int:
        return int(self._call("episodes", "count", study_name))

    def delete(self, study_name: str, trial_number: int | None = None) -> None:
        self._call("episodes", "delete", study_name, trial_number)


class _RemoteLeases:
    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def take(self, study: str, number: int, owner: str, seconds: float, instead_of: Lease | None = None) -> bool:
        return bool(self._call("leases", "take", study, number, owner, seconds, instead_of))

    def renew(self, study: str, owner: str, seconds: float) -> set[int]:
        renewed: set[int] = self._call("leases", "renew", study, owner, seconds)
        return renewed

    def release(self, study: str, number: int, owner: str) -> bool:
        return bool(self._call("leases", "release", study, number, owner))

    def held(self, study: str) -> dict[int, Lease]:
        held: dict[int, Lease] = self._call("leases", "held", study)
        return held

    def delete(self, study: str) -> None:
        self._call("leases", "delete", study)


def _encoded(value: Any) -> Any:
    """As JSON, with a mark where JSON has no word for it."""
    if isinstance(value, EpisodeRecord):
        return {"episode": list(asdict(value).values())}
    if isinstance(value, Lease):
        return {"lease": list(value)}
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(key), _encoded(each)] for key, each in value.items()]}
    if isinstance(value, set | frozenset):
        return {"set": [_encoded(each) for each in value]}
    if isinstance(value, list | tuple):
        return [_encoded(each) for each in value]
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    [(mark, content)] = value.items()
    if mark == "episode":
        return EpisodeRecord(**dict(zip(EpisodeRecord.__dataclass_fields__, content, strict=True)))
    if mark == "lease":
        return Lease(*content)
    if mark == "set":
        return {_decoded(each) for each in content}
    return {_decoded(key): _decoded(each) for key, each in content}

"""The gRPC proxy: servers that do not answer, and calls that fail permanently."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from optuna.study import StudyDirection

from studies.analysis.listing import list_studies
from studies.database.fencing import Fence, LeaseLostError, fenced
from studies.database.records import EpisodeRecord
from studies.database.retries import RETRY_VARIABLE, StorageAwayError
from studies.errors import StudyError
from studies.servers.proxy import make_proxy
from studies.statistics.bounds import ReturnExtremes
from studies.storage import proxy_client
from studies.storage.proxy_messages import PATH
from studies.storage.storage import StudyStorage, open_storage

DEADLINE_SECONDS = 60
"""Seconds after which a call counts as hanging."""


class Pausable:
    """A served table that can be paused: calls arrive and are not answered."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._running, self.has_call = threading.Event(), threading.Event()
        self._running.set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)

        def call(*args: Any) -> Any:
            self.has_call.set()
            assert self._running.wait(DEADLINE_SECONDS)
            return found(*args)

        return call

    def stop(self) -> None:
        self._running.clear()
        self.has_call.clear()

    def resume(self) -> None:
        self._running.set()


@pytest.fixture
def pausable(tmp_path: Path) -> Iterator[tuple[str, Pausable]]:
    with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
        tables = Pausable(opened.episodes)
        opened.episodes = tables  # type: ignore[assignment]
        server, port = make_proxy(opened, "127.0.0.1", 0)
        server.start()
        yield f"grpc://127.0.0.1:{port}", tables
        tables.resume()
        server.stop(grace=1).wait()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, StudyStorage]]:
    with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
        server, port = make_proxy(opened, "127.0.0.1", 0)
        server.start()
        yield f"grpc://127.0.0.1:{port}", opened
        server.stop(grace=1).wait()


def rejecting_server(code: grpc.StatusCode, details: str) -> tuple[grpc.Server, int, list[bytes]]:
    """Return a server that answers the first call and rejects all others, its port, and the list of received calls."""
    calls: list[bytes] = []

    class RejectAfterFirst(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _details: Any) -> Any:
            def call(request: bytes, context: Any) -> bytes:
                calls.append(request)
                if len(calls) > 1:
                    context.abort(code, details)
                return b"0"

            return grpc.unary_unary_rpc_method_handler(call)

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((RejectAfterFirst(),))
    return server, server.add_insecure_port("127.0.0.1:0"), calls


class TestHangingServer:
    def test_running_study_fails_within_the_retry_limit(
        self, pausable: tuple[str, Pausable], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(RETRY_VARIABLE, "0.5")
        url, tables = pausable
        with open_storage(url) as opened:
            opened.retry_policy.begin(0.5)
            tables.stop()
            with pytest.raises(StorageAwayError, match=r"127\.0\.0\.1:\d+ has not answered for [\d.]+ s"):
                opened.episodes.curves("a study")
            assert opened.retry_policy.is_over
            assert opened.retry_policy.call_seconds <= 1  # calls while the study ends are short

    def test_reader_gets_an_error_of_one_line(
        self, pausable: tuple[str, Pausable], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url, tables = pausable
        with open_storage(url) as opened:
            monkeypatch.setenv(RETRY_VARIABLE, "0.3")  # not for calls that are answered: the machine may be busy
            tables.stop()
            with pytest.raises(StorageAwayError, match=r"has not answered") as caught:
                opened.episodes.curves("a study")
            assert "\n" not in str(caught.value)
            tables.resume()
            monkeypatch.delenv(RETRY_VARIABLE)
            assert opened.episodes.curves("a study") == {}

    def test_call_ends_after_ctrl_c(self, pausable: tuple[str, Pausable], monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C takes effect after the call, whose deadline was set before."""
        monkeypatch.setattr("studies.database.retries.INTERRUPTED_SECONDS", 0.0)
        monkeypatch.setattr(proxy_client, "_LOOK_SECONDS", 0.05)
        url, tables = pausable
        with open_storage(url) as opened:
            opened.retry_policy.begin(DEADLINE_SECONDS)
            tables.stop()
            opened.retry_policy.is_interrupted = tables.has_call.is_set
            fence = Fence("a study", "me", {0: 1})
            with pytest.raises(StorageAwayError, match="the call was given up"), fenced(fence):
                opened.episodes.curves("a study")

    def test_calls_are_answered_after_ctrl_c_at_any_point_of_another_one(
        self, served: tuple[str, StudyStorage]
    ) -> None:
        """An exception within the code of gRPC would leave locks of the channel held."""

        def interrupt_in(n_functions: int) -> bool:
            """Interrupt a call as it enters its n-th function; return False if it has ended before."""
            entered = 0

            def enter(_frame: Any, event: str, _argument: Any) -> None:
                nonlocal entered
                entered += event == "call"
                if entered == n_functions:
                    raise KeyboardInterrupt

            try:
                sys.setprofile(enter)
                opened.episodes.curves("a study")
            except KeyboardInterrupt:
                return True
            finally:
                sys.setprofile(None)
            return False

        with open_storage(served[0]) as opened:
            opened.retry_policy.begin(DEADLINE_SECONDS)
            points = itertools.takewhile(interrupt_in, itertools.count(1))
            assert [opened.episodes.curves("a study") for _ in points]
            assert not opened.retry_policy.is_over

    def test_call_is_retried_until_the_server_resumes(
        self, pausable: tuple[str, Pausable], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("studies.database.retries.CALL_SECONDS", 0.2)
        url, tables = pausable
        with open_storage(url) as opened:
            opened.retry_policy.begin(DEADLINE_SECONDS)
            tables.stop()
            with ThreadPoolExecutor(1) as threads:
                waiting = threads.submit(opened.episodes.curves, "a study")
                time.sleep(0.5)
                assert not waiting.done()
                tables.resume()
                assert waiting.result(DEADLINE_SECONDS) == {}

    def test_silence_seen_by_another_thread_counts_towards_the_retry_limit(
        self, served: tuple[str, StudyStorage]
    ) -> None:
        """The seconds for which another thread got no answer are subtracted from the retry limit."""
        url, _ = served
        with open_storage(url) as opened:
            opened.retry_policy.begin(30.0)
            opened.retry_policy.silent_for(29.0)
            assert opened.retry_policy.call_seconds < 2
            assert opened.leases.renew("a study", "me", 60.0) == set()
            assert opened.retry_policy.call_seconds > 29


def test_lost_lease_is_no_outage(served: tuple[str, StudyStorage], caplog: pytest.LogCaptureFixture) -> None:
    with open_storage(served[0]) as opened, fenced(Fence("a study", "me", {0: 1})):
        opened.retry_policy.begin(DEADLINE_SECONDS)
        with pytest.raises(LeaseLostError, match="another process has taken") as caught:
            opened.optuna.create_new_study([StudyDirection.MINIMIZE], "a study")
        assert caught.value.numbers == {0}
    assert "does not answer" not in caplog.text


def test_call_that_another_program_aborted_is_retried() -> None:
    server, port, calls = rejecting_server(grpc.StatusCode.ABORTED, "the load balancer restarts")
    server.start()
    try:
        with open_storage(f"grpc://127.0.0.1:{port}") as opened, fenced(Fence("a study", "me", {0: 1})):
            opened.retry_policy.begin(0.3)
            before = len(calls)
            with pytest.raises(StorageAwayError, match=r"has not answered for [\d.]+ s \(ABORTED: the load balancer"):
                opened.episodes.curves("a study")
            assert len(calls) > before + 1
    finally:
        server.stop(grace=0).wait()


class TestServedFile:
    @pytest.mark.slow
    def test_served_file_is_foreign_for_good(self, tmp_path: Path) -> None:
        """Everybody who could connect may have written studies into it."""
        url = f"sqlite:///{tmp_path}/finder.db"
        with open_storage(url) as opened:
            assert not opened.foreign
            for _ in range(2):  # served again
                server, _ = make_proxy(opened, "127.0.0.1", 0)
                assert opened.foreign
                server.start()
                server.stop(grace=1).wait()
        for again in (url, str(tmp_path / "finder.db"), f"{url}?mode=ro"):
            with open_storage(again, create=False) as opened:
                assert opened.foreign
                assert "finder serve" in opened.why_foreign
        with open_storage(f"sqlite:///{tmp_path}/another.db") as another:
            assert not another.foreign
            assert "finder serve" not in another.why_foreign

    def test_file_that_was_not_served_is_not_marked(self, served: tuple[str, StudyStorage], tmp_path: Path) -> None:
        port = int(served[0].rpartition(":")[2])
        with open_storage(f"sqlite:///{tmp_path}/finder.db") as opened:
            with pytest.raises(StudyError, match=f"port {port} on 127.0.0.1 is taken"):
                make_proxy(opened, "127.0.0.1", port)
            assert not opened.foreign

    @pytest.mark.slow
    def test_file_that_cannot_be_marked_is_not_served(self, tmp_path: Path) -> None:
        path = tmp_path / "finder.db"
        with open_storage(f"sqlite:///{path}?timeout=0.1") as opened:
            with contextlib.closing(sqlite3.connect(path)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StudyError, match="locked"):
                    make_proxy(opened, "127.0.0.1", 0)
            assert not opened.foreign


class TestPermanentFailures:
    @pytest.mark.parametrize(
        "code", ["UNAUTHENTICATED", "UNIMPLEMENTED", "INVALID_ARGUMENT", "PERMISSION_DENIED", "OUT_OF_RANGE"]
    )
    @pytest.mark.parametrize("running", [True, False])
    def test_permanent_status_raises_at_once_in_one_line(self, code: str, running: bool) -> None:
        server, port, calls = rejecting_server(grpc.StatusCode[code], "not for you")
        server.start()
        try:
            with open_storage(f"grpc://127.0.0.1:{port}") as opened:
                if running:
                    opened.retry_policy.begin(DEADLINE_SECONDS)
                before = len(calls)
                with pytest.raises(StorageAwayError, match=f"rejects the call.*{code}: not for you") as caught:
                    opened.episodes.curves("a study")
                assert len(calls) == before + 1, "the server must be called again exactly once"
                assert "\n" not in str(caught.value)
        finally:
            server.stop(grace=0).wait()

    def test_server_rejects_calls_that_are_no_methods_of_the_tables(self, served: tuple[str, StudyStorage]) -> None:
        url, _ = served
        with grpc.insecure_channel(url.removeprefix("grpc://")) as channel:
            call = channel.unary_unary(PATH)
            for request in (
                json.dumps(["episodes", "engine", []]).encode(),
                json.dumps(["storage", "close", []]).encode(),
                json.dumps(["episodes", "curves", []]).encode(),
                b"no JSON",
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    call(request, timeout=DEADLINE_SECONDS)
                assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, request

    def test_unavailable_database_behind_the_server_is_retried(self, served: tuple[str, StudyStorage]) -> None:
        url, behind = served
        table, failures = behind.episodes, iter([True, True])

        class Flaky:
            def curves(self, name: str) -> dict[int, list[EpisodeRecord]]:
                if next(failures, False):
                    raise OSError(28, "No space left on device")
                return table.curves(name)

        with open_storage(url) as opened:
            opened.retry_policy.begin(DEADLINE_SECONDS)
            behind.episodes = Flaky()  # type: ignore[assignment]
            assert opened.episodes.curves("a study") == {}
            assert next(failures, None) is None

    def test_grpc_server_without_the_tables_raises(self) -> None:
        """The proxy server of Optuna alone lacks the tables of episodes and leases."""
        server = grpc.server(ThreadPoolExecutor(2))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with pytest.raises(StorageAwayError, match=r"UNIMPLEMENTED.*finder serve"):
                list_studies(f"grpc://127.0.0.1:{port}")
        finally:
            server.stop(grace=0).wait()

    def test_unreachable_server_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(proxy_client, "READY_SECONDS", 0.3)
        with pytest.raises(Exception, match=r"nothing answers at grpc://127\.0\.0\.1:1"):
            open_storage("grpc://127.0.0.1:1")


def test_return_extremes_are_computed_by_the_server(
    served: tuple[str, StudyStorage], episode: Callable[..., EpisodeRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The episodes of a study may be many megabytes."""
    url, behind = served
    returns = [1.0] * 3 + [9.0] * 4
    records = [episode(episode=number, episode_return=each, length=2) for number, each in enumerate(returns)]
    behind.episodes.add("s", [(0, record) for record in records])
    monkeypatch.setattr(behind.episodes, "curves", None)
    with open_storage(url) as opened:
        assert opened.episodes.return_extremes("s") == ReturnExtremes(1.0, 9.0, 1, 1, 0.5, 4.5)
        assert opened.episodes.return_extremes("none") is None

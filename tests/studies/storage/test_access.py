"""Access to servers: tokens, TLS certificates, and the network interfaces that require them."""

from __future__ import annotations

import io
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import grpc
import pytest
from certificates import make_certificate
from optuna.storages._grpc.auto_generated import api_pb2, api_pb2_grpc

from studies.database.retries import StorageAwayError
from studies.errors import StudyError
from studies.servers.dashboard import make_dashboard
from studies.servers.dashboard_gate import LOGIN_PATH, DashboardGate, without_tokens
from studies.servers.proxy import make_proxy
from studies.storage.access import (
    AUTHORITY_VARIABLE,
    TOKEN_VARIABLE,
    Access,
    authority_of_environment,
    bearer,
    is_loopback,
    token_of_environment,
)
from studies.storage.proxy_messages import PATH
from studies.storage.storage import open_storage
from studies.storage.storage_url import parse_storage_url

TOKEN = "the-token-of-this-test"
SECONDS = 30


@pytest.fixture(autouse=True)
def no_token_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(AUTHORITY_VARIABLE, raising=False)


class TestAccess:
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "::1"])
    def test_loopback_needs_no_token(self, host: str) -> None:
        assert is_loopback(host)
        assert Access.of(host).token == ""

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.0.2.1", ""])
    def test_other_interfaces_require_a_token(self, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(StudyError, match=r"set FINDER_TOKEN, or add --new-token .* or --insecure") as caught:
            Access.of(host)
        assert "\n" not in str(caught.value)
        assert Access.of(host, insecure=True).token == ""
        made = Access.of(host, new_token=True)
        assert made.is_new
        assert len(made.token) > 40
        assert made.token != Access.of(host, new_token=True).token
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        assert Access.of(host).token == TOKEN

    def test_unknown_host_raises(self) -> None:
        with pytest.raises(StudyError, match="not an address of this machine"):
            Access.of("no.such.host.invalid")

    def test_contradictory_options_raise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(StudyError, match="--insecure is given"):
            Access.of("0.0.0.0", new_token=True, insecure=True)
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        with pytest.raises(StudyError, match="FINDER_TOKEN is set") as caught:
            Access.of("0.0.0.0", new_token=True)
        assert TOKEN not in str(caught.value)

    @pytest.mark.parametrize("token", ["short", "two words are none", "täuschend-ähnlich-aber-nicht"])
    def test_invalid_token_raises_without_showing_it(self, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
        monkeypatch.setenv(TOKEN_VARIABLE, token)
        with pytest.raises(StudyError, match="16 or more ASCII characters") as caught:
            token_of_environment()
        assert token not in str(caught.value)

    def test_only_the_exact_bearer_token_is_admitted(self) -> None:
        access = Access(token=TOKEN)
        assert access.admits(bearer(TOKEN))
        for wrong in ("", TOKEN, "Bearer ", bearer(TOKEN[:-1]), bearer(f"{TOKEN}x"), "Bearer \udc80"):
            assert not access.admits(wrong)
        assert Access().admits("")
        assert TOKEN not in repr(access)
        assert TOKEN not in access.cookie

    def test_unusable_or_incomplete_certificate_raises(self, tmp_path: Path) -> None:
        strange = tmp_path / "strange.pem"
        strange.write_text("no certificate")
        with pytest.raises(StudyError, match="cannot be used"):
            Access.of("127.0.0.1", certificate=strange, key=strange)
        with pytest.raises(StudyError, match="both a certificate and its key"):
            Access.of("127.0.0.1", certificate=strange)

    def test_missing_certificate_authority_raises(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert authority_of_environment() is None
        monkeypatch.setenv(AUTHORITY_VARIABLE, str(tmp_path / "none.pem"))
        with pytest.raises(StudyError, match="give a PEM file"):
            authority_of_environment()


class Answer(NamedTuple):
    status: str
    headers: dict[str, str]
    body: str


def request(access: Access, path: str = "/dashboard", query: str = "", form: str = "", **headers: str) -> Answer:
    """Return the answer of a gate in front of an application that answers "inside"."""
    started: list[Any] = []

    def inside(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"inside"]

    environ = {
        "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "POST" if form else "GET", "SERVER_PORT": "8080",
        "wsgi.input": io.BytesIO(form.encode()), "CONTENT_LENGTH": str(len(form)), **headers,
    }  # fmt: skip
    body = DashboardGate(inside, access)(environ, lambda status, pairs: started.extend((status, dict(pairs))))
    return Answer(*started, b"".join(body).decode())


class TestDashboardGate:
    access = Access(token=TOKEN)

    def test_gate_without_token_admits_every_request(self) -> None:
        assert request(Access()).body == "inside"

    @pytest.mark.parametrize(
        "host",
        [
            "localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:18080", "127.3.2.1:8080", "[::1]", "[::1]:8080",
            "[::ffff:127.0.0.1]:8080", "0.0.0.0:8080", socket.gethostname(), "named.example:8080", "",
        ],
    )  # fmt: skip
    def test_gate_without_token_admits_names_of_this_machine(self, host: str) -> None:
        for address in ("127.0.0.1", "::1"):
            assert request(Access(), HTTP_HOST=host, REMOTE_ADDR=address, SERVER_NAME="named.example").body == "inside"

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example:8080",
            "evil.localhost", "localhost@evil.example", "localhost,evil.example", "localhost:8080:1", "localhost:x",
            "::1", "[::1", "[]", "[2001:db8::1]:8080", "192.0.2.1:8080", ":8080", "1",
        ],
    )  # fmt: skip
    def test_gate_without_token_refuses_names_of_other_machines(self, host: str) -> None:
        """A browser would let the pages of a domain whose address is 127.0.0.1 read every study."""
        for address in ({}, {"REMOTE_ADDR": "127.0.0.1"}, {"REMOTE_ADDR": "::1"}, {"REMOTE_ADDR": "::ffff:127.0.0.1"}):
            refused = request(Access(), HTTP_HOST=host, SERVER_NAME="named.example", **address)
            assert refused.status.startswith("421")
            assert repr(host) in refused.body
            assert "localhost:8080" in refused.body
            assert TOKEN_VARIABLE in refused.body

    def test_host_is_not_restricted_for_other_machines_or_with_a_token(self) -> None:
        """Other machines connect only with --insecure; behind a token the name does not matter."""
        assert request(Access(), HTTP_HOST="that-machine:8080", REMOTE_ADDR="192.0.2.7").body == "inside"
        named = {"HTTP_HOST": "dashboard.example", "REMOTE_ADDR": "127.0.0.1"}
        assert request(self.access, HTTP_AUTHORIZATION=bearer(TOKEN), **named).body == "inside"
        assert request(self.access, **named).status.startswith("401")

    def test_authorization_header_is_accepted(self) -> None:
        assert request(self.access, HTTP_AUTHORIZATION=bearer(TOKEN)).body == "inside"
        refused = request(self.access, HTTP_AUTHORIZATION=bearer("another-token-of-this-length"))
        assert refused.status.startswith("401")
        assert "Authorization: Bearer TOKEN" in refused.body

    def test_token_in_url_sets_a_cookie_and_redirects(self) -> None:
        first = request(self.access, path="/dashboard/studies/1", query=urlencode({"tab": "x", "token": TOKEN}))
        assert first.status.startswith("303")
        assert first.headers["Location"] == "/dashboard/studies/1?tab=x"
        assert TOKEN not in str(first)
        cookie = first.headers["Set-Cookie"]
        assert re.search(r"; Path=/; HttpOnly; SameSite=Lax$", cookie)
        assert request(self.access, HTTP_COOKIE=f"other=1; {cookie.partition(';')[0]}").body == "inside"
        assert request(Access(token="another-token-of-this"), HTTP_COOKIE=cookie).status.startswith("401")
        assert request(self.access, HTTP_COOKIE="finder_8080=").status.startswith("401")

    def test_login_page_accepts_the_token(self) -> None:
        page = request(self.access, HTTP_ACCEPT="text/html,*/*")
        assert page.status.startswith("401")
        assert f'action="{LOGIN_PATH}"' in page.body
        entered = request(self.access, LOGIN_PATH, form=urlencode({"token": TOKEN}))
        assert (entered.status[:3], entered.headers["Location"]) == ("303", "/dashboard")
        mistyped = request(self.access, LOGIN_PATH, form="token=wrong", HTTP_ACCEPT="text/html")
        assert mistyped.status.startswith("401")
        assert "not the token" in mistyped.body
        assert "Set-Cookie" not in mistyped.headers

    @pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "/\r\nX: y"])
    def test_redirect_stays_on_the_same_host(self, path: str) -> None:
        to = request(self.access, path, urlencode({"token": TOKEN})).headers["Location"]
        assert re.fullmatch(r"/[\w.%][^\\\r\n]*", to)

    def test_log_lines_contain_no_token(self) -> None:
        line = f'"GET /dashboard?token={TOKEN}&tab=x HTTP/1.1" 303 0'
        assert without_tokens(line) == '"GET /dashboard?token=***&tab=x HTTP/1.1" 303 0'


@pytest.fixture
def protected(tmp_path: Path) -> Iterator[str]:
    """The address of a server with a token."""
    with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
        server, port = make_proxy(opened, "127.0.0.1", 0, Access(token=TOKEN))
        server.start()
        yield f"grpc://127.0.0.1:{port}"
        server.stop(grace=1).wait()


class TestProxy:
    def test_valid_token_opens_the_storage(self, protected: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        with open_storage(protected) as opened:
            assert opened.optuna.get_all_studies() == []
            assert opened.leases.take("a study", 0, "me", 60.0)

    @pytest.mark.parametrize("token", ["", "another-token-of-this-length"])
    def test_wrong_token_is_rejected_for_every_call(
        self, protected: str, monkeypatch: pytest.MonkeyPatch, token: str
    ) -> None:
        monkeypatch.setenv(TOKEN_VARIABLE, token)
        with pytest.raises(StorageAwayError, match=r"UNAUTHENTICATED: .*FINDER_TOKEN") as caught:
            open_storage(protected)
        assert "\n" not in str(caught.value)
        assert not token or token not in str(caught.value)
        sent = [("authorization", bearer(token))] if token else []
        with grpc.insecure_channel(protected.removeprefix("grpc://")) as channel:
            optuna = api_pb2_grpc.StorageServiceStub(channel)  # type: ignore[no-untyped-call]
            calls = [
                lambda: optuna.GetAllStudies(api_pb2.GetAllStudiesRequest(), timeout=SECONDS, metadata=sent),
                lambda: optuna.DeleteStudy(api_pb2.DeleteStudyRequest(study_id=0), timeout=SECONDS, metadata=sent),
                lambda: channel.unary_unary(PATH)(b'["leases", "held", [""]]', timeout=SECONDS, metadata=sent),
                lambda: channel.unary_unary("/no.Such/Method")(b"", timeout=SECONDS, metadata=sent),
            ]
            for call in calls:
                with pytest.raises(grpc.RpcError) as refused:
                    call()
                assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED

    def test_make_proxy_and_make_dashboard_require_a_token(self, tmp_path: Path) -> None:
        with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
            with pytest.raises(StudyError, match="there is no token"):
                make_proxy(opened, "0.0.0.0", 0)
            with pytest.raises(StudyError, match="there is no token"):
                make_dashboard(opened, "0.0.0.0", 0)

    @pytest.mark.slow
    @pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
    def test_tls_requires_grpcs_and_a_known_authority(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("studies.storage.proxy_client.READY_SECONDS", 2.0)
        certificate, key = make_certificate(tmp_path)
        access = Access.of("127.0.0.1", certificate=certificate, key=key)
        with open_storage(f"sqlite:///{tmp_path}/served.db") as opened:
            server, port = make_proxy(opened, "127.0.0.1", 0, access)
            server.start()
            try:
                with pytest.raises(StudyError, match=r"with --tls-cert, write grpcs://"):
                    open_storage(f"grpc://127.0.0.1:{port}")
                with pytest.raises(StudyError, match=r"of your own making, set FINDER_TLS_CA"):
                    open_storage(f"grpcs://127.0.0.1:{port}")
                monkeypatch.setenv(AUTHORITY_VARIABLE, str(certificate))
                with open_storage(f"grpcs://127.0.0.1:{port}") as client:
                    assert client.optuna.get_all_studies() == []
                    assert client.shared
            finally:
                server.stop(grace=1).wait()

    def test_storage_url_with_token_raises(self) -> None:
        assert parse_storage_url("grpcs://host").url == "grpcs://host:13000"
        with pytest.raises(StudyError, match="set FINDER_TOKEN") as caught:
            parse_storage_url(f"grpc://{TOKEN}@host:13000")
        assert TOKEN not in str(caught.value)

"""Tests of ports that a server cannot listen on."""

from __future__ import annotations

import socket

import pytest

from studies.errors import StudyError
from studies.servers.ports import check_port


def test_port_is_checked_before_it_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StudyError, match=f"port {port} on 127.0.0.1 is taken: stop what runs there"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", 0)
    check_port("[::1]", 0)  # as gRPC writes it


@pytest.mark.parametrize(("host", "message"), [("192.0.2.1", "is not allowed"), ("no.such.host.invalid", "no.such")])
def test_host_of_another_machine_is_refused(host: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        check_port(host, 0)

"""optuna-dashboard on our storages, with our figures on each study's page."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from studies.errors import StudyError
from studies.reports.figures import study_figures
from studies.storage import StudyStorage, open_storage
from studies.study import list_studies, load_study

if TYPE_CHECKING:
    from studies.study import OpenStudy

_CARD_HEIGHT = 430
"""Pixels; the dashboard's cards are 450 high and cut what is higher."""

_logger = logging.getLogger(__name__)


def attach_figures(study: OpenStudy) -> list[str]:
    """Attaches our figures to a study, so that they show on its page in optuna-dashboard.

    They are drawn from the study as it is now; attaching again replaces them. The dashboard keeps figures as study
    attributes, so this writes to the storage: about 30 small transactions a figure.

    Args:
        study: The study.

    Returns:
        The figures' ids, such as `finder-learning-rate`.
    """
    from optuna_dashboard import save_plotly_graph_object

    names = []
    for name, figure in study_figures(study, compact=True).items():
        figure.update_layout(height=_CARD_HEIGHT)
        names.append(save_plotly_graph_object(study.study, figure, graph_object_id=name))
    return names


def serve(
    storage_url: str,
    host: str = "127.0.0.1",
    port: int = 8080,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Attaches our figures to every study of a storage and serves optuna-dashboard until Ctrl-C.

    Args:
        storage_url: The URL of an existing storage. Not `memory`, which nobody else can see.
        host: Interface to listen on. Defaults to `127.0.0.1`: only this machine, because the dashboard has no password
            and can delete studies.
        port: Port to listen on, from 0 to 65535; 0 takes a free one. Defaults to `8080`.
        on_ready: Called with the address, such as `http://127.0.0.1:8080/dashboard`, once requests are answered.
            Defaults to `None`.

    Raises:
        StudyError: If the storage cannot be opened, or the port is taken or not allowed.
    """
    with open_storage(storage_url, create=False) as storage, make_dashboard(storage, host, port) as server:
        if on_ready is not None:
            on_ready(f"http://{host}:{server.server_port}/dashboard")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return


def make_dashboard(storage: StudyStorage, host: str = "127.0.0.1", port: int = 8080) -> WSGIServer:
    """Attaches our figures and returns a server that is bound but does not serve yet.

    Args:
        storage: An open storage; it must stay open while the server runs.
        host: Interface to listen on. Defaults to `127.0.0.1`.
        port: Port to listen on, 0 for a free one. Defaults to `8080`.

    Raises:
        StudyError: If the storage is in memory, or the port is taken or not allowed.
    """
    from optuna_dashboard import wsgi

    if storage.url == "memory":
        raise StudyError(
            "a storage in memory cannot be served: run the study with a file, such as sqlite:///finder.db."
        )
    if not 0 <= port <= 65535:
        raise StudyError(f"port is {port}: give a port from 0 to 65535.")
    # The port is bound first: a mistake there should not cost the time of drawing all figures.
    server = _bind(host, port)
    try:
        for summary in list_studies(storage):
            try:
                attach_figures(load_study(storage, summary.name))
            except Exception:
                # A figure that cannot be drawn or stored must not keep the dashboard from being looked at.
                _logger.exception("the figures of the study %r could not be attached", summary.name)
        server.set_app(wsgi(storage.optuna))
    except BaseException:
        server.server_close()
        raise
    return server


class _ThreadedServer(ThreadingMixIn, WSGIServer):
    """Answers requests in parallel: a browser opens several connections, and one slow study must not block all."""

    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    """Does not print a line for every request; the dashboard polls."""

    def log_message(self, format: str, *args: Any) -> None:
        _logger.debug(format, *args)


def _bind(host: str, port: int) -> WSGIServer:
    try:
        return make_server(host, port, _not_ready, server_class=_ThreadedServer, handler_class=_QuietHandler)
    except socket.gaierror as error:
        raise StudyError(f"host is {host!r}, which is no address of this machine ({error}): use 127.0.0.1.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StudyError(
                f"port {port} on {host} is taken: stop what runs there, or choose another --port."
            ) from None
        if error.errno in (errno.EACCES, errno.EADDRNOTAVAIL):
            raise StudyError(
                f"port {port} on {host} is not allowed ({error.strerror}): choose another port or host."
            ) from None
        raise


def _not_ready(_environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
    return [b"starting"]

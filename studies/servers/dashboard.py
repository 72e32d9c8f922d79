"""optuna-dashboard with Finder's figures and a note on the page of each study, kept up to date."""

from __future__ import annotations

import logging
import shlex
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from optuna.trial import TrialState

from studies.analysis.conclusion import conclusion
from studies.analysis.listing import StudySummary, list_studies
from studies.analysis.recommendation import Recommendation, pick_or_none
from studies.errors import StudyError
from studies.figures.figures import study_figures
from studies.figures.importances import importances_data
from studies.recording.opening import remove_unless_running, rename_study
from studies.reports.explanation import explain, question_text
from studies.servers.dashboard_gate import DashboardGate, without_tokens
from studies.servers.dashboard_page import DashboardPage, PickShown
from studies.servers.ports import port_errors
from studies.storage.access import Access
from studies.storage.dashboard_storage import MOST_CURVES, DashboardStorage, DelegatingStorage
from studies.storage.read_only import AttributesInMemory
from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy, check_open, load_study
from studies.words import over_seeds_text

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_CARD_HEIGHT = 430
"""Pixels; cards of the dashboard are 450 high and cut off the rest."""

LOOK_SECONDS = 3.0
"""Seconds between checks for trials that have ended since the figures were drawn."""

_REST = 20
"""Minimum time between two drawings of a figure, as a multiple of the time to draw it: drawing takes 5% at most."""

_RETRY_SECONDS = 60.0
"""Minimum time before figures that could not be drawn or stored are drawn again."""

_SIGNED = "*Written by Finder; it is written anew when trials end. Remove this line to keep a note of your own.*"

_logger = logging.getLogger(__name__)


def attach_figures(study: OpenStudy) -> list[str]:
    """Attach figures and a note to a study, which optuna-dashboard shows on its page.

    They show the study as it is now; attaching again replaces them. A note that a user wrote is kept. The dashboard
    stores figures as study attributes, so this writes to the storage: about 30 small transactions per figure.

    Args:
        study: The study.

    Returns:
        Ids of the figures, such as `finder-learning-rate`.
    """
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    check_open(study)
    before, now = get_note(study.study), _note(study)
    if before != now and (not before.strip() or _SIGNED in before):
        save_note(study.study, now)
    names = []
    for name, figure in study_figures(study, compact=True).items():
        figure.update_layout(height=_CARD_HEIGHT)
        names.append(save_plotly_graph_object(study.study, figure, graph_object_id=name))
    return names


def _note(study: OpenStudy) -> str:
    """Return the note on a study: question, answer, and where to find more."""
    where = f"{shlex.quote(study.name)} --trial NUMBER --storage {shlex.quote(study.storage.label)}"
    more = f"Everything about a trial: `finder show {where}`"
    if len(study.all_trials()) > 2 * MOST_CURVES:
        more += f" (intermediate values are drawn here for the best {MOST_CURVES} trials and the newest {MOST_CURVES})"
    found = conclusion(study)
    lines = "  \n".join([f"**{found.lines[0]}**", *found.lines[1:], *found.remedy_sentences])
    return f"{lines}\n\n{question_text(study.spec)}\n\n{explain(study)}\n\n{more}\n\n{_SIGNED}"


def _pick_shown(study: OpenStudy) -> tuple[int | None, PickShown]:
    """Return the number of the recommended trial (None if there is none), and its card."""
    pick = pick_or_none(study)
    spec, above = study.spec, ""
    if not spec.metrics and study.trials(TrialState.COMPLETE):
        whole = " of the whole curve" if spec.kind == "range-test" else ""
        above = f"The number above: {spec.metric_text}{whole} in the search, {over_seeds_text(len(spec.seeds))}."
    return None if pick is None else pick.trial, {
        "name": _name_of_card(study, pick),
        "lines": [*conclusion(study).lines, *filter(None, [above])],
        "importances": {each.name: each.share for each in importances_data(study).importances},
    }


def _name_of_card(study: OpenStudy, pick: Recommendation | None) -> str:
    if study.spec.metrics:
        return "On the Pareto front"
    return "Best so far, no pick" if pick is None else "Finder's pick"


class FigureKeeper:
    """Thread that attaches the figures of the studies of a storage, and updates them.

    Args:
        storage: An open storage.
    """

    def __init__(self, storage: StudyStorage) -> None:
        self._storage = storage
        self._drawn: dict[str, StudySummary] = {}
        self._rests_until: dict[str, float] = {}
        self._failures: dict[str, str] = {}  # name of a study -> error of its last drawing
        self._picks: dict[
            int, tuple[int | None, PickShown]
        ] = {}  # id of a study -> number of its recommended trial, contents of its page
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._update_regularly, name="finder-figures", daemon=True)

    def update(self) -> list[str]:
        """Draw the figures of studies with newly ended trials; return the names of these studies."""
        changed = []
        for summary in list_studies(self._storage):
            ended = replace(summary, n_running=0, n_confirming=0)
            if self._drawn.get(summary.name) == ended or time.monotonic() < self._rests_until.get(summary.name, 0.0):
                continue
            if summary.unreadable:
                _logger.warning("%s", summary.unreadable)
                self._drawn[summary.name] = ended
            elif self._draw(summary.name):
                self._drawn[summary.name] = ended
                changed.append(summary.name)
        return changed

    def _draw(self, name: str) -> bool:
        """Draw the figures of a study, and begin its rest; return whether they could be drawn."""
        began, is_drawn = time.monotonic(), True
        try:
            study = load_study(name, self._storage)
            self._picks[study.study._study_id] = _pick_shown(study)
            attach_figures(study)
        except Exception as error:
            # A figure that cannot be drawn or stored must not prevent using the dashboard.
            if self._failures.get(name) != repr(error):  # once, though it is tried again and again
                _logger.exception("the figures of the study %r could not be attached", name)
            self._failures[name], is_drawn = repr(error), False
        else:
            self._failures.pop(name, None)
        now = time.monotonic()
        self._rests_until[name] = now + max(_REST * (now - began), 0.0 if is_drawn else _RETRY_SECONDS)
        return is_drawn

    def pick_of(self, study_id: int) -> int | None:
        """Return the number of the recommended trial of a study, None if there is none."""
        return self._picks[study_id][0] if study_id in self._picks else None

    def picks(self) -> dict[str, PickShown]:
        """Return the contents of the page of each study, by its id as text."""
        return {str(study_id): shown for study_id, (_, shown) in list(self._picks.items())}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current drawing."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _update_regularly(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.update()
            except Exception:
                _logger.exception("the studies of %s could not be read", self._storage.label)


def serve(
    storage_url: str,
    host: str = "127.0.0.1",
    port: int = 8080,
    on_ready: Callable[[str], None] | None = None,
    access: Access | None = None,
    *,
    on_bound: Callable[[], None] | None = None,
) -> None:
    """Serve optuna-dashboard until Ctrl-C, with figures of every study that are updated while studies run.

    Args:
        storage_url: URL of an existing storage. Not `memory`, which other processes cannot see.
        host: Interface to listen on. Defaults to `127.0.0.1`: only this machine, because the dashboard can delete
            studies.
        port: Port to listen on, from 0 to 65535; 0 for a free one. Defaults to `8080`.
        on_ready: Called with the address, such as `http://127.0.0.1:8080/dashboard`, once requests are answered.
            Defaults to `None`.
        access: Access control. Defaults to `None`: `Access.of(host)`, which requires a token if other machines can
            connect.
        on_bound: See `make_dashboard`. Defaults to `None`.

    Raises:
        StudyError: If the storage cannot be opened, the port is taken or not allowed, or there would be no
            authentication.
    """
    access = access or Access.of(host)
    with (
        open_storage(storage_url, create=False) as storage,
        make_dashboard(storage, host, port, access=access, on_bound=on_bound) as server,
    ):
        if on_ready is not None:
            on_ready(f"{'https' if access.has_tls else 'http'}://{host}:{server.server_port}/dashboard")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return


def make_dashboard(
    storage: StudyStorage,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    flag: str = "--port",
    access: Access | None = None,
    on_bound: Callable[[], None] | None = None,
) -> WSGIServer:
    """Return a server that is bound but does not serve yet, after attaching the figures of all studies.

    While it serves, it updates the figures of studies that change.

    Args:
        storage: An open storage; it must stay open while the server runs.
        host: Interface to listen on. Defaults to `127.0.0.1`.
        port: Port to listen on, 0 for a free one. Defaults to `8080`.
        flag: Command-line flag of the port, for errors. Defaults to `--port`.
        access: Access control. Defaults to `None`: `Access.of(host)`, which requires a token if other machines can
            connect.
        on_bound: Called once the port is bound, before the figures are drawn, which takes a while. Defaults to `None`.

    Raises:
        StudyError: If the storage is in memory, the port is taken or not allowed, or there would be no authentication.
    """
    if storage.url == "memory":
        raise StudyError(
            "a storage in memory cannot be served: run the study with a file, such as sqlite:///finder.db."
        )
    storage = _with_own_attributes(storage)
    if not 0 <= port <= 65535:
        raise StudyError(f"port is {port}: give a port from 0 to 65535.")
    # The port is bound first: an error there should not come after the time of drawing all figures.
    access = access or Access.of(host)
    server = _bind(host, port, flag)
    try:
        server.use_tls(access.ssl_context())
        if on_bound is not None:
            on_bound()
        server.keeper = FigureKeeper(storage)
        server.keeper.update()
        server.set_app(DashboardGate(_application(storage, server.keeper), access))
    except BaseException:
        server.server_close()
        raise
    return server


def _with_own_attributes(storage: StudyStorage) -> StudyStorage:
    """Return the storage with attributes in memory that the keeper of the figures should not write.

    A read-only storage cannot be written, and a journal is only appended to: it would keep all drawings of all figures.
    """
    from optuna_dashboard._custom_plot_data import SYSTEM_ATTR_PLOT_DATA

    if storage.why_read_only:
        own = AttributesInMemory(storage.optuna)
    elif storage.url.startswith("journal"):
        own = AttributesInMemory(storage.optuna, SYSTEM_ATTR_PLOT_DATA)
    else:
        return storage
    return replace(storage, optuna=cast("BaseStorage", own))


def _application(storage: StudyStorage, keeper: FigureKeeper) -> DashboardPage:
    from optuna_dashboard import wsgi
    from optuna_dashboard._serializer import serialize_frozen_study

    def remove(study_id: int) -> None:
        from bottle import HTTPError

        try:
            remove_unless_running(storage, study_id, storage.optuna.get_study_name_from_id(study_id))
        except StudyError as error:
            raise HTTPError(409, str(error)) from error

    def rename(study_id: int, name: str) -> dict[str, Any] | None:
        if not rename_study(storage, study_id, name):
            return None
        [renamed] = [study for study in view.get_all_studies() if study._study_id == study_id]
        answer: dict[str, Any] = serialize_frozen_study(renamed)
        return answer

    view = DashboardStorage(storage.optuna, remove, keeper.pick_of)
    return DashboardPage(wsgi(view), wsgi(DelegatingStorage(storage.optuna, remove)), keeper.picks, rename)


class _ThreadedServer(ThreadingMixIn, WSGIServer):
    """Server with a thread per request: browsers open several connections, and a slow study must not block all."""

    daemon_threads = True
    keeper: FigureKeeper

    def use_tls(self, context: ssl.SSLContext | None) -> None:
        """Encrypt every connection. The handshake happens in the thread of the connection, as clients may be slow."""
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            self.base_environ["HTTPS"] = "on"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log one line for a connection that broke, or does not use TLS."""
        _logger.debug("a connection from %s was cut", client_address, exc_info=True)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        self.keeper.start()
        try:
            super().serve_forever(poll_interval)
        finally:
            self.keeper.stop()


class _QuietHandler(WSGIRequestHandler):
    """Request handler without a log line per request, since the dashboard polls."""

    timeout = 60.0  # a silent client must not keep a thread

    def log_message(self, format: str, *args: Any) -> None:
        _logger.debug("%s", without_tokens(format % args))


def _bind(host: str, port: int, flag: str) -> _ThreadedServer:
    with port_errors(host, port, flag):
        return make_server(host, port, _not_ready, server_class=_ThreadedServer, handler_class=_QuietHandler)


def _not_ready(_environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
    return [b"starting"]

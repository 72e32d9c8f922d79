"""Web application of optuna-dashboard with Finder's recommendation, and renaming without copies."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypedDict
from wsgiref.headers import Headers

from studies.errors import StudyError
from studies.figures.figures import reading_place

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

PICKS_PATH = "/finder/picks"
SCRIPT_PATH = "/finder/pick.js"

_RENAME = re.compile(r"/api/studies/(\d+)/rename/?")
_STUDY = re.compile(r"/api/studies/\d+/?")
_IMPORTANCES = re.compile(r"/api/studies/(\d+)/param_importances/?")
_NOT_JSON = "send changes from the page of this server, or as Content-Type: application/json"
_TAG = f'<script defer src="{SCRIPT_PATH}"></script>'.encode()

SCRIPT = """
// Optuna's page calls the trial of the highest value "Best Trial". For our studies the server puts the pick in its
// place (DashboardStorage.get_best_trial); this gives it its name, says how sure it is, and moves its card to the top.
(function () {
  const written = new WeakMap();  // text node -> [as the page wrote it, as it is shown]
  let picks = {};
  function named(text, own) {
    const found = /^Best Trials?( \\((?:number=)?(\\d+)\\))?$/.exec(text);
    if (!found || !own) return text;
    if (!text.includes('number=')) return own.name + (found[1] || '');
    return own.name + ': trial ' + found[2];
  }
  function label() {
    const study = /\\/studies\\/(\\d+)/.exec(location.pathname);
    const own = study ? picks[study[1]] : null;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const before = written.get(node);
      const text = before && node.data === before[1] ? before[0] : node.data;
      if (!text.startsWith('Best Trial')) continue;
      const now = named(text, own);
      if (node.data !== now) node.data = now;
      written.set(node, [text, now]);
      if (node.parentElement.tagName === 'H6') card(node.parentElement, own);
    }
  }
  function card(title, own) {
    const content = title.parentElement;
    let lines = content.querySelector('[data-finder]');
    if (!lines) {
      lines = document.createElement('div');
      lines.dataset.finder = '';
      lines.style.cssText = 'margin-top: 12px; line-height: 1.5';
    }
    if (content.lastElementChild !== lines) content.appendChild(lines);
    const text = own ? own.lines.join('\\n') : '';
    if (lines.dataset.finder !== text) {
      lines.dataset.finder = text;
      lines.replaceChildren(...(own ? own.lines : []).map((line) => {
        const row = document.createElement('div');
        row.textContent = line;
        return row;
      }));
    }
    const item = content.closest('.MuiGrid-item');
    const grid = item && item.parentElement;
    const page = grid && grid.parentElement;
    if (!page || page.parentElement.tagName !== 'MAIN') return;
    // The cards of the grid wrap in the page itself, so that the pick's, and the question beside it, can come first.
    page.style.display = own ? 'flex' : '';
    page.style.flexFlow = own ? 'row wrap' : '';
    page.style.boxSizing = own ? 'border-box' : '';
    page.style.paddingRight = own ? '16px' : '';
    grid.style.display = own ? 'contents' : '';
    for (const other of page.children) {
      if (other !== grid) Object.assign(other.style, { flex: own ? '1 0 90%' : '', order: own ? '-1' : '' });
    }
    for (const first of [item, item.nextElementSibling]) {
      if (first) first.style.order = own ? '-2' : '';
    }
  }
  let waiting = null;
  function soon() {
    if (waiting === null) waiting = setTimeout(function () { waiting = null; label(); }, 100);
  }
  function load() {
    fetch('PICKS').then((answer) => answer.json()).then((found) => { picks = found; label(); }).catch(() => {});
  }
  new MutationObserver(soon).observe(document.body, { childList: true, subtree: true, characterData: true });
  load();
  setInterval(load, 5000);
})();
""".replace("PICKS", PICKS_PATH)


class PickShown(TypedDict):
    """Additions to the page of a study: name of the recommended trial, lines under it, importances."""

    name: str
    lines: list[str]
    importances: dict[str, float]


class DashboardPage:
    """WSGI application: optuna-dashboard with a few answers of Finder.

    Args:
        shown: optuna-dashboard on the readable storage (`studies.storage.dashboard_storage.DashboardStorage`).
        stored: optuna-dashboard on the storage itself, for requests that must be exact and complete: tables of trials
            to download, and the copy that it makes of a study in order to rename it, if `rename` cannot.
        picks: Returns the additions to the pages of studies, by id as text.
        rename: Renames a study, by its id, in place, and returns the answer of optuna-dashboard; None if the storage
            cannot. It raises `StudyError` if the name is taken.
    """

    def __init__(
        self,
        shown: Application,
        stored: Application,
        picks: Callable[[], dict[str, PickShown]],
        rename: Callable[[int, str], dict[str, Any] | None],
    ) -> None:
        self._shown, self._stored, self._picks, self._rename = shown, stored, picks, rename

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        if _may_be_forged(environ):
            return _answer(start_response, *_json({"reason": _NOT_JSON}), status="415 Unsupported Media Type")
        return self._routed(environ, start_response)

    def _routed(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request by what its path names."""
        path = environ.get("PATH_INFO", "")
        own = self._finder_page(path)
        if own is not None:
            return _answer(start_response, *own)
        if environ.get("REQUEST_METHOD") == "POST" and (asked := _RENAME.fullmatch(path)):
            return self._renamed(environ, start_response, int(asked[1]))
        if path.startswith("/csv/"):
            return self._stored(environ, start_response)
        if path == "/dashboard" or path.startswith("/dashboard/"):
            return self._changed(environ, start_response, "text/html", _with_script)
        if _STUDY.fullmatch(path) and environ.get("REQUEST_METHOD") == "GET":
            return self._changed(environ, start_response, "application/json", _with_figures_in_order)
        return self._shown(environ, start_response)

    def _renamed(self, environ: Environ, start_response: StartResponse, study_id: int) -> Iterable[bytes]:
        """Rename a study in place, or let optuna-dashboard copy it from the storage."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        try:
            name = json.loads(body).get("study_name")
            if not isinstance(name, str) or not name.strip():
                raise StudyError(f"the name is {name!r}: give a text.")
            renamed = self._rename(study_id, name)
        except (StudyError, ValueError, AttributeError) as error:
            return _answer(start_response, *_json({"reason": str(error)}), status="400 Bad Request")
        if renamed is None:
            return self._stored({**environ, "wsgi.input": io.BytesIO(body)}, start_response)
        return _answer(start_response, *_json(renamed), status="201 Created")

    def _finder_page(self, path: str) -> tuple[str, bytes] | None:
        """Return Finder's answer and its type; None if optuna-dashboard answers."""
        if path == PICKS_PATH:
            return "application/json", json.dumps(self._picks()).encode()
        if path == SCRIPT_PATH:
            return "text/javascript; charset=utf-8", SCRIPT.encode()
        asked = _IMPORTANCES.fullmatch(path)
        shown = self._picks().get(asked[1]) if asked else None
        return None if shown is None else ("application/json", _importances(shown))

    def _changed(
        self, environ: Environ, start_response: StartResponse, kind: str, change: Callable[[bytes], bytes]
    ) -> Iterable[bytes]:
        """Answer with a changed answer of optuna-dashboard.

        It is always sent in full, since browsers may have cached the original.
        """
        asked = {key: value for key, value in environ.items() if not key.startswith(("HTTP_IF_", "HTTP_RANGE"))}
        received: list[Any] = []
        body = self._shown(asked, lambda status, headers, *_: received.extend((status, headers)))
        try:
            content = b"".join(body)
        finally:
            close = getattr(body, "close", None)
            if close is not None:
                close()
        status, pairs = received
        headers = Headers(list(pairs))
        if status.startswith("200") and (headers["Content-Type"] or "").startswith(kind):
            content = change(content)
            headers["Content-Length"] = str(len(content))
        start_response(status, headers.items())
        return [content]


def _may_be_forged(environ: Environ) -> bool:
    """Return whether a request that may change a study could have been sent by any web page.

    Browsers send GET requests, and POST requests whose body is not JSON, for every page. Before other requests they ask
    the server whether it admits the page (a preflight request), and it never does.
    """
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() == "application/json":
        return False
    has_body = environ.get("CONTENT_LENGTH") not in (None, "", "0") or "HTTP_TRANSFER_ENCODING" in environ
    is_of_own_page = environ.get("HTTP_SEC_FETCH_SITE", "same-origin") in ("same-origin", "none")
    return has_body or (environ.get("REQUEST_METHOD") == "POST" and not is_of_own_page)


def _importances(shown: PickShown) -> bytes:
    """Return Finder's importances in the format of optuna-dashboard, whose own use complete trials only."""
    found = [{"name": name, "importance": share, "distribution": ""} for name, share in shown["importances"].items()]
    return json.dumps({"param_importances": [found]}).encode()


def _with_script(page: bytes) -> bytes:
    return page.replace(b"</head>", _TAG + b"</head>", 1)


def _with_figures_in_order(detail: bytes) -> bytes:
    """Return the answer on a study with Finder's figures in reading order; optuna-dashboard has them in a set."""
    study = json.loads(detail)
    study["plotly_graph_objects"].sort(key=lambda figure: reading_place(figure["id"]))
    return json.dumps(study).encode()


def _json(value: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()


def _answer(start_response: StartResponse, kind: str, body: bytes, status: str = "200 OK") -> Iterable[bytes]:
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")])
    return [body]

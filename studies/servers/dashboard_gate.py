"""Authentication of the dashboard by a token in a header, a cookie, or typed into a page."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from studies.servers.dashboard_page import Application, Environ, StartResponse
from studies.storage.access import TOKEN_VARIABLE, Access

LOGIN_PATH = "/finder/login"

_LONGEST_FORM = 4096
_TOKEN = re.compile(r"(\btoken=)[^&\s\"]*")
_HOST = re.compile(r"(?:\[([\da-f:.]+)\]|([^\[\]:]+))(?::\d*)?")
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Finder</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body style="font: 16px/1.5 sans-serif; max-width: 30em; margin: 4em auto; padding: 0 1em">
<h1 style="font-size: 1.3em">Finder</h1>
<form method="post" action="{LOGIN_PATH}">
<label>WORD <input type="password" name="token" autocomplete="current-password" autofocus required></label>
<button>Open</button></form></body></html>
"""
_PROMPT = f"Token of this server ({TOKEN_VARIABLE}):"
_WRONG = f"That is not the token of this server ({TOKEN_VARIABLE}):"
_TEXT = ("Content-Type", "text/plain; charset=utf-8")
_PLAIN = (
    "This server requires a token. Send it as curl -H 'Authorization: Bearer TOKEN', or in a browser as ?token=TOKEN.\n"
)


class DashboardGate:
    """WSGI middleware that answers 401 to requests without the token.

    Without a token, it answers 421 to requests from this machine that name another one (DNS rebinding).

    Programs send ``Authorization: Bearer TOKEN``. A browser sends the token once, by ``?token=TOKEN`` or from the login
    page, and then keeps a cookie from which the token cannot be derived.

    Args:
        application: Application that answers the other requests.
        access: Access control; without a token, requests pass unless their `Host` names another machine.
    """

    def __init__(self, application: Application, access: Access) -> None:
        self._application, self._access = application, access

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        access, path = self._access, environ.get("PATH_INFO", "")
        if not access.token and _is_rebound(environ):
            return _answer(start_response, "421 Misdirected Request", _misdirected(environ), [_TEXT])
        if not access.token or access.admits(environ.get("HTTP_AUTHORIZATION", "")):
            return self._application(environ, start_response)
        query = parse_qs(environ.get("QUERY_STRING", ""), max_num_fields=100)
        is_form = path == LOGIN_PATH and environ.get("REQUEST_METHOD") == "POST"
        sent = _form(environ).get("token") if is_form else query.get("token")
        if sent:
            if not access.admits_token(sent[-1]):
                return _refuse(environ, start_response, _WRONG)
            return self._redirect_with_cookie(
                environ, start_response, "/dashboard" if is_form else _without_token(environ)
            )
        if access.admits_cookie(_cookie(environ)):
            return self._application(environ, start_response)
        return _refuse(environ, start_response, _PROMPT)

    def _redirect_with_cookie(self, environ: Environ, start_response: StartResponse, to: str) -> Iterable[bytes]:
        """Set the cookie, and redirect to an address without the token."""
        secure = "; Secure" if self._access.has_tls else ""
        cookie = f"{_cookie_name(environ)}={self._access.cookie}; Path=/; HttpOnly; SameSite=Lax{secure}"
        return _answer(start_response, "303 See Other", "", [("Location", to), ("Set-Cookie", cookie)])


def without_tokens(line: str) -> str:
    """Return a log line with stars in place of tokens."""
    return _TOKEN.sub(r"\1***", line)


def _is_rebound(environ: Environ) -> bool:
    """Return whether a request from this machine has a `Host` that names another one.

    The owner of a domain can give it the address 127.0.0.1 (DNS rebinding). Browsers then let the pages of that domain
    read and delete studies here. Addresses, `localhost` and the name of this machine cannot be redirected so. Other
    machines, which can connect only where everybody is admitted, may use any name, and programs may send none.
    """
    host = environ.get("HTTP_HOST", "")
    if not host or not _is_of_this_machine(environ.get("REMOTE_ADDR", "127.0.0.1")):
        return False
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return True
    names = ("localhost", socket.gethostname().lower(), environ.get("SERVER_NAME", "").lower())
    return found[2] not in names and not _is_of_this_machine(found[1] or found[2])


def _is_of_this_machine(address: str) -> bool:
    """Return whether an address is a loopback address, or 0.0.0.0, which browsers connect to the loopback interface."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    return found.is_loopback or found.is_unspecified


def _misdirected(environ: Environ) -> str:
    port = environ.get("SERVER_PORT", "")
    return (
        f"This server has no token. On this machine it answers only as localhost, 127.0.0.1, [::1] or by the machine's "
        f"own name, not as {environ['HTTP_HOST']!r}: open localhost:{port}, or set {TOKEN_VARIABLE} (or give "
        "--new-token) where it is started.\n"
    )


def _refuse(environ: Environ, start_response: StartResponse, asked: str) -> Iterable[bytes]:
    is_browser = "text/html" in environ.get("HTTP_ACCEPT", "")
    kind, body = ("text/html", _PAGE.replace("WORD", asked)) if is_browser else ("text/plain", _PLAIN)
    headers = [("Content-Type", f"{kind}; charset=utf-8"), ("WWW-Authenticate", 'Bearer realm="finder"')]
    return _answer(start_response, "401 Unauthorized", body, headers)


def _answer(start_response: StartResponse, status: str, body: str, headers: list[tuple[str, str]]) -> Iterable[bytes]:
    content = body.encode()
    always = [
        ("Content-Length", str(len(content))),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
    ]
    start_response(status, [*headers, *always])
    return [content]


def _form(environ: Environ) -> dict[str, list[str]]:
    try:
        length = min(int(environ.get("CONTENT_LENGTH") or 0), _LONGEST_FORM)
    except ValueError:
        return {}
    body: bytes = environ["wsgi.input"].read(max(length, 0))
    return parse_qs(body.decode("ascii", "replace"))


def _cookie_name(environ: Environ) -> str:
    """Return the name of the cookie, which includes the port: browsers share cookies between all ports of a host."""
    return f"finder_{environ.get('SERVER_PORT', '')}"


def _cookie(environ: Environ) -> str:
    try:
        found: Any = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(_cookie_name(environ))
    except CookieError:
        return ""
    return "" if found is None else str(found.value)


def _without_token(environ: Environ) -> str:
    """Return the requested address without the token, always on this server."""
    path = quote(environ.get("PATH_INFO", "").encode("latin-1").lstrip(b"/"))
    rest = [(name, value) for name, value in parse_qsl(environ.get("QUERY_STRING", "")) if name != "token"]
    return f"/{path}" + (f"?{urlencode(rest)}" if rest else "")

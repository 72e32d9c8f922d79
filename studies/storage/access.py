"""Access control of servers: a token, TLS, and loopback interfaces."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from studies.errors import StudyError

TOKEN_VARIABLE = "FINDER_TOKEN"
"""Environment variable with the token of a server, on the server and on every client."""

AUTHORITY_VARIABLE = "FINDER_TLS_CA"
"""Environment variable with the CA certificate (PEM file) that clients trust; unset: the system's authorities."""

SHORTEST_TOKEN = 16
"""Minimum length of a token in characters."""

_BEARER = "Bearer "
_COOKIE_PURPOSE = b"finder dashboard"


@dataclass(frozen=True, kw_only=True)
class Access:
    """Authentication and encryption of a server.

    Attributes:
        token: Token that clients must send. Empty: no authentication.
        certificate: Certificate of the server, a PEM file. Defaults to `None`: no TLS.
        key: Private key of the certificate, a PEM file.
        is_new: Whether the token was created for this server, so that it has to be printed.
    """

    token: str = field(default="", repr=False)
    certificate: Path | None = None
    key: Path | None = None
    is_new: bool = False

    @classmethod
    def of(
        cls,
        host: str,
        *,
        new_token: bool = False,
        insecure: bool = False,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> Access:
        """Return the access to a server on an interface, with the token of `FINDER_TOKEN`.

        Args:
            host: Interface.
            new_token: Whether to create a token. Defaults to `False`.
            insecure: Whether other machines may connect without a token. Defaults to `False`.
            certificate: See `Access`.
            key: See `Access`.

        Raises:
            StudyError: If other machines could connect without a token; if the token, the certificate or the key cannot
                be used; or if the host is not an address of this machine.
        """
        token = token_of_environment()
        if new_token and (token or insecure):
            given = f"{TOKEN_VARIABLE} is set" if token else "--insecure is given"
            raise StudyError(f"a new token was requested, but {given}: leave one of them out.")
        if (certificate is None) != (key is None):
            raise StudyError("TLS needs both a certificate and its key: give --tls-cert and --tls-key.")
        if not (token or new_token or insecure) and not is_loopback(host):
            raise StudyError(
                f"{host or repr(host)} is open to other machines, and there is no token: set {TOKEN_VARIABLE}, or "
                f"add --new-token to create one, or --insecure to disable authentication."
            )
        made = secrets.token_urlsafe(32) if new_token else token
        access = cls(token=made, certificate=certificate, key=key, is_new=new_token)
        access.ssl_context()
        return access

    @property
    def has_tls(self) -> bool:
        """Return whether the connection is encrypted."""
        return self.certificate is not None

    def admits(self, authorization: str) -> bool:
        """Return whether a client with this ``authorization`` header may use the server."""
        return not self.token or _is_equal(authorization, bearer(self.token))

    def admits_token(self, token: str) -> bool:
        """Return whether a token is correct."""
        return _is_equal(token, self.token)

    def admits_cookie(self, cookie: str) -> bool:
        """Return whether the cookie of a browser equals `cookie`."""
        return _is_equal(cookie, self.cookie)

    @property
    def cookie(self) -> str:
        """Cookie of an authenticated browser; the token cannot be derived from it."""
        return hmac.new(self.token.encode(), _COOKIE_PURPOSE, "sha256").hexdigest()

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the server's sockets, None without TLS.

        Raises:
            StudyError: If the certificate or the key cannot be read, or do not match.
        """
        if self.certificate is None or self.key is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise StudyError(
                f"--tls-cert {str(self.certificate)!r} with --tls-key {str(self.key)!r} cannot be used ({error}): give "
                f"a certificate and its own key, both PEM files, the key without a password."
            ) from None
        return context


def token_of_environment() -> str:
    """Return the token of `FINDER_TOKEN`, empty if it is not set.

    Raises:
        StudyError: If the token is too short, or has invalid characters.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and (len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token):
        raise StudyError(
            f"{TOKEN_VARIABLE} is not a valid token: give {SHORTEST_TOKEN} or more ASCII characters without spaces."
        )
    return token


def authority_of_environment() -> bytes | None:
    """Return the CA certificate of `FINDER_TLS_CA`, None if it is not set.

    Raises:
        StudyError: If the file cannot be read.
    """
    path = os.environ.get(AUTHORITY_VARIABLE, "")
    if not path:
        return None
    try:
        ssl.create_default_context(cafile=path)
        return Path(path).read_bytes()
    except OSError as error:
        raise StudyError(
            f"{AUTHORITY_VARIABLE} is {path!r}, which is not a certificate ({error}): give a PEM file."
        ) from None


def bearer(token: str) -> str:
    """Return the ``authorization`` header of a client with a token."""
    return f"{_BEARER}{token}"


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable from this machine only.

    Raises:
        StudyError: If the host is not an address.
    """
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)} if host else set()
    except OSError as error:
        raise StudyError(
            f"host is {host!r}, which is not an address of this machine ({error}): choose another, such as 127.0.0.1."
        ) from None
    return bool(found) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


def _is_equal(given: str, right: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), right.encode())


def _no_password() -> str:
    raise ValueError("the key has a password")

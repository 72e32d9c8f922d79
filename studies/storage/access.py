"""Access to the servers of studies: a token, TLS, and interfaces that only this machine reaches."""

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
"""Environment variable with the token of a server, there and on every machine that uses it."""

AUTHORITY_VARIABLE = "FINDER_TLS_CA"
"""Environment variable with the file of the certificate (PEM) by which clients know a server; unset: the usual ones."""

SHORTEST_TOKEN = 16
"""Characters of the shortest token that a server takes."""

_BEARER = "Bearer "
_COOKIE_PURPOSE = b"finder dashboard"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How clients prove that they may use a server, and how the connection is encrypted.

    Attributes:
        token: What clients must send. Empty: nothing.
        certificate: The server's certificate, a PEM file. Defaults to `None`: no TLS.
        key: Its private key, a PEM file.
        is_new: Whether the token was made for this server, so that nobody knows it yet.
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
        """Returns the access to a server on an interface; the token is that of `FINDER_TOKEN`.

        Args:
            host: The interface.
            new_token: Whether to make a token. Defaults to `False`.
            insecure: Whether other machines may be let in without a token. Defaults to `False`.
            certificate: See `Access`.
            key: See `Access`.

        Raises:
            StudyError: Other machines would be let in without a token; the token, the certificate or the key cannot be
                used; or the host is none of this machine.
        """
        token = token_of_environment()
        if new_token and (token or insecure):
            given = f"{TOKEN_VARIABLE} is set" if token else "--insecure is given"
            raise StudyError(f"a new token was asked for, but {given}: leave one of them out.")
        if (certificate is None) != (key is None):
            raise StudyError("TLS needs both a certificate and its key: give --tls-cert and --tls-key.")
        if not (token or new_token or insecure) and not is_loopback(host):
            raise StudyError(
                f"{host or repr(host)} is open to other machines, and there is no token: set {TOKEN_VARIABLE}, or add "
                f"--new-token to make one, or --insecure to let everybody in."
            )
        made = secrets.token_urlsafe(32) if new_token else token
        access = cls(token=made, certificate=certificate, key=key, is_new=new_token)
        access.ssl_context()
        return access

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.certificate is not None

    def admits(self, authorization: str) -> bool:
        """Returns whether a client that sends this ``authorization`` may use the server."""
        return not self.token or _same(authorization, bearer(self.token))

    def admits_token(self, token: str) -> bool:
        """Returns whether a token is the right one."""
        return _same(token, self.token)

    def admits_cookie(self, cookie: str) -> bool:
        """Returns whether a browser's cookie is the one of `cookie`."""
        return _same(cookie, self.cookie)

    @property
    def cookie(self) -> str:
        """What a browser keeps that has sent the token; the token cannot be read from it."""
        return hmac.new(self.token.encode(), _COOKIE_PURPOSE, "sha256").hexdigest()

    def ssl_context(self) -> ssl.SSLContext | None:
        """Returns the context of a server's sockets, None without TLS.

        Raises:
            StudyError: The certificate or the key cannot be read, or they do not belong together.
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
    """Returns the token of `FINDER_TOKEN`, empty where there is none.

    Raises:
        StudyError: It is too short, or cannot be sent.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and (len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token):
        raise StudyError(
            f"{TOKEN_VARIABLE} is no token: give {SHORTEST_TOKEN} or more ASCII characters without spaces."
        )
    return token


def authority_of_environment() -> bytes | None:
    """Returns the certificate of `FINDER_TLS_CA`, None where the usual authorities vouch for servers.

    Raises:
        StudyError: It cannot be read.
    """
    path = os.environ.get(AUTHORITY_VARIABLE, "")
    if not path:
        return None
    try:
        ssl.create_default_context(cafile=path)
        return Path(path).read_bytes()
    except OSError as error:
        raise StudyError(
            f"{AUTHORITY_VARIABLE} is {path!r}, which is no certificate ({error}): give a PEM file."
        ) from None


def bearer(token: str) -> str:
    """Returns the ``authorization`` that a client with a token sends."""
    return f"{_BEARER}{token}"


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches what listens on a host.

    Raises:
        StudyError: It is no address.
    """
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, None)} if host else set()
    except OSError as error:
        raise StudyError(
            f"host is {host!r}, which is no address of this machine ({error}): choose another, such as 127.0.0.1."
        ) from None
    return bool(found) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


def _same(given: str, right: str) -> bool:
    """Compares in a time that does not depend on what is the same."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), right.encode())


def _no_password() -> str:
    raise ValueError("the key has a password")

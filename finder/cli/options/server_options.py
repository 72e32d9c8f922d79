"""The options of server commands, and their messages about access."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finder.progress.console import errors

if TYPE_CHECKING:
    from studies.storage.access import Access

Host = Annotated[str, typer.Option(help="Interface to listen on; 0.0.0.0 for other machines, which need a token.")]
NewToken = Annotated[bool, typer.Option("--new-token", help="Make a token and print it, instead of FINDER_TOKEN.")]
TlsCert = Annotated[
    Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Certificate (PEM): encrypt with TLS.")
]
TlsKey = Annotated[
    Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Key of the certificate (PEM).")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Let other machines in without a token: everybody may change every study.")
]


def print_access(access: Access, host: str) -> None:
    """Warn about the access of other machines to an open server."""
    from studies.storage.access import is_loopback

    if is_loopback(host) or (access.token and access.has_tls):
        return
    if access.token:
        errors().print("Token and studies travel unencrypted: give --tls-cert and --tls-key, or trust the network.")
    else:
        errors().print("Every machine that can connect can read and change every study (--insecure).")


def token_commands(access: Access) -> list[tuple[str, str]]:
    """Return the command that sets the token on the machine of a worker; shows the token only if it is new."""
    from studies.storage.access import AUTHORITY_VARIABLE, TOKEN_VARIABLE

    if not access.token:
        return []
    shown = access.token if access.is_new else "..."
    commands = [(f"export {TOKEN_VARIABLE}={shown}", "on every machine with a worker: the token of this server")]
    if access.has_tls:
        commands.append(
            (f"export {AUTHORITY_VARIABLE}=FILE", "there too, if you made the certificate yourself: its PEM file")
        )
    return commands


def page_commands(access: Access, page: str) -> list[tuple[str, str]]:
    """Return the address with a new token, which a browser needs once; for an existing token the page asks."""
    return [(f"{page}?token={access.token}", "in a browser, once")] if access.is_new else []

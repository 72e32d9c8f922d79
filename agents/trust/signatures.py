"""Whether a file was written by Finder, here, by this user: such files carry a signature that nobody else can make.

What a pickle says is run when it is read, and text may name code. Both are taken from files of one's own only, unless
one says that a file is trusted. The key of signatures is made once for each user, and nobody else can read it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cloudpickle

from agents.errors import UntrustedFileError

log = logging.getLogger(__name__)

KEY_VARIABLE = "FINDER_KEY_FILE"
"""Environment variable: the file of the key. Machines that take over each other's trials need the same one."""

TRUST_VARIABLE = "FINDER_TRUST"
"""Environment variable: ``1`` has every file be trusted, those of a study's running trials too."""

_KEY_SIZE = 32


def key_file() -> Path:
    """Returns the file of this user's key: that of `FINDER_KEY_FILE`, else ``~/.local/state/finder/key``."""
    chosen = os.environ.get(KEY_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "finder" / "key"


def digest_of(data: bytes) -> str:
    """Returns what a signature knows of some bytes."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def signature_of(told: Mapping[str, Any]) -> str:
    """Returns the signature of JSON values; empty, with a warning, where there is no key and none can be made."""
    key = _key(key_file(), make=True)
    return "" if key is None else _signed(key, told)


def is_signature_of(signature: Any, told: Mapping[str, Any]) -> bool:
    """Whether it is this user's signature of these values."""
    key = _key(key_file(), make=False)
    given = signature if isinstance(signature, str) and signature.isascii() else ""
    return key is not None and hmac.compare_digest(given, _signed(key, told))


def trusts_all() -> bool:
    """Whether `FINDER_TRUST` says that every file is trusted."""
    return os.environ.get(TRUST_VARIABLE, "") not in ("", "0")


def untrusted(path: Path, why: str, instead: str = "") -> UntrustedFileError:
    """Returns the error that says why a file is not read.

    Args:
        path: The file.
        why: What in it would be run, as the end of a sentence that begins with the file.
        instead: A sentence on what can be read of it all the same. Defaults to nothing.
    """
    return UntrustedFileError(
        f"{path} {why}, and it was not written by Finder here as this user (its signature is missing or another "
        f"one's). If you trust where it comes from, say so: --trust (in Python trust=True; {TRUST_VARIABLE}=1 for "
        f"everything).{instead and ' '}{instead}"
    )


def from_own_bytes(packed: Any) -> Any:
    """Unpickles bytes that are part of a state. A state that was read without trust has no bytes in it.

    Raises:
        ValueError: It is something else: what a file passes off as bytes.
    """
    if type(packed) is not bytes:
        raise ValueError(f"it has {type(packed).__name__} in place of bytes")
    return cloudpickle.loads(packed)


def _signed(key: bytes, told: Mapping[str, Any]) -> str:
    encoded = json.dumps(told, sort_keys=True).encode()
    return hashlib.blake2b(encoded, key=key, digest_size=32).hexdigest()


def _key(path: Path, *, make: bool) -> bytes | None:
    """The key in a file, which is made where it is missing; None where it cannot be read, or is not this user's."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read_key(path)
        if not make:
            return None
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".key")  # which only its owner reads
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_KEY_SIZE))
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(temporary, path)
        finally:
            os.unlink(temporary)
        return _read_key(path)
    except (OSError, ValueError) as error:
        _say_no_key(path, str(error))
        return None


def _read_key(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ValueError("others own it, or can read it: it must be yours with mode 600")
        key = file.read(_KEY_SIZE + 1)
    if len(key) != _KEY_SIZE:
        raise ValueError(f"it has not {_KEY_SIZE} bytes")
    return key


@functools.cache  # once in a process
def _say_no_key(path: Path, why: str) -> None:
    log.warning(
        "The key of signatures %s cannot be used (%s): checkpoints are written without a signature, and are read only "
        "where they are trusted (--trust, %s=1). %s names another file.",
        *(path, why, TRUST_VARIABLE, KEY_VARIABLE),
    )

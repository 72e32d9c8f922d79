"""Signatures of files that Finder wrote for this user: only the holder of the user's key can make them.

Reading a pickle runs code, and text may name code. Both are read only from files with a valid signature, unless the
user marks a file as trusted. The signing key is created once per user and readable by that user only.
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
"""Environment variable: path of the key file. Machines that resume each other's trials need the same key."""

TRUST_VARIABLE = "FINDER_TRUST"
"""Environment variable: ``1`` trusts every file, including the checkpoints of a study's running trials."""

_KEY_SIZE = 32


def key_file() -> Path:
    """Return the path of this user's key: `FINDER_KEY_FILE` if set, else ``~/.local/state/finder/key``."""
    chosen = os.environ.get(KEY_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "finder" / "key"


def digest_of(data: bytes) -> str:
    """Return the digest of bytes that enters a signature."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def signature_of(values: Mapping[str, Any]) -> str:
    """Return the signature of JSON values; empty, with a warning, if there is no key and none can be created."""
    key = _key(key_file(), make=True)
    return "" if key is None else _signed(key, values)


def is_signature_of(signature: Any, values: Mapping[str, Any]) -> bool:
    """Return whether a signature is this user's signature of these values."""
    key = _key(key_file(), make=False)
    given = signature if isinstance(signature, str) and signature.isascii() else ""
    return key is not None and hmac.compare_digest(given, _signed(key, values))


def trusts_all() -> bool:
    """Return whether `FINDER_TRUST` marks every file as trusted."""
    return os.environ.get(TRUST_VARIABLE, "") not in ("", "0")


def untrusted(path: Path, reason: str, instead: str = "") -> UntrustedFileError:
    """Return the error that explains why a file is not read.

    Args:
        path: The file.
        reason: Code in the file that reading would run, as the end of a sentence that begins with the file.
        instead: Sentence on the parts of the file that can still be read. Defaults to no sentence.
    """
    return UntrustedFileError(
        f"{path} {reason}, and it was not written by Finder here as this user (its signature is missing or belongs "
        f"to another key). If you trust where it comes from, use --trust (in Python trust=True; {TRUST_VARIABLE}=1 "
        f"for everything).{instead and ' '}{instead}"
    )


def from_own_bytes(packed: Any) -> Any:
    """Unpickle bytes that are part of a trusted state. A state that was read without trust contains no bytes.

    Raises:
        ValueError: The value is not of type bytes, as in a manipulated file.
    """
    if type(packed) is not bytes:
        raise ValueError(f"it has {type(packed).__name__} in place of bytes")
    return cloudpickle.loads(packed)


def _signed(key: bytes, values: Mapping[str, Any]) -> str:
    encoded = json.dumps(values, sort_keys=True).encode()
    return hashlib.blake2b(encoded, key=key, digest_size=32).hexdigest()


def _key(path: Path, *, make: bool) -> bytes | None:
    """Return the key in a file, None if it is unreadable or not this user's. A missing file is created if `make`."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read_key(path)
        if not make:
            return None
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".key")  # readable by its owner only
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_KEY_SIZE))
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(temporary, path)
        finally:
            os.unlink(temporary)
        return _read_key(path)
    except (OSError, ValueError) as error:
        _warn_no_key(path, str(error))
        return None


def _read_key(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ValueError("other users own it or can read it: you must own it, with mode 600")
        key = file.read(_KEY_SIZE + 1)
    if len(key) != _KEY_SIZE:
        raise ValueError(f"it does not have {_KEY_SIZE} bytes")
    return key


@functools.cache  # once in a process
def _warn_no_key(path: Path, reason: str) -> None:
    log.warning(
        "The key of signatures %s cannot be used (%s): checkpoints are written without a signature, and are read only "
        "where they are trusted (--trust, %s=1). %s names another file.",
        *(path, reason, TRUST_VARIABLE, KEY_VARIABLE),
    )

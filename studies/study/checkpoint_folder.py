"""Location of the checkpoints of running trials."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from studies.storage.storage_url import parse_storage_url

CHECKPOINTS_VARIABLE = "FINDER_CHECKPOINTS"
"""Environment variable: folder of the checkpoints of all studies."""


def checkpoint_folder(storage_url: str, key: str) -> Path | None:
    """Return the folder of the checkpoints of a study; None for storage in memory.

    It lies beside the file of a SQLite storage or a journal (`finder.db.checkpoints`), so that both can be moved
    together. For a database server it is in the state folder of the user. `FINDER_CHECKPOINTS` sets another folder for
    all studies: one that several machines share, if they are to resume each other's trials.

    Args:
        storage_url: URL of the storage.
        key: Permanent key of the study.
    """
    address = parse_storage_url(storage_url)
    if address.kind == "memory":
        return None
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", key)[:80]
    # Machines and users may reach one database at different addresses, so the address is not part of the name. Keys of
    # earlier versions are names, which studies of two storages may share.
    own = f"{slug}-{_digest(key if '#' in key else f'{address.label} {key}')}"
    chosen = os.environ.get(CHECKPOINTS_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve() / own
    if address.path is not None:
        path = address.path.resolve()  # the file and its folder may be moved: the storage is not part of the name
        return path.with_name(f"{path.name}.checkpoints") / f"{slug}-{_digest(key)}"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "finder" / "checkpoints" / own


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

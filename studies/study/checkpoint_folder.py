"""Where the checkpoints of a study's running trials are kept."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from studies.storage.storage_url import parse_storage_url

CHECKPOINTS_VARIABLE = "FINDER_CHECKPOINTS"
"""Environment variable: the folder for the checkpoints of all studies."""


def checkpoint_folder(storage_url: str, key: str) -> Path | None:
    """Returns the folder of a study's checkpoints; None where nothing outlives the process.

    It is beside the file of a SQLite storage or a journal (`finder.db.checkpoints`), so that both move together. For a
    database server it is in the user's state folder. `FINDER_CHECKPOINTS` names another place for all of them: one that
    several machines share, where they are to go on with each other's trials.

    Args:
        storage_url: The storage.
        key: What tells the study from others in it, for as long as it lives.
    """
    address = parse_storage_url(storage_url)
    if address.kind == "memory":
        return None
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", key)[:80]
    # Machines may reach one database by several addresses, as several users: its address is no part of the name. Keys
    # of earlier versions are names, which studies of two storages may share.
    own = f"{slug}-{_digest(key if '#' in key else f'{address.label} {key}')}"
    chosen = os.environ.get(CHECKPOINTS_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve() / own
    if address.path is not None:
        path = address.path.resolve()  # which may be moved, and its folder with it: the storage is no part of the name
        return path.with_name(f"{path.name}.checkpoints") / f"{slug}-{_digest(key)}"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "finder" / "checkpoints" / own


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

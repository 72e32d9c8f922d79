"""Where studies are kept unless a storage is named, and the flag that names another one in a command."""

import os
import shlex

DEFAULT_STORAGE = "sqlite:///finder.db"
"""Where studies are kept: a file in the folder in which the command or script was started."""


def storage_flag(storage: str) -> str:
    """Returns the words that a command needs to find this storage: none where it is the default."""
    return "" if storage == os.environ.get("OPTUNA_STORAGE", DEFAULT_STORAGE) else f" --storage {shlex.quote(storage)}"

"""Where studies are kept unless a storage is named, and the flag that names another one in a command."""

import shlex

DEFAULT_STORAGE = "sqlite:///finder.db"
"""Where studies are kept: a file in the folder in which the command or script was started."""


def storage_flag(storage: str) -> str:
    """Returns the words that a command needs to find this storage: none where it is the default.

    Args:
        storage: Its label, which has stars in the place of a password.
    """
    from studies.storage.storage_url import default_label

    return "" if storage == default_label() else f" --storage {shlex.quote(storage)}"

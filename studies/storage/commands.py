"""Parts of shell commands that name a study or a storage, for messages that tell a user what to run."""

import shlex


def storage_flag(storage: str) -> str:
    """Return ` --storage URL` for a command, or "" for the default storage.

    Args:
        storage: Label of the storage, which holds stars in place of a password.
    """
    from studies.storage.storage_url import default_label  # SQLAlchemy is loaded only where a flag is needed

    return "" if storage == default_label() else f" --storage {shlex.quote(storage)}"


def delete_command(name: str, storage: str) -> str:
    """Return the command that deletes a study.

    Args:
        name: Name of the study.
        storage: Label of its storage.
    """
    return f"finder delete {shlex.quote(name)}{storage_flag(storage)}"

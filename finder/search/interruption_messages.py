"""Messages on what a search that ended early has recorded, and how to continue."""

from __future__ import annotations

from pathlib import Path

from studies.analysis.status import study_status
from studies.storage.watched_file import FileReplacedError
from studies.study.study import OpenStudy


def interrupt_message(study: OpenStudy) -> str:
    """Return the message after an interrupt."""
    how_far = study_status(study)
    if study.storage.url == "memory":
        return (
            f"Interrupted after {how_far.n_ended} of {how_far.n_total} trials; nothing is recorded without a storage."
        )
    done = f"{how_far.n_ended} of {how_far.n_total} trials"
    where = f"{study.storage.label} as {study.name}"
    return f"Interrupted: {done} are recorded in {where}; the same call resumes the study."


def outage_message(spool_path: Path | None, error: BaseException) -> str:
    """Return the message about results that are not in the storage.

    Args:
        spool_path: File with the events that could not be written; None if there are none.
        error: The error of the storage.
    """
    if isinstance(error.__cause__, FileReplacedError):
        meanwhile = "" if spool_path is None else f"Trials that have ended since are in {spool_path}. "
        return f"{meanwhile}Restore the file, and start the study again here."
    kept = "All trials that had ended before are recorded"
    if spool_path is None:
        return f"{kept}: start the study again when the storage is back."
    return (
        f"{kept}, those that have ended since are in {spool_path}: start the study again here when the storage is back."
    )

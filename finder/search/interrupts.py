"""The message on a search that was interrupted."""

from __future__ import annotations

from studies.analysis.status import study_status
from studies.study.study import OpenStudy


def interrupt_message(study: OpenStudy) -> str:
    """Return what is recorded of an interrupted search, and how it is resumed."""
    how_far = study_status(study)
    if study.storage.url == "memory":
        return (
            f"Interrupted after {how_far.n_ended} of {how_far.n_total} trials; nothing is recorded without a storage."
        )
    done = f"{how_far.n_ended} of {how_far.n_total} trials"
    where = f"{study.storage.label} as {study.name}"
    return f"Interrupted: {done} are recorded in {where}; the same call resumes the study."

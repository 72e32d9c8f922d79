"""The folder in which a search keeps the states of running and paused trials."""

from __future__ import annotations

import math
import tempfile
import time
from typing import TYPE_CHECKING

from finder.trials.checkpoints import remove_ended, remove_unneeded
from studies.adapters.scheduler_pruner import pausing_pruner
from studies.study.checkpoint_folder import checkpoint_folder

if TYPE_CHECKING:
    from studies.recording.recorder import Recorder
    from studies.study.study import OpenStudy

TIDY_SECONDS = 30.0
"""Seconds between removals of the checkpoints of ended trials."""


class SearchCheckpoints:
    """The checkpoints of one search.

    Paused trials need them: a study in memory has a temporary folder then, and a study without checkpoints of running
    trials has those of paused ones.

    Args:
        study: The study.

    Attributes:
        folder: The folder; None if nothing is saved.
        seconds: Seconds between checkpoints of running trials; infinite if they have none.
    """

    def __init__(self, study: OpenStudy) -> None:
        pauses = pausing_pruner(study.study) is not None
        folder = checkpoint_folder(study.storage.url, study.episodes_key)
        self._temporary = (
            tempfile.TemporaryDirectory(prefix="finder-", ignore_cleanup_errors=True)
            if folder is None and pauses
            else None
        )
        place = folder if self._temporary is None else self._temporary.name
        self.folder = str(place) if place is not None and (study.spec.checkpoint_seconds > 0 or pauses) else None
        self.seconds = study.spec.checkpoint_seconds or math.inf
        self._tidied = time.monotonic()

    def tidy(self, recorder: Recorder) -> None:
        """Remove the checkpoints of ended trials, from time to time."""
        due = time.monotonic() - self._tidied > TIDY_SECONDS
        if self.folder is not None and due and not recorder.is_cut_off:
            self._tidied = time.monotonic()
            remove_ended(self.folder, recorder.open_trials)

    def remove_unneeded(self, recorder: Recorder, *, shared: bool) -> None:
        """Remove the checkpoints of ended trials, at the end of the search.

        Args:
            recorder: The recorder of the study.
            shared: Whether other processes may run the study.
        """
        if self.folder is None:
            return
        still_open = recorder.open_trials
        others_run = shared and (recorder.stop_reason is not None or still_open)
        (remove_ended if others_run else remove_unneeded)(self.folder, still_open)

    def close(self) -> None:
        """Remove a temporary folder."""
        if self._temporary is not None:
            self._temporary.cleanup()

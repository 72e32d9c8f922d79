"""Local file of ended trials that could not be written during an outage, until the study is resumed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from optuna.trial import TrialState

from studies.database.records import EpisodeRecord
from studies.queue.trial_endings import TrialEnding
from studies.study.checkpoint_folder import checkpoint_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

Report = tuple[float, dict[int, float]]
"""Reported value, and the values of single seeds behind it."""


@dataclass(frozen=True, kw_only=True)
class EndedTrial:
    """Ended trial that is not stored yet.

    Attributes:
        number: Number of the trial.
        ending: Its ending.
        reports: Environment steps -> report that is not stored.
        episodes: Episodes that are not stored.
        epoch: Epoch of its lease; None in files of earlier versions.
    """

    number: int
    ending: TrialEnding
    reports: dict[int, Report] = field(default_factory=dict)
    episodes: Sequence[EpisodeRecord] = ()
    epoch: int | None = None


class Spool:
    """Spool file of a study.

    Args:
        storage_url: URL of the storage.
        key: Key of the study.

    Attributes:
        path: The file; None for a storage in memory.
    """

    def __init__(self, storage_url: str, key: str) -> None:
        folder = checkpoint_folder(storage_url, key)
        self.path = None if folder is None else folder.with_name(f"{folder.name}.unwritten.jsonl")

    def keep(self, trial: EndedTrial) -> None:
        """Add a trial. If that fails too, a warning is logged, and the trial is run again from its last checkpoint."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(), self.path.open("a+b") as file:
                start = b"" if _ends_with_newline(file) else b"\n"  # an earlier line is incomplete: the disk was full
                file.write(start + json.dumps(_as_json(trial)).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
                _sync_folder(self.path.parent)
        except OSError as error:
            log.warning("Trial %d could not be written to %s: %s", trial.number, self.path, error.strerror or error)

    def read(self) -> list[EndedTrial]:
        """Return the spooled trials; incomplete lines are left out with a warning."""
        found = []
        for line in self._lines():
            try:
                found.append(_of_json(json.loads(line)))
            except (ValueError, KeyError, TypeError):
                log.warning("A line of %s cannot be read: its trial is run again.", self.path)
        return found

    def _lines(self) -> list[str]:
        if self.path is None or not self.path.exists():
            return []
        return self.path.read_text(encoding="utf-8").splitlines()

    def change(self, number: int | None, trial: EndedTrial | None = None) -> None:
        """Replace or remove a spooled trial; unreadable lines are removed too.

        Args:
            number: Number of the trial; None to remove only unreadable lines.
            trial: New contents. Defaults to `None`: the trial is removed.
        """
        if self.path is None or not self.path.exists():
            return
        with self._locked():
            kept = [each for each in self.read() if each.number != number] + ([] if trial is None else [trial])
            if not kept:
                self.forget()
                return
            beside = self.path.with_suffix(".new")
            with beside.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(_as_json(each)) + "\n" for each in kept)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
            _sync_folder(self.path.parent)

    def forget(self) -> None:
        """Delete the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the file against other processes of this machine."""
        assert self.path is not None
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a network file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _ends_with_newline(file: BinaryIO) -> bool:
    """Return whether a file is empty or ends with a complete line."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _sync_folder(folder: Path) -> None:
    """Sync a folder after a file in it was created or replaced, if its file system can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems reject it
            os.fsync(handle)
    finally:
        os.close(handle)


def _as_json(trial: EndedTrial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "epoch": trial.epoch,
        "ending": {**trial.ending._asdict(), "state": trial.ending.state.name},
        "reports": [[steps, value, sorted(seeds.items())] for steps, (value, seeds) in trial.reports.items()],
        "episodes": [asdict(episode) for episode in trial.episodes],
    }


def _of_json(data: dict[str, Any]) -> EndedTrial:
    return EndedTrial(
        number=data["number"],
        ending=TrialEnding(**{**data["ending"], "state": TrialState[data["ending"]["state"]]}),
        reports={steps: (value, {int(seed): each for seed, each in seeds}) for steps, value, seeds in data["reports"]},
        episodes=[EpisodeRecord(**episode) for episode in data["episodes"]],
        epoch=data.get("epoch"),
    )

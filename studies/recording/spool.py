"""What could not be written because the storage was away: kept in a local file until the study goes on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

from studies.database.records import EpisodeRecord
from studies.recording.trial_endings import TrialEnding
from studies.study.checkpoint_folder import checkpoint_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

log = logging.getLogger(__name__)

Report = tuple[float, dict[int, float]]
"""A reported value, and those of single seeds behind it."""


@dataclass(frozen=True, kw_only=True)
class EndedTrial:
    """A trial that has ended without its storage hearing of it.

    Attributes:
        number: The trial.
        ending: How it ended.
        reports: Environment steps -> what was reported there and is not stored.
        episodes: Its episodes that are not stored.
        epoch: In which epoch of its lease it ran; None where an earlier version kept it.
    """

    number: int
    ending: TrialEnding
    reports: dict[int, Report] = field(default_factory=dict)
    episodes: Sequence[EpisodeRecord] = ()
    epoch: int | None = None


class Spool:
    """The file of a study.

    Args:
        storage_url: The study's storage.
        key: The name that its episodes are stored under.

    Attributes:
        path: The file; None for a storage in memory.
    """

    def __init__(self, storage_url: str, key: str) -> None:
        folder = checkpoint_folder(storage_url, key)
        self.path = None if folder is None else folder.with_name(f"{folder.name}.unwritten.jsonl")

    def keep(self, trial: EndedTrial) -> None:
        """Adds a trial. Where even that fails, it is said: then the trial is run again from its last checkpoint."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(), self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(_as_json(trial)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.warning("Trial %d could not be kept in %s: %s", trial.number, self.path, error.strerror or error)

    def read(self) -> list[EndedTrial]:
        """Returns what is kept; a last line that was cut short is left out."""
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
        """Replaces what is kept of a trial, or removes it; lines that cannot be read are removed with it.

        Args:
            number: The trial; None for nothing but those lines.
            trial: What is kept of it from then on. Defaults to `None`: nothing.
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
        """Removes the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lets the processes of this machine change the file one at a time."""
        assert self.path is not None
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _sync_folder(folder: Path) -> None:
    """Writes to the disk that a file of it was replaced."""
    handle = os.open(folder, os.O_RDONLY)
    try:
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

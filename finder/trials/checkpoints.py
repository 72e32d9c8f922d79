"""Checkpoints of running trials, from which trials resume after a pause or after their process was killed.

A file holds a group of `finder.trials.groups`: weights, optimizer slots, replay, environments, counters and random
generators of all members, and every episode so far. A file is replaced atomically. Its header can be read without the
rest. The time that is spent on writing is bounded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agents.checkpoints.training_state import SECTIONS, sections_of, sections_of_before, state_of
from agents.state_files import state_file
from agents.state_files.state_file import SUFFIX, write_with_environments
from agents.training.trainer import Trainer
from agents.trust.loading import name_of
from agents.trust.signatures import KEY_VARIABLE, TRUST_VARIABLE, trusts_all
from studies.words import counted

if TYPE_CHECKING:
    from finder.trials.groups import Group
    from finder.trials.runs import Key
    from finder.trials.trial import TrialSpec

log = logging.getLogger(__name__)

MAX_COST = 0.02
"""Largest share of the time that is spent on checkpoints; slow checkpoints are written less often."""

_HINT = "Use a scheduler that stops trials instead of pausing them, such as successive-halving."

_FORMAT = 2
_FORMATS = (1, _FORMAT)

_PASSING = (MemoryError, OSError)
"""Errors of loading a checkpoint that are due to the state of the machine, and not to the file."""


class CannotPauseError(RuntimeError):
    """The state of a trial cannot be saved, so that it cannot be paused."""


class SavedGroup(NamedTuple):
    """The header of a checkpoint.

    Attributes:
        path: The file.
        keys: Trial and seed of every member that the group ever had.
        runs: The runs among these that can resume from the file.
        identities: Number of a trial, as text -> its digest (`identity`).
        env_steps: Environment steps that every member had made.
        alone: Whether it is an agent alone, and no population.
        epochs: Number of a trial, as text -> in which of its epochs it was written (`TrialSpec.epoch`).
    """

    path: Path
    keys: tuple[Key, ...]
    runs: tuple[Key, ...]
    identities: dict[str, str]
    env_steps: int
    alone: bool
    epochs: Mapping[str, int] = {}

    def progress(self, number: int) -> tuple[int, int]:
        """Return how far a trial is in it; what a later epoch has written is newer, however many steps it made."""
        return self.epochs.get(str(number), 0), self.env_steps


class Checkpoints:
    """The checkpoints of the trials that one process runs together.

    Args:
        folder: Folder of the checkpoints of the study.
        seconds: Seconds between checkpoints, > 0; more if they would cost more than `MAX_COST`.
    """

    def __init__(self, folder: str, seconds: float) -> None:
        self._folder = Path(folder)
        self._seconds = seconds
        self._written = time.monotonic()
        self._cost = 0.0
        self._steps: dict[Path, int] = {}
        self._left_out: set[Path] = set()
        self._protected: list[SavedGroup] = []

    @property
    def due(self) -> bool:
        """Return whether it is time for the next checkpoints."""
        return time.monotonic() - self._written > max(self._seconds, self._cost / MAX_COST)

    def save(self, groups: Iterable[Group], *, ending: bool = False) -> None:
        """Write the groups that have advanced since their last checkpoint. Call it between two of their steps.

        Groups that cannot be written, as on a full disk, are reported in one warning; the others are written, and
        training continues.

        Args:
            groups: The groups.
            ending: Whether training ends now, perhaps by a signal, which may have ended simulators of the environments
                too. Runs that have failed then keep their earlier checkpoint, also those of trials that have ended: a
                search interrupts a trial whose failure it receives after a signal. Defaults to False.
        """
        began = time.monotonic()
        n_left_out, reason = 0, ""
        for group in groups:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._save_group(group, ending)
            except OSError as error:
                n_left_out, reason = n_left_out + 1, error.strerror or str(error)
        if n_left_out:
            log.warning("%s could not be written to %s: %s", counted(n_left_out, "checkpoint"), self._folder, reason)
        self._written = time.monotonic()
        self._cost = self._written - began

    def _save_group(self, group: Group, ending: bool) -> None:
        # The name depends on the runs and on the epochs of their trials: runs that resumed from one file in two
        # processes are written to two files, and a process that was paused does not replace a file of its successor.
        keys, runs = [group.keys[member] for member in group.runs], None
        path = self._folder / _name(keys, _epochs(group))
        if ending and (failed := group.failed_members):
            keys = runs = [group.keys[member] for member in group.active_members if member not in failed]
            resumes = any(not group.runs[member].trial.ended for member in failed)
            if not runs or (resumes and any(trial.spec.exchanges for trial in group.trials)):  # only as a whole
                return
            path = self._folder / _name(keys, _epochs(group), what="others")
        if group.error is not None or not group.can_checkpoint or self._steps.get(path) == group.trainer.env_steps:
            return
        if self._is_protected(keys, group.trainer.env_steps):
            return
        try:
            write_with_environments(lambda environments: _write(path, group, environments=environments, runs=runs))
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - pickling an agent of the user may raise anything
            log.warning("Checkpoints of trials cannot be written: %s: %s", type(error).__name__, error)
        else:
            if path not in self._steps:
                self._remove_older(keys, _epochs(group))
        self._steps[path] = group.trainer.env_steps

    def leave_out(self, found: SavedGroup, error: Exception) -> None:
        """Do not use a checkpoint again that could not be loaded; the file stays.

        If a later process may be able to load it (`_PASSING`), the runs that restart are not saved before they have
        made as many environment steps: their first checkpoint would be used in its place.
        """
        self._left_out.add(found.path)
        if isinstance(error, _PASSING) and not isinstance(error, FileNotFoundError):
            self._protected.append(found)
            log.warning("It is kept for a later start: its runs are saved again after %d steps.", found.env_steps)

    def _is_protected(self, keys: Collection[Key], env_steps: int) -> bool:
        """Return whether there is a checkpoint of all of these runs that may be loaded later, after more steps."""
        return any(
            found.env_steps > env_steps and set(found.runs).issuperset(keys) and found.path.exists()
            for found in self._protected
        )

    def save_paused(self, group: Group, members: Collection[int]) -> None:
        """Write the state of members that are paused, to a file of their own; call it before they leave the group.

        Raises:
            CannotPauseError: The state cannot be saved.
        """
        if not group.can_checkpoint:
            raise CannotPauseError(f"A training function cannot be paused. {_HINT}")
        keys = [group.keys[member] for member in members]
        epochs = {number: epoch for number, epoch in _epochs(group).items() if int(number) in {key[0] for key in keys}}
        path = self._folder / _name(keys, epochs, what="paused")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_with_environments(lambda environments: _write(path, group, environments=environments, runs=keys))
        except Exception as error:  # pickling an agent of the user may raise anything
            raise CannotPauseError(
                f"The trial cannot be paused, as its state cannot be saved ({type(error).__name__}: {error}). {_HINT}"
            ) from error
        self._remove_older(keys, epochs)

    def _remove_older(self, keys: Collection[Key], epochs: Mapping[str, int]) -> None:
        """Remove the files whose runs are all among these, in later epochs."""
        for found in list_saved(self._folder):
            older = (key in keys and found.progress(key[0])[0] < epochs.get(str(key[0]), 0) for key in found.runs)
            if found.runs and all(older):
                remove(found.path)

    def find(self, trials: Collection[TrialSpec], wanted: Collection[Key]) -> list[tuple[SavedGroup, set[Key]]]:
        """Return the newest checkpoints of runs, each with the runs that resume from it.

        Args:
            trials: The trials.
            wanted: The runs of these trials that are to be resumed.
        """
        identities = {trial.number: identity(trial) for trial in trials}
        newest: dict[Key, SavedGroup] = {}
        for found in list_saved(self._folder):
            if found.path in self._left_out or not _may_be_loaded(found.path):
                continue
            for key in set(wanted).intersection(found.runs):
                same = found.identities.get(str(key[0])) == identities[key[0]]
                if same and (key not in newest or newest[key].progress(key[0]) < found.progress(key[0])):
                    newest[key] = found
        by_path = {found.path: found for found in newest.values()}
        return [(found, {key for key in newest if newest[key].path == path}) for path, found in by_path.items()]


def load(found: SavedGroup) -> dict[str, Any]:
    """Return the state of the trainer in a checkpoint, and under ``"callbacks"`` that of its callbacks.

    Raises:
        UntrustedFileError: The file was not written by Finder as this user.
        ValueError: The file has changed since it was written.
        Exception: Any error of unpickling.
    """
    sections = state_file.read(found.path, SECTIONS)
    if sections is None:
        sections = sections_of_before(state_file.read_of_before(found.path), SECTIONS)
    return {**state_of(sections), "callbacks": sections["callbacks"]}


@functools.cache  # warns once in a process
def _warn_untrusted(path: Path) -> None:
    log.warning(
        "The checkpoint %s was not written by Finder as this user, so its trials restart. Machines that share the "
        "folder need the same key (%s=FILE); if you trust the origin of the file, set %s=1.",
        *(path, KEY_VARIABLE, TRUST_VARIABLE),
    )


def _may_be_loaded(path: Path) -> bool:
    """Return whether a file was written by Finder as this user or is trusted. Damaged files fail when they are read."""
    with contextlib.suppress(OSError, ValueError):
        if not (trusts_all() or state_file.is_signed_here(path)):
            _warn_untrusted(path)
            return False
    return True


def list_saved(folder: Path) -> list[SavedGroup]:
    """Return the complete checkpoints in a folder; an empty list if the folder does not exist."""
    found = [_read_saved(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return [each for each in found if each is not None]


def remove_ended(folder: str, still_open: Collection[int]) -> None:
    """Remove the checkpoints of trials that have ended, while other processes may write checkpoints.

    Args:
        folder: Folder of the checkpoints.
        still_open: Numbers of the trials that have not ended.
    """
    for found in list_saved(Path(folder)):
        if not any(number in still_open for number, _ in found.runs):
            remove(found.path)


def remove(path: Path) -> None:
    """Remove a file; log a warning if that fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("The checkpoint %s could not be removed: %s", path, error.strerror or error)


def remove_unneeded(folder: str, still_open: Collection[int]) -> None:
    """Remove the checkpoints of ended trials and incomplete files, when no process runs trials of the study.

    Args:
        folder: Folder of the checkpoints.
        still_open: Numbers of the trials that have not ended.
    """
    remove_ended(folder, still_open)
    place = Path(folder)
    for path in place.glob("*"):
        if path.suffix != SUFFIX or _read_saved(path) is None:
            remove(path)
    with contextlib.suppress(OSError):  # missing, or not empty
        place.rmdir()
        if place.parent.name.endswith(f"{SUFFIX}s"):  # the folder beside a storage's file, for all of its studies
            place.parent.rmdir()


def identity(trial: TrialSpec) -> str:
    """Return a digest that is equal for two trials if one can resume from the checkpoint of the other."""
    agent, environment = trial.agent, trial.agent.environment
    parts: list[Any] = [
        agent.label, agent.config.identifying_values(), environment.label, dict(environment.kwargs),
        environment.vectorization, trial.env_steps, trial.episodes,
    ]  # fmt: skip
    if environment.wrappers or environment.max_episode_steps is not None:  # earlier versions had neither
        parts += [list(environment.wrappers), environment.max_episode_steps]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=name_of).encode()).hexdigest()


def _write(path: Path, group: Group, *, environments: bool, runs: Collection[Key] | None = None) -> None:
    """Write a group; see `agents.state_files.state_file.write`.

    Args:
        path: The file.
        group: The group.
        environments: Whether copies of the environments are included.
        runs: The runs that can resume from the file. Defaults to all that are trained.
    """
    about = {
        "format": _FORMAT,
        "keys": group.keys,
        "runs": [group.keys[member] for member in group.active_members] if runs is None else list(runs),
        "identities": {str(trial.spec.number): identity(trial.spec) for trial in group.trials},
        "epochs": _epochs(group),
        "env_steps": group.trainer.env_steps,
        "alone": group.alone,
    }
    trainer = group.trainer
    assert isinstance(trainer, Trainer)
    state_file.write(path, sections_of(trainer, environments=environments), about)


def _read_saved(path: Path) -> SavedGroup | None:
    """Return the header of a file; None if it is not a complete checkpoint that this version can read."""
    header = state_file.read_header(path)
    if header is None or header.pop("format", None) not in _FORMATS or "keys" not in header:
        return None
    keys, runs = (tuple((int(number), int(seed)) for number, seed in header.pop(name)) for name in ("keys", "runs"))
    return SavedGroup(path=path, keys=keys, runs=runs, **header)


def _epochs(group: Group) -> dict[str, int]:
    return {str(trial.spec.number): trial.spec.epoch for trial in group.trials}


def _name(keys: Sequence[Key], epochs: Mapping[str, int], what: str = "") -> str:
    digest = hashlib.sha256(f"{(keys, sorted(epochs.items()))!r}{what}".encode()).hexdigest()[:12]
    return f"{keys[0][0]}-{digest}{SUFFIX}"

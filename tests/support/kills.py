"""Kills of a search in the middle of a trial, after an episode of the trial was recorded.

The process to kill cooperates: it signals when an episode of the chosen trial is in the storage, and does not end that
trial before the kill. The moment therefore depends on no clock, and the state of the trial at the kill is known.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from optuna.trial import TrialState
from processes import session_members, wait_until_alone

from studies.storage.storage import StudyStorage, open_storage
from studies.study.study import OpenStudy, load_study

VARIABLE = "FINDER_TEST_STRIKES"
"""Environment variable: the folder through which a search and the process that kills it communicate."""

PAUSED_VARIABLE = "FINDER_TEST_KILL_WHEN_PAUSED"
"""Environment variable: the number of paused trials at which a search kills itself."""

DEADLINE_SECONDS = 600.0
"""Seconds after which a search is considered hanging."""

LONGEST_WAIT = 0.5
"""Largest number of seconds between the recorded episode and the kill."""


class Target(NamedTuple):
    """The moment of a kill.

    Attributes:
        number: Number of the trial.
        episodes: Number of recorded episodes of the trial before the kill.
    """

    number: int
    episodes: int


class Kill(NamedTuple):
    """The result of a kill.

    Attributes:
        running: Trials that ran at the moment of the kill.
        victim: Killed processes: `all`, the `parent`, or `one` of the others.
    """

    running: tuple[int, ...]
    victim: str


def hold_trials(folder: str) -> None:
    """Make this process, a search, signal the recorded episode, and hold the trial until the kill."""
    from studies.recording import writer

    target_file, reached = Path(folder, "target"), Path(folder, "reached")

    def target() -> Target | None:
        with contextlib.suppress(FileNotFoundError):
            return Target(*json.loads(target_file.read_text()))
        return None

    started, flush, end = writer.Writer.started, writer.Writer.flush, writer.Writer.end
    begun: set[int] = set()  # in this process: records of earlier processes are discarded when a trial restarts

    def start(self: Any, trial: Any, configuration: Any) -> None:
        begun.discard(
            trial.number
        )  # its process may have ended: its records are discarded, those that were signalled too
        if (wanted := target()) is not None and wanted.number == trial.number:
            reached.unlink(missing_ok=True)
        started(self, trial, configuration)
        begun.add(trial.number)

    def flush_and_signal(self: Any) -> None:
        flush(self)
        wanted = target()
        if wanted is None or wanted.number not in begun or reached.exists():
            return
        if len(self._episodes.curve(self._study.episodes_key, wanted.number)) >= wanted.episodes:
            reached.touch()

    def end_after_kill(self: Any, trial: Any, ending: Any) -> None:
        while (wanted := target()) is not None and wanted.number == trial.number:
            self.flush()
            time.sleep(0.01)
        end(self, trial, ending)

    writer.FLUSH_SECONDS = 0.0
    writer.Writer.started, writer.Writer.flush = start, flush_and_signal  # type: ignore[method-assign]
    writer.Writer.end = end_after_kill  # type: ignore[method-assign]


def kill_when_paused(n_paused: int) -> None:
    """Make this process, a search, kill its process group at an episode of a trial while others are paused.

    Args:
        n_paused: Number of trials that have been paused.
    """
    from studies.recording import recorder

    paused, started, episodes = recorder.Recorder.paused, recorder.Recorder.started, recorder.Recorder.episodes
    numbers: set[int] = set()

    def start(self: Any, number: int, *arguments: Any) -> None:
        started(self, number, *arguments)
        numbers.discard(number)

    def pause(self: Any, number: int, *arguments: Any, **options: Any) -> None:
        paused(self, number, *arguments, **options)
        numbers.add(number)

    def record_and_kill(self: Any, number: int, records: Any) -> None:
        episodes(self, number, records)
        if len(numbers) >= n_paused:
            self.flush()
            os.killpg(0, signal.SIGKILL)

    recorder.Recorder.paused, recorder.Recorder.started = pause, start  # type: ignore[method-assign]
    recorder.Recorder.episodes = record_and_kill  # type: ignore[method-assign]


def set_target(folder: Path, target: Target) -> None:
    """Set the target at which a search signals and holds its trial until the target is replaced or removed."""
    (folder / "reached").unlink(missing_ok=True)
    beside = folder / "target.new"
    beside.write_text(json.dumps(target))
    beside.replace(folder / "target")


class Killer:
    """Repeated kills of the processes of one study.

    Args:
        folder: An empty folder.
        url: The study's storage.
        name: The study.
        lengths: Trial -> number of its episodes in a search that is not killed.
        rng: Source of the moments of kills and of the processes to kill.
    """

    def __init__(self, folder: Path, url: str, name: str, lengths: Mapping[int, int], rng: random.Random) -> None:
        self._folder, self._url, self._name = folder, url, name
        self._lengths, self._rng = lengths, rng
        self._lost_a_process = False
        self._ended: dict[int, Any] = {}
        self.target = self._draw_target()
        self.variables = {VARIABLE: str(folder)}

    def kill(self, process: subprocess.Popen[Any], *, last: bool) -> Kill | None:
        """Wait for the target, check that its trial runs, kill, and set the next target.

        All processes are stopped while the storage is read, so that its content is the same at the moment of the kill.

        Args:
            process: The search.
            last: Whether this is the last kill.

        Returns:
            The result of the kill; None if the search ended with an error because the preceding kill had ended one of
            its processes.
        """
        while True:
            if not self._wait_for_target(process):
                return None
            time.sleep(self._rng.uniform(0.0, LONGEST_WAIT))
            with open_storage(self._url) as storage:
                members = session_members(process.pid)
                _send(members, signal.SIGSTOP)
                if (self._folder / "reached").exists():
                    running = self._running_trials(storage)
                    break
            _send(members, signal.SIGCONT)  # the trial has begun again, as its process had ended
        victim = self._rng.choice(["all", "parent", "one"] if len(members) > 1 else ["all"])
        others = [pid for pid in members if pid != process.pid]
        chosen = {"all": members, "parent": [process.pid], "one": [self._rng.choice(others or members)]}[victim]
        _send(chosen, signal.SIGKILL)
        if last:
            (self._folder / "target").unlink()
        else:
            self.target = self._draw_target()
        _send([pid for pid in members if pid not in chosen], signal.SIGCONT)
        self._lost_a_process = victim == "one"
        if not self._lost_a_process:
            process.wait()
            wait_until_alone(process.pid)
        return Kill(tuple(running), victim)

    def check_ended(self, study: OpenStudy) -> None:
        """Check that trials that had ended before a kill are stored unchanged, and were not run again."""
        now = _ended(study)
        assert {number: now.get(number) for number in self._ended} == self._ended, "a trial that had ended was lost"
        self._ended = now

    def _draw_target(self) -> Target:
        """Draw a target in any trial that has not ended, within the first three quarters of its episodes."""
        number = self._rng.choice(sorted(self._lengths.keys() - self._ended.keys()))
        target = Target(number, self._rng.randint(1, max(1, 3 * self._lengths[number] // 4)))
        set_target(self._folder, target)
        return target

    def _wait_for_target(self, process: subprocess.Popen[Any]) -> bool:
        """Wait for the target; return whether it was reached."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (self._folder / "reached").exists():
            if (code := process.poll()) is not None:
                assert code, f"the search came to its end without {self.target}"
                assert self._lost_a_process, f"the search ended with code {code} before {self.target}"
                return False
            assert time.monotonic() < deadline, f"{self.target} never came"
            time.sleep(0.005)
        return True

    def _running_trials(self, storage: StudyStorage) -> list[int]:
        """Return the running trials, after checks of the trial to kill."""
        study = load_study(self._name, storage)
        self.check_ended(study)
        held = storage.leases.held(study.episodes_key)
        trials = study.all_trials()
        running = [trial.number for trial in trials if trial.state == TrialState.RUNNING and trial.number in held]
        recorded = len(storage.episodes.curve(study.episodes_key, self.target.number))
        assert self.target.number in running, f"{self.target} does not run when it is struck: {running} do"
        assert recorded >= self.target.episodes, f"{recorded} episodes are there instead of {self.target}"
        return running


def _ended(study: OpenStudy) -> dict[int, Any]:
    trials = [trial for trial in study.all_trials() if trial.state.is_finished()]
    return {trial.number: (trial.state, trial.value, trial.datetime_complete) for trial in trials}


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

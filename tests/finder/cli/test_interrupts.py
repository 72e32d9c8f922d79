"""Tests of SIGINT, SIGTERM, SIGHUP and SIGKILL while a command runs."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from processes import wait_until_alone

import studies
from finder.cli.app import _interrupt_on_signals
from studies.study.origin import StudyOrigin, read_origin

WORDS = (
    "lr", "ppo", "--env", "cli_envs:Slow-v0", "--rates", "1e-4,1e-3,1e-2", "--env-steps", "400", "--seeds", "1",
    "--set", "jit_compile=false", "--set", "n_envs=1", "--set", "n_steps=16", "--set", "n_epochs=1",
    "--set", "batch_size=16", "--storage", "kept.db",
)  # fmt: skip
STUDY = "lr-ppo-cli_envs:Slow-v0"
DEADLINE_SECONDS = 1200


def wait_for(path: Path, process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists():
        assert process.poll() is None, "the process ended before it was interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def start(finder: Any, *words: str, ignored: Collection[signal.Signals] = ()) -> subprocess.Popen[str]:
    """Start a command in a slow environment, and wait for its first step."""
    (finder.folder / "slow").touch()
    process: subprocess.Popen[str] = finder.start(*words, ignored=ignored)
    wait_for(finder.folder / "running", process)
    return process


TRAIN = (
    "train", "ppo", "--env", "cli_envs:Slow-v0", "--steps", "400", "--set", "jit_compile=false", "--set", "n_steps=16",
)  # fmt: skip


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left processes in /proc")
@pytest.mark.parametrize(
    ("executor", "number", "code"),
    [("inline", signal.SIGINT, 130), ("process", signal.SIGINT, 130), ("process", signal.SIGTERM, 143)],
)
def test_signal_to_all_processes_ends_a_search_which_can_be_resumed(
    finder: Any, executor: str, number: signal.Signals, code: int
) -> None:
    """A terminal sends SIGINT to every process of a group, and `timeout` SIGTERM."""
    process = start(finder, *WORDS, "--executor", executor)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    assert "Stopped. 0 of 3 trials are done and recorded in kept.db." in err
    assert f"Resume:  finder {' '.join(WORDS)} --executor {executor}" in err
    wait_until_alone(process.pid)
    assert list((finder.folder / "kept.db.checkpoints").glob("*/*.checkpoint")), "running trials save their state"

    states = [trial["state"] for trial in finder("show", STUDY, "--storage", "kept.db", "--json").json["trials"]]
    assert "interrupted" in states
    (finder.folder / "slow").unlink()
    again = finder(*WORDS, "--executor", "inline", "--json")
    assert again.code == 0, again.err
    assert again.json["trials"] == {"complete": 3, "pruned": 0, "failed": 0}
    assert "3 trials × 1 seed" in again.err
    numbers = [trial["number"] for trial in finder("show", STUDY, "--storage", "kept.db", "--json").json["trials"]]
    assert numbers == [0, 1, 2, 3, 4, 5]  # the three resumed under their own numbers; three more confirm them
    assert not (finder.folder / "kept.db.checkpoints").exists()


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left processes in /proc")
@pytest.mark.parametrize(
    ("executor", "number", "code"),
    [("inline", signal.SIGINT, 130), ("population", signal.SIGTERM, 143), ("process", signal.SIGTERM, 143)],
)
def test_signal_that_also_ends_simulators_fails_no_trial(
    finder: Any, executor: str, number: signal.Signals, code: int
) -> None:
    words = [word.replace("Slow", "Simulated") for word in WORDS]
    process = start(finder, *words, "--executor", executor)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "fail" not in err
    assert "Stopped. 0 of 3 trials are done and recorded in kept.db." in err
    wait_until_alone(process.pid)
    (finder.folder / "slow").unlink()
    again = finder(*words, "--executor", executor, "--json")
    assert again.json["trials"] == {"complete": 3, "pruned": 0, "failed": 0}, again.err


@pytest.mark.usefixtures("usual_signals")
def test_signal_that_also_ends_the_simulator_of_a_training_stops_it(finder: Any) -> None:
    words = [word.replace("Slow", "Simulated") for word in TRAIN]
    ran = finder(*words, "--env-kwargs", f'{{"signal_in_step": {int(signal.SIGTERM)}}}')
    assert ran.code == 143
    assert "the environment failed after the signal, which may have ended its simulator too: BrokenPipe" in ran.err
    assert "Stopped after 0 of 400 environment steps; saved in runs" in ran.err
    assert "finder train --resume" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left processes in /proc")
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_ctrl_c_ends_a_search_whose_file_is_locked(finder: Any, executor: str) -> None:
    """SQLite itself would wait for an hour."""
    kept = finder.folder / "kept.db"
    words = [word if word != "kept.db" else "sqlite:///kept.db?timeout=3600" for word in WORDS]
    process = start(finder, *words, "--executor", executor)
    with contextlib.closing(sqlite3.connect(kept, isolation_level=None, timeout=DEADLINE_SECONDS)) as other:
        other.execute("BEGIN EXCLUSIVE")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert other.in_transaction
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "kept.db?timeout=3600 does not answer. All trials that had ended before are recorded" in err
    assert "Stopped. 0 of 3 trials are done.\n" in err
    wait_until_alone(process.pid)
    (finder.folder / "slow").unlink()
    again = finder(*WORDS, "--executor", "inline", "--json")
    assert again.json["trials"] == {"complete": 3, "pruned": 0, "failed": 0}


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left processes in /proc")
@pytest.mark.parametrize(
    "words",
    [
        (*WORDS, "--executor", "inline"),
        (*WORDS, "--executor", "process"),
        TRAIN,
    ],
    ids=["inline", "process", "train"],
)
def test_signals_ignored_at_the_start_stay_ignored(finder: Any, words: tuple[str, ...]) -> None:
    """`nohup` ignores SIGHUP, and background jobs of a shell ignore SIGINT: such commands run to their end."""
    ignored = (signal.SIGINT, signal.SIGHUP)
    process = start(finder, *words, ignored=ignored)
    for number in ignored:
        os.killpg(process.pid, number)
    (finder.folder / "slow").unlink()
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, err
    assert "Stop" not in err
    wait_until_alone(process.pid)


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_end_a_search_like_ctrl_c(finder: Any, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    ran = finder(*WORDS, "--env-kwargs", f'{{"signal_in_step": {int(number)}}}')
    assert ran.code == 128 + number
    assert "Stopped. 0 of 3 trials are done and recorded in kept.db." in ran.err
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_exit_code_of_every_command_names_the_signal(
    finder: Any, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr("studies.analysis.listing.list_studies", lambda _: signal.raise_signal(number))
    assert finder("studies", "--json").code == 128 + number


def interrupted(first: signal.Signals, further: Sequence[signal.Signals]) -> bool:
    """End a command by a signal, and send further ones while it saves; return whether it could save."""
    saved = False
    with contextlib.suppress(KeyboardInterrupt), _interrupt_on_signals():
        try:
            signal.raise_signal(first)
        finally:
            for number in further:
                signal.raise_signal(number)
            saved = True
    return saved


@pytest.mark.usefixtures("usual_signals")
def test_further_signals_of_a_closed_terminal_do_not_interrupt_the_end() -> None:
    assert interrupted(signal.SIGHUP, [signal.SIGHUP, signal.SIGTERM])
    assert not interrupted(signal.SIGTERM, [signal.SIGINT])  # Ctrl-C means not to wait


@pytest.mark.usefixtures("usual_signals")
def test_interrupted_study_in_memory_reports_that_nothing_is_recorded(finder: Any) -> None:
    words = [word if word != "kept.db" else "memory" for word in WORDS]
    ran = finder(*words, "--env-kwargs", f'{{"signal_in_step": {int(signal.SIGINT)}}}')
    assert ran.code == 130
    assert "Nothing is recorded" in ran.err


@pytest.mark.real
def test_killed_search_has_recorded_its_command(finder: Any) -> None:
    process = start(finder, *WORDS, "--executor", "inline")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    words = [word for word in WORDS if word not in ("--storage", "kept.db")]
    with studies.load_study(STUDY, f"sqlite:///{finder.folder}/kept.db") as study:
        assert read_origin(study) == StudyOrigin("command", (*words, "--executor", "inline"))

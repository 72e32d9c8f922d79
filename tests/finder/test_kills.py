"""Studies that are killed at any moment lose nothing: a short version; `make kills` runs the long one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from processes import session_members, wait_until_alone
from small_study import Curve, curves, start

from studies.attributes import seed_values
from studies.checkpoint_folder import checkpoint_folder
from studies.study import load_study

ROUNDS = int(os.environ.get("FINDER_KILLS", "6"))
"""How often something is killed, over all combinations."""

KILLS_OF_A_STUDY = 2

LONGEST_SECONDS = 14.0
"""A study is killed at the latest so long after its start; it takes less without kills."""

COMBINATIONS = [
    (executor, storage)
    for executor, storage in zip(
        3 * ("inline", "process", "population"),
        ("sqlite", "journal", "postgresql", "journal", "postgresql", "sqlite", "postgresql", "sqlite", "journal"),
        strict=True,
    )
] + [("process", "mysql")]


def kill_something(process: subprocess.Popen[bytes], rng: random.Random) -> None:
    """Everything, the parent, or one of the others; after which all of them end, or the study goes on to its end."""
    victim = rng.choice(["all", "parent", "one"])
    if victim == "all":
        os.killpg(process.pid, signal.SIGKILL)
    elif victim == "parent":
        process.kill()
    else:
        others = [pid for pid in session_members(process.pid) if pid != process.pid]
        os.kill(rng.choice(others or [process.pid]), signal.SIGKILL)
    process.wait()
    wait_until_alone(process.pid)


def run_and_kill(folder: Path, url: str, executor: str, name: str, rng: random.Random) -> None:
    for _ in range(KILLS_OF_A_STUDY):
        process = start(folder, url, executor, name)
        deadline = time.monotonic() + rng.uniform(0.0, LONGEST_SECONDS)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        finished = finished_trials(url, name)
        if process.poll() is None:
            kill_something(process, rng)
        now = finished_trials(url, name)
        assert {number: now[number] for number in finished} == finished, "a finished trial was lost"
    last = start(folder, url, executor, name)
    assert last.wait() == 0, (folder / "output").read_text()
    wait_until_alone(last.pid)


def finished_trials(url: str, name: str) -> dict[int, Any]:
    try:
        with load_study(url, name) as study:
            return {trial.number: trial.value for trial in study.all_trials() if trial.state.is_finished()}
    except Exception:  # noqa: BLE001 - it was killed before there was a study, or anything else
        return {}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, dict[int, float]], dict[int, Curve]]:
    """What the study gives when nobody kills it."""
    folder = tmp_path_factory.mktemp("whole")
    url = f"sqlite:///{folder}/finder.db"
    assert start(folder, url, "inline", "whole").wait() == 0, (folder / "output").read_text()
    with load_study(url, "whole") as study:
        return {trial.number: seed_values(trial) for trial in study.all_trials()}, curves(study)


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("round_", range(min(ROUNDS // KILLS_OF_A_STUDY, len(COMBINATIONS))))
def test_killed_studies_end_as_if_nobody_had_killed_them(
    round_: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    whole: tuple[dict[int, dict[int, float]], dict[int, Curve]],
) -> None:
    executor, storage = COMBINATIONS[round_]
    n_studies = max(1, ROUNDS // (KILLS_OF_A_STUDY * len(COMBINATIONS)))
    for number in range(n_studies):
        name = f"killed-{executor}-{storage}-{number}"
        folder = tmp_path / str(number)
        folder.mkdir()
        url = {
            "sqlite": f"sqlite:///{folder}/finder.db",
            "journal": f"journal:///{folder}/finder.log",
        }.get(storage) or request.getfixturevalue({"postgresql": "postgres"}.get(storage, storage))
        run_and_kill(folder, url, executor, name, random.Random(f"{round_}-{number}"))
        with load_study(url, name) as study:
            trials = study.all_trials()
            assert [trial.state for trial in trials] == [TrialState.COMPLETE] * len(whole[0])
            assert {trial.number: seed_values(trial) for trial in trials} == whole[0]
            assert curves(study) == whole[1]
            left = checkpoint_folder(url, study.episodes_key)
            assert left is not None
            assert not left.exists()

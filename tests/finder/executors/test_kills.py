"""Tests that killed searches resume without losing results; `make kills` runs the long version."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kills import Kill, Killer
from optuna.trial import TrialState
from processes import end_session, wait_until_alone
from small_study import Curve, curves, start

from studies.spec.attributes import seed_values
from studies.study.checkpoint_folder import checkpoint_folder
from studies.study.study import load_study

KILLS = int(os.environ.get("FINDER_KILLS", "8"))
"""Number of kills over all rounds."""

KILLS_PER_ROUND = 2

ROUNDS = [
    ("lr", "process", "postgresql"),
    ("race", "population", "sqlite"),
    ("tune", "population", "journal"),
    ("tune", "inline", "sqlite"),
    ("race", "inline", "postgresql"),
    ("lr", "population", "mysql"),
    ("tune", "population", "postgresql"),
    ("lr", "inline", "journal"),
    ("race", "population", "journal"),
    ("tune", "process", "sqlite"),
]
"""Search, executor and storage of each round; the list repeats when there are more rounds."""


class Ended(NamedTuple):
    """The stored result of a trial."""

    state: TrialState
    params: dict[str, Any]
    value: float | None
    seed_values: dict[int, float]
    reports: dict[int, float]
    curve: Curve


def stored_results(url: str, name: str) -> dict[int, Ended]:
    """Return the stored results of all trials of a study."""
    with load_study(name, url) as study:
        found = curves(study)
        assert study.storage.leases.held(study.episodes_key) == {}
        return {
            each.number: Ended(
                each.state, each.params, each.value, seed_values(each), each.intermediate_values, found[each.number]
            )
            for each in study.all_trials()
        }


@pytest.fixture(autouse=True)
def _checkpoints_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store checkpoints in the folder of the test: those of a database server would be in the user's home."""
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(tmp_path / "checkpoints"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[int, Ended]]:
    """Return a function that gives the results of a search that is not killed."""
    known: dict[tuple[str, str], dict[int, Ended]] = {}

    def search(kind: str, executor: str) -> dict[int, Ended]:
        # Where nothing is pruned or proposed, results do not depend on which trials run together.
        executor = "inline" if kind == "lr" or executor == "process" else executor
        if (kind, executor) not in known:
            folder = tmp_path_factory.mktemp("whole")
            url = f"sqlite:///{folder}/finder.db"
            process = start(folder, url, executor, "whole", kind)
            try:
                assert process.wait() == 0, (folder / "output").read_text()
            finally:
                end_session(process)
            known[kind, executor] = stored_results(url, "whole")
        return known[kind, executor]

    return search


def run_and_kill(folder: Path, url: str, search: tuple[str, str, str], killer: Killer) -> list[Kill]:
    """Run a search to its end while killing and restarting it; return the kills."""
    kills: list[Kill] = []
    process = None
    try:
        while len(kills) < KILLS_PER_ROUND:
            if process is None or process.poll() is not None:
                process = start(folder, url, *search, **killer.variables)
            if (kill := killer.kill(process, last=len(kills) == KILLS_PER_ROUND - 1)) is not None:
                kills.append(kill)
        assert process is not None
        if process.wait() != 0:  # it was killed, or failed because one of its processes was
            process = start(folder, url, *search)
            assert process.wait() == 0, (folder / "output").read_text()
        wait_until_alone(process.pid)
    finally:
        if process is not None:
            end_session(process)
    return kills


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("round_", range(KILLS // KILLS_PER_ROUND))
def test_killed_searches_give_the_results_of_uninterrupted_ones(
    round_: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    uninterrupted: Callable[[str, str], dict[int, Ended]],
) -> None:
    kind, executor, storage = ROUNDS[round_ % len(ROUNDS)]
    expected = uninterrupted(kind, executor)
    n_pruned = sum(ended.state == TrialState.PRUNED for ended in expected.values())
    assert (n_pruned > 0) == (kind != "lr"), "studies with a pruner must have pruned trials, and others none"
    name = f"killed-{round_}"
    url = {"sqlite": f"sqlite:///{tmp_path}/finder.db", "journal": f"journal:///{tmp_path}/finder.log"}.get(
        storage
    ) or request.getfixturevalue({"postgresql": "postgres"}.get(storage, storage))
    (tmp_path / "strikes").mkdir()
    lengths = {number: len(ended.curve) for number, ended in expected.items()}
    killer = Killer(tmp_path / "strikes", url, name, lengths, random.Random(f"round {round_}"))
    kills = run_and_kill(tmp_path, url, (executor, name, kind), killer)
    found = stored_results(url, name)
    differences = [number for number in expected.keys() | found.keys() if found.get(number) != expected.get(number)]
    print(f"round {round_} ({kind}, {executor}, {storage}): {kills}, {n_pruned} pruned, differences {differences}")
    assert all(kill.running for kill in kills)
    assert not differences, [(expected.get(number), found.get(number)) for number in differences]
    with load_study(name, url) as study:
        killer.check_ended(study)
        left = checkpoint_folder(url, study.episodes_key)
    assert left is not None
    assert not left.exists()

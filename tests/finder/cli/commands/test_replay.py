"""Tests of the command `replay`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def path(finder: Any) -> str:
    rng = np.random.default_rng(0)
    rows = [
        {"config": f"c{c}", "learning_rate": 10.0**-c, "seed": s, "env_steps": steps, "return": 10 * c * steps + noise}
        for c in range(1, 5)
        for s in range(6)
        for noise in [rng.normal()]
        for steps in (50, 100)
    ]
    pd.DataFrame(rows).to_csv(finder.folder / "runs.csv", index=False)
    return "runs.csv"


def test_policies_are_compared(finder: Any, path: str) -> None:
    ran = finder("replay", path, "--policy", "grid", "--policy", "random", "--budget", "4", "--replays", "5")
    assert ran.code == 0, ran.err
    head, grid, random = ran.out.splitlines()
    assert head.split()[:4] == ["policy", "close", "regret", "runs"]
    assert grid.split()[:4] == ["grid", "100%", "0.0%", "4.0"]
    assert "c4 (100%)" in random
    assert "4 configs × 6 seeds, of which each search sees 3; it may spend 4 whole runs" in ran.err


def test_race_is_the_default_policy(finder: Any, path: str) -> None:
    result = finder("replay", path, "--budget", "50%", "--replays", "3", "--json").json
    assert (result["budget"], result["replays"]) == (12.0, 3)
    (row,) = result["policies"]
    assert (row["policy"], row["pick"]) == ("race", "c4")
    assert row["mean_cost"] <= 12.0


def test_seed_determines_the_drawn_runs(finder: Any, path: str) -> None:
    words = ("replay", path, "--policy", "random", "--budget", "1", "--replays", "9", "--json")
    first, again, other = (finder(*words, "--seed", seed).json["policies"] for seed in ("3", "3", "4"))
    assert first == again != other


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing.csv",), "there is no table"),
        (("runs.csv", "--policy", "rase"), "Did you mean 'race'"),
        (("runs.csv", "--budget", "much"), "--budget must be a share such as 10% or a number of runs > 0, got 'much'"),
        (("runs.csv", "--budget", "0%"), "--budget must be"),
        (("runs.csv", "--replays", "0"), "--replays"),
        (("runs.csv", "--seed", "-1"), "--seed"),
        (("runs.csv", "--budget", "0.5"), "a search needs at least 1"),
    ],
)
def test_mistakes_are_reported(finder: Any, path: str, words: tuple[str, ...], message: str) -> None:
    ran = finder("replay", *words)
    assert ran.code == 2
    assert message in ran.err


def test_table_of_others_is_read_as_it_is(finder: Any) -> None:
    """Configs have two to four seeds, and each run values after steps of its own."""
    rng = np.random.default_rng(0)
    rows = [
        {"config": f"c{c}", "seed": 10 * c + s, "env_steps": steps + int(rng.integers(10)), "return": float(c * steps)}
        for c in range(3)
        for s in range(2 + c)
        for steps in (50, 100, 200)
    ]
    pd.DataFrame(rows).to_csv(finder.folder / "theirs.csv", index=False)
    ran = finder("replay", "theirs.csv", "--policy", "race", "--policy", "median", "--budget", "8", "--replays", "3")
    assert ran.code == 0, ran.err
    assert "3 configs with 2 to 4 seeds, of which each search sees 1 to 2" in ran.err
    assert "With 2 seeds of a config, a pick is judged by 1 seed" in ran.err
    assert "A search that sees one seed of a config cannot confirm it." in ran.err
    race, median = ran.out.splitlines()[1:]
    assert "c2 (100%)" in race
    assert "c2 (100%)" in median


def test_enough_seeds_have_no_limits(finder: Any, path: str) -> None:
    assert "a pick is judged by" not in finder("replay", path, "--replays", "1", "--budget", "4").err


def test_config_with_one_seed_is_refused(finder: Any) -> None:
    rows = [{"config": "a", "seed": 0, "env_steps": 10, "return": 1.0}]
    rows += [{"config": "b", "seed": seed, "env_steps": 10, "return": 1.0} for seed in range(2)]
    pd.DataFrame(rows).to_csv(finder.folder / "single.csv", index=False)
    ran = finder("replay", "single.csv", "--budget", "1")
    assert ran.code == 2
    assert "the search may see 0 of 1 seeds of 'a': at least one has to be left to judge it" in ran.err

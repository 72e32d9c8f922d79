"""Picks that are judged on seeds which no search saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from run_tables import table_of

from benchmarks.picks import unseen as pick_unseen
from studies.errors import StudyError


def values(n_seeds: int = 40, noise: float = 0.0) -> np.ndarray:
    """Return four candidates of the values 0, 1, 2 and 3, with noise, at two marks."""
    rng = np.random.default_rng(0)
    own = np.arange(4.0)[:, None, None] + noise * rng.normal(size=(4, n_seeds, 1))
    return own.repeat(2, axis=2)


def test_without_noise_there_is_no_regret() -> None:
    table = table_of(values())
    for policy in (pick_unseen.BOUND, "race", "grid"):
        told = pick_unseen.replayed(table, table, policy, 20.0, 5)
        assert told["regret"] == [0.0] * 5


@pytest.mark.slow
def test_regret_is_a_share_of_the_range_on_the_unseen_seeds() -> None:
    longest = table_of(values())
    reversed_ = replace(longest, values=longest.values[::-1].copy())  # short runs favour the worst
    told = pick_unseen.replayed(reversed_, longest, "grid", 4.0, 3)
    assert told["regret"] == [1.0] * 3
    assert told["cost"][0] <= 4.0


def test_budgets_are_in_runs_of_the_longest_length() -> None:
    longest = table_of(values(), marks=(50, 100))
    short = table_of(values(), marks=(5, 10))
    told = pick_unseen.replayed(short, longest, "grid", 40.0, 2)
    assert told["cost"][0] == pytest.approx(4.0)


def test_tables_without_seeds_to_spare_are_refused() -> None:
    table = table_of(values(25))
    with pytest.raises(StudyError, match="25 judge"):
        pick_unseen.replayed(table, table, "grid", 4.0, 1)


@pytest.mark.slow
def test_report_names_groups_policies_and_the_bound() -> None:
    names = ["ppo-cartpole-40", "ppo-tanks-40"]
    told = {job: {"regret": [0.0, 0.1], "cost": [3.0]} for job in pick_unseen.jobs(names, [5])}
    text = pick_unseen.report(names, told, [5], 2)
    assert "All cases (2)" in text
    assert "Environments of our own (1)" in text
    assert "| 5 | 1/8 | random | 5.0%" in text
    assert "| ppo-tanks-40 | 5 | 5.0% |" in text

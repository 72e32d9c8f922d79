"""Tables of several lengths of runs: a shorter run is the beginning of a longer one."""

from __future__ import annotations

import math

import pytest

from benchmarks.picks import tables
from benchmarks.picks.tables_cases import LENGTHS, MANY_SEEDS, Case, rates_of


def test_curve_by_hand() -> None:
    curve = tables.curve_of([10, 30, 95, 150], [1.0, 2.0, 6.0, 100.0], 100, None)
    assert [mark for mark, _ in curve] == list(range(5, 101, 5))
    values = dict(curve)
    assert math.isnan(values[5])  # no episode has ended
    assert values[10] == values[15] == 1.0  # within the tenth before the mark
    assert values[25] == 1.0  # none there: the newest one
    assert values[30] == 2.0
    assert values[100] == 6.0  # the last fifth; the episode beyond the budget does not count


def test_curve_of_a_shorter_budget_is_judged_by_its_own_windows() -> None:
    steps, returns = [20, 40, 60, 80, 100], [1.0, 2.0, 3.0, 4.0, 5.0]
    assert dict(tables.curve_of(steps, returns, 50, None))[50] == 2.0  # mean of what ended after 40: none, the newest
    assert dict(tables.curve_of(steps, returns, 100, None))[100] == 5.0


def test_diverged_runs_have_no_value_from_there_on() -> None:
    values = dict(tables.curve_of([10, 20], [1.0, 1.0], 40, 21))
    assert values[20] == 1.0
    assert all(math.isnan(value) for mark, value in values.items() if mark > 21)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_a_shorter_run_is_the_beginning_of_a_longer_one(agent: str) -> None:
    params = {"n_steps": 32, "n_envs": 2} if agent == "ppo" else {"learning_starts": 100, "train_freq": 8}
    rates = {"adam": (-3, -3)}
    env = "new_environments:Catch-v0"
    long = Case(agent=agent, env=env, env_steps=2_400, params=params, rates=rates, lengths=(4, 8))
    short = Case(agent=agent, env=env, env_steps=1_200, params=params, rates=rates)
    seeds = [0, 1]
    whole, part = tables.train(long, "adam", seeds), tables.train(short, "adam", seeds)
    for run, curves in whole.items():
        assert dict(curves[1_200]) == pytest.approx(dict(part[run][1_200]), nan_ok=True)
        assert curves[2_400][-1] != curves[1_200][-1]


def test_cases_of_many_seeds() -> None:
    assert len(MANY_SEEDS) == 8
    for name, case in MANY_SEEDS.items():
        assert case.n_seeds >= 40
        assert [8 * budget // case.env_steps for budget in case.budgets] == list(LENGTHS)
        assert len(tables.paths(name)) == len(LENGTHS)
        assert len({tables.part_path(name, *part) for part in tables.parts_of(name)}) == 16
        assert all(len(rates_of(case, optimizer)) == 11 for optimizer in case.rates)

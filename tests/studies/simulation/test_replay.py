"""Search policies replayed over tables of finished runs: budgets, regrets, coverages and picks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_tables import frame_of, rates_table, table_of

from studies.errors import StudyError
from studies.simulation import POLICIES, Decision, Policy, RunTable, make_policy
from studies.simulation.replay import coverage, replay, replay_often, run_policy


def picks(config: int, cost: float = 1.0, **fields: Any) -> Policy:
    """Return a policy that always picks a configuration."""
    return lambda table, budget, rng: Decision(pick=config, cost=cost, **fields)


# --- what a replay measures


def test_policy_that_exceeds_its_budget_raises():
    table = table_of(np.zeros((2, 2, 2)))
    assert run_policy(table, picks(1, cost=2.0), budget=2, rng=np.random.default_rng(0)).pick == 1
    with pytest.raises(StudyError, match=r"spent 2.5 whole runs, and may spend 2.0"):
        run_policy(table, picks(1, cost=2.5), budget=2, rng=np.random.default_rng(0))


def test_regret_is_measured_on_held_out_seeds():
    values = np.zeros((3, 4, 1))
    values[0] = 10.0
    values[1] = 9.0
    seen: list[tuple[int, ...]] = []

    def policy(table: RunTable, budget: float, rng: np.random.Generator) -> Decision:
        seen.append(table.counts)
        return Decision(pick=1, cost=2.0)

    result = replay(table_of(values, marks=(100,)), policy, budget=2, rng=np.random.default_rng(0))
    assert seen == [(2, 2, 2)]
    assert result.regret == pytest.approx(0.1)
    assert np.isnan(result.decades)


def test_seen_and_unseen_seeds_are_different_ones():
    values = np.arange(6.0)[None, :, None].repeat(2, axis=0)
    values[1] *= 10
    for i in range(5):
        seen: list[float] = []

        def policy(table: RunTable, budget: float, rng: np.random.Generator, seen: list[float] = seen) -> Decision:
            seen.extend(table.values[0, :, -1])
            return Decision(pick=0, cost=1.0)

        table = table_of(values, marks=(100,))
        regret = replay(table, policy, budget=1, rng=np.random.default_rng(i)).regret
        unseen = [value for value in range(6) if value not in seen]
        assert len(seen) == len(unseen) == 3
        span = 25 - 2.5  # of the interquartile means of 0 to 5
        assert regret == pytest.approx(9 * np.mean(unseen) / span)


@pytest.mark.parametrize("is_even", [True, False])
def test_searches_see_nothing_of_the_seeds_that_judge_them(is_even: bool):
    """The runs of one configuration diverged: they count as the worst of the seeds that the search sees."""
    frame = frame_of(np.array([[np.nan] * 6, np.arange(6.0)])[:, :, None], marks=(100,))
    table = RunTable.of_frame(frame if is_even else frame.iloc[1:])
    assert table.is_even == is_even
    worst = set()

    def policy(table: RunTable, budget: float, rng: np.random.Generator) -> Decision:
        diverged, finite = table.values[0, : table.counts[0], -1], table.values[1, : table.counts[1], -1]
        assert set(diverged) == {min(finite)}
        worst.add(min(finite))
        return Decision(pick=1, cost=1.0)

    replay_often(table, policy, budget=1, n=5)
    coverage(table, policy, budget=1, n=5)
    assert worst > {0.0}


def test_configurations_with_different_seeds_are_halved_each():
    frame = frame_of(np.arange(24.0).reshape(3, 8, 1), marks=(100,))
    frame = frame[(frame["config"] != "c1") | (frame["seed"] < 3)]
    seen: list[tuple[int, ...]] = []

    def policy(table: RunTable, budget: float, rng: np.random.Generator) -> Decision:
        seen.append(table.counts)
        assert np.isfinite(table.values[1, 0]).all()
        assert np.isnan(table.values[1, 1:]).all()
        return Decision(pick=1, cost=1.0)

    result = replay(RunTable.of_frame(frame), policy, budget=1, rng=np.random.default_rng(0))
    assert seen == [(4, 1, 4)]
    assert np.isfinite(result.regret)


@pytest.mark.parametrize("name", ["race", "hyperband", "tpe-median", "grid"])
def test_policies_work_with_different_seeds_and_marks(name: str):
    frame = frame_of(np.arange(6 * 8 * 4.0).reshape(6, 8, 4), marks=(10, 40, 70, 100))
    rng = np.random.default_rng(0)
    frame = frame[frame["seed"] < 2 + frame["config"].str[1:].astype(int)].copy()
    frame["env_steps"] += rng.integers(0, 5, len(frame))
    table = RunTable.of_frame(frame)
    assert table.counts == (2, 3, 4, 5, 6, 7)
    for result in replay_often(table, make_policy(name), budget=6.0, n=3):
        assert result.decision.cost <= 6.0 + 1e-6
        assert np.isfinite(result.regret)
    coverage(table, make_policy(name), budget=6.0, n=2)


def test_configuration_with_one_seed_raises():
    frame = pd.concat([frame_of(np.zeros((2, 4, 1)), marks=(9,)), frame_of(np.zeros((3, 1, 1)), marks=(9,)).iloc[2:]])
    with pytest.raises(StudyError, match="the search may see 0 of 1 seeds of 'c2': at least one has to be left"):
        replay(RunTable.of_frame(frame), picks(0), budget=1, rng=np.random.default_rng(0))


def test_coverage_counts_intervals_that_contain_the_value_of_the_pick():
    values = np.zeros((2, 4, 1))
    values[1, :, 0] = [0.0, 1.0, 2.0, 9.0]
    table = table_of(values, marks=(100,))
    assert coverage(table, picks(1, interval=(2.9, 3.1)), budget=2, n=5) == 1.0
    assert coverage(table, picks(1, interval=(3.1, 9.0)), budget=2, n=5) == 0.0
    assert coverage(table, make_policy("random"), budget=2, n=5) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["race", "default"])
def test_intervals_of_policies_have_nominal_coverage(name: str):
    table = rates_table(noise=8.0)
    assert 0.88 <= coverage(table, make_policy(name), budget=60.0, n=150) <= 1.0


@pytest.mark.slow
def test_default_policy_races_and_confirms():
    table = rates_table(n_seeds=16, noise=4.0)
    message = [replay(table, make_policy("default"), budget=200.0, rng=np.random.default_rng(i)) for i in range(20)]
    costs = [each.decision.cost - 15 for each in message]  # confirmation: three finalists on five further seeds
    assert max(costs) < 0.67 * 3 * len(table.configs), "most trials must be pruned"
    assert np.mean([each.regret <= 0.05 for each in message]) > 0.8
    rates = [each.decision.rate for each in message]
    assert np.mean([rate.low <= 1e-3 <= rate.high for rate in rates]) > 0.85


def test_best_rate_of_a_plateau_is_its_middle():
    params = [{"learning_rate": 10.0**power} for power in (-5, -4, -3, -2, -1)]
    values = np.array([0.0, 99.5, 99.0, 100.0, 50.0])[:, None, None].repeat(4, axis=1)  # a plateau from 1e-4 to 1e-2
    table = table_of(values, params=params, marks=(100,))
    assert replay(table, picks(1), budget=1, rng=np.random.default_rng(0)).decades == pytest.approx(-1.0)


def test_distance_to_the_best_rate_is_in_decades():
    table = rates_table(noise=0.0)
    policy = picks(table.configs.index("c6"))  # adam at 1e-2
    assert replay(table, policy, budget=1, rng=np.random.default_rng(0)).decades == pytest.approx(1.0)


# --- the policies


def replays(table: RunTable, policy: Any, budget: float, n: int) -> list[Any]:
    """Return the results of `n` replays."""
    found = list(replay_often(table, policy, budget=budget, n=n))
    assert len(found) == n
    return found


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("budget", [1.0, 3.7, 18.0, 90.0])
def test_policies_stay_within_their_budget(name: str, budget: float):
    table = rates_table()
    for result in replays(table, make_policy(name), budget=budget, n=5):
        assert result.decision.cost <= budget + 1e-6
        assert 0 <= result.decision.pick < len(table.configs)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_policies_work_with_few_seeds(name: str):
    table = rates_table(n_seeds=4)
    for result in replays(table, make_policy(name), budget=40.0, n=5):
        assert result.decision.cost <= 40.0 + 1e-6


def test_search_uses_more_seeds_where_its_budget_pays_for_them():
    table = rates_table(n_seeds=10)
    seeds = {}
    for budget in (15.0, 30.0, 60.0, 100.0):
        search = make_policy("race").search(table, budget, np.random.default_rng(0))
        seeds[budget] = (len(search.trials), {len(trial.seeds) for trial in search.trials})
        assert search.is_over
        assert search.cost > 0.6 * budget
    # A race of 18 configurations costs 11.2 runs a seed: 18, 17, 15, 13, 9 and 6 of them reach its rungs and the end.
    assert seeds[15.0][0] < 18
    assert [seeds[budget] for budget in (30.0, 60.0, 100.0)] == [(18, {1}), (18, {4}), (18, {8})]


def test_search_that_outgrows_its_budget_stops_and_picks_by_what_it_saw():
    table = rates_table(noise=0.0)
    search = make_policy("default").search(table, 20.0, np.random.default_rng(0))  # 18 configurations on three seeds
    assert not search.is_over
    assert not search.confirmations
    assert 0 < search.cost <= 20.0
    assert search.pick is not None


def test_budget_below_one_run_raises():
    with pytest.raises(StudyError, match="a search needs at least 1"):
        replay(rates_table(), make_policy("race"), budget=0.5, rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("shape", [(1, 8, 1), (1, 8, 2), (6, 2, 1), (6, 8, 1)], ids=str)
@pytest.mark.parametrize("budget", [1.0, 4.0])
def test_policies_work_with_one_candidate_or_one_mark(name: str, shape: tuple[int, int, int], budget: float):
    table = table_of(np.arange(float(np.prod(shape))).reshape(shape))
    for result in replays(table, make_policy(name), budget=budget, n=2):
        assert result.decision.cost <= budget + 1e-6


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_policies_work_without_learning_rates(name: str):
    table = table_of(np.arange(24.0).reshape(6, 4, 1).repeat(2, axis=2))
    for result in replays(table, make_policy(name), budget=9.0, n=5):
        assert result.decision.cost <= 9.0 + 1e-6


@pytest.mark.parametrize("name", ["grid", "race", "keep-top", "halving"])
def test_policies_find_the_best_with_a_large_budget_and_no_noise(name: str):
    table = rates_table(noise=0.0)
    for result in replays(table, make_policy(name), budget=90.0, n=3):
        assert table.params[result.decision.pick] == {"optimizer": "adam", "learning_rate": pytest.approx(1e-3)}
        assert result.regret == pytest.approx(0.0)


@pytest.mark.slow
def test_race_beats_random_search_under_noise():
    table = rates_table(noise=8.0)

    def regret(name: str) -> float:
        return float(np.mean([each.regret for each in replay_often(table, make_policy(name), budget=36.0, n=60)]))

    assert regret("race") < 0.5 * regret("random")


def test_unknown_policy_suggests_the_nearest_name():
    with pytest.raises(StudyError, match="race"):
        make_policy("rase")


@pytest.mark.parametrize("name", ["successive-halving", "sha", "SuccessiveHalvingPruner"])
def test_policy_has_the_names_of_its_pruner(name: str) -> None:
    assert make_policy(name) is make_policy("halving")


@pytest.mark.parametrize("name", ["none", "nop", "halvin"])
def test_other_names_are_no_policies(name: str) -> None:
    with pytest.raises(StudyError, match="there is no search policy"):
        make_policy(name)

"""Searches over tables: what schedulers decide, what it costs, and how the search is judged; worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from run_tables import design_of, table_of

from studies.errors import StudyError
from studies.judging.range_extension import RangeExtension
from studies.schedulers.halving import Halving
from studies.schedulers.keep_top import KeepTop
from studies.schedulers.percentile import Percentile
from studies.schedulers.race import Race
from studies.schedulers.scheduler import Scheduler
from studies.simulation import POLICIES, RunTable, SearchDesign, SimulatedSearch, make_policy, simulate
from studies.simulation.proposals import PlannedProposals, SampledProposals
from studies.spec.spec import StudySpec

MARKS = (10, 20, 40, 100)


def search_of(
    values: Any, scheduler: Scheduler | None, n_seeds: int = 1, budget: float = float("inf"), **design: Any
) -> SimulatedSearch:
    """Return a search over all configurations whose runs have these values at every mark, [C] or [C, S]."""
    given = np.asarray(values, np.float64)
    given = given[:, None] if given.ndim == 1 else given
    table = table_of(given[:, :, None].repeat(len(MARKS), axis=2), marks=MARKS)
    chosen = SearchDesign(scheduler=scheduler, n_seeds=n_seeds, **{"n_finalists": 0, **design})
    return simulate(table, PlannedProposals(table, range(len(given)), n_seeds), chosen, budget=budget)


def ends(search: SimulatedSearch) -> list[int]:
    """Return the step at which each trial was stopped; 0 for those that came to the end."""
    return [0 if trial.state == "complete" else trial.last_step or -1 for trial in search.trials]


def test_halving_stops_trials_at_its_rungs_and_costs_what_was_run():
    search = search_of([3, 0, 7, 1, 6, 2, 5, 4], Halving(10, 2))
    assert ends(search) == [10, 10, 0, 10, 40, 10, 20, 20]  # 8, 4, 2 and 1 trials
    assert search.cost == pytest.approx(8 * 0.1 + 4 * 0.1 + 2 * 0.2 + 1 * 0.6)
    assert (search.pick, search.is_over) == (2, True)


def test_seeds_count_as_runs():
    assert search_of([[1, 2], [3, 4]], None, n_seeds=2).cost == pytest.approx(4.0)


def test_trials_one_at_a_time_meet_only_earlier_ones():
    assert ends(search_of([1, 2, 3, 0], KeepTop(20, 1), at_once=1)) == [0, 0, 0, 20]
    assert ends(search_of([1, 2, 3, 0], KeepTop(20, 1))) == [20, 20, 0, 20]
    assert ends(search_of([1, 2, 3, 0], KeepTop(20, 1), at_once=2)) == [20, 0, 0, 20]


def test_median_rule_is_asked_at_every_mark():
    table = table_of(np.array([[[1, 9, 9, 9]], [[2, 2, 9, 9]], [[3, 3, 3, 3]]], float), marks=MARKS)
    design = SearchDesign(scheduler=Percentile(n_startup_trials=2, n_warmup_steps=20), n_seeds=1, n_finalists=0)
    # At 20 the median of the others of c1 is 6, of c2 5.5.
    assert ends(simulate(table, PlannedProposals(table, range(3), 1), design)) == [0, 20, 20]


def test_search_stops_where_its_budget_ends():
    search = search_of([3, 0, 7, 1], Halving(10, 2), budget=0.7)  # 0.4, then 0.2 for two trials
    assert search.cost == pytest.approx(0.6)
    assert not search.is_over
    assert [trial.state for trial in search.trials] == ["pruned", "pruned", "running", "pruned"]
    assert search.pick == 2  # the one that had come furthest
    assert search_of([3, 0], None, budget=0.1).pick is None


def test_finalists_are_run_on_the_seeds_after_those_of_the_search():
    values = [[10, 10, 10, 10, 10], [11, 11, 2, 2, 2], [12, 12, 1, 1, 1], [0, 0, 0, 0, 0]]
    search = search_of(values, None, n_seeds=2, n_finalists=3, n_further=2)
    assert sorted(search.finalists) == [0, 1, 2]
    assert {run.seeds for run in search.confirmations} == {(2, 3)}
    assert search.cost == pytest.approx(4 * 2 + 3 * 2)
    assert search.pick == 0  # the others were lucky
    assert search.verdict.confirmation is not None
    assert search.verdict.confirmation.held_out.value == 10.0


@pytest.mark.parametrize(("budget", "n_further"), [(8.0, 0), (10.9, 0), (11.0, 1), (14.0, 2), (99.0, 3)])
def test_further_seeds_are_those_that_budget_and_table_have(budget: float, n_further: int):
    values = np.arange(4.0)[:, None] + np.arange(5.0) / 10
    search = search_of(values, None, n_seeds=2, n_finalists=3, n_further=5, budget=budget)
    assert [len(run.seeds) for run in search.confirmations] == [n_further] * (3 if n_further else 0)
    assert search.cost <= budget


def test_values_of_seeds_are_kept_at_rungs_of_a_race():
    values = [[float(number), number + 0.5] for number in range(10)]
    search = search_of(values, Race([20, 40], 100), n_seeds=2)
    assert ends(search) == [20, 20, 40, 40, 0, 0, 0, 0, 0, 0]  # after 20% the best 80%, after 40% the best 60%
    results = search.history.trials
    assert results[0].at_rungs == {20: (0.0, 0.5)}
    assert results[5].at_rungs == {20: (5.0, 5.5), 40: (5.0, 5.5)}
    assert (results[2].left_at, results[2].value, results[2].seed_values) == (40, 2.25, {0: 2.0, 1: 2.5})


def test_longer_runs_confirm_at_their_cost():
    values = np.array([10.0, 9.0, 0.0])[:, None, None].repeat(4, axis=1)
    table = table_of(values, marks=(100,))
    longer = table_of(values + np.array([1.0, 3.0, 99.0])[:, None, None], marks=(250,))
    design = SearchDesign(scheduler=None, n_seeds=1, n_finalists=2, n_further=2)
    search = simulate(table, PlannedProposals(table, range(3), 1), design, longer=longer)
    assert (search.pick, search.cost) == (1, 3 + 2 * 2 * 2.5)
    assert [trial.reports for trial in search.confirmations] == [{250: 11.0}, {250: 12.0}]
    less = simulate(table, PlannedProposals(table, range(3), 1), design, budget=9.0, longer=longer)
    assert (less.cost, [trial.seeds for trial in less.confirmations]) == (8.0, [(1,), (1,)])


def test_range_is_extended_within_the_table():
    rates = [10**power for power in (-5, -4.5, -4, -3.5, -3)]
    worth = np.array([0.0, 10.0, 20.0, 60.0, 40.0])
    seeds = worth[:, None, None] + np.arange(3)[None, :, None] / 10
    params = [{"learning_rate": rate} for rate in rates]
    table = table_of(seeds, params=params, marks=(100,))
    design = SearchDesign(scheduler=None, n_seeds=3, n_finalists=0)
    extension = RangeExtension(params[:3])
    search = simulate(table, PlannedProposals(table, range(3), 3), design, extend_plan=extension.further_rows)
    assert [trial.config for trial in search.trials] == [0, 1, 2, 3, 4]
    assert search.pick == 3
    few = replace(table, counts=(3, 3, 3, 1, 2))
    search = simulate(few, PlannedProposals(few, range(3), 3), design, extend_plan=extension.further_rows)
    assert [len(trial.seeds) for trial in search.trials] == [3, 3, 3, 1, 2]
    alone = simulate(table, PlannedProposals(table, range(3), 3), design)
    assert (len(alone.trials), alone.pick) == (3, 2)


def test_sampler_learns_from_results():
    """Proposals concentrate where values are high, which random ones do not."""
    powers = np.linspace(-5, -1, 41)
    params = [{"learning_rate": float(10**power)} for power in powers]
    values = -np.abs(powers + 4)[:, None, None].repeat(2, axis=1)
    table = table_of(values, params=params, marks=(100,))
    design = SearchDesign(scheduler=None, n_seeds=1, n_finalists=0, at_once=1)
    found = {}
    for sampler in ("tpe", "random"):
        proposals = SampledProposals(table, sampler, 0, n_seeds=2, reserve=0.0)
        search = simulate(table, proposals, design, budget=30.0)
        assert len(search.trials) == 30
        late = [trial.config for trial in search.trials[15:]]
        found[sampler] = float(np.mean(np.abs(powers[late] + 4)))
        assert all(0 <= seed <= 1 for trial in search.trials for seed in trial.seeds)
    assert found["tpe"] < 0.6 * found["random"]


def test_sampler_is_told_results_under_the_configurations_that_were_trained():
    """A configuration whose seeds are used up is trained on the first of them again."""
    rates = [1e-4, 1e-3, 1e-2, 1e-1]
    params = [{"optimizer": name, "learning_rate": rate} for name in ("adam", "sgd") for rate in rates]
    table = table_of(np.arange(8.0)[:, None, None].repeat(2, axis=1), params=params, marks=(100,))
    design = SearchDesign(scheduler=None, n_seeds=1, n_finalists=0, at_once=1)
    proposals = SampledProposals(table, "tpe", 0, n_seeds=2, reserve=0.0)
    search = simulate(table, proposals, design)
    assert len(search.trials) == 16
    told = proposals._study.get_trials()
    for trial, own in zip(search.trials, told, strict=True):
        group = own.params["group"]
        assert group == ["adam", "sgd"].index(trial.params["optimizer"])
        assert 10 ** own.params[f"rate-{group}"] == pytest.approx(trial.params["learning_rate"])
        assert own.value == trial.value == float(trial.config)
    seeds = {config: [t.seeds for t in search.trials if t.config == config] for config in range(8)}
    assert max(map(len, seeds.values())) > 2  # the best is proposed more often than it has seeds
    for own in seeds.values():
        assert own == [((n % 2),) for n in range(len(own))]


def test_sampler_leaves_the_reserve_to_the_finalists():
    table = table_of(np.arange(20.0).reshape(20, 1, 1).repeat(6, axis=1), marks=(100,))
    search = make_policy("tpe-median").search(table, 20.0, np.random.default_rng(0))
    assert len(search.trials) == 14
    assert [len(run.seeds) for run in search.confirmations] == [2, 2, 2]
    assert search.cost == 20.0


def test_same_random_numbers_give_the_same_search():
    table = table_of(np.random.default_rng(0).normal(size=(8, 6, 4)), marks=MARKS)
    for policy in POLICIES.values():
        one, again = (policy.search(table, 20.0, np.random.default_rng(3)) for _ in range(2))
        assert [trial.config for trial in one.trials] == [trial.config for trial in again.trials]
        assert (one.pick, one.cost, one.finalists) == (again.pick, again.cost, again.finalists)


def test_scheduler_is_that_of_the_pruner_of_a_study(make_spec: Callable[..., StudySpec]):
    assert isinstance(design_of(make_spec(env_steps=1000, pruner="keep-top")).scheduler, KeepTop)
    assert design_of(make_spec(env_steps=1000, pruner="none")).scheduler is None


def test_baseline_is_trained_to_its_end_and_confirmed_beside_the_best():
    # The baseline is the worst of six, of which the scheduler keeps the best one at 20.
    values = np.arange(6.0).reshape(6, 1, 1).repeat(4, axis=1).repeat(2, axis=2)
    table = table_of(values, params=[{"gamma": 0.9 + c / 100} for c in range(6)], marks=(20, 100))
    own = {"scheduler": KeepTop(20, 1), "n_seeds": 1, "n_finalists": 1, "n_further": 2}
    without, beside = (
        simulate(table, PlannedProposals(table, range(6), 1), SearchDesign(**own, baseline=baseline))
        for baseline in (None, table.params[0])
    )
    assert (ends(without), without.finalists, without.pick) == ([20] * 5 + [0], [5], 5)
    assert (ends(beside), beside.finalists, beside.pick) == ([0, *[20] * 4, 0], [5, 0], 5)
    # The searches cost 2 + 4 * 0.2 and 1 + 5 * 0.2 runs. Of 6, 3.2 are left for two finalists, and 4 for a single one.
    for baseline, further in ((table.params[0], {0: 1, 5: 1}), (table.params[5], {5: 2})):
        few = simulate(table, PlannedProposals(table, range(6), 1), SearchDesign(**own, baseline=baseline), budget=6.0)
        assert {run.confirms: len(run.seeds) for run in few.confirmations} == further
    with pytest.raises(StudyError, match="of which the table has no runs"):
        simulate(table, PlannedProposals(table, range(6), 1), SearchDesign(**own, baseline={"gamma": 0.5}))


def test_pruner_that_cannot_be_simulated_raises(make_spec: Callable[..., StudySpec]):
    with pytest.raises(StudyError, match="the scheduler 'patient' cannot be simulated"):
        design_of(make_spec(env_steps=1000, pruner="patient"))
    with pytest.raises(StudyError, match="the scheduler 'race' has no argument 'keep'"):
        design_of(make_spec(env_steps=1000, pruner="race", pruner_kwargs={"keep": 3}))


@pytest.mark.parametrize("field", ["n_seeds", "n_further", "at_once"])
def test_invalid_design_raises(field: str):
    with pytest.raises(StudyError, match=f"{field} is 0: give at least 1"):
        SearchDesign(**{"scheduler": None, "n_seeds": 1, field: 0})
    with pytest.raises(StudyError, match="n_finalists is -1"):
        SearchDesign(scheduler=None, n_seeds=1, n_finalists=-1)


def test_table_is_not_changed_by_a_search():
    table = table_of(np.random.default_rng(0).normal(size=(6, 6, 4)), marks=MARKS)
    before = table.values.copy()
    make_policy("race").search(table, 20.0, np.random.default_rng(0))
    np.testing.assert_array_equal(table.values, before)
    assert isinstance(table, RunTable)

"""A live search whose runs are those of a table, and its simulation: the same rungs, prunings, finalists and pick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_PPO
from optuna.trial import TrialState
from run_tables import design_of, table_of

from finder import run_search
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.trials.trial import PAUSED, Outcome, TrialSpec
from studies import StudySpec
from studies.analysis.recommendation import best
from studies.database.records import EpisodeRecord
from studies.judging.confirmation import verdict
from studies.judging.range_extension import RangeExtension
from studies.simulation import RunTable, SimulatedSearch, simulate
from studies.simulation.proposals import PlannedProposals
from studies.spec.attributes import CONFIRMS_ATTR, RUNG_ATTR, seed_values
from studies.statistics.values import mean_of_seeds
from studies.study.study import OpenStudy

N_SEEDS = 3


class TableExecutor(Executor):
    """Plays the runs of a table in place of training them, in step.

    Args:
        table: Finished runs; seeds of trials are positions.
        at_once: Trials that run in step; None for all that there are.
    """

    def __init__(self, table: RunTable, at_once: int | None) -> None:
        self._table, self._at_once = table, at_once

    @property
    def description(self) -> str:
        return "the runs of a table"

    def trials_at_once(self, n_seeds: int) -> int:
        return self._at_once or len(self._table.configs)

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        while trials := list(self._take(next_trial)):
            self._play(trials, listener)

    def _take(self, next_trial: NextTrial) -> Iterator[TrialSpec]:
        n = 0
        while (self._at_once is None or n < self._at_once) and (trial := next_trial()) is not None:
            n += 1
            yield trial

    def _play(self, trials: list[TrialSpec], listener: StudyListener) -> None:
        running = {trial.number: trial for trial in trials}
        for trial in trials:
            listener.started(trial.number, {"agent": trial.label, "config": trial.agent.config.to_dict()})
        for mark, step in enumerate(self._table.marks):
            values = {number: self._values(trial, mark) for number, trial in running.items()}
            listener.episodes({number: _episodes(own, mark, step) for number, own in values.items()})
            stopped = listener.rung(step, values)
            is_last = mark + 1 == len(self._table.marks)  # a finished trial cannot be pruned
            for number in list(running) if is_last else sorted(stopped):
                value = float(mean_of_seeds(list(values[number].values())))
                state: Any = "complete" if is_last else "paused" if stopped[number] == PAUSED else "pruned"
                outcome = Outcome(state=state, value=value, env_steps=step, seed_values=values[number])
                listener.ended(number, outcome)
                del running[number]

    def _values(self, trial: TrialSpec, mark: int) -> dict[int, float]:
        config = trial.agent.config
        row = {name: getattr(config, name) for name in self._table.params[0]}
        position = self._table.find(row)
        assert position is not None, row
        return {seed: float(self._table.values[position, seed, mark]) for seed in trial.seeds}


def _episodes(values: dict[int, float], index: int, step: int) -> list[EpisodeRecord]:
    return [
        EpisodeRecord(
            seed=seed, episode=index, env_steps=step, episode_return=value, length=10, loss=0.1, wall_seconds=0.1
        )
        for seed, value in values.items()
    ]


def noisy_table(seed: int, marks: tuple[int, ...]) -> RunTable:
    """Return a table of two optimizers with six rates each, ten seeds, and noise that does not hide the best ones."""
    rng = np.random.default_rng(seed)
    share = np.array(marks) / marks[-1]
    params, values = [], []
    for optimizer, top, best_power in (("adam", 100.0, -3.0), ("sgd", 90.0, -2.0)):
        for power in np.arange(-5, -2.4 + 1e-9, 0.5) + (1.0 if optimizer == "sgd" else 0.0):
            end, early = (top - 15 * (power - best_power - shift) ** 2 for shift in (0.0, 0.5))
            curve = share * end + (1 - share) * 0.5 * early
            values.append(curve + rng.normal(scale=8.0, size=(10, 1)) + rng.normal(scale=2.0, size=(10, len(marks))))
            params.append({"optimizer": optimizer, "learning_rate": float(10**power)})
    return table_of(np.array(values), params=params, marks=marks)


def spec_of(rows: list[dict[str, Any]], **fields: Any) -> StudySpec:
    given: dict[str, Any] = {
        "name": "s", "storage": "memory", "agents": ("ppo",), "env": "fakes:TwoStep-v0", "env_steps": 1000,
        "n_reports": 20, "seeds": tuple(range(N_SEEDS)), "confirm": 3, "confirm_seeds": 4, "trials": tuple(rows),
        "fixed": SMALL_PPO,
    }  # fmt: skip
    return StudySpec(**{**given, **fields})


def assert_same(table: RunTable, study: OpenStudy, search: SimulatedSearch) -> None:
    """Compare a live study with a simulated search, trial by trial."""
    live = study.trials()
    assert len(live) == len(search.trials)
    for trial, simulated in zip(live, search.trials, strict=True):  # rates of an extension have four digits
        assert table.find(study.params(trial)) == simulated.config
    pruned = {trial.number: trial.user_attrs["pruned_at"] for trial in live if trial.state == TrialState.PRUNED}
    assert pruned == {trial.number: trial.last_step for trial in search.trials if trial.state == "pruned"}
    assert {trial.state for trial in live} <= {TrialState.PRUNED, TrialState.COMPLETE}
    for trial, result in zip(live, search.history.trials, strict=True):
        stored = {int(step): list(own.values()) for step, own in trial.user_attrs.get(RUNG_ATTR, {}).items()}
        assert stored == {step: list(own) for step, own in result.at_rungs.items()}
        assert trial.intermediate_values == result.reports
        assert seed_values(trial) == result.seed_values
        assert trial.value == result.value
    confirmed = {run.user_attrs[CONFIRMS_ATTR]: seed_values(run) for run in study.confirmation_trials()}
    assert confirmed == {run.confirms: dict(run.seed_values) for run in search.history.confirmations}
    here, there = verdict(study), search.verdict
    assert here.pick is not None
    assert there.pick is not None
    assert here.pick.number == there.pick.number
    assert [each.number for each in here.ranked] == [each.number for each in there.ranked]
    assert [each.tied for each in here.ranked] == [each.tied for each in there.ranked]
    for side in ("suggested", "low", "high"):
        assert getattr(here.rate, side) == pytest.approx(getattr(there.rate, side), rel=1e-3)
    recommendation = best(study)
    assert recommendation.trial == there.pick.number
    assert search.pick == search.trials[there.pick.number].config


PRUNERS = ["race", "successive-halving", "hyperband", "keep-top", "sequential-test", "median", "none", "asha"]


@pytest.mark.parametrize("pruner", PRUNERS)
@pytest.mark.parametrize(
    "at_once",
    [
        pytest.param(None, id="in step"),
        pytest.param(1, id="one by one", marks=pytest.mark.slow),
        pytest.param(3, id="three at a time"),
    ],
)
def test_search_and_simulation_do_the_same(pruner: str, at_once: int | None):
    table = noisy_table(PRUNERS.index(pruner), tuple(range(50, 1050, 50)))
    spec = spec_of([dict(params) for params in table.params], pruner=pruner)
    study, stopped = run_search(spec, executor=TableExecutor(table, at_once), progress=False)
    with study:
        assert stopped is None
        plan = PlannedProposals(table, range(len(table.configs)), N_SEEDS)
        search = simulate(table, plan, design_of(spec, at_once))
        assert_same(table, study, search)
        n_pruned = sum(trial.state == "pruned" for trial in search.trials)
        n_complete = len(search.trials) - n_pruned
        assert len(search.finalists) == min(3, n_complete)
        assert (n_pruned > 0) == (pruner != "none")


def test_race_per_optimizer_is_the_same():
    table = noisy_table(9, tuple(range(50, 1050, 50)))
    rows = [dict(params) for params in table.params]
    spec = spec_of(rows, pruner="race", pruner_kwargs={"per": "optimizer"}, n_reports=20)
    study, _ = run_search(spec, executor=TableExecutor(table, None), progress=False)
    with study:
        search = simulate(table, PlannedProposals(table, range(len(rows)), N_SEEDS), design_of(spec))
        assert_same(table, study, search)
        assert {trial.params["optimizer"] for trial in search.trials if trial.state == "complete"} == {"adam", "sgd"}


def test_extension_of_the_range_is_the_same():
    rates = [float(f"{10**power:.4g}") for power in np.arange(-5, -1.4, 0.5)]
    rng = np.random.default_rng(0)
    worth = np.array([0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 50.0, 0.0])  # two extensions: to the best, and beyond it
    values = worth[:, None, None] + rng.normal(size=(8, 8, 1)) + np.zeros(20)
    table = table_of(values, params=[{"learning_rate": rate} for rate in rates], marks=tuple(range(50, 1050, 50)))
    spec = spec_of([{"learning_rate": rate} for rate in rates[:4]], pruner="race")
    extension = RangeExtension(spec.trials)
    executor = TableExecutor(table, None)
    study, _ = run_search(spec, executor=executor, progress=False, extend_plan=extension)
    with study:
        plan = PlannedProposals(table, range(4), N_SEEDS)
        search = simulate(table, plan, design_of(spec), extend_plan=extension.further_rows)
        assert len(search.trials) == 8
        assert_same(table, study, search)

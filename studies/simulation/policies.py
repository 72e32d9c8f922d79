"""Search policies by name: a sampler, a scheduler and a confirmation, with as many runs as a budget allows."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from studies.errors import StudyError, nearest
from studies.simulation.decision import Decision
from studies.simulation.design import SearchDesign, scheduler_of
from studies.simulation.proposals import PlannedProposals, SampledProposals
from studies.simulation.run_table import RunTable
from studies.simulation.simulated_search import Proposals, SimulatedSearch, simulate
from studies.spaces.spaces import Json
from studies.spec.scheduler_names import canonical_pruner_name

SEARCH_PART = 0.7
"""Part of a budget that is spent before the finalists are run again, if it does not pay for all wanted runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPolicy:
    """Search over a table, as a study would run it with these settings.

    Attributes:
        pruner: Name of the pruner.
        pruner_kwargs: Its arguments.
        sampler: `plan` for all configurations of the table, in random order; or a sampler of Optuna, which proposes one
            trial after another, each on one seed, until the budget is spent.
        n_seeds: Seeds of each trial; None: as many as the budget pays for, with at least one left for the finalists.
        n_finalists: Best trials that are run again on further seeds; 0: none.
        n_further: Further seeds, at most.
        within: Whether there are only as many trials as the budget pays for. If not, the search stops when it is spent.
        at_once: Trials of a plan that run in step; None: all. A sampler proposes one at a time.
    """

    pruner: str = "none"
    pruner_kwargs: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    sampler: Literal["plan", "tpe"] = "plan"
    n_seeds: int | None = None
    n_finalists: int = 3
    n_further: int = 5
    within: bool = True
    at_once: int | None = None

    def __call__(self, table: RunTable, budget: float, rng: np.random.Generator) -> Decision:
        """Run the search and return its decision."""
        search = self.search(table, budget, rng)
        pick = int(rng.integers(len(table.configs))) if search.pick is None else search.pick
        return Decision(pick=pick, cost=search.cost, interval=search.interval, rate=search.verdict.rate)

    def search(self, table: RunTable, budget: float, rng: np.random.Generator) -> SimulatedSearch:
        """Run the search.

        Args:
            table: Finished runs.
            budget: Budget in whole runs, at least 1.
            rng: Draws the configurations, or the seed of the sampler.
        """
        n_configs, n_seeds = self._size(table, budget)
        design = self._design(table, n_seeds)
        proposals: Proposals
        if self.sampler == "plan":
            order = rng.permutation(len(table.configs))[:n_configs]
            proposals = PlannedProposals(table, [int(config) for config in order], n_seeds)
        else:
            most = min(table.counts) if self.n_finalists else max(table.counts)  # all configurations can be confirmed
            kept = min(self.n_further, most - 1) if self.n_finalists else 0  # seeds
            reserve = min(self.n_finalists * kept, (1 - SEARCH_PART) * budget) if budget >= 2 else 0.0
            seed = int(rng.integers(2**31))
            proposals = SampledProposals(table, self.sampler, seed, n_seeds=max(1, most - kept), reserve=reserve)
        return simulate(table, proposals, design, budget=budget)

    def _design(self, table: RunTable, n_seeds: int) -> SearchDesign:
        searched = {name for params in table.params for name in params}
        kwargs = {name: own for name, own in self.pruner_kwargs.items() if name != "per" or own in searched}
        return SearchDesign(
            scheduler=scheduler_of(self.pruner, kwargs, table.marks, searched),
            n_seeds=n_seeds,
            n_finalists=self.n_finalists,
            n_further=self.n_further,
            at_once=self.at_once if self.sampler == "plan" else 1,
        )

    def _size(self, table: RunTable, budget: float) -> tuple[int, int]:
        """Return the numbers of configurations and of seeds of each that the budget pays for."""
        n_configs, most = len(table.configs), max(table.counts)
        usable = max(1, min(table.counts) - 1) if self.n_finalists else most  # all configurations can be confirmed
        if self.sampler != "plan":
            return n_configs, 1
        if not self.within:
            return n_configs, min(self.n_seeds or 1, usable)
        cost = functools.partial(_cost, self.pruner, json.dumps(dict(self.pruner_kwargs)), table.marks, self.at_once)
        wanted = range(usable, 0, -1) if self.n_seeds is None else (min(self.n_seeds, usable),)
        for n_seeds in wanted:
            search = n_seeds * cost(n_configs)
            finalists = self.n_finalists * min(self.n_further, most - n_seeds)
            if search + finalists <= budget + 1e-9 or (self.n_finalists and search <= SEARCH_PART * budget):
                return n_configs, n_seeds
        least = wanted[-1]
        allowed = max(SEARCH_PART * budget, 1.0) if self.n_finalists else budget
        fits = [n for n in range(1, n_configs + 1) if least * cost(n) <= allowed + 1e-9]
        return max(fits, default=1), least


@functools.cache
def _cost(pruner: str, kwargs: str, marks: tuple[int, ...], at_once: int | None, n_trials: int) -> float:
    """Return what a search with one seed costs if its trials differ and keep their order, in whole runs.

    The arguments of the pruner are JSON text, which can be hashed.
    """
    names = tuple(map(str, range(n_trials)))
    values = np.arange(float(n_trials))[:, None, None].repeat(len(marks), axis=2)
    table = RunTable(configs=names, params=({},) * n_trials, seeds=(0,), marks=marks, values=values)
    known = {name: own for name, own in json.loads(kwargs).items() if name != "per"}
    design = SearchDesign(scheduler=scheduler_of(pruner, known, marks, ()), n_seeds=1, n_finalists=0, at_once=at_once)
    order = np.random.default_rng(0).permutation(n_trials) if at_once else np.arange(n_trials)
    return simulate(table, PlannedProposals(table, order.tolist(), 1), design).cost


POLICIES: Mapping[str, SearchPolicy] = {
    "race": SearchPolicy(pruner="race"),
    "default": SearchPolicy(
        pruner="race", pruner_kwargs=MappingProxyType({"per": "optimizer"}), n_seeds=3, within=False
    ),
    "sequential-test": SearchPolicy(pruner="sequential-test"),
    "keep-top": SearchPolicy(pruner="keep-top"),
    "halving": SearchPolicy(pruner="successive-halving"),
    "hyperband": SearchPolicy(pruner="hyperband"),
    "asha": SearchPolicy(pruner="asha", at_once=1),
    "median": SearchPolicy(pruner="median"),
    "percentile": SearchPolicy(pruner="percentile"),
    "grid": SearchPolicy(n_finalists=0),
    "random": SearchPolicy(n_seeds=1, n_finalists=0),
    "tpe-median": SearchPolicy(pruner="median", sampler="tpe"),
}
"""Policies that `finder replay` compares.

- `race`, `sequential-test`, `keep-top`, `halving`, `hyperband`, `median`, `percentile`: all configurations, on as many
  seeds as the budget pays for, with the defaults of that pruner; then a confirmation of the best three.
- `asha`: the same, with one trial after another, which is paused at rungs and continues when it is promoted.
- `default`: what `finder lr` and `finder opt` do: the rates of each optimizer race on three seeds, and the best three
  are run again on five further ones. It spends what it needs, and stops at the end of the budget.
- `grid`: all configurations to the end, on as many seeds as the budget pays for.
- `random`: random configurations to the end, on one seed each (Bergstra and Bengio 2012).
- `tpe-median`: Optuna's TPE sampler with the median pruner, and a confirmation of the best three.
"""


def make_policy(name: str) -> SearchPolicy:
    """Return the policy with a name, which may be any name of its pruner: `halving`, `successive-halving` and `sha`.

    Raises:
        StudyError: If there is none; names the nearest.
    """
    pruner = canonical_pruner_name(name)
    same = [own for own, each in POLICIES.items() if each.pruner == pruner != "none"]
    known = name if name in POLICIES else next(iter(same), None)
    if known is None:
        raise StudyError(f"there is no search policy {name!r}. {nearest(name, POLICIES)}")
    return POLICIES[known]

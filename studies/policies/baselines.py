"""Policies that everybody knows, to compare others with."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.values import iqm


def grid(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Every candidate to the end, on as many seeds as the budget has for all of them."""
    n_seeds = min(problem.n_seeds, int(problem.budget // problem.n_configs))
    if n_seeds < 1:
        return (yield from random_search(problem, rng))
    runs = [(config, seed) for config in range(problem.n_configs) for seed in range(n_seeds)]
    values = yield Round(runs=runs, mark=len(problem.shares) - 1)
    return best_of(values)


def random_search(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Candidates drawn at random, to the end, one seed each (Bergstra and Bengio 2012)."""
    n = min(problem.n_configs, int(problem.budget))
    chosen = rng.choice(problem.n_configs, n, replace=False)
    values = yield Round(runs=[(int(config), 0) for config in chosen], mark=len(problem.shares) - 1)
    return best_of(values)


def keep_top(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """All candidates for a while, then the best few of them to the end: half of the budget for each, one seed.

    The simplest rule there is, and often as good as any (Egele et al. 2023, "Is one epoch all you need?").
    """
    total = len(problem.shares) - 1
    first = max(
        (i for i, share in enumerate(problem.shares) if share * problem.n_configs <= problem.budget / 2), default=0
    )
    n_first = min(problem.n_configs, int(problem.budget / 2 / problem.shares[first]))
    chosen = _some(problem.n_configs, n_first, rng)
    values = yield Round(runs=[(config, 0) for config in chosen], mark=first)
    left = problem.budget - len(chosen) * problem.shares[first]
    n_kept = int(left / max(1e-9, 1 - problem.shares[first]) + 1e-9)
    kept = sorted(values, key=lambda run: -values[run])[:n_kept]
    if kept:
        values = yield Round(runs=kept, mark=total)
    return best_of(values)


def successive_halving(
    problem: Problem, rng: np.random.Generator, reduction_factor: int = 3
) -> Generator[Round, Values, Decision]:
    """Successive halving (Jamieson and Talwalkar 2016), one seed: a third of the candidates go on from each rung.

    As many rungs as the budget allows for all candidates, each with about the same cost.
    """
    return (yield from _bracket(problem, rng, problem.budget, _rungs(problem, reduction_factor), reduction_factor))


def hyperband(
    problem: Problem, rng: np.random.Generator, reduction_factor: int = 3
) -> Generator[Round, Values, Decision]:
    """Hyperband (Li et al. 2018): successive halving with every number of rungs, an equal share of the budget each.

    Brackets draw candidates anew, each on a seed of its own where there are enough.
    """
    n_rungs = _rungs(problem, reduction_factor)
    decisions: dict[int, list[float]] = {}
    for bracket in range(n_rungs):
        seed = bracket % problem.n_seeds
        rungs = n_rungs - bracket
        asked = _Bracket(problem.budget / n_rungs, rungs, reduction_factor, seed)
        ended = yield from _halve(problem, rng, asked)
        for (config, _), value in ended.items():
            decisions.setdefault(config, []).append(value)
    if not decisions:
        return (yield from random_search(problem, rng))
    return Decision(pick=max(decisions, key=lambda config: np.mean(decisions[config])))


def best_of(values: Values) -> Decision:
    """The candidate with the highest interquartile mean."""
    per: dict[int, list[float]] = {}
    for (config, _), value in values.items():
        per.setdefault(config, []).append(value)
    return Decision(pick=max(per, key=lambda config: float(iqm(per[config]))))


class _Bracket(NamedTuple):
    """Successive halving once: with this budget, so many rungs, one seed."""

    budget: float
    n_rungs: int
    factor: int
    seed: int


def _bracket(
    problem: Problem, rng: np.random.Generator, budget: float, n_rungs: int, factor: int
) -> Generator[Round, Values, Decision]:
    return best_of((yield from _halve(problem, rng, _Bracket(budget, n_rungs, factor, 0))))


def _halve(problem: Problem, rng: np.random.Generator, bracket: _Bracket) -> Generator[Round, Values, Values]:
    """One bracket; gives the values of those that came to the end."""
    budget, n_rungs, factor, seed = bracket
    marks = sorted({problem.mark(factor ** (rung - n_rungs + 1)) for rung in range(n_rungs)})
    shares = [problem.shares[mark] for mark in marks]
    n = problem.n_configs
    while n > 0 and _cost(n, shares, factor) > budget + 1e-9:
        n -= 1
    if n == 0:
        return {}
    runs: Sequence[tuple[int, int]] = [(config, seed) for config in _some(problem.n_configs, n, rng)]
    values: Values = {}
    for rung, mark in enumerate(marks):
        values = yield Round(runs=runs, mark=mark)
        if rung + 1 < len(marks):
            runs = sorted(values, key=lambda run: -values[run])[: max(1, math.ceil(len(runs) / factor))]
    return values


def _cost(n: int, shares: Sequence[float], factor: int) -> float:
    cost, before = 0.0, 0.0
    for share in shares:
        cost += n * (share - before)
        n, before = max(1, math.ceil(n / factor)), share
    return cost


def _rungs(problem: Problem, factor: int) -> int:
    """As many rungs as the marks allow, at most four."""
    return min(4, 1 + int(math.log(1 / problem.shares[0]) / math.log(factor) + 1e-9))


def _some(n: int, wanted: int, rng: np.random.Generator) -> list[int]:
    return sorted(int(config) for config in rng.choice(n, min(n, wanted), replace=False))

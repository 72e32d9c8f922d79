"""Well-known policies, as baselines."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.statistics.values import mean_of_seeds


def grid(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Train every candidate to the end, on as many seeds as the budget has for all of them."""
    n_seeds = min(problem.n_seeds, int(problem.budget // problem.n_configs))
    if n_seeds < 1:
        return (yield from random_search(problem, rng))
    runs = [(config, seed) for config in range(problem.n_configs) for seed in range(n_seeds)]
    values = yield Round(runs=runs, mark=len(problem.shares) - 1)
    return best_of(values)


def random_search(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Train random candidates to the end, on one seed each (Bergstra and Bengio 2012)."""
    n = min(problem.n_configs, int(problem.budget))
    chosen = rng.choice(problem.n_configs, n, replace=False)
    values = yield Round(runs=[(int(config), 0) for config in chosen], mark=len(problem.shares) - 1)
    return best_of(values)


def keep_top(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Train all candidates on one seed for a while, then the best few to the end on all seeds.

    Each phase gets half of the budget. If runs can be judged at their end only, this is `grid`.

    It is the simplest rule, and often as good as any (Egele et al. 2023, "Is one epoch all you need?").
    """
    if len(problem.shares) == 1:
        return (yield from grid(problem, rng))
    total = len(problem.shares) - 1
    fits = [i for i, share in enumerate(problem.shares[:-1]) if share * problem.n_configs <= problem.budget / 2]
    first = max(fits, default=0)
    share = problem.shares[first]
    n_first = min(problem.n_configs, int(problem.budget / 2 / share))
    chosen = _subset(problem.n_configs, n_first, rng)
    values = yield Round(runs=[(config, 0) for config in chosen], mark=first)
    left = problem.budget - len(chosen) * share
    if left < 1 - share:
        return best_of(values)
    n_seeds = max(1, min(problem.n_seeds, int(left + share + 1e-9)))
    n_kept = max(1, int(left / (n_seeds - share) + 1e-9))
    kept = [config for config, _ in _best_runs(values, n_kept, rng)]
    values = yield Round(runs=[(config, seed) for config in kept for seed in range(n_seeds)], mark=total)
    return best_of(values)


def successive_halving(
    problem: Problem, rng: np.random.Generator, reduction_factor: int = 3
) -> Generator[Round, Values, Decision]:
    """Run successive halving (Jamieson and Talwalkar 2016): a third of the candidates continue from each rung.

    It has as many rungs as the marks allow, at most four. The remaining budget pays for further brackets, each on
    another seed.
    """
    asked = [_rungs(problem, reduction_factor)] * problem.n_seeds
    return (yield from _brackets(problem, rng, asked, reduction_factor, share=1.0))


def hyperband(
    problem: Problem, rng: np.random.Generator, reduction_factor: int = 3
) -> Generator[Round, Values, Decision]:
    """Run Hyperband (Li et al. 2018): successive halving with every number of rungs, with equal shares of the budget.

    Each bracket draws new candidates and has its own seed; there are no more brackets than seeds.
    """
    n_rungs = _rungs(problem, reduction_factor)
    asked = [n_rungs - bracket for bracket in range(min(n_rungs, problem.n_seeds))]
    return (yield from _brackets(problem, rng, asked, reduction_factor, share=1 / len(asked)))


def _brackets(
    problem: Problem, rng: np.random.Generator, asked: Sequence[int], factor: int, share: float
) -> Generator[Round, Values, Decision]:
    """Run one bracket of each number of rungs, each on its own seed, while the budget lasts.

    The recommendation has the highest mean over the brackets in which it reached the end.
    """
    left, ended = problem.budget, dict[int, list[float]]()
    for seed, n_rungs in enumerate(asked):
        values, cost = yield from _halve(
            problem, rng, _Bracket(min(left, share * problem.budget), n_rungs, factor, seed)
        )
        left -= cost
        for (config, _), value in values.items():
            ended.setdefault(config, []).append(value)
        if not values:
            break
    if not ended:
        return (yield from random_search(problem, rng))
    most = max(map(len, ended.values()))
    return Decision(pick=max(ended, key=lambda config: (len(ended[config]) == most, float(np.mean(ended[config])))))


def best_of(values: Values) -> Decision:
    """Return the candidate with the highest mean over its seeds."""
    per: dict[int, list[float]] = {}
    for (config, _), value in values.items():
        per.setdefault(config, []).append(value)
    return Decision(pick=max(per, key=lambda config: float(mean_of_seeds(per[config]))))


class _Bracket(NamedTuple):
    """Bracket of successive halving: budget, number of rungs, and seed."""

    budget: float
    n_rungs: int
    factor: int
    seed: int


def _halve(
    problem: Problem, rng: np.random.Generator, bracket: _Bracket
) -> Generator[Round, Values, tuple[Values, float]]:
    """Run one bracket; return the final values of the survivors, and the cost."""
    budget, n_rungs, factor, seed = bracket
    marks = sorted({problem.mark(factor ** (rung - n_rungs + 1)) for rung in range(n_rungs)})
    shares = [problem.shares[mark] for mark in marks]
    n = problem.n_configs
    while n > 0 and _cost(n, shares, factor) > budget + 1e-9:
        n -= 1
    if n == 0:
        return {}, 0.0
    runs: Sequence[tuple[int, int]] = [(config, seed) for config in _subset(problem.n_configs, n, rng)]
    values: Values = {}
    for rung, mark in enumerate(marks):
        values = yield Round(runs=runs, mark=mark)
        if rung + 1 < len(marks):
            runs = _best_runs(values, max(1, math.ceil(len(runs) / factor)), rng)
    return values, _cost(n, shares, factor)


def _best_runs(values: Values, n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the best `n` runs, with ties broken arbitrarily."""
    chance = dict(zip(values, rng.random(len(values)), strict=True))
    return sorted(values, key=lambda run: (-values[run], chance[run]))[:n]


def _cost(n: int, shares: Sequence[float], factor: int) -> float:
    cost, before = 0.0, 0.0
    for share in shares:
        cost += n * (share - before)
        n, before = max(1, math.ceil(n / factor)), share
    return cost


def _rungs(problem: Problem, factor: int) -> int:
    """Return as many rungs as the marks allow, at most four."""
    return min(4, 1 + int(math.log(1 / problem.shares[0]) / math.log(factor) + 1e-9))


def _subset(n: int, wanted: int, rng: np.random.Generator) -> list[int]:
    return sorted(int(config) for config in rng.choice(n, min(n, wanted), replace=False))

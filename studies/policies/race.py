"""Racing: all candidates begin, those that fall behind leave, and the rest of the budget goes to what is undecided.

Candidates are compared on several seeds; who stays at a rung is `studies.racing`, as in a study with the pruner `race`,
and at most as many as the budget has room for. The last part of the budget belongs to the finalists: they are run on
seeds that took no part in choosing them, and only these say what the pick is worth.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.racing import LEVEL, NEIGHBOURS, Racer, scores, staying
from studies.statistics import estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """How a race spends its budget.

    Attributes:
        rungs: Shares of a run at which candidates leave; the last one is 1.
        spending: Shares of the budget that are spent until each of these rungs; the rest goes to the finalists.
        n_seeds: Seeds on which candidates race, where the budget has room for so many.
        level: Confidence with which a candidate must be told from the best before it leaves, where there is room.
        neighbours: Weight of the two neighbouring rates in the curve that is compared, from 0 to 1.
    """

    rungs: tuple[float, ...] = (0.1, 0.3, 1.0)
    spending: tuple[float, ...] = (0.3, 0.55, 0.85)
    n_seeds: int = 3
    level: float = LEVEL
    neighbours: float = NEIGHBOURS


def race(
    problem: Problem, rng: np.random.Generator, settings: RaceSettings | None = None
) -> Generator[Round, Values, Decision]:
    """Runs a race; see the module.

    Args:
        problem: What is searched.
        rng: Draws candidates where the budget is too small for all, and breaks ties.
        settings: How the budget is spent.
    """
    chosen = settings or RaceSettings()
    marks = sorted({problem.mark(rung) for rung in chosen.rungs})
    spending = chosen.spending[-len(marks) :]
    n_seeds = max(1, min(chosen.n_seeds, problem.n_seeds - 1))
    while n_seeds > 1 and problem.shares[marks[0]] * n_seeds * problem.n_configs > spending[0] * problem.budget + 1e-9:
        n_seeds -= 1
    first = problem.shares[marks[0]] * n_seeds
    n_first = min(problem.n_configs, int(problem.budget * spending[0] / first + 1e-9))
    if n_first < 1:  # there is not even room for one candidate in each stage
        return (yield from _one_run_each(problem, rng))
    alive = sorted(int(config) for config in rng.choice(problem.n_configs, n_first, replace=False))
    cost, before, at = 0.0, 0.0, 0
    values: Values = {}
    for rung, mark in enumerate(marks):
        share = problem.shares[mark]
        if rung:
            room = int((problem.budget * spending[rung] - cost) / ((share - before) * n_seeds) + 1e-9)
            if room < 1:
                break
            alive = staying(_racers(problem, values), level=chosen.level, neighbours=chosen.neighbours, room=room)
        values = yield Round(runs=[(config, seed) for config in alive for seed in range(n_seeds)], mark=mark)
        cost += len(alive) * n_seeds * (share - before)
        before, at = share, mark
    worth = scores(_racers(problem, values), chosen.neighbours)
    finalists = sorted(alive, key=lambda config: -worth[config])
    whole = values if at == len(problem.shares) - 1 else {}
    return (yield from _final(problem, whole, finalists, n_seeds, int(problem.budget - cost + 1e-9)))


def _one_run_each(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """As many candidates as there is room for, to the end."""
    chosen = rng.choice(problem.n_configs, min(problem.n_configs, max(1, int(problem.budget))), replace=False)
    values = yield Round(runs=[(int(config), 0) for config in chosen], mark=len(problem.shares) - 1)
    return Decision(pick=max(values, key=lambda run: values[run])[0])


def _final(
    problem: Problem, whole: Values, finalists: Sequence[int], n_seeds: int, n_left: int
) -> Generator[Round, Values, Decision]:
    """The finalists on seeds of their own. The best of the race stands, unless all seeds tell it from a better one.

    Args:
        problem: What is searched.
        whole: What they were worth in the race at the end of their runs; empty where they did not come so far.
        finalists: The best of the race first.
        n_seeds: Seeds of the race.
        n_left: Whole runs that are left.
    """
    n_fresh = problem.n_seeds - n_seeds
    n = max(1, min(len(finalists), n_left // max(1, n_fresh)))
    fresh = min(n_fresh, n_left // n)
    if fresh < 1:
        return Decision(pick=finalists[0])
    kept = list(finalists[:n])
    runs = [(config, seed) for config in kept for seed in range(n_seeds, n_seeds + fresh)]
    held_out = yield Round(runs=runs, mark=len(problem.shares) - 1)
    both = [[*a, *b] for a, b in zip(_by_config(whole, kept), _by_config(held_out, kept), strict=True)]
    estimates = estimate(both)
    level = estimates.may_be_best()
    at = 0 if level[0] else int(np.argmax(estimates.centers))
    tied = tuple(config for config, is_level in zip(kept, level, strict=True) if is_level)
    if n == 1 and fresh == 1:
        return Decision(pick=kept[at], tied=tied)
    low, high = estimate(_by_config(held_out, kept)).interval()
    return Decision(pick=kept[at], tied=tied, interval=(float(low[at]), float(high[at])))


def _racers(problem: Problem, values: Values) -> list[Racer]:
    """All candidates with what their seeds are worth; those without values are out."""
    known: dict[int, list[float]] = {}
    for (config, _), value in sorted(values.items()):
        known.setdefault(config, []).append(value)
    return [
        Racer(
            values=tuple(known.get(config, ())),
            group=problem.groups[config] if problem.groups else None,
            position=problem.positions[config] if problem.groups else math.nan,
        )
        for config in range(problem.n_configs)
    ]


def _by_config(values: Values, configs: Sequence[int]) -> list[list[float]]:
    return [[value for (own, _), value in sorted(values.items()) if own == config] for config in configs]

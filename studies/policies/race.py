"""Racing: all candidates begin, those that fall behind leave, and the rest of the budget goes to what is undecided.

Three things set it apart from successive halving. Candidates are compared on several seeds, with intervals that hold
for few of them (`studies.statistics`). Learning rates are compared along their curve: neighbours say something about
each other, which takes out noise, and since a short horizon favours rates that are too high, the next lower rate of one
that stays is kept too. And the last part of the budget belongs to the finalists: they are run on seeds that took no
part in choosing them, and only these seeds say what the pick is worth.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.statistics import Estimates, estimate

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """How a race spends its budget.

    Attributes:
        rungs: Shares of a run at which candidates leave; the last one is 1.
        spending: Shares of the budget that are spent until each of these rungs; the rest goes to the finalists.
        n_seeds: Seeds on which candidates race.
        neighbours: Weight of the two neighbouring rates in the curve that is compared, from 0 to 1.
    """

    rungs: tuple[float, ...] = (0.1, 0.3, 1.0)
    spending: tuple[float, ...] = (0.3, 0.55, 0.85)
    n_seeds: int = 3
    neighbours: float = 0.5


def race(
    problem: Problem, rng: np.random.Generator, settings: RaceSettings | None = None
) -> Generator[Round, Values, Decision]:
    """Runs a race; see the module.

    Args:
        problem: What is searched. One seed at least is left for the finalists.
        rng: Draws candidates where the budget is too small for all.
        settings: How the budget is spent.
    """
    chosen = settings or RaceSettings()
    n_seeds = max(1, min(chosen.n_seeds, problem.n_seeds - 1))
    marks = sorted({problem.mark(rung) for rung in chosen.rungs})
    first = problem.shares[marks[0]] * n_seeds
    while n_seeds > 1 and first * problem.n_configs > chosen.spending[0] * problem.budget + 1e-9:
        n_seeds -= 1
        first = problem.shares[marks[0]] * n_seeds
    n_first = min(problem.n_configs, max(1, int(problem.budget * chosen.spending[0] / first + 1e-9)))
    alive = sorted(int(c) for c in rng.choice(problem.n_configs, n_first, replace=False))
    cost, before = 0.0, 0.0
    values: Values = {}
    for rung, mark in enumerate(marks):
        share = problem.shares[mark]
        if rung:
            step = (share - before) * n_seeds
            room = int((problem.budget * chosen.spending[rung] - cost) / step + 1e-9)
            if room < 1:
                break
            alive = _that_stay(problem, values, alive, room, chosen.neighbours)
        values = yield Round(runs=[(config, seed) for config in alive for seed in range(n_seeds)], mark=mark)
        cost += len(alive) * n_seeds * (share - before)
        before = share
    scores = _scores(problem, values, alive, chosen.neighbours)
    n_left = int(problem.budget - cost + 1e-9)
    finalists = sorted(alive, key=lambda config: -scores[config])
    return (yield from _final(problem, values, finalists, n_seeds, n_left))


def _final(
    problem: Problem, values: Values, finalists: Sequence[int], n_seeds: int, n_left: int
) -> Generator[Round, Values, Decision]:
    """The finalists on seeds of their own."""
    n_fresh = problem.n_seeds - n_seeds
    n = max(1, min(len(finalists), n_left // max(1, n_fresh)))
    fresh = min(n_fresh, n_left // n)
    if fresh < 1:
        return _decide(finalists, estimate(_by_config(values, finalists)))
    kept = list(finalists[:n])
    held_out = yield Round(
        runs=[(config, seed) for config in kept for seed in range(n_seeds, n_seeds + fresh)],
        mark=len(problem.shares) - 1,
    )
    both = [[*a, *b] for a, b in zip(_by_config(values, kept), _by_config(held_out, kept), strict=True)]
    decision = _decide(kept, estimate(both))
    confirmed = estimate(_by_config(held_out, kept))
    low, high = confirmed.interval()
    at = kept.index(decision.pick)
    return Decision(pick=decision.pick, tied=decision.tied, interval=(float(low[at]), float(high[at])))


def _decide(configs: Sequence[int], estimates: Estimates) -> Decision:
    tied = tuple(config for config, may in zip(configs, estimates.may_be_best(), strict=True) if may)
    low, high = estimates.interval()
    at = int(np.argmax(estimates.centers))
    return Decision(pick=configs[at], tied=tied, interval=(float(low[at]), float(high[at])))


def _that_stay(problem: Problem, values: Values, alive: Sequence[int], room: int, neighbours: float) -> list[int]:
    scores = _scores(problem, values, alive, neighbours)
    ordered = sorted(alive, key=lambda config: -scores[config])
    kept: list[int] = []
    for config in ordered:
        for candidate in (config, _next_lower(problem, config, alive)):
            if candidate is not None and candidate not in kept and len(kept) < room:
                kept.append(candidate)
    return sorted(kept)


def _next_lower(problem: Problem, config: int, alive: Sequence[int]) -> int | None:
    """The candidate of the same group with the next lower rate, if it is still there."""
    if not problem.groups:
        return None
    lower = [
        other
        for other in alive
        if problem.groups[other] == problem.groups[config] and problem.positions[other] < problem.positions[config]
    ]
    return max(lower, key=lambda other: problem.positions[other], default=None)


def _scores(problem: Problem, values: Values, alive: Sequence[int], neighbours: float) -> Mapping[int, float]:
    """What each candidate is worth, with a share of what its neighbours in learning rate are."""
    centers = dict(zip(alive, estimate(_by_config(values, alive)).centers.tolist(), strict=True))
    if not problem.groups:
        return centers
    smooth = {}
    for config in alive:
        near = [
            other
            for other in alive
            if problem.groups[other] == problem.groups[config]
            and other != config
            and math.isclose(
                abs(problem.positions[other] - problem.positions[config]), _gap(problem, config), abs_tol=0.01
            )
        ]
        weight = neighbours / 2
        total = 1 + weight * len(near)
        smooth[config] = (centers[config] + weight * sum(centers[other] for other in near)) / total
    return smooth


def _gap(problem: Problem, config: int) -> float:
    """Decades to the nearest rate of the same group."""
    own = problem.positions[config]
    others = [
        abs(position - own)
        for position, group in zip(problem.positions, problem.groups, strict=True)
        if group == problem.groups[config] and position != own
    ]
    return min(others, default=0.0)


def _by_config(values: Values, configs: Sequence[int]) -> list[list[float]]:
    return [[value for (own, _), value in sorted(values.items()) if own == config] for config in configs]

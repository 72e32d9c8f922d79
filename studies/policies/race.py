"""Race on a budget: the worst candidates are removed at rungs, and the savings go to the best few.

Candidates race on as many seeds as the budget has for all of them (at least one), with the scores of the pruner `race`
(`studies.statistics.racing`). The savings go to the finalists: they are run on further seeds, which alone determine the
value of the recommendation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.statistics.intervals import estimate
from studies.statistics.racing import Racer, scores


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """Settings of a race.

    Attributes:
        first: Share of a run at which candidates may be removed first.
        step: Distance between rungs, as a share of a run.
        spending: Share of the budget for the race; the rest is for the finalists.
        together: Share of a run from which groups compete. Before, the same number of each group continues: the early
            progress of an optimizer predicts little of its final value.
    """

    first: float = 0.2
    step: float = 0.1
    spending: float = 0.7
    together: float = 0.6


def race(
    problem: Problem, rng: np.random.Generator, settings: RaceSettings | None = None
) -> Generator[Round, Values, Decision]:
    """Run a race; see the module.

    Args:
        problem: Search problem.
        rng: Draws candidates if the budget is too small for all, and breaks ties.
        settings: Settings of the race.
    """
    chosen = settings or RaceSettings()
    rungs = _rungs(problem, chosen)
    limit = chosen.spending * problem.budget
    shares = [problem.shares[rung] for rung in rungs]
    n_seeds = max(1, min(int(problem.budget / problem.n_configs + 1e-9), problem.n_seeds - 1))
    n_first = min(problem.n_configs, int(limit / shares[0] / n_seeds + 1e-9))
    if limit < 1 or problem.n_configs == 1:  # the budget does not suffice for one candidate, or there is no other
        return (yield from _one_run_each(problem, rng))
    sizes = _sizes(n_first, shares, limit / n_seeds)
    alive = sorted(int(config) for config in rng.choice(problem.n_configs, sizes[0], replace=False))
    chance = rng.random(problem.n_configs)
    values: Values = {}
    for k, (mark, size) in enumerate(zip(rungs, sizes, strict=True)):
        if k:
            worth = scores(racers_of(problem, _by_config(values)), shares[k - 1])
            order = sorted(worth, key=lambda i: (-worth[i], chance[i]))
            if shares[k - 1] < chosen.together - 1e-9:
                order = _by_place(problem, order)
            alive = sorted(order[:size])
        values = yield Round(runs=[(config, seed) for config in alive for seed in range(n_seeds)], mark=mark)
    worth = scores(racers_of(problem, _by_config(values)), 1.0)
    finalists = sorted(alive, key=lambda config: (-worth[config], chance[config]))
    n_left = int(problem.budget - n_seeds * _cost(sizes, shares) + 1e-9)
    return (yield from _final(problem, values, finalists, n_left))


def _rungs(problem: Problem, chosen: RaceSettings) -> list[int]:
    """Return the marks at which candidates may be removed, and the end."""
    n = math.ceil((1 - chosen.first) / chosen.step - 1e-9)
    shares = [min(1.0, chosen.first + i * chosen.step) for i in range(n + 1)]
    return sorted({problem.mark(share) for share in shares})


def _sizes(n: int, shares: Sequence[float], budget: float) -> list[int]:
    """Return how many of `n` candidates reach each rung, in proportion to a negative power of its share.

    The power is as small as the budget allows: with 0 all reach the end; with 1, as in successive halving, every octave
    has the same cost.
    """
    power = 0.0
    while True:
        sizes = [n, *(max(1, int(n * (share / shares[0]) ** -power + 1e-9)) for share in shares[1:])]
        if _cost(sizes, shares) <= budget + 1e-9:
            return sizes
        if set(sizes[1:]) == {1}:  # not all candidates can start
            return _sizes(n - 1, shares, budget)
        power += 0.05


def _cost(sizes: Sequence[int], shares: Sequence[float]) -> float:
    """Return the cost of these numbers of candidates at the rungs, in whole runs."""
    parts = (after - before for before, after in itertools.pairwise((0.0, *shares)))
    return sum(size * part for size, part in zip(sizes, parts, strict=True))


def _by_place(problem: Problem, order: Sequence[int]) -> list[int]:
    """Return the best of each group first, then the second best of each, and so on."""
    groups: dict[Hashable, list[int]] = {}
    for config in order:
        groups.setdefault(problem.groups[config] if problem.groups else None, []).append(config)
    places = {config: place for members in groups.values() for place, config in enumerate(members)}
    return sorted(order, key=lambda config: places[config])  # ties: the first ones in `order`


def _one_run_each(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Train as many candidates to the end as the budget allows."""
    chosen = rng.choice(problem.n_configs, min(problem.n_configs, max(1, int(problem.budget))), replace=False)
    values = yield Round(runs=[(int(config), 0) for config in chosen], mark=len(problem.shares) - 1)
    return Decision(pick=max(values, key=lambda run: values[run])[0])


def _final(
    problem: Problem, whole: Values, finalists: Sequence[int], n_left: int
) -> Generator[Round, Values, Decision]:
    """Run the finalists on their own seeds.

    All seeds choose among them; only their own determine the value of the pick.

    Args:
        problem: Search problem.
        whole: Final values of the race.
        finalists: Finalists, the best of the race first.
        n_left: Remaining whole runs.
    """
    n_seeds = len({seed for _, seed in whole})
    n_fresh = problem.n_seeds - n_seeds
    n = max(1, min(len(finalists), n_left // max(1, n_fresh)))
    fresh = min(n_fresh, n_left // n)
    if fresh < 1:
        return Decision(pick=finalists[0])
    kept = list(finalists[:n])
    runs = [(config, seed) for config in kept for seed in range(n_seeds, n_seeds + fresh)]
    held_out = yield Round(runs=runs, mark=len(problem.shares) - 1)
    further, together = _by_config(held_out), _by_config({**whole, **held_out})
    worth = scores(racers_of(problem, together), 1.0)
    at = int(np.argmax([worth[config] for config in kept]))
    if n == 1 and fresh == 1:
        return Decision(pick=kept[at])
    low, high = estimate([further[config] for config in kept]).interval()
    return Decision(pick=kept[at], interval=(float(low[at]), float(high[at])))


def racers_of(problem: Problem, values: Mapping[int, Sequence[float]]) -> list[Racer]:
    """Return all candidates with the values of their seeds; those without values were removed."""
    return [
        Racer(
            values=tuple(values.get(config, ())),
            group=problem.groups[config] if problem.groups else None,
            position=problem.positions[config] if problem.groups else math.nan,
        )
        for config in range(problem.n_configs)
    ]


def _by_config(values: Values) -> dict[int, list[float]]:
    """Return the values of the seeds of each candidate, in order."""
    known: dict[int, list[float]] = {}
    for (config, _), value in sorted(values.items()):
        known.setdefault(config, []).append(value)
    return known

"""Racing on a budget: all candidates begin, those that fall behind leave, and the rest goes to what is undecided.

Candidates are compared on several seeds, by the same rules as in a study with the pruner `race` (`studies.racing`), and
from rung to rung fewer of them go on, so that the budget lasts to the end. Its last part belongs to the finalists: they
are run on seeds that took no part in choosing them, and only these say what the pick is worth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.racing import LEVEL, Racer, scores, staying
from studies.statistics import estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """How a race spends its budget.

    Attributes:
        first: Share of a run at which candidates may leave first.
        step: How much of a run lies between one rung and the next.
        spending: Share of the budget that the race may take; the rest is the finalists'.
        n_seeds: Seeds on which candidates race, where the budget has room for so many.
        together: Share of a run from which groups compete. Before, the best of each go on, equally many: how fast an
            optimizer begins says little about how far it comes.
        level: Confidence with which a candidate must be told from the best before it leaves although there is room.
    """

    first: float = 0.2
    step: float = 0.1
    spending: float = 0.7
    n_seeds: int = 2
    level: float = LEVEL
    together: float = 0.6


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
    rungs = _rungs(problem, chosen)
    limit = chosen.spending * problem.budget
    n_seeds = max(1, min(chosen.n_seeds, problem.n_seeds - 1))
    while n_seeds > 1 and problem.shares[rungs[0]] * n_seeds * problem.n_configs > limit + 1e-9:
        n_seeds -= 1
    n_first = min(problem.n_configs, int(limit / (problem.shares[rungs[0]] * n_seeds) + 1e-9))
    if n_first < 1 or limit < n_seeds:  # there is not even room for one candidate to its end
        return (yield from _one_run_each(problem, rng))
    alive = sorted(int(config) for config in rng.choice(problem.n_configs, n_first, replace=False))
    chance = rng.random(problem.n_configs)
    cost, share = 0.0, 0.0
    values: Values = {}
    for k, mark in enumerate(rungs):
        if k:
            racers = racers_of(problem, _by_config(values))
            worth = scores(racers, share)
            stay = staying(racers, share, level=chosen.level)
            order = sorted(stay, key=lambda i: (-worth[i], chance[i]))
            if share < chosen.together - 1e-9:
                order = _by_place(problem, order)
            ahead = [problem.shares[rung] for rung in rungs[k - 1 :]]
            alive = sorted(order[: _room(len(alive), ahead, n_seeds, limit - cost)])
        values = yield Round(runs=[(config, seed) for config in alive for seed in range(n_seeds)], mark=mark)
        cost += len(alive) * n_seeds * (problem.shares[mark] - share)
        share = problem.shares[mark]
    worth = scores(racers_of(problem, _by_config(values)), 1.0)
    finalists = sorted(alive, key=lambda config: (-worth[config], chance[config]))
    n_left = int(problem.budget - cost + 1e-9)
    return (yield from _final(problem, values, finalists, n_left))


def _rungs(problem: Problem, chosen: RaceSettings) -> list[int]:
    """Marks at which candidates may leave, and the end."""
    n = math.ceil((1 - chosen.first) / chosen.step - 1e-9)
    shares = [min(1.0, chosen.first + i * chosen.step) for i in range(n + 1)]
    return sorted({problem.mark(share) for share in shares})


def _by_place(problem: Problem, order: Sequence[int]) -> list[int]:
    """The best of each group first, then the second best of each, and so on."""
    groups: dict[Hashable, list[int]] = {}
    for config in order:
        groups.setdefault(problem.groups[config] if problem.groups else None, []).append(config)
    places = {config: place for members in groups.values() for place, config in enumerate(members)}
    return sorted(order, key=lambda config: places[config])  # of equals, those that come first in `order`


def _room(n: int, shares: Sequence[float], n_seeds: int, budget: float) -> int:
    """How many of `n` candidates may go on from the first of these shares of a run to the next.

    As many as there are if the budget lasts for all, otherwise fewer at every rung, in proportion to a power of the
    share that they have behind them: with the power 1, that is successive halving, every octave costs the same.
    """

    def cost(power: float) -> float:
        return sum(
            max(1.0, n * math.pow(after / shares[0], -power)) * n_seeds * (after - before)
            for before, after in itertools.pairwise(shares)
        )

    power = 0.0
    while cost(power) > budget + 1e-9 and power < _STEEPEST:
        power += 0.05
    affordable = int(budget / (n_seeds * (shares[1] - shares[0])) + 1e-9)
    return max(1, min(int(n * (shares[1] / shares[0]) ** -power + 1e-9), affordable))


_STEEPEST = 10.0
"""Power beyond which nothing is gained."""


def _one_run_each(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """As many candidates as there is room for, to the end."""
    chosen = rng.choice(problem.n_configs, min(problem.n_configs, max(1, int(problem.budget))), replace=False)
    values = yield Round(runs=[(int(config), 0) for config in chosen], mark=len(problem.shares) - 1)
    return Decision(pick=max(values, key=lambda run: values[run])[0])


def _final(
    problem: Problem, whole: Values, finalists: Sequence[int], n_left: int
) -> Generator[Round, Values, Decision]:
    """The finalists on seeds of their own. All seeds choose among them; what the pick is worth say its own seeds only.

    Args:
        problem: What is searched.
        whole: What they were worth at the end of the race.
        finalists: The best of the race first.
        n_left: Whole runs that are left.
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
    level = estimate([together[config] for config in kept]).may_be_best()
    worth = scores(racers_of(problem, together), 1.0)
    at = int(np.argmax([worth[config] for config in kept]))
    tied = tuple(config for config, is_level in zip(kept, level, strict=True) if is_level)
    if n == 1 and fresh == 1:
        return Decision(pick=kept[at], tied=tied)
    low, high = estimate([further[config] for config in kept]).interval()
    return Decision(pick=kept[at], tied=tied, interval=(float(low[at]), float(high[at])))


def racers_of(problem: Problem, values: Mapping[int, Sequence[float]]) -> list[Racer]:
    """All candidates with what their seeds are worth; those without values are out."""
    return [
        Racer(
            values=tuple(values.get(config, ())),
            group=problem.groups[config] if problem.groups else None,
            position=problem.positions[config] if problem.groups else math.nan,
        )
        for config in range(problem.n_configs)
    ]


def _by_config(values: Values) -> dict[int, list[float]]:
    """What the seeds of each candidate are worth, in their order."""
    known: dict[int, list[float]] = {}
    for (config, _), value in sorted(values.items()):
        known.setdefault(config, []).append(value)
    return known

"""Replay of a search policy over a table of finished runs: its recommendation, cost and regret."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.errors import StudyError
from studies.policies.policy import Decision, Policy, Problem
from studies.policies.run_table import RunTable
from studies.statistics.rate_curve import log10_rate
from studies.statistics.values import mean_of_seeds

Array = np.ndarray[Any, Any]


_PLATEAU = 0.02
"""Share of the range of all candidates within which neighbouring learning rates are equally good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Result of one replay.

    Attributes:
        decision: Decision of the policy.
        cost: Cost in whole runs.
        regret: Mean of the best candidate minus that of the pick, on the seeds that the policy did not see, as a share
            of the range of all candidates. The best is the one with the highest mean over all seeds of the table.
            Negative if the pick did better on these seeds.
        decades: Decimal logarithm of the learning rate of the pick over the best one of its group, which is the middle
            of the rates around the best candidate that are as good to 2% of the range; NaN without learning rates.
    """

    decision: Decision
    cost: float
    regret: float
    decades: float


def replay(
    table: RunTable, policy: Policy, *, budget: float, rng: np.random.Generator, n_seeds: int | None = None
) -> Replayed:
    """Replay a policy once, on seeds drawn from the table.

    Args:
        table: Finished runs.
        policy: Policy.
        budget: Budget in whole runs.
        rng: Draws the seeds that the policy sees, and the random numbers of the policy.
        n_seeds: Seeds that the policy may see; the others judge it. Defaults to half of them.

    Raises:
        StudyError: If there are too few seeds, or the policy exceeds its budget or continues an abandoned run.
    """
    total = len(table.seeds)
    seen = total // 2 if n_seeds is None else n_seeds
    if budget < 1:
        raise StudyError(f"the budget is {budget:g} whole runs: a search needs at least 1.")
    if not 0 < seen < total:
        raise StudyError(f"the policy may see {seen} of {total} seeds: at least one has to be left to judge it.")
    order = rng.permutation(total)
    decision, cost = run_policy(table.only_seeds(order[:seen]), policy, budget=budget, rng=rng)
    unseen, everything = mean_of_seeds(table.values[:, order[seen:], -1]), mean_of_seeds(table.values[:, :, -1])
    best = int(np.argmax(everything))
    span = float(np.ptp(everything)) or 1.0
    return Replayed(
        decision=decision,
        cost=cost,
        regret=float(unseen[best] - unseen[decision.pick]) / span,
        decades=_decades(table, decision.pick, everything),
    )


CLOSE = 0.05
"""Share of the range of all candidates within which a pick is as good as the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of many replays of a policy over a table.

    Attributes:
        close: Share of the replays whose regret is at most `CLOSE`.
        regret: Mean regret.
        cost: Mean cost in whole runs.
        within_factor_3: Share of the picks whose learning rate is within a factor of 3 of the best; None without rates.
        decades: Mean of `Replayed.decades`, the bias of the rate; None without rates.
    """

    close: float
    regret: float
    cost: float
    within_factor_3: float | None
    decades: float | None


def summary(replayed: Sequence[Replayed]) -> Summary:
    """Return the summary of replays of one policy over one table."""
    decades = np.array([each.decades for each in replayed])
    has_rates = not np.isnan(decades).any()
    return Summary(
        close=float(np.mean([each.regret <= CLOSE for each in replayed])),
        regret=float(np.mean([each.regret for each in replayed])),
        cost=float(np.mean([each.cost for each in replayed])),
        within_factor_3=float(np.mean(np.abs(decades) <= math.log10(3) + 1e-6)) if has_rates else None,
        decades=float(decades.mean()) if has_rates else None,
    )


def replay_often(table: RunTable, policy: Policy, *, budget: float, n: int = 200, seed: int = 0) -> list[Replayed]:
    """Replay a policy `n` times, each on other seeds; the seeds are the same for every policy."""
    return [replay(table, policy, budget=budget, rng=np.random.default_rng((seed, i))) for i in range(n)]


def coverage(table: RunTable, policy: Policy, *, budget: float, n: int = 200, seed: int = 0) -> float | None:
    """Return how often the interval of a policy contains the value of its pick.

    The seeds of a table are too few to serve as the truth for halves of them. They are therefore taken as the
    population: the policy sees as many as in `replay`, drawn with replacement, and the truth is the mean of that
    population.

    Returns:
        The share, None if the policy has no intervals.
    """
    truth = mean_of_seeds(table.values[:, :, -1])
    held = []
    for i in range(n):
        rng = np.random.default_rng((seed, i))
        drawn = rng.integers(0, len(table.seeds), len(table.seeds) // 2)
        decision, _ = run_policy(table.only_seeds(drawn), policy, budget=budget, rng=rng)
        if decision.interval is not None:
            low, high = decision.interval
            held.append(low - 1e-9 <= truth[decision.pick] <= high + 1e-9)
    return float(np.mean(held)) if held else None


def run_policy(table: RunTable, policy: Policy, *, budget: float, rng: np.random.Generator) -> tuple[Decision, float]:
    """Run a policy to its end over a table; return its decision and its cost in whole runs.

    Raises:
        StudyError: See `replay`.
    """
    groups, positions = groups_of(table)
    problem = Problem(
        n_configs=len(table.configs),
        n_seeds=len(table.seeds),
        shares=tuple(table.shares.tolist()),
        budget=budget,
        groups=groups,
        positions=positions,
    )
    deciding = policy(problem, rng)
    shares, reached, given_up = table.shares, dict[tuple[int, int], int](), set[tuple[int, int]]()
    cost, values = 0.0, None
    while True:
        try:
            wanted = deciding.send(values) if values is not None else next(deciding)
        except StopIteration as end:
            return end.value, cost
        runs = sorted(set(wanted.runs))
        given_up |= {run for run, mark in reached.items() if run not in wanted.runs and mark < len(shares) - 1}
        again = [run for run in runs if run in given_up]
        if again:
            raise StudyError(f"the policy continues config {again[0][0]} on seed {again[0][1]}, which it abandoned.")
        for run in runs:
            before = shares[reached[run]] if run in reached else 0.0
            cost += max(0.0, shares[wanted.mark] - before)
            reached[run] = max(wanted.mark, reached.get(run, 0))
        if cost > budget + 1e-6:
            raise StudyError(f"the policy spent {cost:.1f} whole runs, and may spend {budget:.1f}.")
        values = {(config, seed): float(table.values[config, seed, wanted.mark]) for config, seed in runs}


def groups_of(table: RunTable) -> tuple[tuple[Hashable, ...], tuple[float, ...]]:
    """Return the group of each config and the decimal logarithm of its learning rate; empty without that column."""
    positions = tuple(log10_rate(params.get("learning_rate")) for params in table.params)
    if not all(map(math.isfinite, positions)):
        return (), ()
    groups = tuple(
        tuple(sorted((name, str(value)) for name, value in params.items() if name != "learning_rate"))
        for params in table.params
    )
    return groups, positions


def plateau(table: RunTable, config: int, worth: Array) -> tuple[int, int]:
    """Return the first and the last config of the rates that are as good as the best of a group, to 2% of the range.

    Args:
        table: Finished runs, with learning rates.
        config: A config of the group.
        worth: [C] value of each config.
    """
    groups, positions = groups_of(table)
    same = sorted((i for i, group in enumerate(groups) if group == groups[config]), key=lambda i: positions[i])
    best = max(range(len(same)), key=lambda k: worth[same[k]])
    enough = worth[same[best]] - _PLATEAU * (float(np.ptp(worth)) or 1.0)
    first = last = best
    while first > 0 and worth[same[first - 1]] >= enough:
        first -= 1
    while last + 1 < len(same) and worth[same[last + 1]] >= enough:
        last += 1
    return same[first], same[last]


def _decades(table: RunTable, pick: int, worth: Array) -> float:
    groups, positions = groups_of(table)
    if not groups:
        return math.nan
    first, last = plateau(table, pick, worth)
    return positions[pick] - (positions[first] + positions[last]) / 2

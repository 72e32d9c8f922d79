"""Replay of a search policy over a table of finished runs: its recommendation, cost and regret."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.errors import StudyError
from studies.simulation.decision import Decision, Policy
from studies.simulation.run_table import RunTable
from studies.simulation.table_groups import groups_of, plateau
from studies.statistics.values import mean_of_seeds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Result of one replay.

    Attributes:
        decision: Decision of the search.
        regret: Mean of the best candidate minus that of the pick, on the seeds that the search did not
            see, as a share of the range of all candidates. The best is the one with the highest mean over
            all seeds of the table. Negative if the pick did better on these seeds.
        decades: Decimal logarithm of the learning rate of the pick over the best one of its group, which is the middle
            of the rates around the best candidate that are as good to 2% of the range; NaN without learning rates.
    """

    decision: Decision
    regret: float
    decades: float


def replay(table: RunTable, policy: Policy, *, budget: float, rng: np.random.Generator) -> Replayed:
    """Replay a policy once, on half of the seeds, drawn from the table; the others judge it.

    Args:
        table: Finished runs.
        policy: Search policy.
        budget: Budget in whole runs.
        rng: Draws the seeds that the search sees, and its random numbers.

    Raises:
        StudyError: If there are too few seeds, or the policy exceeds its budget.
    """
    if budget < 1:
        raise StudyError(f"the budget is {budget:g} whole runs: a search needs at least 1.")
    seen = [count // 2 for count in table.counts]
    for config, count, own in zip(table.configs, table.counts, seen, strict=True):
        if own < 1:
            raise StudyError(
                f"the search may see {own} of {count} seeds of {config!r}: at least one has to be left to judge it."
            )
    orders = _orders(table, rng)
    decision = run_policy(table.only_seeds(_first(orders, seen)), policy, budget=budget, rng=rng)
    unseen = table.only_seeds(_first(orders, table.counts)).worth(seen)
    everything = table.worth()
    best = int(np.argmax(everything))
    span = float(np.ptp(everything)) or 1.0
    return Replayed(
        decision=decision,
        regret=float(unseen[best] - unseen[decision.pick]) / span,
        decades=_decades(table, decision.pick, everything),
    )


def _orders(table: RunTable, rng: np.random.Generator) -> list[Array]:
    """Return an order of the seeds of each configuration, the same for all if they have equally many."""
    if table.is_even:
        return [rng.permutation(len(table.seeds))] * len(table.configs)
    return [rng.permutation(count) for count in table.counts]


def _first(orders: Sequence[Array], counts: Sequence[int]) -> Array:
    """Return the first positions of each order, [C, n]; -1 where there are fewer."""
    positions = np.full((len(orders), max(counts)), -1)
    for own, order, count in zip(positions, orders, counts, strict=True):
        own[:count] = order[:count]
    return positions


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
        cost=float(np.mean([each.decision.cost for each in replayed])),
        within_factor_3=float(np.mean(np.abs(decades) <= math.log10(3) + 1e-6)) if has_rates else None,
        decades=float(decades.mean()) if has_rates else None,
    )


def replay_often(table: RunTable, policy: Policy, *, budget: float, n: int = 200, seed: int = 0) -> list[Replayed]:
    """Replay a policy `n` times, each on other seeds; the seeds are the same for every policy."""
    return [replay(table, policy, budget=budget, rng=np.random.default_rng((seed, i))) for i in range(n)]


def coverage(table: RunTable, policy: Policy, *, budget: float, n: int = 200, seed: int = 0) -> float | None:
    """Return how often the interval of a search contains the value of its pick.

    The seeds of a table are too few to serve as the truth for halves of them. They are therefore taken as the
    population: the search sees as many as in `replay`, drawn with replacement, and the truth is the mean
    of that population.

    Returns:
        The share, None if the searches have no intervals.
    """
    truth = [mean_of_seeds(table.values[c, :count, -1]) for c, count in enumerate(table.counts)]
    held = []
    for i in range(n):
        rng = np.random.default_rng((seed, i))
        if table.is_even:
            orders = [rng.integers(0, len(table.seeds), len(table.seeds))] * len(table.configs)
        else:
            orders = [rng.integers(0, count, count) for count in table.counts]
        drawn = table.only_seeds(_first(orders, [count // 2 for count in table.counts]))
        decision = run_policy(drawn, policy, budget=budget, rng=rng)
        if decision.interval is not None:
            low, high = decision.interval
            held.append(low - 1e-9 <= truth[decision.pick] <= high + 1e-9)
    return float(np.mean(held)) if held else None


def run_policy(table: RunTable, policy: Policy, *, budget: float, rng: np.random.Generator) -> Decision:
    """Run a policy over a table and return its decision.

    Raises:
        StudyError: If it exceeds its budget.
    """
    decision = policy(table, budget, rng)
    if decision.cost > budget + 1e-6:
        raise StudyError(f"the search spent {decision.cost:.1f} whole runs, and may spend {budget:.1f}.")
    return decision


def _decades(table: RunTable, pick: int, worth: Array) -> float:
    groups, positions = groups_of(table)
    if not groups:
        return math.nan
    first, last = plateau(table, pick, worth)
    return positions[pick] - (positions[first] + positions[last]) / 2

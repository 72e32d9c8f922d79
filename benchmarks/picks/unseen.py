"""Picks judged on seeds that no search saw, over tables of 40 seeds and four lengths of runs.

Run by `python -m benchmarks.picks.compare unseen` (see there). In each replay the seeds of a table are shuffled, and
25 are set aside: a search may see the others, and these 25 judge its pick, by runs of the longest length, whatever the
length of the runs in the search. Budgets of searches are in runs of the longest length, so that eight runs of an eighth
of it cost one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.picks.tables import paths
from benchmarks.picks.tables_cases import LENGTHS, MANY_SEEDS, NEW
from studies.errors import StudyError
from studies.simulation import make_policy
from studies.simulation.policies import POLICIES
from studies.simulation.replay import CLOSE, run_policy
from studies.simulation.run_table import RunTable
from studies.statistics.values import mean_of_seeds

N_JUDGES = 25
"""Seeds that no search sees."""

WANTED = ("random", "tpe-median", "asha", "hyperband", "keep-top", "race", "default")
COMPARED = tuple(name for name in WANTED if name in POLICIES)
"""Policies that are compared, as far as `studies.simulation` has them."""

BUDGETS = (5, 10, 20, 40)
"""Budgets of a search, in runs of the longest length."""

BOUND = "all runs"
"""No policy: all runs of the longest length on all seeds that a search may see, and the best mean of them."""

Array = np.ndarray[Any, Any]


_read = functools.cache(RunTable.read)  # a process measures most of its cases on the same tables


def available() -> list[str]:
    """Return the cases whose tables are all there."""
    return [name for name in MANY_SEEDS if all(path.exists() for path in paths(name))]


def files(name: str) -> list[Path]:
    """Return the tables of a case, shortest runs first."""
    return paths(name)


def measure(name: str, policy: str, spending: tuple[int, int], replays: int) -> dict[str, list[float]]:
    """Return the regret of each replay, and their mean cost.

    Args:
        name: The case.
        policy: Name of a policy, or `BOUND`.
        spending: Length of the runs of the search in eighths of the longest, and the budget in runs of the longest.
        replays: Number of replays; their seeds are the same for all policies.
    """
    length, budget = spending
    paths_of_lengths = files(name)
    search, longest = _read(paths_of_lengths[LENGTHS.index(length)]), _read(paths_of_lengths[-1])
    told = replayed(search, longest, policy, budget * LENGTHS[-1] / length, replays)
    return {key: [round(value, 4) for value in values] for key, values in told.items()}


def replayed(search: RunTable, longest: RunTable, policy: str, budget: float, replays: int) -> dict[str, list[float]]:
    """Return the regret of each replay of a policy, and the mean of their costs.

    The regret is the mean of the best candidate minus that of the pick, over the seeds that the search did not see, as
    a share of the range of all candidates; the best is the one with the highest mean over all seeds. It can be
    negative. The cost is in runs of the longest length.

    Args:
        search: Runs that the search sees.
        longest: The same candidates and seeds, by which picks are judged.
        policy: Name of a policy, or `BOUND`.
        budget: Budget of the search, in runs of `search`.
        replays: Number of replays.

    Raises:
        StudyError: The tables differ in candidates or seeds, or have no seed for a search.
    """
    if (search.configs, search.seeds) != (longest.configs, longest.seeds):
        raise StudyError("the tables of a case have different candidates or seeds: make them again.")
    n_seen = len(longest.seeds) - N_JUDGES
    if n_seen < 1:
        raise StudyError(f"the table has {len(longest.seeds)} seeds: {N_JUDGES} judge, and a search needs one more.")
    everything = longest.worth()
    best, span = int(np.argmax(everything)), float(np.ptp(everything)) or 1.0
    regrets, costs = [], []
    for i in range(replays):
        rng = np.random.default_rng((6, i))
        order = rng.permutation(len(longest.seeds))
        seen, unseen = order[:n_seen], mean_of_seeds(longest.values[:, order[n_seen:], -1])
        if policy == BOUND:
            pick, cost = int(np.argmax(mean_of_seeds(longest.values[:, seen, -1]))), float(n_seen * len(everything))
        else:
            decision = run_policy(search.only_seeds(seen), make_policy(policy), budget=budget, rng=rng)
            pick, cost = decision.pick, decision.cost * search.marks[-1] / longest.marks[-1]
        regrets.append(float(unseen[best] - unseen[pick]) / span)
        costs.append(cost)
    return {"regret": regrets, "cost": [float(np.mean(costs))]}


def jobs(names: Sequence[str], budgets: Sequence[int]) -> list[tuple[str, str, tuple[int, int]]]:
    """Return all measurements: case, policy, and length and budget."""
    found = [(name, BOUND, (LENGTHS[-1], 0)) for name in names]
    for name in names:
        found += [(name, policy, (length, b)) for policy in COMPARED for length in LENGTHS for b in budgets]
    return found


# The report ---------------------------------------------------------------------------------------------------------

Told = Mapping[tuple[Any, ...], Mapping[str, Sequence[float]]]


def interval(rows: Sequence[Sequence[float]], n: int = 2_000) -> tuple[float, float]:
    """Return the 95% interval of the mean over cases, by a bootstrap over cases and their replays.

    Replays of a case share its 40 seeds, so an interval of a single case is that of the replays alone.
    """
    rng = np.random.default_rng(0)
    values = [np.asarray(row, float) for row in rows]
    means = []
    for _ in range(n):
        drawn = rng.integers(0, len(values), len(values)) if len(values) > 1 else np.zeros(1, int)
        means.append(np.mean([values[c][rng.integers(0, len(values[c]), len(values[c]))].mean() for c in drawn]))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def report(names: Sequence[str], told: Told, budgets: Sequence[int], replays: int) -> str:
    """Return the text of `benchmarks/pick-unseen.md`."""
    groups = {"all cases": list(names), "environments of our own": [n for n in names if n in NEW]}
    n_of = {name: MANY_SEEDS[name].n_seeds for name in names}
    lines = [
        "# Picks on unseen seeds",
        "",
        f"Made by `python -m benchmarks.picks.compare unseen` from the tables of {', '.join(names)} "
        f"({min(n_of.values())} seeds of 44 candidates each). {replays} replays of each policy, the same seeds for "
        f"all; {N_JUDGES} seeds that a search does not see judge its pick, by runs of the longest length. Budgets are "
        "in runs of that length; the lengths of the runs in a search are shares of it. Regret is a share of the range "
        f"of all candidates; *close* is the share of replays with a regret of at most {CLOSE:.0%}. Intervals (95%) are "
        "bootstraps over cases and replays.",
    ]
    for label, members in groups.items():
        if members:
            lines += ["", f"## {label[0].upper()}{label[1:]} ({len(members)})", "", *_table(members, told, budgets)]
    lines += ["", "## Each case", "", "The best length of each policy at each budget, by mean regret.", ""]
    lines += [f"| case | budget | {BOUND} | {' | '.join(COMPARED)} |", f"|---|---|---|{'---|' * len(COMPARED)}"]
    for name in names:
        bound = float(np.mean(told[name, BOUND, (LENGTHS[-1], 0)]["regret"]))
        for b in budgets:
            cells = []
            for policy in COMPARED:
                regrets = {n: float(np.mean(told[name, policy, (n, b)]["regret"])) for n in LENGTHS}
                length = min(regrets, key=regrets.__getitem__)
                cells.append(f"{regrets[length]:.1%} ({length}/{LENGTHS[-1]})")
            lines.append(f"| {name} | {b} | {bound:.1%} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _table(members: Sequence[str], told: Told, budgets: Sequence[int]) -> list[str]:
    lines = [
        "| budget | length of runs | policy | regret | close | spent |",
        "|---|---|---|---|---|---|",
        _row("", "", BOUND, [told[name, BOUND, (LENGTHS[-1], 0)] for name in members]),
    ]
    for b in budgets:
        for length in LENGTHS:
            for policy in COMPARED:
                rows = [told[name, policy, (length, b)] for name in members]
                lines.append(_row(str(b), f"{length}/{LENGTHS[-1]}", policy, rows))
    return lines


def _row(budget: str, length: str, policy: str, rows: Sequence[Mapping[str, Sequence[float]]]) -> str:
    regrets = [row["regret"] for row in rows]
    close = [[float(value <= CLOSE) for value in own] for own in regrets]
    cells = []
    for values in (regrets, close):
        low, high = interval(values)
        cells.append(f"{np.mean([np.mean(own) for own in values]):.1%} ({low:.1%} to {high:.1%})")
    spent = np.mean([np.mean(row["cost"]) for row in rows])
    return f"| {budget} | {length} | {policy} | {cells[0]} | {cells[1]} | {spent:.1f} |"

"""Measurements of search policies and of stated intervals, each of one table; run by `compare.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from studies.judging.learning_rate_estimate import estimate_learning_rate
from studies.judging.ranking import Candidate, rank, worst_choice
from studies.judging.robust_choice import recommended
from studies.schedulers.halving import Halving
from studies.schedulers.keep_top import KeepTop
from studies.schedulers.scheduler import Scheduler
from studies.schedulers.schedulers import make_scheduler
from studies.simulation import SearchDesign, make_policy, simulate
from studies.simulation.proposals import PlannedProposals
from studies.simulation.replay import CLOSE, coverage, replay_often, run_policy, summary
from studies.simulation.run_table import RunTable
from studies.simulation.table_groups import groups_of, plateau
from studies.statistics.intervals import estimate
from studies.statistics.values import mean_of_seeds

Json = Any


# What is measured, each of one table --------------------------------------------------------------------------------


def policy(table: RunTable, replays: int, name: str, share: float) -> Json:
    """A policy at a budget."""
    budget = share * len(table.configs) * len(table.seeds)
    told = summary(replay_often(table, make_policy(name), budget=budget, n=replays))
    return {
        "close": told.close,
        "regret": told.regret,
        "cost": told.cost,
        "rate": told.within_factor_3,
        "decades": told.decades,
    }


def covered(table: RunTable, replays: int, name: str, share: float) -> Json:
    """How often the intervals that a policy states hold."""
    budget = share * len(table.configs) * len(table.seeds)
    return {"covered": coverage(table, make_policy(name), budget=budget, n=replays)}


def ceiling(table: RunTable, replays: int) -> Json:
    """All runs of the seeds that may be seen, to their ends, and the best of them: what no policy can beat by much."""
    close = []
    everything = mean_of_seeds(table.values[:, :, -1])
    best, span = int(np.argmax(everything)), float(np.ptp(everything)) or 1.0
    for i in range(replays):
        order = np.random.default_rng((0, i)).permutation(len(table.seeds))
        half = len(order) // 2
        seen, unseen = (
            mean_of_seeds(table.values[:, order[:half], -1]),
            mean_of_seeds(table.values[:, order[half:], -1]),
        )
        close.append((unseen[best] - unseen[int(np.argmax(seen))]) / span <= CLOSE)
    return {"close": float(np.mean(close))}


def signal(table: RunTable, replays: int) -> Json:
    """Whether all seeds together tell any candidate from another: whether there is anything to find."""
    final = table.values[:, :, -1]
    centers = mean_of_seeds(final)
    level = estimate(final.tolist()).may_be_best()
    good = int(np.sum(centers >= centers.max() - CLOSE * np.ptp(centers)))
    return {"best": float(centers.max()), "worst": float(centers.min()), "good": good, "found": not level.all()}


def best_of_adam(table: RunTable, replays: int) -> Json:
    """Decimal logarithms between which Adam's best rates lie."""
    _, positions = groups_of(table)
    worth = mean_of_seeds(table.values[:, :, -1])
    own = [i for i, params in enumerate(table.params) if params["optimizer"] == "adam"]
    first, last = plateau(table, own[0], worth)
    return {"low": positions[first], "high": positions[last]}


def drift_seen(table: RunTable, replays: int) -> Json:
    """How far the best rate of each optimizer moves from a quarter of the runs to their ends, in decades a decade."""
    groups, positions = groups_of(table)
    early = next(i for i, share in enumerate(table.shares) if share >= 0.25)
    moved = []
    for group in dict.fromkeys(groups):
        own = [i for i, other in enumerate(groups) if other == group]
        ends = []
        for mark in (early, len(table.marks) - 1):
            worth = mean_of_seeds(table.values[:, :, mark])
            first, last = plateau(table, own[0], worth)
            ends.append((positions[first] + positions[last]) / 2)
        moved.append((ends[1] - ends[0]) / math.log10(1 / table.shares[early]))
    return {"moved": moved}


def drawn(table: RunTable, config: int, rng: np.random.Generator, n_seeds: int, mark: int = -1) -> tuple[float, ...]:
    """What a config is worth on so many of its seeds, drawn with replacement."""
    return tuple(table.values[config, rng.integers(0, len(table.seeds), n_seeds), mark])


def horizon(table: RunTable, replays: int, share: float, n_seeds: int) -> Json:
    """What is said of each optimizer's best rate after a share of the runs, beside what it is at their ends."""
    groups, positions = groups_of(table)
    mark = next(i for i, own in enumerate(table.shares) if own >= share - 1e-9)
    worth = mean_of_seeds(table.values[:, :, -1])
    rows = []
    for i in range(max(1, replays // 4)):
        rng = np.random.default_rng((4, i))
        for group in dict.fromkeys(groups):
            own = [c for c, other in enumerate(groups) if other == group]
            ranked = rank(
                [
                    Candidate(
                        label=table.configs[c],
                        params={"learning_rate": 10 ** positions[c]},
                        seed_values=drawn(table, c, rng, n_seeds, mark),
                        number=c,
                    )
                    for c in own
                ]
            )
            pick = recommended(ranked)
            assert pick is not None
            said = estimate_learning_rate(ranked, [], pick, env_steps=table.marks[mark], horizon=table.marks[-1])
            assert said is not None
            first, last = plateau(table, own[0], worth)
            best = (positions[first] + positions[last]) / 2
            off = math.log10(said.suggested) - best
            held = math.log10(said.low) <= best <= math.log10(said.high)
            rows.append((held, said.decades, off, abs(off) <= math.log10(3) + 1e-6, not said.why_unsafe))
    held, decades, off, near, safe = np.array(rows, float).mean(axis=0)
    return {"held": held, "decades": decades, "bias": off, "near": near, "safe": safe}


def searched_rates(table: RunTable, replays: int) -> Json:
    """What `finder lr` says of the best rate of each optimizer after its race and confirmation: eight seeds, drawn."""
    rows = []
    for own in by_group(table):
        _, positions = groups_of(own)
        first, last = plateau(own, 0, mean_of_seeds(own.values[:, :, -1]))
        best = (positions[first] + positions[last]) / 2
        for i in range(max(1, replays // 4)):
            rng = np.random.default_rng((5, i))
            seen = own.only_seeds(rng.integers(0, len(own.seeds), 8))
            decision = run_policy(seen, make_policy("default"), budget=1e6, rng=rng)
            said = decision.rate
            assert said is not None
            off = math.log10(said.suggested) - best
            held = math.log10(said.low) - 1e-9 <= best <= math.log10(said.high) + 1e-9
            rows.append((held, said.decades, off, abs(off) <= math.log10(3) + 1e-6, not said.why_unsafe, decision.cost))
    held, decades, off, near, safe, cost = np.array(rows, float).mean(axis=0)
    held_where_safe = [row[0] for row in rows if row[4]]
    return {
        "held": held,
        "decades": decades,
        "bias": off,
        "near": near,
        "safe": safe,
        "held where safe": float(np.mean(held_where_safe)) if held_where_safe else None,
        "cost": cost,
    }


def by_group(table: RunTable) -> list[RunTable]:
    """The same, each optimizer alone."""
    groups, _ = groups_of(table)
    parts = []
    for group in dict.fromkeys(groups):
        own = [c for c, other in enumerate(groups) if other == group]
        parts.append(
            RunTable(
                configs=tuple(table.configs[c] for c in own),
                params=tuple(table.params[c] for c in own),
                seeds=table.seeds,
                marks=table.marks,
                values=table.values[own],
                known=None if table.known is None else table.known[own],
            )
        )
    return parts


def twins(table: RunTable, replays: int, n_seeds: int) -> Json:
    """Adam twice, under two names, with other seeds each: how often one of the two is called the better optimizer."""
    own = [i for i, params in enumerate(table.params) if params["optimizer"] == "adam"]
    false = 0
    for i in range(replays):
        rng = np.random.default_rng((1, i))
        candidates = [
            Candidate(
                label=name,
                params={"optimizer": name, "learning_rate": table.params[c]["learning_rate"]},
                seed_values=drawn(table, c, rng, n_seeds),
                number=100 * twin + k,
            )
            for twin, name in enumerate(("adam", "adam again"))
            for k, c in enumerate(own)
        ]
        level, _ = worst_choice(rank(candidates), "optimizer")
        false += len(level) == 1
    return {"false": false / replays}


def momentum(table: RunTable, replays: int, n_seeds: int) -> Json:
    """How often plain SGD is called better than SGD with momentum, each at its own best rate."""
    lost = 0
    for i in range(replays):
        rng = np.random.default_rng((3, i))
        candidates = [
            Candidate(
                label=name,
                params=params,
                seed_values=drawn(table, c, rng, n_seeds),
                number=c,
            )
            for c, (name, params) in enumerate(zip(table.configs, table.params, strict=True))
            if str(params["optimizer"]).startswith("sgd")
        ]
        level, _ = worst_choice(rank(candidates), "optimizer")
        lost += "sgd(momentum=0.9)" not in level
    return {"lost": lost / replays}


def pruning(table: RunTable, replays: int, rule: str) -> Json:
    """Return what a scheduler saves of three seeds each, and whether it prunes one of the final best three."""
    scheduler = PRUNING[rule](table)
    design = SearchDesign(scheduler=scheduler, n_seeds=3, n_finalists=0)
    saved, lost, harm = [], [], []
    truth = mean_of_seeds(table.values[:, :, -1])
    span = float(np.ptp(truth)) or 1.0
    n_configs = len(table.configs)
    for i in range(replays):
        rng = np.random.default_rng((2, i))
        own = table.only_seeds(rng.permutation(len(table.seeds))[:3])
        order = rng.permutation(n_configs).tolist()  # brackets of Hyperband depend on it
        search = simulate(own, PlannedProposals(own, order, 3), design)
        alive = [trial.config for trial in search.trials if trial.state == "complete"]
        top = np.argsort(-mean_of_seeds(own.values[:, :, -1]), kind="stable")[:3]
        saved.append(1 - search.cost / (3 * n_configs))
        lost.append(np.mean([config not in alive for config in top]))
        harm.append((truth.max() - truth[alive].max()) / span > CLOSE)
    return {"saved": float(np.mean(saved)), "lost": float(np.mean(lost)), "harm": float(np.mean(harm))}


Make = Callable[[RunTable], Scheduler]


def named(name: str, **arguments: Any) -> Make:
    """The pruner of that name."""
    return lambda table: make_scheduler(name, arguments, table.marks, (), name)


def keep_top(at: float, part: float) -> Make:
    """The best part of all after a share of the runs."""
    return lambda table: KeepTop(_near(table, at), math.ceil(part * len(table.configs)))


def halving(first: float, factor: int) -> Make:
    """Successive halving from a share of the runs on."""
    return lambda table: Halving(_near(table, first), factor)


def _near(table: RunTable, share: float) -> int:
    return min(table.marks, key=lambda mark: abs(mark - share * table.marks[-1]))


PRUNING: dict[str, Make] = {
    "race (default)": named("race"),
    "sequential test, level 99.9%": named("sequential-test", level=0.999),
    "sequential test, level 99%": named("sequential-test"),
    "sequential test, level 50%": named("sequential-test", level=0.5),
    "median (default)": named("median"),
    "hyperband (default)": named("hyperband"),
    "best half at 50%": keep_top(0.5, 0.5),
    "halving by 2 from 10%": halving(0.1, 2),
    "halving by 3 from 10%": halving(0.1, 3),
    "best 12% after 10%": keep_top(0.1, 0.12),
    "best 12% after 30%": keep_top(0.3, 0.12),
}
"""Rule -> scheduler of a table."""

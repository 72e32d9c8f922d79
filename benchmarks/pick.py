"""How good are the picks? Every policy, replayed over every table; writes benchmarks/pick.md.

    python benchmarks/pick.py [--replays 200] [--budget 0.1] [--processes 2]

Policies were developed on the tables of CartPole-v1; those of other environments took no part in it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from studies.policies import POLICIES, make_policy
from studies.replay import Summary, replay_often, summary
from studies.run_table import RunTable

FOLDER = Path(__file__).parent
DEVELOPED_ON = "cartpole"
COLUMNS = (
    ("close", ".0%"),
    ("regret", ".1%"),
    ("within_factor_3", ".0%"),
    ("decades", "+.2f"),
    ("covered", ".0%"),
    ("cost", ".0f"),
)
"""What is told of a policy over all tables, and how it is written."""


class Row(NamedTuple):
    """A policy on a table."""

    table: str
    policy: str
    told: Summary


def row(name: str, policy: str, share: float, replays: int) -> Row:
    table = RunTable.read(FOLDER / "tables" / f"{name}.parquet")
    budget = share * len(table.configs) * len(table.seeds)
    return Row(name, policy, summary(replay_often(table, make_policy(policy), budget=budget, n=replays)))


def mean(rows: Iterable[Row], name: str) -> float | None:
    """Over tables, each of which has as many replays; None where nothing was told."""
    known = [value for each in rows if (value := getattr(each.told, name)) is not None]
    return float(np.mean(known)) if known else None


def constant_rates(names: list[str]) -> tuple[float, float]:
    """The one learning rate (of Adam) that is within a factor of 3 of the best in most tables, and in what share."""
    best = []
    for name in names:
        table = RunTable.read(FOLDER / "tables" / f"{name}.parquet")
        worth = np.median(table.values[:, :, -1], axis=1)
        own = [i for i, params in enumerate(table.params) if params["optimizer"] == "adam"]
        first = max(own, key=lambda i: worth[i])
        best.append(math.log10(float(table.params[first]["learning_rate"])))  # type: ignore[arg-type]
    candidates = np.linspace(-6, -1, 101)
    shares = [np.mean(np.abs(np.array(best) - rate) <= math.log10(3) + 1e-6) for rate in candidates]
    at = int(np.argmax(shares))
    return 10 ** candidates[at], float(shares[at])


def text(rows: list[Row], replays: int, share: float) -> str:
    names = list(dict.fromkeys(each.table for each in rows))
    lines = [
        "# How good are the picks?",
        "",
        f"Made by `python benchmarks/pick.py`: {replays} replays of every policy over every table, each on other "
        f"seeds. A policy may spend {share:.0%} of what all runs of the table cost, sees half of the seeds, and is "
        "judged on the others.",
        "",
        "## Close to the best",
        "",
        "Share of the replays in which the pick's interquartile mean on seeds that were not seen is within 5% of the "
        "range of all candidates of the best one's. Tables of CartPole-v1 were used to develop the race; the others "
        "were not.",
        "",
        f"| table | {' | '.join(POLICIES)} |",
        f"|---|{'---|' * len(POLICIES)}",
    ]
    by = {(each.table, each.policy): each for each in rows}
    for name in names:
        lines.append(f"| {name} | {' | '.join(f'{by[name, policy].told.close:.0%}' for policy in POLICIES)} |")
    groups = {
        "developed on": [name for name in names if DEVELOPED_ON in name],
        "not developed on": [name for name in names if DEVELOPED_ON not in name],
        "all": names,
    }
    for label, members in groups.items():
        if members:
            means = [mean((by[name, policy] for name in members), "close") for policy in POLICIES]
            lines.append(f"| **{label}** | {' | '.join(f'**{value:.0%}**' for value in means)} |")
    lines += [
        "",
        "## Over all tables",
        "",
        "| policy | close to the best | mean regret | rate within a factor of 3 | mean bias, decades | intervals that "
        "hold | cost, runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for policy in POLICIES:
        own = [by[name, policy] for name in names]
        told = [(mean(own, name), form) for name, form in COLUMNS]
        lines.append(f"| {policy} | {' | '.join('' if v is None else format(v, form) for v, form in told)} |")
    rate, constant = constant_rates(names)
    lines += [
        "",
        f"The best single learning rate for Adam on all tables is {rate:.1e}; it is within a factor of 3 of Adam's "
        f"best on {constant:.0%} of them.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--budget", type=float, default=0.1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    names = sorted(path.stem for path in (FOLDER / "tables").glob("*.parquet"))
    jobs: list[Any] = [(name, policy, arguments.budget, arguments.replays) for name in names for policy in POLICIES]
    with ProcessPoolExecutor(arguments.processes) as pool:
        rows = list(pool.map(row, *zip(*jobs, strict=True)))
    told = text(rows, arguments.replays, arguments.budget)
    (FOLDER / "pick.md").write_text(told)
    print(told)


if __name__ == "__main__":
    main()

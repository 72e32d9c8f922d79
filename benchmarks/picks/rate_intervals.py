"""Do 95% intervals contain the best rate? Designs of a search of rates, with finalists of one length and longer ones.

    python -m benchmarks.picks.rate_intervals  # results/rate-intervals.md, from the tables of 40 seeds; a few minutes

The rates of Adam race, as in `finder lr`, on random seeds of the tables (`tables.py make many`). The best rate is that
with the highest mean of all seeds, in runs as long as those of the finalists.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import folders
from benchmarks.picks.designs import HEAD, PLANS, Design, race
from benchmarks.picks.tables_cases import LENGTHS
from benchmarks.picks.unseen import available, files
from benchmarks.result_lines import write_table
from studies.simulation.run_table import RunTable

NEAR = np.log10(3.0)
"""Decades within which a rate counts as near the best one."""


class Found(NamedTuple):
    """Result of a replay: whether its interval contains the best rate, its width in decades, and a near pick."""

    contains: bool
    decades: float
    is_near: bool


def replays_of(tables: Sequence[RunTable], design: Design, length: int, replays: int) -> list[Found]:
    """Return what each replay found."""
    target = tables[LENGTHS.index(design.factor * length)]
    rates = [i for i, row in enumerate(target.params) if row["optimizer"] == "adam"]
    means, found = target.values[:, :, -1].mean(axis=1), []
    best = float(str(target.params[max(rates, key=lambda i: means[i])]["learning_rate"]))
    for replay in range(replays):
        rng = np.random.default_rng(replay)
        seeds = rng.permutation(len(target.seeds))
        rate = race(tables, design, length, seeds, rng.permutation(rates)).verdict.rate
        if rate is not None:
            contains = rate.low * 0.999 <= best <= rate.high * 1.001
            found.append(Found(contains, rate.decades, bool(abs(np.log10(rate.tested / best)) <= NEAR + 1e-9)))
    return found


def lines(tables: Mapping[str, Sequence[RunTable]], replays: int) -> list[str]:
    """Return the table."""
    rows = [f"| {HEAD} | contains the best rate | decades, median | pick within a factor of 3 |", "|" + "---|" * 8]
    for design in PLANS:
        for length in design.lengths:
            found = [each for own in tables.values() for each in replays_of(own, design, length, replays)]
            contains, near = (np.mean([each[k] for each in found]) for k in (0, 2))
            decades = np.median([each.decades for each in found])
            rows.append(f"| {design.text(length)} | {contains:.1%} | {decades:.2f} | {near:.0%} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=40)
    arguments = parser.parse_args()
    tables = {name: [RunTable.read(path) for path in files(name)] for name in available()}
    head = [
        "# Intervals of the best rate",
        "",
        f"Made by `python -m benchmarks.picks.rate_intervals` over {', '.join(tables)}; {arguments.replays} replays of "
        "each. Rates of Adam race; 95% intervals, beside the rate with the highest mean of 40 seeds in runs as long as "
        "those of the finalists. On a plateau many rates are as good, and the best of them is a matter of chance.",
        "",
    ]
    write_table(folders.RESULTS / "rate-intervals.md", [*head, *lines(tables, arguments.replays)])


if __name__ == "__main__":
    main()

"""Is the pick of a small budget better than the baseline? Designs of a search beside a baseline.

    python -m benchmarks.picks.baselines  # results/baselines.md, from the tables of 40 seeds; five minutes

A search of few minutes pays for a few long runs only. It compares its best trials with the baseline, the agent's own
settings, in longer runs than those of the search. Each design is replayed as in `designs.py`; one of its trials is
the baseline, which is a good rate of Adam (3.2e-4, near the default of the agents) or a bad one (3.2e-5). Judged on 25
unseen seeds, in runs of the longest length.

Where finalists have a single further seed, the baseline remains the pick unless one of them is clearly better
(`studies.judging.judgement.CLEARLY`). The designs with one further seed are also replayed without that rule.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import folders
from benchmarks.picks.designs import Design, race
from benchmarks.picks.tables_cases import LENGTHS
from benchmarks.picks.unseen import N_JUDGES, available, files
from benchmarks.result_lines import write_table
from studies.judging import judgement
from studies.simulation.replay import CLOSE
from studies.simulation.run_table import RunTable

BASELINES = {"good, Adam at 3.2e-4": "adam 0.0003162", "bad, Adam at 3.2e-5": "adam 3.162e-05"}
"""Kind of baseline -> its configuration in the tables."""

DESIGNS = (
    (Design(12, 1, 2, 2, 2), 4),
    (Design(12, 1, 2, 2, 4), 2),
    (Design(20, 1, 2, 1, 4), 2),
    (Design(12, 1, 3, 1, 4), 2),
    (Design(12, 1, 2, 1, 4), 2),
    (Design(12, 1, 2, 2, 2), 2),
    (Design(20, 1, 2, 1, 4), 1),
    (Design(12, 1, 2, 1, 4), 1),
)
"""Designs, each with the length of the runs of its search."""

WORSE = 0.02
"""Share of the range of all candidates by which a pick is worse than the baseline."""


class Outcome(NamedTuple):
    """Regret and gain of a pick as shares of the range of all candidates, and the cost in runs of the longest length.

    Attributes:
        regret: The best candidate minus the pick.
        gain: The pick minus the baseline.
        cost: The cost of its search.
    """

    regret: float
    gain: float
    cost: float


def replayed(tables: Sequence[RunTable], design: Design, length: int, baseline: str, replays: int) -> list[Outcome]:
    """Return each replay of a design with a baseline, which is the first of its trials.

    Args:
        tables: Runs of each of `LENGTHS`.
        design: The design.
        length: Length of the runs of the search, of `LENGTHS`.
        baseline: Configuration of the tables.
        replays: Number of replays; their seeds are the same for all designs.
    """
    longest = tables[-1].values[:, :, -1]
    own = tables[-1].configs.index(baseline)
    means = longest.mean(axis=1)
    best, span = int(np.argmax(means)), np.ptp(means)
    found = []
    for replay in range(replays):
        rng = np.random.default_rng(replay)
        seeds = rng.permutation(longest.shape[1])
        others = [config for config in rng.permutation(len(means)) if config != own]
        search = race(tables, design, length, seeds[N_JUDGES:], np.array([own, *others]), has_baseline=True)
        assert search.pick is not None
        unseen = longest[:, seeds[:N_JUDGES]].mean(axis=1)
        found.append(
            Outcome(
                regret=float((unseen[best] - unseen[search.pick]) / span),
                gain=float((unseen[search.pick] - unseen[own]) / span),
                cost=search.cost * length / LENGTHS[-1],
            )
        )
    return found


@contextlib.contextmanager
def without_rule() -> Iterator[None]:
    """Let the best finalist be the pick, however little better than the baseline it is."""
    before = judgement.CLEARLY
    judgement.CLEARLY = -math.inf
    try:
        yield
    finally:
        judgement.CLEARLY = before


def lines_of(
    tables: Mapping[str, Sequence[RunTable]], designs: Iterable[tuple[Design, int]], replays: int
) -> list[str]:
    """Return the table of designs, each with the length of the runs of its search."""
    lines = [
        "| baseline | trials | finalists x further seeds | length of runs | of finalists' | cost | regret | close | "
        f"gain | worse by {WORSE:.0%} |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, config in BASELINES.items():
        for design, length in designs:
            told = [row for own in tables.values() for row in replayed(own, design, length, config, replays)]
            regret, gain, cost = (float(np.mean(column)) for column in zip(*told, strict=True))
            close = np.mean([row.regret <= CLOSE for row in told])
            worse = np.mean([row.gain < -WORSE for row in told])
            lines.append(
                f"| {name} | {design.n_trials} | {design.n_finalists} x {design.n_further} | {length}/{LENGTHS[-1]} | "
                f"{design.factor * length}/{LENGTHS[-1]} | {cost:.1f} | {regret:.1%} | {close:.0%} | {gain:+.1%} | "
                f"{worse:.1%} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=100, help="replays of each table")
    arguments = parser.parse_args()
    tables = {name: [RunTable.read(path) for path in files(name)] for name in available()}
    lines = [
        "# Picks beside a baseline",
        "",
        f"Made by `python -m benchmarks.picks.baselines` over {', '.join(tables)}; {arguments.replays} replays of "
        "each. Trials have one seed and race; the finalists, and the baseline beside them, run longer on further "
        "seeds. *cost* is in runs of the longest length, *close* the share of replays with a regret of at most 5% of "
        f"the range of the candidates, *worse* the share whose pick is worse than the baseline by more than "
        f"{WORSE:.0%} of it.",
        "",
        *lines_of(tables, DESIGNS, arguments.replays),
        "",
        "## One further seed, without the rule",
        "",
    ]
    with without_rule():
        lines += lines_of(tables, [each for each in DESIGNS if each[0].n_further == 1], arguments.replays)
    write_table(folders.RESULTS / "baselines.md", lines)


if __name__ == "__main__":
    main()

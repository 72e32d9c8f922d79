"""Few seeds and trials of longer runs, or many of shorter ones? Designs of a search at about equal cost.

    python -m benchmarks.picks.designs         # results/designs.md, from the tables of 40 seeds; half an hour
    python -m benchmarks.picks.designs --rich  # results/finalists.md: seeds of trials or finalists; ten minutes

Within a budget of the whole search, searches reduce seeds, confirmations and trials rather than the length of runs
(`finder/budgets/resolution.py`). Each design is replayed over the tables of 40 seeds and four lengths of runs
(`tables.py make many`), as in `unseen.py`: 25 seeds that the search does not see judge its pick, in runs of the
longest length. Trials race. They are 20 random candidates or fewer, as in `finder tune`, or all of them, as in
`finder lr` (the rates of Adam) and `finder opt` (all candidates).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import folders
from benchmarks.picks.tables_cases import LENGTHS
from benchmarks.picks.unseen import N_JUDGES, available, files, interval
from benchmarks.result_lines import write_table
from studies.judging.learning_rate_estimate import LITTLE, cost_of_choice
from studies.schedulers.scheduler import Scheduler
from studies.schedulers.schedulers import make_scheduler
from studies.simulation.design import SearchDesign
from studies.simulation.proposals import PlannedProposals
from studies.simulation.replay import CLOSE
from studies.simulation.run_table import RunTable
from studies.simulation.simulated_search import SimulatedSearch, simulate

Array = np.ndarray[Any, Any]


class Design(NamedTuple):
    """Numbers of a search.

    Attributes:
        n_trials: Trials; None: all that are planned.
        n_seeds: Seeds of each trial.
        n_finalists: Best trials that are run again.
        n_further: Further seeds of each.
        factor: Length of the runs of finalists, as a multiple of the length of those of the search.
    """

    n_trials: int | None
    n_seeds: int
    n_finalists: int
    n_further: int
    factor: int = 1

    @property
    def lengths(self) -> list[int]:
        """Lengths of the runs of the search for which there are runs of finalists."""
        return [length for length in LENGTHS if self.factor * length in LENGTHS]

    def text(self, length: int) -> str:
        """Return the cells of a table: trials, seeds, finalists with their seeds, and both lengths."""
        lengths = [f"{part}/{LENGTHS[-1]}" for part in (length, self.factor * length)]
        trials = self.n_trials or "all"
        return f"{trials} | {self.n_seeds} | {self.n_finalists} x {self.n_further} | {' | '.join(lengths)}"


HEAD = "trials | seeds | finalists x further seeds | length of runs | of finalists'"

RUNS = ((3, 3, 5), (2, 3, 5), (1, 3, 5), (1, 3, 3), (1, 2, 3))
LONGER = ((1, 3, 3, 2), (1, 2, 3, 2), (1, 2, 2, 2), (1, 3, 1, 2))
"""Seeds, finalists, their further seeds, and where finalists run longer the factor; the default ones first."""

PLANS = tuple(Design(None, *runs) for runs in (*RUNS, *LONGER))
DESIGNS = (
    *(Design(20, *runs) for runs in (*RUNS, *LONGER)),
    *(Design(n, *runs) for n in (12, 8) for runs in (RUNS[-1], *LONGER)),
)
"""Designs of a search whose trials are planned, and of one with a sampler."""

RICH = (
    *(Design(20, *runs) for runs in ((3, 3, 5), (1, 3, 5), (1, 5, 5), (1, 8, 5))),
    *(Design(None, *runs) for runs in ((3, 3, 5), (2, 3, 5), (1, 3, 5), (1, 6, 5), (1, 12, 5), (2, 6, 5), (1, 6, 8))),
)
"""Designs within a large budget, of runs of the longest length: 20 trials of a sampler, or many."""


class Told(NamedTuple):
    """Regret of a pick in runs as long as those of finalists and in the longest, its stated cost, and safety."""

    regret: float
    in_long_run: float
    cost: float
    is_safe: bool


def verdicts(tables: Sequence[RunTable], design: Design, length: int, replays: int) -> list[Told]:
    """Return the verdict of each replay.

    The regret is that of the pick among the trials of the search, by the means of all seeds. A verdict counts as safe
    where the pick is among the best trials, and none of those that cannot be distinguished from it may be better by
    more than a tenth of the range of the trials, as studies state it.
    """
    table, longer, found = tables[LENGTHS.index(length)], tables[LENGTHS.index(design.factor * length)], []
    for replay in range(replays):
        rng = np.random.default_rng(replay)
        seeds = rng.permutation(len(table.seeds))[: design.n_seeds + design.n_further]
        own = table.only_seeds(seeds)
        trials = [int(config) for config in rng.permutation(len(table.configs))[: design.n_trials]]
        proposals = PlannedProposals(own, trials, design.n_seeds)
        search = simulate(own, proposals, _plan(design, None), longer=_longer_table(design, longer, seeds))
        verdict = search.verdict
        pick = next((each for each in verdict.ranked if verdict.pick and each.number == verdict.pick.number), None)
        if pick is None or search.pick is None:
            continue
        tied = [each for each in verdict.ranked if each.tied]
        cost = cost_of_choice(pick, tied, [*verdict.ranked, *verdict.estimated])
        regrets = []
        for each in (longer, tables[-1]):
            means = each.values[:, :, -1].mean(axis=1)
            regrets.append(float((means[trials].max() - means[search.pick]) / np.ptp(means[trials])))
        found.append(Told(regrets[0], regrets[1], cost, bool(pick.tied and cost <= LITTLE)))
    return found


def race(
    tables: Sequence[RunTable],
    design: Design,
    length: int,
    seeds: Array,
    candidates: Array,
    *,
    has_baseline: bool = False,
) -> SimulatedSearch:
    """Return a search of trials that race, on the first of the seeds; its trials are the first of the candidates.

    Args:
        tables: Runs of each of `LENGTHS`.
        design: The design.
        length: Length of the runs of the search, of `LENGTHS`.
        seeds: Positions of seeds.
        candidates: Positions of configurations.
        has_baseline: Whether the first candidate is the baseline, with which the pick is compared. Defaults to False.
    """
    table, own_seeds = tables[LENGTHS.index(length)], seeds[: design.n_seeds + design.n_further]
    own = table.only_seeds(own_seeds)
    longer = _longer_table(design, tables[LENGTHS.index(design.factor * length)], own_seeds)
    baseline = table.params[int(candidates[0])] if has_baseline else None
    plan = _plan(design, make_scheduler("race", {}, table.marks, table.params[0], "race"), baseline)
    trials = [int(config) for config in candidates[: design.n_trials]]
    return simulate(own, PlannedProposals(own, trials, design.n_seeds), plan, longer=longer)


def races(
    tables: Sequence[RunTable], design: Design, length: int, optimizer: str | None, replays: int
) -> list[tuple[float, float]]:
    """Return the regret of each replay of trials that race, and its cost in runs of the longest length.

    Args:
        tables: Runs of each of `LENGTHS`.
        design: The design; its trials are random ones of the candidates.
        length: Length of the runs of the search, of `LENGTHS`.
        optimizer: Optimizer whose rates are the candidates, among which the regret is measured; None: all.
        replays: Number of replays; their seeds are the same for all designs.
    """
    longest = tables[-1].values[:, :, -1]
    candidates = [i for i, row in enumerate(tables[-1].params) if optimizer in (None, row["optimizer"])]
    means, found = longest.mean(axis=1), []
    best, span = max(candidates, key=lambda i: means[i]), np.ptp(means[candidates])
    for replay in range(replays):
        rng = np.random.default_rng(replay)
        seeds = rng.permutation(longest.shape[1])
        judges, others = seeds[:N_JUDGES], seeds[N_JUDGES:]
        search = race(tables, design, length, others, rng.permutation(candidates))
        unseen = longest[:, judges].mean(axis=1)
        assert search.pick is not None
        found.append((float((unseen[best] - unseen[search.pick]) / span), search.cost * length / LENGTHS[-1]))
    return found


def _plan(design: Design, scheduler: Scheduler | None, baseline: Mapping[str, Any] | None = None) -> SearchDesign:
    return SearchDesign(
        scheduler=scheduler,
        n_seeds=design.n_seeds,
        n_finalists=design.n_finalists,
        n_further=design.n_further,
        baseline=baseline,
    )


def _longer_table(design: Design, table: RunTable, seeds: Array) -> RunTable | None:
    """Return the runs of the finalists, None if they are as long as those of the search."""
    return None if design.factor == 1 else table.only_seeds(seeds)


GROUPS = (("all", None, DESIGNS), ("rates of Adam", "adam", PLANS), ("all", None, PLANS))
"""Candidates, the optimizer whose rates they are, and designs."""


def regret_lines(
    tables: Mapping[str, Sequence[RunTable]],
    replays: int,
    groups: Sequence[tuple[str, str | None, Sequence[Design]]] = GROUPS,
    lengths: Sequence[int] = (),
) -> list[str]:
    """Return the table of regrets.

    Args:
        tables: Runs of each of `LENGTHS`, by name.
        replays: Replays of each design.
        groups: Candidates and designs. Defaults to `GROUPS`.
        lengths: Lengths of the runs of the search. Defaults to all.
    """
    lines = [
        f"| candidates | cost | {HEAD} | regret (95%) | close |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, optimizer, designs in groups:
        rows = []
        for design in designs:
            for length in lengths or design.lengths:
                told = [races(tables[name], design, length, optimizer, replays) for name in tables]
                own = [[regret for regret, _ in each] for each in told]
                cost = float(np.mean([spent for each in told for _, spent in each]))
                close = np.mean([np.mean(np.array(each) <= CLOSE) for each in own])
                rows.append((cost, design, length, float(np.mean(own)), interval(own), close))
        for cost, design, length, regret, (low, high), close in sorted(rows, key=lambda row: row[0]):
            lines.append(
                f"| {label} | {cost:.1f} | {design.text(length)} | "
                f"{regret:.1%} ({low:.1%} to {high:.1%}) | {close:.0%} |"
            )
    return lines


def verdict_lines(tables: Mapping[str, Sequence[RunTable]], replays: int) -> list[str]:
    """Return the table of verdicts."""
    lines = [
        f"| {HEAD} | safe | further than a tenth | than stated | than a tenth in the longest runs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for design in DESIGNS:
        for length in design.lengths:
            told = [row for name in tables for row in verdicts(tables[name], design, length, replays)]
            safe = [each for each in told if each.is_safe]
            if not safe:
                continue
            far = np.mean([each.regret > LITTLE for each in safe])
            over = np.mean([each.regret > each.cost + 1e-9 for each in safe])
            later = np.mean([each.in_long_run > LITTLE for each in safe])
            lines.append(
                f"| {design.text(length)} | {len(safe) / len(told):.0%} | {far:.1%} | {over:.1%} | {later:.1%} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=50, help="replays of the regrets")
    parser.add_argument("--verdicts", type=int, default=60, help="replays of the verdicts")
    parser.add_argument("--rich", action="store_true", help="designs within a large budget only")
    arguments = parser.parse_args()
    tables = {name: [RunTable.read(path) for path in files(name)] for name in available()}
    if arguments.rich:
        lines = [
            "# Seeds of trials, or finalists?",
            "",
            f"Made by `python -m benchmarks.picks.designs --rich` over {', '.join(tables)}, as [designs](designs.md); "
            f"{arguments.replays} replays. Trials are 20 random ones of the candidates, or all 44.",
            "",
            *regret_lines(tables, arguments.replays, (("all", None, RICH),), LENGTHS[-1:]),
        ]
        write_table(folders.RESULTS / "finalists.md", lines)
        return
    lines = [
        "# Trials, seeds and finalists of a search",
        "",
        f"Made by `python -m benchmarks.picks.designs` over {', '.join(tables)}; {arguments.replays} replays. Trials "
        "are random ones of the candidates, and race; finalists run again, on further seeds, as "
        "long or longer. *cost* is in runs of the longest length; *close* is the share of replays with a regret of at "
        "most 5% of the range of the candidates.",
        "",
        *regret_lines(tables, arguments.replays),
        "",
        f"Verdicts of {arguments.verdicts} replays of each table without pruning, and how far the pick really is from "
        "the best trial of its search: among those that are *safe*, the shares that are further than a tenth of the "
        "range, and further than stated.",
        "",
        *verdict_lines(tables, arguments.verdicts),
    ]
    write_table(folders.RESULTS / "designs.md", lines)


if __name__ == "__main__":
    main()

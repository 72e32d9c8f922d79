"""Measure how well finalists are chosen by runs that were stopped; writes benchmarks/results/stopped.md.

    python -m benchmarks.statistics.stopped    # half a minute

A search draws 12 candidates of a table of 40 seeds and confirms the best three on further seeds, whose runs are stopped
at a share of their length. The pick is the best there.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from benchmarks import folders
from benchmarks.result_lines import write_table
from studies.simulation.run_table import RunTable
from studies.statistics.values import usual_range

RESULTS = folders.RESULTS / "stopped.md"
SEARCHES, N_CANDIDATES, N_FINALISTS = 1_000, 12, 3
SHARES = (0.25, 0.5, 0.6, 0.75, 0.9, 1.0)
N_SEEDS = (1, 2)
FURTHER = (2, 4, 6)


def regrets(table: RunTable, n_seeds: int) -> dict[tuple[int, float], float]:
    """Return the mean regret as a share of the range, by the number of further seeds and the share of their runs.

    The regret is to the best finalist. Without further seeds, the pick is the best on the seeds of the search.

    Args:
        table: The table, whose seeds are taken for all that there are.
        n_seeds: Seeds of the search.
    """
    rng = np.random.default_rng(1)
    final = table.values[:, :, -1]  # [C, S]
    truth = final.mean(axis=1)
    found: dict[tuple[int, float], list[float]] = {}
    for _ in range(SEARCHES):
        candidates = rng.permutation(len(truth))[:N_CANDIDATES]
        seeds = rng.permutation(final.shape[1])
        searched = final[candidates][:, seeds[:n_seeds]].mean(axis=1)
        finalists = candidates[np.argsort(-searched, kind="stable")[:N_FINALISTS]]
        best = truth[finalists].max()
        found.setdefault((0, 1.0), []).append(best - truth[finalists[0]])
        for n_further in FURTHER:
            further = table.values[finalists][:, seeds[n_seeds : n_seeds + n_further]].mean(axis=1)  # [F, T]
            for share in SHARES:
                pick = finalists[np.argmax(further[:, _mark(table.marks, share)])]
                found.setdefault((n_further, share), []).append(best - truth[pick])
    span = usual_range(list(truth))
    return {case: float(np.mean(own)) / span for case, own in found.items()}


def _mark(marks: tuple[int, ...], share: float) -> int:
    """Return the last mark within a share of the runs."""
    return max(0, int(np.searchsorted(marks, share * marks[-1], side="right")) - 1)


def main() -> None:
    tables = [RunTable.read(path) for path in sorted((folders.TABLES / "many-seeds").glob("*.parquet"))]
    lines = [
        "# Finalists that were stopped",
        "",
        f"`python -m benchmarks.statistics.stopped`. {SEARCHES:,} searches of each of {len(tables)} tables of 40 seeds "
        f"with {N_CANDIDATES} candidates; the best {N_FINALISTS} are run on further seeds, and their runs stop at "
        "a share of their length. Regret of the best finalist there, to the one with the best expected final value, as "
        "a share of the range of the table: the mean over the tables, and the worst table.",
    ]
    for n_seeds in N_SEEDS:
        cases = [regrets(table, n_seeds) for table in tables]
        plural = "" if n_seeds == 1 else "s"
        lines += [
            "",
            f"## {n_seeds} seed{plural} in the search",
            "",
            f"By the seed{plural} of the search: {_cell(cases, (0, 1.0))}.",
            "",
            f"| share of the runs | {' | '.join(f'{n} further seeds' for n in FURTHER)} |",
            f"|---|{'---|' * len(FURTHER)}",
        ]
        lines += [f"| {share:.0%} | {' | '.join(_cell(cases, (n, share)) for n in FURTHER)} |" for share in SHARES]
    write_table(RESULTS, lines)


def _cell(cases: list[dict[tuple[int, float], float]], case: tuple[int, float]) -> str:
    values: npt.NDArray[np.float64] = np.array([own[case] for own in cases])
    return f"{values.mean():.1%} (worst {values.max():.1%})"


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")

"""Do the intervals of the gain over a baseline hold? Coverage and width; writes benchmarks/results/gains.md.

    python -m benchmarks.statistics.gains    # a minute

A search of 20 trials with one seed each, one of which is the baseline, confirms the best three and the baseline on
further seeds, and Finder's own judgement chooses the pick and compares it with the baseline.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from benchmarks import folders
from benchmarks.result_lines import write_table
from benchmarks.statistics.intervals import interval_cell
from benchmarks.statistics.simulated_returns import KINDS, Array, Returns, of_tables
from studies.judging.baseline import compared_with_baseline
from studies.judging.judgement import judge
from studies.judging.ranking import reach_above
from studies.judging.search_history import SearchHistory, TrialResult
from studies.statistics.bounds import reached_bounds

RESULTS = folders.RESULTS / "gains.md"
N_TRIALS = 20
N_FINALISTS = 3
FURTHER = (2, 3, 5)
SEARCHES = 500


class Stated(NamedTuple):
    """Intervals that a search states, each as (holds, width): whether it contains the true value, and its width.

    Attributes:
        value: Of the value of the pick.
        gain: Of its gain over the baseline.
        without: Of its gain, without collapses that no seed has shown.
    """

    value: tuple[bool, float]
    gain: tuple[bool, float]
    without: tuple[bool, float]


def stated(values: Array, truth: Array) -> Stated | None:
    """Return what a search states; None if the baseline is its pick.

    Args:
        values: [C, 1 + F] value of each candidate on the seed of the search, and on further ones. The first candidate
            is the baseline.
        truth: [C] expected values.
    """
    n_further = values.shape[1] - 1
    best = [int(c) for c in np.argsort(-values[:, 0], kind="stable")[:N_FINALISTS]]
    confirmed = [*best, *({0} - set(best))]
    seeds = tuple(range(1, 1 + n_further))
    trials = [_trial(c, c, {0: values[c, 0]}) for c in range(len(values))]
    further = [
        _trial(len(values) + k, c, dict(zip(seeds, values[c, 1:], strict=True)), confirms=c)
        for k, c in enumerate(confirmed)
    ]
    history = SearchHistory(
        trials=trials, confirmations=further, n_finalists=N_FINALISTS, further_seeds=seeds, baseline={"x": 0}
    )
    seen = np.concatenate([values[:, 0], values[confirmed, 1:].ravel()])
    least, most = seen.min(), seen.max()
    bounds = reached_bounds(least, most, np.sum(seen == least), np.sum(seen == most))
    verdict = judge(history, bounds, bounds)
    compared = compared_with_baseline(history, verdict)
    assert verdict.pick is not None
    assert compared is not None
    if compared.is_pick:
        return None
    pick = verdict.pick.number
    of_pick, of_baseline = (
        next(each.held_out for each in verdict.confirmed if each.number == number) for number in (pick, 0)
    )
    gained = truth[pick] - truth[0]
    return Stated(
        _held(of_pick.low, of_pick.high, truth[pick]),
        _held(compared.low, compared.high, gained),
        _held(compared.compared_low, compared.gain + reach_above(of_pick, of_baseline), gained),
    )


def _trial(number: int, candidate: int, seed_values: dict[int, float], confirms: int | None = None) -> TrialResult:
    return TrialResult(
        number=number,
        params={"x": candidate},
        state="complete",
        value=float(np.mean(list(seed_values.values()))),
        seed_values=seed_values,
        confirms=confirms,
    )


def _held(low: float, high: float, truth: float) -> tuple[bool, float]:
    return low - 1e-9 <= truth <= high + 1e-9, high - low


def line_of(kind: str, drawn: list[Returns]) -> str:
    """Return the row of one kind of returns."""
    rows = [stated(values, truth) for own in drawn for values, truth in zip(own.values, own.truth, strict=True)]
    known = np.array([row for row in rows if row is not None], float)  # [R, 3, 2]
    cells = [interval_cell(*found) for found in known.mean(axis=0)]
    return f"| {kind} | " + " | ".join(cells) + f" | {len(known)} |"


def main() -> None:
    lines = [
        "# Intervals of the gain over a baseline",
        "",
        f"`python -m benchmarks.statistics.gains`. Searches of {N_TRIALS} trials with one seed each; the best "
        f"{N_FINALISTS}, and the baseline, are confirmed on further seeds, and judged by Finder. Coverage of 95% "
        "intervals, and their mean width as a share of the range of the candidates, for the value of the pick and for "
        "its gain over the baseline. Coverage outside 93 to 97% is in bold. *Without collapses* is the interval of the "
        "gain in earlier versions, which did not allow for collapses that no seed has shown. Searches whose pick is "
        "the baseline are left out.",
    ]
    for n_further in FURTHER:
        lines += [
            "",
            f"## {n_further} further seeds",
            "",
            "| returns | value of the pick | gain | gain, without collapses | searches |",
            "|---|---|---|---|---|",
        ]
        for kind, draw in KINDS.items():
            drawn = draw(np.random.default_rng(1), SEARCHES, N_TRIALS, 1 + n_further)
            lines.append(line_of(kind, [drawn]))
        lines.append(line_of("tables", of_tables(np.random.default_rng(2), SEARCHES // 10, N_TRIALS, 1 + n_further)))
    write_table(RESULTS, lines)


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")

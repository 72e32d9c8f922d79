"""Compare single numbers over seeds that could value a candidate. Writes benchmarks/results/estimators.md.

python -m benchmarks.statistics.estimators    # a quarter of a minute on one core
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.statistics.simulated_returns import KINDS, Array, final_returns
from studies.statistics.values import iqm, iqm_of_population, mean_of_seeds

RESULTS = folders.RESULTS / "estimators.md"
SEEDS = (3, 5, 8)
REPLAYS = 1_000
CLOSE = 0.05
"""Share of the range of a table within which a pick is as good as the best."""


def median(values: Array, axis: int = -1) -> Array:
    """Return the median."""
    return np.asarray(np.median(values, axis=axis))


def halfway(values: Array, axis: int = -1) -> Array:
    """Return the middle of the mean and of the interquartile mean with fractional weights."""
    return np.asarray(mean_of_seeds(values, axis) + iqm_of_population(values, axis)) / 2


ESTIMATORS: dict[str, Callable[..., Any]] = {
    "mean": mean_of_seeds,
    "IQM, fractional weights": iqm_of_population,
    "IQM, whole values": iqm,
    "median": median,
    "halfway mean and IQM": halfway,
}


def picks(judge: Callable[..., Any]) -> dict[tuple[str, int], tuple[float, float]]:
    """Return mean regret and share of close picks of each estimator and number of seeds, over the tables.

    The pick has the highest estimate on seeds drawn without replacement. Its regret is on the other seeds of the table,
    against the candidate that is best by all seeds, as a share of the range of all candidates.

    Args:
        judge: Estimator by which the best candidate and the regret are determined.
    """
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for table in final_returns().values():
        everything = judge(table)
        best, span = int(np.argmax(everything)), float(np.ptp(everything)) or 1.0
        rng = np.random.default_rng(0)
        order = np.argsort(rng.random((REPLAYS, table.shape[1])), axis=1)
        for n in (n for n in SEEDS if n < table.shape[1]):
            seen, other = table[:, order[:, :n]], judge(table[:, order[:, n:]])  # [C, R, n], [C, R]
            for name, estimator in ESTIMATORS.items():
                # Equal candidates are chosen among at random, as a table lists them in the order of their rates.
                ties = estimator(seen) + 1e-9 * span * rng.random((len(table), REPLAYS))
                regret = (other[best] - other[np.argmax(ties, axis=0), np.arange(REPLAYS)]) / span
                found.setdefault((name, n), []).append((float(regret.mean()), float((regret <= CLOSE).mean())))
    return {key: tuple(np.mean(rows, axis=0)) for key, rows in found.items()}


def errors() -> dict[tuple[str, str, int], tuple[float, float]]:
    """Return bias and standard deviation of each estimator, kind and number of seeds, for a candidate of level 1.

    The bias is that against the same estimator over ever more seeds.
    """
    found = {}
    for kind, draw in KINDS.items():
        many = draw(np.random.default_rng(1), 20, 400, 400).values.reshape(-1, 400)  # 400 runs of 8,000 candidates
        high = many[many.mean(axis=1) >= np.quantile(many.mean(axis=1), 0.7)]
        for name, estimator in ESTIMATORS.items():
            truth = estimator(high)
            for n in SEEDS:
                few = estimator(high[:, : n * (400 // n)].reshape(len(high), -1, n))  # [H, 400 / n]
                found[name, kind, n] = (float(np.mean(few - truth[:, None])), float(np.mean(few.std(axis=1))))
    return found


def report() -> str:
    """Return the results as Markdown."""
    lines = [
        "# The value of a candidate over its seeds",
        "",
        "`python -m benchmarks.statistics.estimators`. All values are shares of the range of the candidates.",
        "",
        "## Picks",
        "",
        f"Over the tables of finished runs, {REPLAYS:,} replays each: mean regret of the pick on seeds that were not "
        f"seen, and the share of picks within {CLOSE:.0%} of the best. *Judged by* is the estimator that values "
        "candidates on the other seeds.",
        "",
        "| chosen by | "
        + " | ".join(f"{n} seeds, judged by {judge}" for n in SEEDS for judge in ("mean", "IQM"))
        + " |",
        "|---|" + "---|" * 2 * len(SEEDS),
    ]
    judged = {"mean": picks(mean_of_seeds), "IQM": picks(iqm_of_population)}
    for name in ESTIMATORS:
        cells = [f"{judged[judge][name, n][0]:.1%}, {judged[judge][name, n][1]:.0%}" for n in SEEDS for judge in judged]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Bias and standard deviation",
        "",
        "Of candidates among the best 30%: bias against the same estimator over ever more seeds, and standard "
        "deviation. An estimator with a bias that depends on the number of seeds cannot compare three seeds with five.",
        "",
        "| estimator | returns | " + " | ".join(f"{n} seeds" for n in SEEDS) + " |",
        "|---|---|" + "---|" * len(SEEDS),
    ]
    found = errors()
    for name in ESTIMATORS:
        for kind in KINDS:
            cells = [f"{found[name, kind, n][0]:+.3f} ± {found[name, kind, n][1]:.3f}" for n in SEEDS]
            lines.append(f"| {name} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = report()
    RESULTS.write_text(text)
    print(text)

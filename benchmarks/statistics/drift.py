"""How far does the best learning rate move with the length of a run? Writes benchmarks/results/drift.md.

    python -m benchmarks.statistics.drift    # a few seconds

The drift of each optimizer on each table is the slope of the best rate over the length of the run, in decades a decade.
A hierarchical model (tables within an optimizer and agent, those within all) is fitted on the tables on which settings
were chosen, and judged on the others only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks import folders
from benchmarks.picks.cases import DEVELOPED_ON
from benchmarks.statistics.simulated_returns import Array
from studies.simulation.run_table import RunTable
from studies.simulation.table_groups import groups_of
from studies.statistics.drift import DRIFT, DRIFT_ERROR
from studies.statistics.rate_curve import smoothing
from studies.statistics.values import mean_of_seeds

RESULTS = folders.RESULTS / "drift.md"
FROM = 0.25
"""Share of the runs from which on the drift is measured."""

RESAMPLES = 200


class Slope(NamedTuple):
    """Drift of an optimizer on a table, in decades a decade, with its standard error over resampled seeds."""

    table: str
    agent: str
    optimizer: str
    value: float
    error: float


def peaks(values: Array, positions: Array) -> Array:
    """Return [R, T] positions of the highest values of smoothed curves.

    Args:
        values: [R, C, T] value of each rate at each mark.
        positions: [C] decimal logarithms of the rates.
    """
    smooth = np.einsum("cd,rdt->rct", smoothing(positions.tolist()), values)
    weights = np.exp((smooth - smooth.max(axis=1, keepdims=True)) / (0.02 * np.ptp(smooth) or 1.0))
    return np.asarray((weights * positions[None, :, None]).sum(axis=1) / weights.sum(axis=1))


def slopes_of(name: str) -> list[Slope]:
    """Return the drift of each optimizer of a table."""
    table = RunTable.read(folders.TABLES / f"{name}.parquet")
    groups, positions = groups_of(table)
    late = np.flatnonzero(table.shares >= FROM - 1e-9)
    decades = np.log10(table.shares[late])
    centred = decades - decades.mean()
    rng = np.random.default_rng(0)
    found = []
    for group in dict.fromkeys(groups):
        own = [c for c, other in enumerate(groups) if other == group]
        seeds = np.vstack(
            [np.arange(len(table.seeds)), rng.integers(0, len(table.seeds), (RESAMPLES, len(table.seeds)))]
        )
        means = mean_of_seeds(table.values[own][:, seeds][..., late], axis=2)  # [C, R, T]
        at = peaks(np.moveaxis(means, 0, 1), np.array(positions)[own])
        slopes = (at @ centred) / (centred @ centred)
        optimizer = str(table.params[own[0]]["optimizer"])
        found.append(Slope(name, name.partition("-")[0], optimizer, float(slopes[0]), float(slopes[1:].std(ddof=1))))
    return found


class Prediction(NamedTuple):
    """Predicted drift of an optimizer on a new table, with its standard deviation over tables."""

    value: float
    error: float


def fitted(slopes: list[Slope]) -> tuple[dict[tuple[str, str], Prediction], Prediction]:
    """Return the prediction for each agent and optimizer, and that for all others, by expectation maximisation.

    A slope is normal around that of its agent and optimizer with its own error and a spread over tables; those are
    normal around the common one.
    """
    keys = sorted({(each.agent, each.optimizer) for each in slopes})
    group = np.array([keys.index((each.agent, each.optimizer)) for each in slopes])
    seen = np.array([each.value for each in slopes])
    noise = np.array([each.error for each in slopes]) ** 2
    common, between, within = float(seen.mean()), 0.1, 0.1
    for _ in range(500):
        weight = 1 / (noise + within)
        precision = np.array([weight[group == k].sum() for k in range(len(keys))]) + 1 / between
        sums = np.array([(weight * seen)[group == k].sum() for k in range(len(keys))])
        center, variance = (sums + common / between) / precision, 1 / precision
        shrunk = within / (within + noise)
        left = shrunk * (seen - center[group])
        within = max(1e-4, float(np.mean(left**2 + shrunk**2 * variance[group] + shrunk * noise)))
        common = float(center.mean())
        between = max(1e-4, float(np.mean((center - common) ** 2 + variance)))
    rest = Prediction(common, math.sqrt(within + between + between / len(keys)))
    return {
        key: Prediction(float(center[k]), math.sqrt(within + float(variance[k]))) for k, key in enumerate(keys)
    }, rest


def report() -> str:
    """Return the results as Markdown."""
    names = sorted(path.stem for path in folders.TABLES.glob("*.parquet"))
    slopes = [slope for name in names if not name.endswith("-momentum") for slope in slopes_of(name)]
    developed = [slope for slope in slopes if slope.table in DEVELOPED_ON]
    others = [slope for slope in slopes if slope.table not in DEVELOPED_ON]
    own, rest = fitted(developed)
    rules: dict[str, Callable[[Slope], Prediction]] = {
        "no drift": lambda each: Prediction(0.0, math.nan),
        "the product's": lambda each: Prediction(DRIFT, DRIFT_ERROR),
        "hierarchical, optimizer within agent": lambda each: own.get((each.agent, each.optimizer), rest),
    }
    lines = [
        "# Drift of the best learning rate",
        "",
        "`python -m benchmarks.statistics.drift`. Slope of the best rate over the length of a run, from a quarter of "
        "the runs to their ends, in decades a decade, on smoothed curves.",
        "",
        "## Fitted on the tables on which settings were chosen",
        "",
        "| agent | optimizer | tables | mean | predicted for a new table |",
        "|---|---|---|---|---|",
    ]
    for (agent, optimizer), said in own.items():
        values = [each.value for each in developed if (each.agent, each.optimizer) == (agent, optimizer)]
        lines.append(
            f"| {agent} | {optimizer} | {len(values)} | {np.mean(values):+.2f} | {said.value:+.2f} ± {said.error:.2f} |"
        )
    lines += [
        f"| any other | any other | | | {rest.value:+.2f} ± {rest.error:.2f} |",
        "",
        "## Held-out tables",
        "",
        f"{len(others)} optimizers on {len({each.table for each in others})} tables that took no part. The interval is "
        "that of the drift with 95%; what is not known of the drift itself widens it.",
        "",
        "| rule | bias: mean, median | absolute error: mean, median | intervals that hold | their half width |",
        "|---|---|---|---|---|",
    ]
    for name, rule in rules.items():
        predictions = [rule(each) for each in others]
        off = np.array([each.value - one.value for each, one in zip(others, predictions, strict=True)])
        reach = np.array(
            [1.96 * math.hypot(one.error, each.error) for each, one in zip(others, predictions, strict=True)]
        )
        holds = "" if np.isnan(reach).any() else f"{np.mean(np.abs(off) <= reach):.0%}"
        half = "" if np.isnan(reach).any() else f"{reach.mean():.2f}"
        bias, error = (f"{np.mean(each):+.2f}, {np.median(each):+.2f}" for each in (off, np.abs(off)))
        lines.append(f"| {name} | {bias} | {error.replace('+', '')} | {holds} | {half} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = report()
    RESULTS.write_text(text)
    print(text)

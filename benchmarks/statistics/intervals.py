"""Do the intervals of few seeds hold? Coverage and width, beside those before; writes benchmarks/results/intervals.md.

python -m benchmarks.statistics.intervals    # five minutes beside other work
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from benchmarks import folders
from benchmarks.statistics.simulated_returns import KINDS, Array, Returns, of_tables
from studies.statistics.intervals import estimate
from studies.statistics.values import usual_range

RESULTS = folders.RESULTS / "intervals.md"
SEEDS = (3, 5, 8)
FEW, MANY = 6, 44
"""Candidates of a search: a grid of one optimizer, and four optimizers at eleven rates each."""

SEARCHES = {FEW: 1_000, MANY: 150}
FURTHER = 5
"""Further seeds on which the best candidate is confirmed."""

ENDS = 3
"""Runs that must have reached exactly the lowest or the highest value for it to bound intervals, as in a ranking."""

Interval = Callable[[Sequence[Array]], tuple[Array, Array]]
"""Values of the seeds of each candidate of a search -> lower and upper ends."""

# Intervals ------------------------------------------------------------------------------------------------------------


def finder(values: Sequence[Array]) -> tuple[Array, Array]:
    """Return the intervals that rankings show."""
    return estimate([own.tolist() for own in values]).interval()


def before(values: Sequence[Array]) -> tuple[Array, Array]:
    """Return the intervals of earlier versions around means: similarity of one standard error, no collapses."""
    counts = np.array([len(own) for own in values], float)
    centers = np.array([own.mean() for own in values])
    variances, df = np.array([own.var(ddof=1) for own in values]), counts - 1
    usual = variances <= (np.quantile(variances, 0.9, method="lower") if len(values) >= 5 else np.inf)
    known = float(df[usual].sum())
    everywhere = float(df[usual] @ variances[usual]) / known
    width = max(0.1 * usual_range(centers), float(np.sqrt(everywhere / (1 + known / len(df)))), 1e-300)
    apart = np.minimum(np.abs(centers[:, None] - centers[None, :]) / width, 12.0)
    weights = np.exp(-0.5 * apart**2) * df[None, :]
    np.fill_diagonal(weights, 0.0)
    total = weights.sum(axis=1)
    prior = np.minimum(4.0, total)
    moderated = (prior * (weights @ variances) / np.maximum(total, 1e-300) + df * variances) / (prior + df)
    missing = np.maximum(0.0, 1.0 - prior)
    filled = ((prior + df) * moderated + missing * everywhere) / (prior + df + missing)
    reach = stats.t.ppf(0.975, prior + df) * np.sqrt(np.maximum(moderated, filled) / counts)
    return centers - reach, centers + reach


def student(values: Sequence[Array]) -> tuple[Array, Array]:
    """Return Student's intervals, each candidate by itself."""
    centers = np.array([own.mean() for own in values])
    reach = np.array([stats.t.ppf(0.975, len(own) - 1) * own.std(ddof=1) / np.sqrt(len(own)) for own in values])
    return centers - reach, centers + reach


METHODS: dict[str, Interval] = {"finder": finder, "before": before, "Student's t": student}


def clipped(low: Array, high: Array, values: Sequence[Array]) -> tuple[Array, Array]:
    """Return intervals that end at a value which several runs reached exactly."""
    every = np.concatenate(list(values))
    least, most = every.min(), every.max()
    if least == most:
        return low, high
    if np.sum(every == least) >= ENDS:
        low = np.maximum(low, least)
    if np.sum(every == most) >= ENDS:
        high = np.minimum(high, most)
    return low, high


# Measuring ------------------------------------------------------------------------------------------------------------


def measured(drawn: Returns, interval: Interval | None) -> Array:
    """Return [4] coverage and mean width over all candidates, and over those within a tenth of the best.

    Args:
        drawn: Searches.
        interval: Intervals; None for the oracle, which knows the standard deviation of the runs of each candidate.
    """
    rows, of_best = [], []
    for values, truth, sigma in zip(*drawn, strict=True):
        if interval is None:
            reach = 1.96 * sigma / np.sqrt(values.shape[1])
            low, high = values.mean(axis=1) - reach, values.mean(axis=1) + reach
        else:
            low, high = interval(values)
        low, high = clipped(low, high, values)
        held = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
        rows.append(np.stack([held, high - low]))
        of_best.append(rows[-1][:, truth >= truth.max() - 0.1])
    return np.concatenate([np.mean(np.concatenate(found, axis=1), axis=1) for found in (rows, of_best)])


def confirmed(first: Returns, further: Array, interval: Interval) -> Array:
    """Return [2] coverage and mean width of the best candidate of each search, on further seeds.

    Args:
        first: Searches; the candidate with the highest mean is confirmed.
        further: [R, C, F] values of all candidates on further seeds.
        interval: Intervals.
    """
    rows = []
    for values, own, truth in zip(first.values, further, first.truth, strict=True):
        pick = int(np.argmax(values.mean(axis=1)))
        alone = [own[pick] if c == pick else values[c] for c in range(len(values))]
        low, high = clipped(*interval(alone), alone)
        rows.append([low[pick] - 1e-9 <= truth[pick] <= high[pick] + 1e-9, high[pick] - low[pick]])
    return np.asarray(np.mean(rows, axis=0))


def searches(n_candidates: int, n: int) -> dict[str, list[Returns]]:
    """Return the searches of every kind, and those of the tables."""
    n_searches = SEARCHES[n_candidates]
    found = {kind: [draw(np.random.default_rng(1), n_searches, n_candidates, n)] for kind, draw in KINDS.items()}
    return {**found, "tables": of_tables(np.random.default_rng(2), n_searches // 10, n_candidates, n)}


def winners(n_candidates: int, n: int, n_searches: int = 400) -> dict[str, float]:
    """Return how often one of several equal candidates is called better than all others, for every kind."""
    found = {}
    for kind in KINDS:
        won = 0
        draw = KINDS[kind](np.random.default_rng(3), 1, n_searches * 20, n_candidates * n)
        chosen = np.argsort(-draw.truth[0])[:n_searches]  # candidates that learn; each is copied
        for runs in draw.values[0][chosen]:
            won += int(estimate(runs.reshape(n_candidates, n).tolist()).may_be_best().sum() == 1)
        found[kind] = won / n_searches
    return found


# Report ---------------------------------------------------------------------------------------------------------------


def interval_cell(coverage: float, width: float) -> str:
    """Return coverage, in bold outside 93 to 97%, and width as a cell of a table."""
    text = f"{coverage:.1%}"
    return f"{text if 0.93 <= round(coverage, 3) <= 0.97 else f'**{text}**'}, {width:.2f}"


def report() -> str:
    """Return the results as Markdown."""
    lines = [
        "# Intervals from few seeds",
        "",
        "`python -m benchmarks.statistics.intervals`. Coverage of 95% intervals of the expected return, and their mean "
        "width as a share of the range of the candidates. Coverage outside 93 to 97% is in bold. *Before* is the rule "
        "of earlier versions, around means. The *oracle* knows the standard deviation of each candidate's runs, which "
        "no search does: what it does not reach is the bound of the data, since the mean of three runs that collapse "
        "or not has four values only. *Near the best* are the candidates within a tenth of the best, on which a search "
        f"decides. *Confirmed* is the best candidate of a search on {FURTHER} further seeds.",
    ]
    for n_candidates, few in ((FEW, "few"), (MANY, "many")):
        for n in SEEDS:
            lines += [
                "",
                f"## {n} seeds, {few} candidates ({n_candidates})",
                "",
                "| returns | finder | before | Student's t | oracle | finder, near the best | before, near the best | "
                "oracle, near the best | finder, confirmed | before, confirmed |",
                "|---|---|---|---|---|---|---|---|---|---|",
            ]
            for kind, drawn in searches(n_candidates, n).items():
                every = {name: np.mean([measured(own, method) for own in drawn], 0) for name, method in METHODS.items()}
                oracle = np.mean([measured(own, None) for own in drawn], 0)
                again = searches_again(kind, n_candidates, n)
                stated = [every[name][:2] for name in METHODS] + [oracle[:2]]
                stated += [every[name][2:] for name in ("finder", "before")] + [oracle[2:]]
                stated += [again[name] for name in ("finder", "before")]
                lines.append(f"| {kind} | " + " | ".join(interval_cell(*each) for each in stated) + " |")
    lines += [
        "",
        "## False winners",
        "",
        "How often one of several equal candidates is called better than all others. At most 5% are wanted.",
        "",
        "| candidates | seeds | " + " | ".join(KINDS) + " |",
        "|---|---|" + "---|" * len(KINDS),
    ]
    for n_candidates in (2, 3, 12):
        for n in SEEDS:
            found = winners(n_candidates, n)
            lines.append(f"| {n_candidates} | {n} | " + " | ".join(f"{share:.1%}" for share in found.values()) + " |")
    return "\n".join(lines) + "\n"


def searches_again(kind: str, n_candidates: int, n: int) -> dict[str, Array]:
    """Return coverage and width of the confirmed candidate by method; further seeds are drawn as the first ones."""
    n_searches = SEARCHES[n_candidates]
    if kind == "tables":
        both = of_tables(np.random.default_rng(2), n_searches // 10, n_candidates, n + FURTHER)
    else:
        both = [KINDS[kind](np.random.default_rng(4), n_searches, n_candidates, n + FURTHER)]
    parts = [(Returns(own.values[..., :n], own.truth, own.sigma), own.values[..., n:]) for own in both]
    return {
        name: np.mean([confirmed(first, further, METHODS[name]) for first, further in parts], axis=0)
        for name in ("finder", "before")
    }


if __name__ == "__main__":
    began = time.perf_counter()
    text = report()
    RESULTS.write_text(text)
    print(text)
    print(f"{time.perf_counter() - began:.0f} s")

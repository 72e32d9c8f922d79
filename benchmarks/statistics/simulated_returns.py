"""Returns of the candidates of a search, simulated with known means, or drawn from the tables of finished runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks import folders
from studies.simulation.run_table import RunTable

Array = np.ndarray[Any, Any]


class Returns(NamedTuple):
    """Returns of R searches with C candidates each, on n seeds.

    Attributes:
        values: [R, C, n] return of each run.
        truth: [R, C] expected return of each candidate.
        sigma: [R, C] standard deviation of the runs of each candidate.
    """

    values: Array
    truth: Array
    sigma: Array


Draw = Callable[[np.random.Generator, int, int, int], Returns]


def levels(rng: np.random.Generator, n_searches: int, n_candidates: int) -> Array:
    """Return [R, C] levels of candidates along a curve of learning rates: some learn nothing, many come near 1."""
    return np.clip(1.3 * np.sin(np.pi * rng.random((n_searches, n_candidates))), 0.0, 1.0)


def _spreads(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 0.1 * np.exp(0.5 * rng.standard_normal(shape))


def normal(rng: np.random.Generator, n_searches: int, n_candidates: int, n: int) -> Returns:
    """Normal returns; each candidate has its own spread."""
    level = levels(rng, n_searches, n_candidates)
    sigma = _spreads(rng, level.shape)
    return Returns(level[..., None] + sigma[..., None] * rng.standard_normal((*level.shape, n)), level, sigma)


def skewed(rng: np.random.Generator, n_searches: int, n_candidates: int, n: int) -> Returns:
    """Returns with an exponential tail downwards."""
    level = levels(rng, n_searches, n_candidates)
    sigma = _spreads(rng, level.shape)
    values = level[..., None] - sigma[..., None] * (rng.exponential(size=(*level.shape, n)) - 1)
    return Returns(values, level, sigma)


def bimodal(chance: float | None) -> Draw:
    """Return returns of which a share collapses to the level of a candidate that learns nothing.

    Args:
        chance: Share of the runs that collapse; None for a share of its own for each candidate, a third in the mean.
    """

    def draw(rng: np.random.Generator, n_searches: int, n_candidates: int, n: int) -> Returns:
        level = levels(rng, n_searches, n_candidates)
        share = np.asarray(rng.beta(1, 2, level.shape)) if chance is None else np.full(level.shape, chance)
        fine = rng.random((*level.shape, n)) >= share[..., None]
        noise = 0.03 * rng.standard_normal(fine.shape)
        sigma = np.sqrt(level**2 * share * (1 - share) + 0.03**2)
        return Returns(level[..., None] * fine + noise, level * (1 - share), sigma)

    return draw


def saturated(rng: np.random.Generator, n_searches: int, n_candidates: int, n: int) -> Returns:
    """Normal returns that are cut at 1, the greatest possible return, which the runs of many candidates reach."""
    place, scale = 1.15 * levels(rng, n_searches, n_candidates), 2 * _spreads(rng, (n_searches, n_candidates))
    values = np.minimum(place[..., None] + scale[..., None] * rng.standard_normal((*place.shape, n)), 1.0)
    at = (1 - place) / scale
    below, density = stats.norm.cdf(at), stats.norm.pdf(at)
    mean = place * below - scale * density + (1 - below)
    square = (place**2 + scale**2) * below - scale * (place + 1) * density + (1 - below)
    return Returns(values, mean, np.sqrt(np.maximum(square - mean**2, 0.0)))


KINDS: dict[str, Draw] = {
    "normal": normal,
    "skewed": skewed,
    **{f"{chance:.0%} collapse": bimodal(chance) for chance in (0.1, 0.25, 0.4, 0.5)},
    "a third, its own share each": bimodal(None),
    "saturated": saturated,
}
"""Kind of returns -> what draws them."""


def final_returns() -> dict[str, Array]:
    """Return [C, S] final returns of every table of finished runs."""
    return {path.stem: RunTable.read(path).values[:, :, -1] for path in sorted(folders.TABLES.glob("*.parquet"))}


def of_tables(rng: np.random.Generator, n_searches: int, n_candidates: int, n: int) -> list[Returns]:
    """Return searches of each table, with seeds drawn with replacement: its seeds are taken for all that there are.

    Args:
        rng: Random numbers.
        n_searches: Searches of each table.
        n_candidates: Candidates of each search, at most all of a table.
        n: Seeds of each candidate.
    """
    found = []
    for table in final_returns().values():
        scaled = (table - table.min()) / (np.ptp(table) or 1.0)  # [C, S]
        chosen = np.argsort(rng.random((n_searches, len(scaled))), axis=1)[:, :n_candidates]  # [R, C]
        seeds = rng.integers(0, scaled.shape[1], (*chosen.shape, n))
        found.append(Returns(scaled[chosen[..., None], seeds], scaled.mean(axis=1)[chosen], scaled.std(axis=1)[chosen]))
    return found

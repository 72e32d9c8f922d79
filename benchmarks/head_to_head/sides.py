"""Sides of a cell: their long runs, what these come to, and when a search overtakes another side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.head_to_head.cells import CELLS, NAMES, Row
from studies.statistics.values import iqm_of_population

N_BOOTSTRAP = 4_000

Array = np.ndarray[Any, Any]


class LongRun(NamedTuple):
    """One seed of a long run.

    Attributes:
        search: Number of the search whose pick it trains.
        search_seconds: Seconds of that search.
        points: [10, 4] environment steps, greedy return, its deviation, and seconds of training.
        failed: Whether it diverged; its last return then is the worst of the cell.
    """

    search: int
    search_seconds: float
    points: Array
    failed: bool


class Side(NamedTuple):
    """The long runs of a side in a cell, and what they come to.

    Attributes:
        runs: The runs.
        finals: Final greedy return of each run.
        steps: Environment steps of each run until the threshold; a tenth more than the run has if it stays below.
        is_translated: Whether the library of the runs has all that was picked.
    """

    runs: list[LongRun]
    finals: list[float]
    steps: list[float]
    is_translated: bool

    @property
    def iqm(self) -> float:
        """Interquartile mean of the final returns of a search's pick, on average over the searches."""
        return float(np.mean([iqm_of_population(own) for own in self.of_searches(self.finals)]))

    @property
    def mean(self) -> float:
        """Mean of the final returns, in which runs that collapse count as much as others; average as in `iqm`."""
        return float(np.mean([np.mean(own) for own in self.of_searches(self.finals)]))

    @property
    def mean_steps(self) -> float:
        """Mean environment steps until the threshold; average as in `iqm`."""
        return float(np.mean([np.mean(own) for own in self.of_searches(self.steps)]))

    def of_searches(self, values: Sequence[float]) -> list[Array]:
        """Split values of the runs by search."""
        numbers = np.array([run.search for run in self.runs])
        return [np.asarray(values)[numbers == number] for number in np.unique(numbers)]

    def drawn_iqms(self, seed: int) -> Array:
        """Return [N] values of `iqm` in a bootstrap over searches and the runs of each."""
        rng, groups = np.random.default_rng(seed), self.of_searches(self.finals)
        drawn = [iqm_of_population(own[rng.integers(0, len(own), (N_BOOTSTRAP, len(own)))]) for own in groups]
        chosen = rng.integers(0, len(groups), (len(groups), N_BOOTSTRAP))
        found: Array = np.take_along_axis(np.stack(drawn), chosen, axis=0).mean(axis=0)
        return found


def sides_of(rows: Sequence[Row], cell: str, minutes: float, library: str) -> dict[str, Side]:
    """Return the sides of a cell that have runs; those without a search belong to all minutes."""
    searches = {
        (r["side"], r["search"]): r
        for r in rows
        if _is_of(r, "search", cell, minutes) and (r["found"] or r["side"] != "zoo-tuned")  # the zoo has none for some
    }
    runs: dict[str, list[LongRun]] = {}
    for row in rows:
        if _is_of(row, "run", cell, minutes) and row["library"] == library and (row["side"], row["search"]) in searches:
            seconds = searches[row["side"], row["search"]]["seconds"]
            points = np.array(row["points"], float).reshape(-1, 4)
            run = LongRun(row["search"], seconds, points, row["error"] is not None or not len(points))
            runs.setdefault(row["side"], []).append(run)
    values = [value for own in runs.values() for run in own for value in run.points[:, 1]]
    worst = min(values, default=0.0)
    found = {}
    for side in NAMES:
        if side in runs:
            finals = [worst if run.failed else float(run.points[-1, 1]) for run in runs[side]]
            picks = [searches[side, run.search].get("untranslated", {}) for run in runs[side]]
            is_translated = not any(lost.get(library) for lost in picks)
            found[side] = Side(runs[side], finals, [_steps(run, cell) for run in runs[side]], is_translated)
    return found


def _is_of(row: Row, kind: str, cell: str, minutes: float) -> bool:
    return row["kind"] == kind and row["cell"] == cell and row["minutes"] in (0.0, minutes)


def _steps(run: LongRun, cell: str) -> float:
    reached = run.points[run.points[:, 1] >= CELLS[cell].threshold] if len(run.points) else run.points
    if len(reached):
        return float(reached[0, 0])
    return 1.1 * (float(run.points[-1, 0]) if len(run.points) else CELLS[cell].env_steps)


def curve(side: Side, times: Array, worst: float) -> Array:
    """Return [T] interquartile means of the newest greedy returns at times after the search's command.

    They are those of the runs of a search, on average over the searches. Before its first evaluation a run has the
    worst return of the cell, and after its end it keeps its last one.
    """
    values = np.full((len(side.runs), len(times)), worst)
    for own, run in zip(values, side.runs, strict=True):
        if len(run.points) and not run.failed:
            at = np.searchsorted(run.search_seconds + run.points[:, 3], times, side="right") - 1
            own[at >= 0] = run.points[at[at >= 0], 1]
    numbers = np.array([run.search for run in side.runs])
    found: Array = np.mean([iqm_of_population(values[numbers == own].T) for own in np.unique(numbers)], axis=0)
    return found


def times_of(sides: Sequence[Side]) -> Array:
    """Return all times at which some curve changes, ascending, in seconds."""
    return np.unique(np.concatenate([run.search_seconds + run.points[:, 3] for side in sides for run in side.runs]))


def overtakes(side: Side, other: Side) -> float | None:
    """Return the seconds after which a search with its long runs is as good as the others for good; None: never."""
    times = times_of([side, other])
    values = [value for own in (side, other) for run in own.runs for value in run.points[:, 1]]
    worst = min(values)
    first = min(run.search_seconds + run.points[0, 3] for run in side.runs if len(run.points))
    behind = (curve(side, times, worst) < curve(other, times, worst)) | (times < first)
    if behind[-1]:
        return None
    return float(times[0] if not behind.any() else times[np.flatnonzero(behind)[-1] + 1])

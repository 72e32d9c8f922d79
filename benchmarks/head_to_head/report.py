"""Tables of `benchmarks/head_to_head/compare.py`, and a picture of returns against time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.head_to_head.cells import CELLS, DEFAULTS, LIBRARIES, SEARCHERS, Row
from benchmarks.head_to_head.translation import UNTRANSLATED
from studies.statistics.values import iqm_of_population

NAMES = {**SEARCHERS, **DEFAULTS}
COLORS = {
    "finder": "#2563eb", "finder-none": "#059669", "zoo": "#dc2626", "ray-asha": "#d97706", "ray-pbt": "#7c3aed",
    "sb3-defaults": "#6b7280", "finder-defaults": "#93c5fd", "zoo-tuned": "#fca5a5",
}  # fmt: skip
OURS = ("finder", "finder-none")
"""Sides that are compared with each other side."""

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
    """

    runs: list[LongRun]
    finals: list[float]
    steps: list[float]

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
            found[side] = Side(runs[side], finals, [_steps(run, cell) for run in runs[side]])
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


# The report ---------------------------------------------------------------------------------------------------------


def report(rows: Sequence[Row]) -> str:
    """Return the text of head-to-head.md."""
    lines = [
        "# Head to head",
        "",
        "Made by `python -m benchmarks.head_to_head.compare --table` from `results/head-to-head.jsonl`; how it is "
        "measured is in the script. Interquartile means of greedy returns at the ends of the long runs of a search, "
        "on average over the searches, with 95% intervals (bootstrap over searches and seeds, "
        f"{N_BOOTSTRAP:,} draws). **With one search, an interval is that of the pick's training seeds, and says "
        "nothing on another search of the same side.** Interquartile means leave out a quarter of the runs at each "
        "end; *mean* has all of them, and *worst* is the worst. *steps* are "
        "environment steps until the threshold, on average; a run that does not reach it counts a tenth more than it "
        "has. *difference* is Finder's interquartile mean minus that of the side, then that of `--first none`. "
        "*overtakes* is the time in minutes, search and one long run together, after which the side is as "
        "good as each side without a search, for good.",
        "",
        "The tables of pairs compare Finder with each other side in each cell: *higher* and *lower* are interquartile "
        "means, in brackets those beyond the interval of the difference; *higher or sooner* counts those with a higher "
        "return or fewer steps to the threshold, once for Finder and once for the other side.",
    ]
    for library, name in LIBRARIES.items():
        section = _section(rows, library)
        if section:
            lines += ["", f"## Long runs in {name}", "", *section]
    return "\n".join([*lines, "", *_searches(rows), "", *_lost(rows)]) + "\n"


def _section(rows: Sequence[Row], library: str) -> list[str]:
    lines: list[str] = []
    told: dict[str, dict[tuple[float, str], list[tuple[bool, ...]]]] = {side: {} for side in OURS}
    for cell in CELLS:
        for minutes in sorted({row["minutes"] for row in rows if row["cell"] == cell and row["minutes"]}):
            sides = sides_of(rows, cell, minutes, library)
            for side, own in sides.items():
                low, high = np.quantile(own.drawn_iqms(0), [0.025, 0.975])
                differences = []
                for name in (name for name in OURS if name in sides and side not in OURS):
                    ours = sides[name]
                    least, most = np.quantile(ours.drawn_iqms(0) - own.drawn_iqms(1), [0.025, 0.975])
                    differences.append(f"{ours.iqm - own.iqm:+.4g} ({least:+.4g} to {most:+.4g})")
                    higher, lower = ours.iqm > own.iqm, ours.iqm < own.iqm
                    sooner, later = ours.mean_steps < own.mean_steps, ours.mean_steps > own.mean_steps
                    pair = (higher, bool(least > 0), lower, bool(most < 0), higher or sooner, lower or later)
                    told[name].setdefault((minutes, side), []).append(pair)
                difference = "; ".join(differences)
                n_searches = len(own.of_searches(own.finals))
                lines.append(
                    f"| {cell} | {minutes:g} | {NAMES[side]} | {n_searches} | {len(own.runs)} | {own.iqm:.4g} "
                    f"({low:.4g} to {high:.4g}) | {own.mean:.4g} | {min(own.finals):.4g} | {own.mean_steps:,.0f} | "
                    f"{difference} | {_overtaking(side, sides)} |"
                )
    if not lines:
        return []
    head = [
        "| cell | minutes | side | searches | runs | final return | mean | worst | steps | difference | overtakes |",
        "|" + "---|" * 11,
    ]
    shares = []
    for ours_name, sides_beside in told.items():
        if not sides_beside:
            continue
        shares += [
            "",
            f"| {NAMES[ours_name]} beside | minutes | pairs | higher | lower | higher or sooner | the other side is |",
            "|" + "---|" * 7,
        ]
        for (minutes, name), pairs in sorted(sides_beside.items(), key=lambda item: item[0][0]):
            higher, above, lower, below, either, other = (sum(each) for each in zip(*pairs, strict=True))
            shares.append(
                f"| {NAMES[name]} | {minutes:g} | {len(pairs)} | {higher} ({above}) | {lower} ({below}) | "
                f"{either} ({either / len(pairs):.0%}) | {other} |"
            )
    return [*head, *lines, *shares]


def _overtaking(side: str, sides: dict[str, Side]) -> str:
    others = [own for name, own in sides.items() if name in DEFAULTS and any(len(run.points) for run in own.runs)]
    if side in DEFAULTS or not others or not any(len(run.points) for run in sides[side].runs):
        return ""
    times = [overtakes(sides[side], other) for other in others]
    known = [time for time in times if time is not None]
    return f"{max(known) / 60:.1f}" if len(known) == len(times) else "never"


def _searches(rows: Sequence[Row]) -> list[str]:
    lines = [
        "## Searches", "",
        "*trials* are those that ended or, of Ray, reported; *steps* those of them, in environment steps.", "",
        "| cell | minutes | side | version | searches | seconds, each | trials, each | steps, each | found nothing |",
        "|" + "---|" * 9,
    ]  # fmt: skip
    groups: dict[tuple[str, float, str, str], list[Row]] = {}
    for row in rows:
        if row["kind"] == "search" and row["minutes"]:
            key = (row["cell"], row["minutes"], row["side"], row.get("version", "earlier"))
            groups.setdefault(key, []).append(row)
    for (cell, minutes, side, version), own in groups.items():
        seconds = ", ".join(f"{row['seconds']:.0f}" for row in own)
        trials = ", ".join(_n_trials(row) for row in own)
        steps = ", ".join(f"{row['search_steps']:,}" if "search_steps" in row else "" for row in own).strip(", ")
        nothing = sum(not row["found"] for row in own)
        lines.append(
            f"| {cell} | {minutes:g} | {NAMES[side]} | {version} | {len(own)} | {seconds} | {trials} | {steps} | "
            f"{nothing} |"
        )
    return lines


def _n_trials(row: Row) -> str:
    ended = sum(n for state, n in row.get("states", {}).items() if state.lower() in {"complete", "pruned"})
    return str(row.get("n_reported", ended))


def _lost(rows: Sequence[Row]) -> list[str]:
    lines = ["## What could not be translated", "", UNTRANSLATED]
    found: dict[str, list[str]] = {}
    for row in rows:
        for library, sentences in row.get("untranslated", {}).items() if row["kind"] == "search" else ():
            for sentence in sentences:
                places = found.setdefault(f"To {LIBRARIES[library]}: {sentence}", [])
                places.append(f"{row['cell']}, {NAMES[row['side']]}")
    return [
        *lines,
        *([""] if found else []),
        *(f"- {told} ({'; '.join(sorted(set(at)))})" for told, at in found.items()),
    ]


# The picture --------------------------------------------------------------------------------------------------------


def picture(rows: Sequence[Row], path: Path) -> None:
    """Draw returns against the time of search and long run in Stable-Baselines3, a row a cell, a column for minutes."""
    from plotly.subplots import make_subplots

    from benchmarks.picture import screenshot

    cells = [cell for cell in CELLS if any(row["cell"] == cell and row["minutes"] for row in rows)]
    columns = sorted({row["minutes"] for row in rows if row["minutes"]})
    if not cells:
        print("There is no search to draw.")
        return
    titles = [f"{cell}, {minutes:g} minutes of search" for cell in cells for minutes in columns]
    figure = make_subplots(len(cells), len(columns), subplot_titles=titles, vertical_spacing=0.3 / len(cells))
    named: set[str] = set()
    for i, cell in enumerate(cells, 1):
        for j, minutes in enumerate(columns, 1):
            sides = {name: own for name, own in sides_of(rows, cell, minutes, "sb3").items() if _has_points(own)}
            if not sides:
                continue
            values = [value for own in sides.values() for run in own.runs for value in run.points[:, 1]]
            times = times_of(list(sides.values()))
            for side, own in sides.items():
                first = min(run.search_seconds + run.points[0, 3] for run in own.runs if len(run.points))
                shown = times >= first
                figure.add_scatter(
                    x=times[shown] / 60, y=curve(own, times, min(values))[shown], name=NAMES[side], legendgroup=side,
                    showlegend=side not in named, mode="lines",
                    line={"color": COLORS[side], "shape": "hv", "dash": "dot" if side in DEFAULTS else "solid"},
                    row=i, col=j,
                )  # fmt: skip
                named.add(side)
            figure.add_hline(y=CELLS[cell].threshold, line={"dash": "dash", "color": "#d1d5db"}, row=i, col=j)
            figure.update_xaxes(title_text="minutes" if i == len(cells) else None, row=i, col=j)
    height = 140 + 230 * len(cells)
    figure.update_layout(
        width=600 * len(columns) + 100, height=height, template="plotly_white",
        margin={"t": 130, "l": 50, "r": 20, "b": 50},
        legend={"orientation": "h", "yref": "container", "y": 0.99, "yanchor": "top"},
    )  # fmt: skip
    screenshot(figure, path, 600 * len(columns) + 100, height)


def _has_points(side: Side) -> bool:
    return any(len(run.points) for run in side.runs)

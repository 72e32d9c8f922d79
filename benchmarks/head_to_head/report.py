"""Tables of `benchmarks/head_to_head/compare.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.head_to_head.cells import (
    CELLS,
    DEFAULTS,
    LIBRARIES,
    N_SEEDS,
    NAMES,
    OURS,
    SEARCHERS,
    Row,
    starts_alike,
)
from benchmarks.head_to_head.sides import N_BOOTSTRAP, Side, overtakes, sides_of
from benchmarks.head_to_head.translation import UNTRANSLATED
from studies.statistics.values import iqm_of_population

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
        "return or fewer steps to the threshold, once for Finder and once for the other side. Searches that begin with "
        "the zoo's values are compared with such searches, and those that do not with those that do not; where the zoo "
        "has no values (Tanks), Finder is compared with both. The zoo's own search cannot begin with them.",
        "",
        "† Something of a pick could not be translated to the library (see below): it trains another configuration "
        "there than was searched, and counts in no table of pairs.",
    ]
    groups = {library: _grouped(rows, library) for library in LIBRARIES}
    for library, name in LIBRARIES.items():
        section = _section(groups[library])
        if section:
            lines += ["", f"## Long runs in {name}", "", *_overview(groups[library]), "", *section]
    return "\n".join([*lines, "", *_picks(rows, groups), "", *_searches(rows), "", *_lost(rows)]) + "\n"


Groups = Mapping[tuple[str, float], Mapping[str, Side]]
"""Cell and minutes of a search -> the sides that have long runs in a library."""


def _grouped(rows: Sequence[Row], library: str) -> Groups:
    return {
        (cell, minutes): sides_of(rows, cell, minutes, library)
        for cell in CELLS
        for minutes in sorted({row["minutes"] for row in rows if row["cell"] == cell and row["minutes"]})
    }


def _overview(groups: Groups) -> list[str]:
    """Return a table with a line for each cell and time of a search, and a column for each side."""
    lines = [
        "Final returns in short: interquartile mean (mean; runs, if they are not ten of each search).", "",
        f"| cell | minutes | {' | '.join(NAMES.values())} |", "|" + "---|" * (2 + len(NAMES)),
    ]  # fmt: skip
    for (cell, minutes), sides in groups.items():
        if not set(sides) <= set(DEFAULTS):
            lines.append(f"| {cell} | {minutes:g} | {' | '.join(_brief(sides.get(name)) for name in NAMES)} |")
    return lines


def _brief(side: Side | None) -> str:
    if side is None:
        return ""
    n_searches = len(side.of_searches(side.finals))
    few = "" if len(side.runs) == N_SEEDS * n_searches else f"; {len(side.runs)}"
    return f"{_rounded(side.iqm)} ({_rounded(side.mean)}{few}){'' if side.is_translated else ' †'}"


def _rounded(value: float) -> str:
    size = abs(value)
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}".replace("-0.00", "0.00")


Pair = tuple[bool, ...]
"""Of a cell, ours and another side: higher, beyond the interval, lower, beyond it, higher or sooner, lower or later."""


def _section(groups: Groups) -> list[str]:
    lines: list[str] = []
    told: dict[str, dict[tuple[float, str], list[Pair]]] = {side: {} for side in OURS}
    for (cell, minutes), sides in groups.items():
        for side, own in sides.items():
            low, high = np.quantile(own.drawn_iqms(0), [0.025, 0.975])
            differences = []
            for name in (name for name in OURS if name in sides and side not in OURS):
                if not starts_alike(name, side, cell):
                    continue
                ours = sides[name]
                least, most = np.quantile(ours.drawn_iqms(0) - own.drawn_iqms(1), [0.025, 0.975])
                differences.append(f"{ours.iqm - own.iqm:+.4g} ({least:+.4g} to {most:+.4g})")
                if own.is_translated and ours.is_translated:
                    told[name].setdefault((minutes, side), []).append(_pair(ours, own, least, most))
            difference = "; ".join(differences)
            n_searches = len(own.of_searches(own.finals))
            lines.append(
                f"| {cell} | {minutes:g} | {NAMES[side]}{'' if own.is_translated else ' †'} | {n_searches} | "
                f"{len(own.runs)} | {own.iqm:.4g} ({low:.4g} to {high:.4g}) | {own.mean:.4g} | "
                f"{min(own.finals):.4g} | {own.mean_steps:,.0f} | {difference} | {_overtaking(side, sides)} |"
            )
    if not lines:
        return []
    head = [
        "| cell | minutes | side | searches | runs | final return | mean | worst | steps | difference | overtakes |",
        "|" + "---|" * 11,
    ]
    return [*head, *lines, *(line for ours in OURS if told[ours] for line in _pairs(ours, told[ours]))]


def _pair(ours: Side, other: Side, least: float, most: float) -> Pair:
    higher, lower = ours.iqm > other.iqm, ours.iqm < other.iqm
    sooner, later = ours.mean_steps < other.mean_steps, ours.mean_steps > other.mean_steps
    return higher, bool(least > 0), lower, bool(most < 0), higher or sooner, lower or later


def _pairs(ours: str, told: Mapping[tuple[float, str], Sequence[Pair]]) -> list[str]:
    """Return the table of pairs of one of our sides, with sums."""
    lines = [
        "",
        f"| {NAMES[ours]} beside | minutes | pairs | higher | lower | higher or sooner | the other side is |",
        "|" + "---|" * 7,
    ]
    for minutes in sorted({minutes for minutes, _ in told}):
        own = {side: pairs for (at, side), pairs in told.items() if at == minutes}
        lines += [_counts(NAMES[side], minutes, own[side]) for side in NAMES if side in own]
        for name, sides in (("searches", SEARCHERS), ("without a search", DEFAULTS), ("all", NAMES)):
            lines.append(_counts(f"**{name}**", minutes, [pair for side in own if side in sides for pair in own[side]]))
    return lines


def _counts(name: str, minutes: float, pairs: Sequence[Pair]) -> str:
    if not pairs:
        return f"| {name} | {minutes:g} | 0 | | | | |"
    higher, above, lower, below, either, other = (sum(each) for each in zip(*pairs, strict=True))
    return (
        f"| {name} | {minutes:g} | {len(pairs)} | {higher} ({above}) | {lower} ({below}) | "
        f"{either} ({either / len(pairs):.0%}) | {other} |"
    )


def _overtaking(side: str, sides: Mapping[str, Side]) -> str:
    others = [own for name, own in sides.items() if name in DEFAULTS and any(len(run.points) for run in own.runs)]
    if side in DEFAULTS or not others or not any(len(run.points) for run in sides[side].runs):
        return ""
    times = [overtakes(sides[side], other) for other in others]
    known = [time for time in times if time is not None]
    return f"{max(known) / 60:.1f}" if len(known) == len(times) else "never"


def _picks(rows: Sequence[Row], groups: Mapping[str, Groups]) -> list[str]:
    """Return the table of the picks of each search."""
    lines = [
        "## The pick of each search", "",
        "Interquartile mean, mean and worst of the final returns of its long runs, and their number.", "",
        f"| cell | minutes | side | search | version | {' | '.join(LIBRARIES.values())} |",
        "|" + "---|" * (5 + len(LIBRARIES)),
    ]  # fmt: skip
    searches = [row for row in rows if row["kind"] == "search" and row["minutes"]]
    order = {**{cell: n for n, cell in enumerate(CELLS)}, **{side: n for n, side in enumerate(NAMES)}}
    for row in sorted(searches, key=lambda row: (order[row["cell"]], row["minutes"], order[row["side"]])):
        cells = [_returns(groups[library][row["cell"], row["minutes"]], row, library) for library in LIBRARIES]
        lines.append(
            f"| {row['cell']} | {row['minutes']:g} | {NAMES[row['side']]} | {row['search']} | "
            f"{row.get('version', 'earlier')} | {' | '.join(cells)} |"
        )
    return lines


def _returns(sides: Mapping[str, Side], search: Row, library: str) -> str:
    side = sides.get(search["side"])
    if side is None or all(run.search != search["search"] for run in side.runs):
        return ""
    finals = np.array(
        [final for run, final in zip(side.runs, side.finals, strict=True) if run.search == search["search"]]
    )
    lost = " †" if search.get("untranslated", {}).get(library) else ""
    return f"{iqm_of_population(finals):.4g} (mean {finals.mean():.4g}, worst {finals.min():.4g}; {len(finals)}){lost}"


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

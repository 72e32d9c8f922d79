"""Results of `benchmarks/picks/compare.py` as text, and the searches whose time it measures."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.picks.cases import DEVELOPED_ON, LOOKED_AT, POLICIES, SHARE, SPENDING, code
from benchmarks.picks.measures import PRUNING

TIMES = folders.RESULTS / "pick-time.jsonl"
Told = Mapping[tuple[Any, ...], Any]


def report(names: Sequence[str], told: Told, replays: int) -> str:
    """All sections."""
    tables = [name for name in names if not name.endswith("-momentum")]
    found = [name for name in tables if told[name, "signal", ()]["found"]]
    sections = [
        _head(tables, found, replays),
        _close(tables, found, told, SHARE),
        _rates(found, told, SHARE),
        _horizon(found, told),
        _intervals(found, [name for name in names if name.endswith("-momentum")], told, SHARE),
        _fixed_seeds(found, told),
        _frontier(found, told),
        _times(),
    ]
    return "\n".join(line for section in sections for line in [*section, ""]).rstrip() + "\n"


def _head(tables: Sequence[str], found: Sequence[str], replays: int) -> list[str]:
    nothing = [name for name in tables if name not in found]
    lines = [
        "# How good are the picks?",
        "",
        f"Made by `python -m benchmarks.picks.compare` from {len(tables)} tables of finished runs "
        "(`benchmarks/picks/tables.py`): four optimizers, eleven learning rates each, ten seeds. Every policy is "
        f"replayed {replays} times over every table, each time on other seeds. Searches are simulated with the "
        "schedulers, the confirmation and the judgement of live studies (`studies/simulation`), with as many trials "
        "and seeds as their budget pays for.",
        "",
        "The drift was measured, and settings were chosen, on six tables of CartPole-v1 (*developed on*). How the race "
        "goes was changed once more after its failures in others had been looked at (*looked at*). All further tables "
        "were made after that (*made later*).",
        "",
    ]
    groups = _groups(tables)
    lines += [f"- *{label}*: {', '.join(members)}." for label, members in groups.items() if label != "all"]
    if nothing:
        lines += [
            "",
            f"Nothing is to be found in {', '.join(nothing)}: ten seeds of all 44 candidates do not tell any of them "
            "from another one. They are shown, and count in no mean.",
        ]
    return lines


def _close(tables: Sequence[str], found: Sequence[str], told: Told, share: float) -> list[str]:
    lines = [
        "## 1. Close to the best",
        "",
        f"Share of the replays in which the pick's interquartile mean on seeds that were not seen is within 5% of the "
        f"range of all candidates of the best one's. A policy may spend {share:.0%} of what all runs cost, sees half "
        "of the seeds and is judged on the others. *All runs* is no policy: it trains everything on the half of the "
        "seeds that may be seen, at 50% of the cost, and takes the best.",
        "",
        f"| table | good | {' | '.join(POLICIES)} | *all runs* |",
        f"|---|---|{'---|' * (len(POLICIES) + 1)}",
    ]

    def row(name: str) -> list[float]:
        values = [told[name, "policy", (policy, share)]["close"] for policy in POLICIES]
        return [*values, told[name, "ceiling", ()]["close"]]

    for name in tables:
        good = told[name, "signal", ()]["good"]
        lines.append(f"| {name} | {good} | {' | '.join(f'{value:.0%}' for value in row(name))} |")
    for label, members in _groups(found).items():
        means = np.mean([row(name) for name in members], axis=0)
        lines.append(f"| **{label}** | | {' | '.join(f'**{value:.0%}**' for value in means)} |")
    return [
        *lines,
        "",
        "*good*: candidates within 5% of the range of the best one, by all ten seeds. At this budget *random* has room "
        "for one whole run of every candidate, and so does what *grid* does.",
    ]


def _rates(found: Sequence[str], told: Told, share: float) -> list[str]:
    lines = [
        "## 2. Learning rates",
        "",
        "Picks within a factor of 3 of the best rate of their optimizer (the middle of the rates that are as good to "
        "2% of the range), and by how many decades they are too high in the mean.",
        "",
        f"| | {' | '.join(POLICIES)} |",
        f"|---|{'---|' * len(POLICIES)}",
    ]
    for label, members in _groups(found).items():
        rows = [[told[name, "policy", (policy, share)] for name in members] for policy in POLICIES]
        cells = [
            f"{np.mean([e['rate'] for e in row]):.0%}, {np.mean([e['decades'] for e in row]):+.2f}" for row in rows
        ]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    race = {name: told[name, "policy", ("race", share)] for name in found}
    worst = ", ".join(f"{name} {race[name]['rate']:.0%}" for name in sorted(found, key=lambda n: race[n]["rate"])[:4])
    setups = np.mean([each["rate"] >= 0.5 for each in race.values()])
    bias = np.mean([abs(each["decades"]) for each in race.values()])
    rate, constant = _constant([told[name, "best_of_adam", ()] for name in found])
    moved = {
        label: [value for name in members for value in told[name, "drift_seen", ()]["moved"]]
        for label, members in _groups(found).items()
    }
    drift = "; ".join(f"{label} {np.mean(own):+.2f} ± {np.std(own, ddof=1):.2f}" for label, own in moved.items())
    lines += [
        "",
        f"The race is within a factor of 3 in most replays of {setups:.0%} of the tables; lowest: {worst}. The mean "
        f"over tables of the absolute value of their bias is {bias:.2f} decades.",
        "",
        f"The best single learning rate for Adam on all tables is {rate:.1e}; it is within a factor of 3 of the "
        f"nearest of Adam's best rates on {constant:.0%} of them.",
        "",
        "How far an optimizer's best rate moves for each decade of steps, from a quarter of the runs to their ends: "
        f"{drift}. "
        "The product uses -0.75 ± 0.5, found on smoothed curves, where best rates jump less "
        "(`studies/statistics/drift.py`).",
    ]
    return lines


def _horizon(found: Sequence[str], told: Told) -> list[str]:
    lines = [
        "### For a longer run",
        "",
        "What a search says of each optimizer's best rate at the ends of the runs when it has seen a share of them, "
        "eleven rates on so many seeds each (`studies/judging/learning_rate_estimate.py`).",
        "",
        "| seen | seeds | tables | within a factor of 3 | bias, decades | 95% intervals that hold | their width | "
        "called safe |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for share in (0.25, 0.5, 1.0):
        for n_seeds in (3, 8):
            for label, members in _groups(found).items():
                rows = [told[name, "horizon", (share, n_seeds)] for name in members]
                near, bias, held, decades, safe = (
                    np.mean([row[what] for row in rows]) for what in ("near", "bias", "held", "decades", "safe")
                )
                lines.append(
                    f"| {share:.0%} | {n_seeds} | {label} | {near:.0%} | {bias:+.2f} | {held:.1%} | {decades:.1f} | "
                    f"{safe:.0%} |"
                )
    lines += [
        "",
        "What `finder lr` says after its race and confirmation, each optimizer alone, for runs as long as those:",
        "",
        "| tables | within a factor of 3 | bias, decades | 95% intervals that hold | their width | called safe | "
        "intervals that hold where it is called safe | cost, whole runs of 33 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for label, members in _groups(found).items():
        rows = [told[name, "searched_rates", ()] for name in members]
        near, bias, held, decades, safe, cost = (
            np.mean([row[what] for row in rows]) for what in ("near", "bias", "held", "decades", "safe", "cost")
        )
        sure = np.mean([row["held where safe"] for row in rows if row["held where safe"] is not None])
        said = f"{near:.0%} | {bias:+.2f} | {held:.1%} | {decades:.1f} | {safe:.0%} | {sure:.1%} | {cost:.0f}"
        lines.append(f"| {label} | {said} |")
    return lines


def _intervals(found: Sequence[str], momenta: Sequence[str], told: Told, share: float) -> list[str]:
    lines = [
        "## 3. What is stated",
        "",
        "Stated 95% intervals of the pick's value that hold it. (The seeds of a table are taken for all that there "
        "are, and drawn with replacement.) *default* is what `finder opt` does by itself: each optimizer's rates race "
        "on three seeds, three finalists on five more (two here: half of ten seeds are seen).",
        "",
        f"| | race at {share:.0%} | race at 20% | default |",
        "|---|---|---|---|",
    ]
    keys = [("race", share), ("race", 0.2), ("default", 1.0)]
    for name in found:
        cells = [f"{told[name, 'covered', key]['covered']:.0%}" for key in keys]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for label, members in _groups(found).items():
        means = [np.mean([told[name, "covered", key]["covered"] for name in members]) for key in keys]
        lines.append(f"| **{label}** | {' | '.join(f'**{value:.1%}**' for value in means)} |")
    twins = [np.mean([told[name, "twins", (n,)]["false"] for name in found]) for n in (3, 5, 8)]
    most = max(told[name, "twins", (n,)]["false"] for name in found for n in (3, 5, 8))
    lines += [
        "",
        "Adam twice, under two names and on other seeds: one of the two is called the better optimizer in "
        f"{', '.join(f'{value:.1%}' for value in twins)} of the cases with 3, 5 and 8 seeds each (most in one table: "
        f"{most:.1%}).",
    ]
    for name in momenta:
        lost = ", ".join(f"{told[name, 'momentum', (n,)]['lost']:.1%}" for n in (3, 5, 8))
        lines += ["", f"{name}: plain SGD is called better than SGD with momentum in {lost} of the cases."]
    return lines


def _fixed_seeds(found: Sequence[str], told: Told) -> list[str]:
    def mean(policy: str, spent: float, what: str) -> float:
        return float(np.mean([told[name, "policy", (policy, spent)][what] for name in found]))

    lines = [
        "## 4. Racing beside a fixed number of seeds",
        "",
        "The grid trains every candidate to its end on as many seeds as the budget has room for (one at 10%, two at "
        "20%).",
        "",
        "| spent | race: close | race: regret | grid: close | grid: regret |",
        "|---|---|---|---|---|",
    ]
    for spent in SPENDING:
        cells = [mean(policy, spent, what) for policy in ("race", "grid") for what in ("close", "regret")]
        lines.append(f"| {spent:.0%} | " + " | ".join(f"{value:.1%}" for value in cells) + " |")
    for what, better in (("close", np.greater_equal), ("regret", np.less_equal)):
        for spent in (0.2, 0.3, 0.4, 0.5):
            wanted = mean("grid", spent, what)
            enough = next((s for s in SPENDING if better(mean("race", s, what), wanted)), None)
            said = "no budget that was tried" if enough is None else f"{enough:.0%}: {enough / spent:.0%} of its runs"
            lines += ["", f"To be as good as the grid at {spent:.0%} ({what} {wanted:.1%}), the race needs {said}."]
    rows = [told[name, "policy", ("default", 1.0)] for name in found]
    cost = np.mean([row["cost"] for row in rows])
    close = np.mean([row["close"] for row in rows])
    lines += [
        "",
        f"The default search, which is told no budget, spends {cost:.0f} runs in the mean, of 132 on three seeds "
        "each and "
        f"its confirmation, and is close to the best in {close:.0%}.",
    ]
    return lines


def _frontier(found: Sequence[str], told: Told) -> list[str]:
    lines = [
        "## 5. What pruning costs",
        "",
        "Of 44 candidates on three seeds each: the share of the compute that a rule saves, how often a candidate that "
        "would have ended among the best three is pruned, and how often no candidate is left that is within 5% of the "
        "best one.",
        "",
        "| rule | saved | one of the best three pruned | nothing good left |",
        "|---|---|---|---|",
    ]
    for rule in PRUNING:
        rows = [told[name, "pruning", (rule,)] for name in found]
        cells = [np.mean([row[what] for row in rows]) for what in ("saved", "lost", "harm")]
        lines.append(f"| {rule} | " + " | ".join(f"{value:.1%}" for value in cells) + " |")
    few = [name for name in found if told[name, "signal", ()]["good"] <= 3]
    lines += [
        "",
        "The best three cannot be kept at 80% saved: 80% leave room for about four candidates of 44 after a tenth of "
        f"the runs, and in {len(found) - len(few)} of {len(found)} tables more than three are within 5% of the best, "
        "so that which three end first is a matter of luck. What matters is the last column.",
    ]
    return lines


def _constant(best: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """The one rate that is within a factor of 3 of a best one in most tables, and in what share."""
    candidates = np.linspace(-6, -1, 101)
    near = [
        np.mean([max(each["low"] - rate, rate - each["high"], 0.0) <= np.log10(3) + 1e-6 for each in best])
        for rate in candidates
    ]
    at = int(np.argmax(near))
    return float(10 ** candidates[at]), float(near[at])


def _groups(names: Sequence[str]) -> dict[str, list[str]]:
    groups = {
        "developed on": [name for name in names if name in DEVELOPED_ON],
        "looked at": [name for name in names if name in LOOKED_AT],
        "made later": [name for name in names if name not in (*DEVELOPED_ON, *LOOKED_AT)],
        "all": list(names),
    }
    return {label: members for label, members in groups.items() if members}


# The time of real searches ------------------------------------------------------------------------------------------

SEARCHES = {"CartPole-v1": (50_000, {}), "Acrobot-v1": (80_000, {}), "Pendulum-v1": (100_000, {"gamma": 0.9})}
"""Environment -> environment steps of each run, and what is set."""


def time_searches() -> None:
    """Four optimizers at six rates each, to a confirmed pick."""
    from finder import OptFinder

    for env, (env_steps, params) in SEARCHES.items():
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            finder = OptFinder("ppo", ["adam", "rmsprop", "sgd(momentum=0.9)", "lion"], env)
            result = finder.find(
                env_steps=env_steps, n_rates=6, fixed=params, storage=f"sqlite:///{folder}/finder.db", extend=False
            )
            seconds = time.perf_counter() - began
            pick = result.best
            states = result.table()["state"].value_counts().to_dict()
            row = {
                "env": env,
                "seconds": seconds,
                "pick": pick.params,
                "value": pick.value,
                "low": pick.low,
                "high": pick.high,
                "seeds": pick.seeds_text,
                "states": states,
                "state": code(),
            }
            result.close()
        TIMES.parent.mkdir(exist_ok=True)
        with TIMES.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def _times() -> list[str]:
    if not TIMES.exists():
        return []
    from studies.words import rate_text

    rows = [row for row in map(json.loads, TIMES.read_text().splitlines()) if row["state"] == code()]
    lines = [
        "## 6. Time to a confirmed pick",
        "",
        "`python -m benchmarks.picks.compare time`: PPO, four optimizers at six learning rates each (`finder opt`), "
        "three seeds, the best three on five further ones; two cores, storage and processes included. Medians.",
        "",
        "| environment | steps of each run | time | rounds | pick | value |",
        "|---|---|---|---|---|---|",
    ]
    text: Callable[[Any], str] = lambda value: rate_text(value) if isinstance(value, float) else str(value)  # noqa: E731
    for env, (env_steps, _) in SEARCHES.items():
        own = [row for row in rows if row["env"] == env]
        if own:
            last = own[-1]
            seconds = float(np.median([row["seconds"] for row in own]))
            pick = ", ".join(f"{name} {text(value)}" for name, value in last["pick"].items())
            value = f"{last['value']:.0f} ({last['low']:.0f} to {last['high']:.0f}) over {last['seeds']}"
            lines.append(f"| {env} | {env_steps:,} | {seconds:.0f} s | {len(own)} | {pick} | {value} |")
    return lines

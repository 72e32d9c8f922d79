"""Are minutes kept? The wall time of whole searches beside the `--minutes` that were asked for.

    python -m benchmarks.searches.minutes --minutes 1              # quick: five searches, 5 to 6 minutes
    python -m benchmarks.searches.minutes --minutes 5,15           # the five searches at both, about 1 h 45 min
    python -m benchmarks.searches.minutes --only lr,tune-sac       # some of them
    python -m benchmarks.searches.minutes --table                  # the table of what was measured

Each search is the command that a user types, with its defaults, into an empty SQLite file, in a process of its own:
from the start of Python to its exit, and so with the imports, the measurement, the confirmation and the verdict.
Nothing else should run on the machine.

A search is a line of `results/minutes.jsonl`; `--rounds 3` repeats each until there are three. The table,
`results/minutes.md`, has medians and the largest ratio of each. A search that is refused, because the minutes do not
suffice, is a line with its message, and is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import folders
from benchmarks.result_lines import append_lines, counted, read_lines, write_table

RESULTS = folders.RESULTS / "minutes.jsonl"

SEARCHES = {
    "lr": ("lr", "ppo", "--env", "CartPole-v1"),
    "opt": ("opt", "ppo", "--env", "Acrobot-v1"),
    "tune": ("tune", "ppo", "--env", "LunarLander-v3"),
    "agents": ("agents", "ppo", "dqn", "--env", "CartPole-v1"),
    "tune-sac": ("tune", "sac", "--env", "Pendulum-v1"),
}
"""Name -> words of the command after `finder`."""


def measure(name: str, minutes: float) -> dict[str, Any]:
    """Run a search; return its line of the results."""
    from studies import load_study

    with tempfile.TemporaryDirectory(prefix="minutes-") as folder:
        storage = f"sqlite:///{folder}/finder.db"
        command = [str(Path(sys.executable).with_name("finder")), *SEARCHES[name], "--minutes", f"{minutes:g}"]
        command += ["--storage", storage, "--study-name", "search"]
        began = time.perf_counter()
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "FINDER_PROGRESS": "0"}
        )
        seconds = time.perf_counter() - began
        row = {"search": name, "minutes": minutes, "seconds": round(seconds, 1)}
        if ran.returncode:
            return {**row, "refused": (ran.stderr.strip() or ran.stdout.strip())[-500:]}
        study = load_study("search", storage)
        row |= {"states": counted(trial.state.name for trial in study.trials())}
        row |= {"env_steps": study.spec.env_steps, "confirmation": len(study.confirmation_trials())}
        study.close()
    return {**row, "ratio": round(seconds / (60.0 * minutes), 3)}


def table() -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| search | minutes | rounds | seconds, median | ratio, median | ratio, largest | steps of a run | trials |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = read_lines(RESULTS)
    for minutes in sorted({row["minutes"] for row in rows}):
        for name, words in SEARCHES.items():
            own = [row for row in rows if (row["search"], row["minutes"]) == (name, minutes)]
            kept = [row for row in own if "ratio" in row]
            command = f"`finder {' '.join(words)}`"
            if not kept:
                lines += [f"| {command} | {minutes:g} | refused | | | | | |"] if own else []
                continue
            seconds, ratio, steps = (
                statistics.median(row[key] for row in kept) for key in ("seconds", "ratio", "env_steps")
            )
            trials = ", ".join(f"{count} {state}" for state, count in kept[-1]["states"].items())
            largest = max(row["ratio"] for row in kept)
            lines.append(
                f"| {command} | {minutes:g} | {len(kept)} | {seconds:,.0f} | {ratio:.2f} | {largest:.2f} | "
                f"{steps:,.0f} | {trials} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", default="5,15", help="of each search, such as 1 or 5,15")
    parser.add_argument("--only", default=",".join(SEARCHES), help="some of " + ",".join(SEARCHES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    unknown = [name for name in names if name not in SEARCHES]
    if unknown:
        parser.error(f"there is no search {unknown[0]!r}: give some of {','.join(SEARCHES)}.")
    for k in range(0 if arguments.table else arguments.rounds):
        for minutes in [float(word) for word in arguments.minutes.split(",")]:
            for name in names:
                own = [row for row in read_lines(RESULTS) if (row["search"], row["minutes"]) == (name, minutes)]
                if len(own) > k or any("refused" in row for row in own):
                    continue
                row = measure(name, minutes)
                append_lines(RESULTS, row)
                print(json.dumps(row), flush=True)
    write_table(RESULTS.with_suffix(".md"), table())


if __name__ == "__main__":
    main()

"""A search of SAC's hyperparameters beside that of rl-baselines3-zoo: wall time for the same trials and steps.

    python -m benchmarks.searches.tune_zoo --peer .peers/bin/python                    # hours: 50,000 steps a run
    python -m benchmarks.searches.tune_zoo --peer .peers/bin/python --env-steps 10000  # about an hour and a half
    python -m benchmarks.searches.tune_zoo --side finder                               # one side alone
    python -m benchmarks.searches.tune_zoo --table                                     # the table of what was measured

Sides: `finder` is `finder tune sac --env Pendulum-v1` with its defaults but for the trials and steps given here: three
seeds a trial, pruning, and the best three run again on five further seeds. `zoo` is `python -m rl_zoo3.train
-optimize` for the same agent, environment, trials and steps, with its defaults, in one process with as many threads as
it starts; `zoo-two` is the same search in two processes of one thread, which share a storage. The zoo trains each trial
once. Each library searches its own hyperparameters in its own ranges, so that costs of a step differ: the table has
the steps that were trained and the time for each. The sides take turns. The peer's environment is that of
`benchmarks/training/speed.py`, with rl_zoo3.

Each search is a line of `results/tune-zoo.jsonl`, and searches that are there are not run again; the table is
`results/tune-zoo.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import folders
from benchmarks.result_lines import ONE_THREAD, append_lines, counted, read_lines, write_table

RESULTS = folders.RESULTS / "tune-zoo.jsonl"
ENV = "Pendulum-v1"
SIDES = {
    "finder": "Finder",
    "zoo": "rl-baselines3-zoo, one process",
    "zoo-two": "rl-baselines3-zoo, two processes",
}


def finder(n_trials: int, env_steps: int, folder: Path) -> dict[str, Any]:
    """Search with Finder; return the seconds until the last trial ended, the steps, and the states of trials."""
    from studies import load_study

    storage = f"sqlite:///{folder}/finder.db"
    command = [str(Path(sys.executable).with_name("finder")), "tune", "sac", "--env", ENV, "--storage", storage]
    command += ["--study-name", "tune", "--n-trials", str(n_trials), "--env-steps", str(env_steps)]
    began = time.time()
    _run([command])
    study = load_study("tune", storage)
    trials, again = study.trials(), study.confirmation_trials()
    ended = max(trial.datetime_complete.timestamp() for trial in trials if trial.datetime_complete)
    seeds = len(study.spec.seeds)
    return {
        "search_seconds": ended - began,
        "search_steps": seeds * sum(trial.user_attrs.get("env_steps", 0) for trial in trials),
        "further_steps": study.spec.confirm_seeds * sum(trial.user_attrs.get("env_steps", 0) for trial in again),
        "states": counted(trial.state.name for trial in trials),
    }


def zoo(n_trials: int, env_steps: int, folder: Path, peer: str, n_processes: int) -> dict[str, Any]:
    """Search with the zoo; return the same."""
    command = [peer, "-m", "rl_zoo3.train", "--algo", "sac", "--env", ENV, "-optimize", "--no-optim-plots"]
    command += ["-n", str(env_steps), "--n-trials", str(n_trials), "-f", str(folder / "logs")]
    command += ["--storage", f"sqlite:///{folder}/zoo.db", "--study-name", "tune"]
    if n_processes > 1:
        command += ["--max-total-trials", str(n_trials), "--num-threads", "1"]
    began = time.monotonic()
    _run([command] * n_processes, ONE_THREAD if n_processes > 1 else {})
    with sqlite3.connect(folder / "zoo.db") as database:
        states = [state for (state,) in database.execute("SELECT state FROM trials")]
    trained = [state for state in states if state in ("COMPLETE", "PRUNED")]
    return {
        "search_seconds": time.monotonic() - began,
        "search_steps": env_steps * len(trained),
        "further_steps": 0,
        "states": counted(states),
    }


def _run(commands: Sequence[Sequence[str]], threads: dict[str, str] | None = None) -> None:
    """Run commands at the same time, and end with their message if one fails."""
    processes = []
    for command in commands:
        log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read after the process
        environment = {**os.environ, **(threads or {}), "FINDER_PROGRESS": "0"}
        processes.append((subprocess.Popen(command, stdout=log, stderr=log, env=environment), log))
        time.sleep(3 * (len(commands) > 1))  # two that create the storage at once collide
    for process, log in processes:
        if process.wait():
            log.seek(0)
            raise SystemExit(log.read()[-3000:])


def measure(side: str, n_trials: int, env_steps: int, peer: str) -> dict[str, Any]:
    """Run the search of one side."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        if side == "finder":
            found = finder(n_trials, env_steps, Path(folder))
        else:
            found = zoo(n_trials, env_steps, Path(folder), peer, 2 if side == "zoo-two" else 1)
        seconds = time.monotonic() - began
    return {"side": side, "n_trials": n_trials, "env_steps": env_steps, "seconds": seconds, **found}


def table() -> list[str]:
    """Return the lines of the table: medians, and ratios to Finder's search."""
    lines = [
        "| trials | steps of a run | search | rounds | seconds | without confirmation | steps trained | "
        "steps/s | seconds beside Finder's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = read_lines(RESULTS)
    for setting in sorted({(row["n_trials"], row["env_steps"]) for row in rows}):
        own = [row for row in rows if (row["n_trials"], row["env_steps"]) == setting]
        ours = [row["seconds"] for row in own if row["side"] == "finder"]
        for side, name in SIDES.items():
            found = [row for row in own if row["side"] == side]
            if not found:
                continue
            whole, search = (statistics.median(row[key] for row in found) for key in ("seconds", "search_seconds"))
            steps = statistics.median(row["search_steps"] + row["further_steps"] for row in found)
            ratio = f"{whole / statistics.median(ours):.2f}" if ours else ""
            lines.append(
                f"| {setting[0]} | {setting[1]:,} | {name} | {len(found)} | {whole:,.0f} | {search:,.0f} | "
                f"{steps:,.0f} | {steps / whole:,.0f} | {ratio} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=".peers/bin/python", help="Python with rl_zoo3")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--n-trials", type=int, default=20)
    parser.add_argument("--env-steps", type=int, default=50_000, help="of each run")
    parser.add_argument("--side", action="append", choices=list(SIDES), help="Only these (default: all)")
    parser.add_argument("--table", action="store_true", help="Measure nothing")
    arguments = parser.parse_args()
    setting = {"n_trials": arguments.n_trials, "env_steps": arguments.env_steps}
    for k in range(0 if arguments.table else arguments.rounds):
        for side in arguments.side or SIDES:
            wanted = {"side": side, **setting}
            if sum(all(row[key] == value for key, value in wanted.items()) for row in read_lines(RESULTS)) > k:
                continue
            row = measure(side, peer=arguments.peer, **setting)
            append_lines(RESULTS, row)
            print(json.dumps(row), flush=True)
    write_table(RESULTS.with_suffix(".md"), table())


if __name__ == "__main__":
    main()

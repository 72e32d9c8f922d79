"""Does a search use the cores that it may, and not more? The same searches on one core and on two (`taskset`).

    python -m benchmarks.searches.cores          # three rounds in turns, about six minutes; writes results/cores.md
    python -m benchmarks.searches.cores --table  # the table of what was measured

Each search is a command in an empty SQLite file, from the start of Python to its exit. The affinity of the process is
set before it begins, as `taskset -c 0` and `taskset -c 0,1` do. How the trials were run (processes, members, threads)
is recorded beside the time. Nothing else should run on the machine. A search is a line of results/cores.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import folders
from benchmarks.result_lines import Json, append_lines, read_lines, write_table

RESULTS = folders.RESULTS / "cores.jsonl"
SEARCHES = {
    "lr ppo": ("lr", "ppo", "--env", "CartPole-v1", "--env-steps", "40000"),
    "lr sac": (
        "lr",
        "sac",
        "--env",
        "Pendulum-v1",
        "--env-steps",
        "2000",
        "--metric",
        "return",
        "--set",
        "hidden_sizes=[64,64]",
    ),
}
"""Name -> words of the command after `finder`."""


def measure(name: str, n_cores: int) -> Json:
    """Run a search on some cores; return its line of the results."""
    from studies import load_study

    with tempfile.TemporaryDirectory(prefix="cores-") as folder:
        storage = f"sqlite:///{folder}/finder.db"
        command = [str(Path(sys.executable).with_name("finder")), *SEARCHES[name], "--storage", storage]
        began = time.perf_counter()
        subprocess.run(
            [*command, "--study-name", "search"],
            capture_output=True,
            check=True,
            env={**os.environ, "FINDER_PROGRESS": "0"},
            preexec_fn=partial(os.sched_setaffinity, 0, sorted(os.sched_getaffinity(0))[:n_cores]),
        )
        seconds = time.perf_counter() - began
        study = load_study("search", storage)
        trials = study.all_trials()
        study.close()
    execution = trials[0].user_attrs["configuration"].get("execution", {})
    steps = sum(trial.user_attrs["env_steps"] * len(trial.user_attrs["seed_values"]) for trial in trials)
    return {
        "search": name, "cores": n_cores, "seconds": round(seconds, 2), "env_steps": steps,
        "execution": execution,
    }  # fmt: skip


def table() -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| search | cores | rounds | processes | seconds, median | beside one core |",
        "|---|---|---|---|---|---|",
    ]
    rows = read_lines(RESULTS)
    for name, words in SEARCHES.items():
        medians: dict[int, float] = {}
        for n_cores in sorted({row["cores"] for row in rows}):
            own = [row for row in rows if (row["search"], row["cores"]) == (name, n_cores)]
            medians[n_cores] = statistics.median(row["seconds"] for row in own)
            processes = own[-1]["execution"].get("processes", 1)
            ratio = medians[min(medians)] / medians[n_cores]
            lines.append(
                f"| `finder {' '.join(words)}` | {n_cores} | {len(own)} | {processes} | {medians[n_cores]:.1f} | "
                f"{ratio:.2f} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    for k in range(0 if arguments.table else arguments.rounds):
        for name in SEARCHES:
            for n_cores in (1, 2):
                own = [row for row in read_lines(RESULTS) if (row["search"], row["cores"]) == (name, n_cores)]
                if len(own) <= k:
                    append_lines(RESULTS, measure(name, n_cores))
    write_table(RESULTS.with_suffix(".md"), table())


if __name__ == "__main__":
    main()

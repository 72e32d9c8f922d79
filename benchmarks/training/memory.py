"""Resident memory of one process in which many agents are built, trained and deleted, or many grids are searched.

    python -m benchmarks.training.memory                  all cases; those that are done are not run again
    python -m benchmarks.training.memory ppo-xla grid     these
    python -m benchmarks.training.memory --summary        the table of benchmarks/training/README.md
    python -m benchmarks.training.memory --picture        benchmarks/memory.png (needs Chromium)

Each case is one process. Its rows in `results/memory.csv` are resident megabytes after each agent, or each grid.
"""

from __future__ import annotations

import csv
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import folders

RESULTS = folders.RESULTS / "memory.csv"
FIELDS = ("case", "number", "megabytes")

SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"n_envs": 4, "n_steps": 32, "n_epochs": 2, "batch_size": 32, "hidden_sizes": (64, 64)},
    "dqn": {"n_envs": 4, "learning_starts": 64, "batch_size": 32, "hidden_sizes": (64, 64)},
}
ENV_STEPS = 256
WARM = 10  # agents or grids after which memory should not grow any more


def agent(algorithm: str, by_xla: bool, number: int) -> None:
    """Builds and trains an agent, which is gone when this returns."""
    import agents

    built = agents.make(algorithm, "CartPole-v1", seed=number, jit_compile=by_xla, **SETTINGS[algorithm])
    agents.Trainer(built, seed=number).train(env_steps=ENV_STEPS)


def grid(number: int) -> None:
    """Searches three learning rates."""
    from finder import LRFinder

    LRFinder("ppo", "CartPole-v1").grid(
        1e-4, 1e-2, 3, env_steps=ENV_STEPS, seeds=1, confirm=0, extend=False, pruner="none", executor="inline",
        storage="memory", fixed=SETTINGS["ppo"],
    )  # fmt: skip


CASES: dict[str, tuple[int, Callable[[int], None]]] = {
    "ppo-xla": (200, lambda number: agent("ppo", True, number)),
    "ppo-plain": (200, lambda number: agent("ppo", False, number)),
    "dqn-xla": (200, lambda number: agent("dqn", True, number)),
    "dqn-plain": (200, lambda number: agent("dqn", False, number)),
    "grid": (50, grid),
}
"""Name -> how often, and what."""


def resident() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(case: str) -> None:
    """Runs a case in this process and writes its rows."""
    os.environ["FINDER_PROGRESS"] = "0"
    times, act = CASES[case]
    for number in range(1, times + 1):
        act(number)
        gc.collect()
        with RESULTS.open("a", newline="") as file:
            csv.writer(file).writerow([case, number, f"{resident():.1f}"])


def rows() -> dict[str, list[float]]:
    """Case -> megabytes after each agent or grid."""
    found: dict[str, list[float]] = {}
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault(row["case"], []).append(float(row["megabytes"]))
    return found


def run(cases: list[str]) -> None:
    """Runs what is not done, each case in a process of its own; what was begun is begun again."""
    done = {case: values for case, values in rows().items() if len(values) == CASES[case][0]}
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows([case, i, value] for case, own in done.items() for i, value in enumerate(own, 1))
    for case in cases:
        if case not in done:
            subprocess.run([sys.executable, "-m", "benchmarks.training.memory", "--measure", case], check=True)


def summary() -> None:
    """Print the table of README.md beside it."""
    print(f"| case | times | MB after the {WARM}th | MB at the end | growth |\n|---|---|---|---|---|")
    for case, values in rows().items():
        first, last = values[WARM - 1], values[-1]
        print(f"| {case} | {len(values)} | {first:.0f} | {last:.0f} | {last / first - 1:+.1%} |")


def picture() -> None:
    """Draws memory.png."""
    import plotly.graph_objects as go

    from benchmarks.picture import screenshot

    figure = go.Figure()
    for case, values in rows().items():
        figure.add_scatter(x=list(range(1, len(values) + 1)), y=values, name=case, mode="lines")
    figure.update_layout(
        template="plotly_white", width=900, height=440, margin={"l": 60, "r": 20, "t": 50, "b": 50},
        title="Resident memory of one process", xaxis_title="agents built, trained and deleted (grids searched)",
        yaxis={"title": "MB", "rangemode": "tozero"},
    )  # fmt: skip
    screenshot(figure, folders.BENCHMARKS / "memory.png", 900, 440)


if __name__ == "__main__":
    words = sys.argv[1:]
    if "--measure" in words:
        measure(words[-1])
    elif "--summary" in words:
        summary()
    elif "--picture" in words:
        picture()
    else:
        run(words or list(CASES))

"""One whole search in a process of its own, and what `population.py` keeps of its measurements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import folders
from benchmarks.result_lines import ONE_THREAD, append_lines, write_table

DQN = {"batch_size": 64, "train_freq": 4, "hidden_sizes": [128, 128]}
DQN_SMALL = {"batch_size": 64, "train_freq": 4, "hidden_sizes": [128]}
OFF_POLICY = {"learning_starts": 100, "batch_size": 256, "hidden_sizes": [256, 256]}
SMALL = {**OFF_POLICY, "hidden_sizes": [64, 64]}
PARAMS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "ppo-acrobot": {},
    "ppo-lunarlander": {},
    "dqn": DQN,
    "dqn-one-layer": DQN_SMALL,
    "sac": OFF_POLICY,
    "td3": OFF_POLICY,
    "sac-small": SMALL,
    "td3-small": SMALL,
    "sac-small-long": SMALL,
    "td3-small-long": SMALL,
}


def note(**measured: Any) -> dict[str, Any]:
    """Keeps one measurement."""
    append_lines(folders.RESULTS / "population.jsonl", measured)
    print(measured, flush=True)
    return measured


def write(name: str, lines: Sequence[str]) -> None:
    """Keeps a table."""
    write_table(folders.RESULTS / f"population-{name}.md", lines)


def search(
    kind: str, n_trials: int, n_seeds: int, env_steps: int, *, env: str = "CartPole-v1", **fields: Any
) -> dict[str, float]:
    """One search in a Python of its own; gives its seconds and what it did."""
    words = {"kind": kind, "n_trials": n_trials, "n_seeds": n_seeds, "env_steps": env_steps, "env": env, **fields}
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.training.population_search", json.dumps(words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ONE_THREAD},
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    result: dict[str, float] = json.loads(ran.stdout.strip().splitlines()[-1])
    return result


def one(words: str) -> None:
    """Run one search and print what it did, as the child process of `search`."""
    import numpy as np

    from agents.backend.silence import import_tensorflow
    from agents.processes.fork_server import await_fork_server, prepare_processes
    from finder.executors.preparation import CHILD
    from finder.search.run_search import run_search
    from studies import StudySpec

    context = prepare_processes(CHILD)
    import_tensorflow()
    await_fork_server(context)
    told = json.loads(words)
    kind, n_trials = told.pop("kind"), told.pop("n_trials")
    rates = [float(f"{rate:.4g}") for rate in np.geomspace(1e-4, 1e-2, n_trials)]
    vectorization = told.pop("vectorization", "auto")
    pruner = told.pop("pruner", "none")
    with tempfile.TemporaryDirectory() as folder:
        spec = StudySpec(
            name="benchmark",
            storage=f"sqlite:///{folder}/finder.db",
            agents=(kind.partition("-")[0],),
            fixed=PARAMS[kind],
            trials=tuple({"learning_rate": rate} for rate in rates),
            seeds=tuple(range(told.pop("n_seeds"))),
            pruner=pruner,
            vectorization=vectorization,
            confirm=0,
            **told,
        )
        began = time.perf_counter()
        study, stopped = run_search(spec)
        seconds = time.perf_counter() - began
        trials = study.trials()
        steps = sum(trial.user_attrs.get("env_steps", 0) for trial in trials) * len(spec.seeds)
        kinds = {trial.user_attrs["configuration"]["vectorization"] for trial in trials}
        states = [trial.state.name for trial in trials]
    if stopped or "FAIL" in states:
        raise SystemExit(f"stopped: {stopped}; {states}")
    print(json.dumps({"seconds": seconds, "env_steps": steps, "vectorization": sorted(kinds)[0]}))


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    one(sys.argv[1])

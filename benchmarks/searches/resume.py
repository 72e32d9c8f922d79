"""A long run that is killed again and again, beside the same run left alone: do they come to the same end?

Each run is `finder train`; one is killed with SIGKILL 15 to 40 seconds after each start and resumed until it is done.
Compared are every episode (`history.parquet`) and everything of the agent in the last checkpoint: weights, what its
optimizers remember, counters, random generators.

    python -m benchmarks.searches.resume                 appends to results/resume.jsonl
    python -m benchmarks.searches.resume sac-pendulum
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import folders

CASES = {
    "ppo-acrobot": ["ppo", "--env", "Acrobot-v1", "--steps", "400000", "--checkpoint-every", "10000"],
    "dqn-cartpole": ["dqn", "--env", "CartPole-v1", "--steps", "60000", "--checkpoint-every", "2000"],
    "sac-pendulum": ["sac", "--env", "Pendulum-v1", "--steps", "20000", "--checkpoint-every", "500", "-p",
                     "hidden_sizes=[64,64]"],
}  # fmt: skip
SHARED = ["--vectorization", "sync", "--quiet"]
FINDER = str(Path(sys.executable).with_name("finder"))


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Every number, text and array of a state, by where it stands."""
    if isinstance(value, dict):
        return {k: v for key in value for k, v in leaves(value[key], f"{name}/{key}").items()}
    if isinstance(value, list | tuple):
        return {k: v for i, own in enumerate(value) for k, v in leaves(own, f"{name}/{i}").items()}
    return {name: value}


def killed(words: list[str], folder: Path, rng: random.Random) -> int:
    """Trains to the end, with kills; returns how many."""
    n, command = 0, [FINDER, "train", *words, "--folder", str(folder)]
    while True:
        process = subprocess.Popen(command)
        try:
            process.wait(rng.uniform(15.0, 40.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            n += 1
        else:
            if process.returncode:
                raise SystemExit(f"{command} ended with {process.returncode}")
            return n
        if (folder / "run.json").exists():
            command = [FINDER, "train", "--resume", str(folder), "--quiet"]


def same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other, equal_nan=isinstance(one, float | np.floating)))


def run(name: str) -> dict[str, Any]:
    from agents import load_agent, read_history

    words, place = [*CASES[name], *SHARED], Path(tempfile.mkdtemp())
    began = time.perf_counter()
    subprocess.run([FINDER, "train", *words, "--folder", str(place / "whole")], check=True)
    whole_seconds = time.perf_counter() - began
    n_kills = killed(words, place / "killed", random.Random(0))
    whole, other = (read_history(place / each).drop_columns(["wall_seconds"]) for each in ("whole", "killed"))
    state, resumed = (leaves(load_agent(place / each).get_state()) for each in ("whole", "killed"))
    different = [key for key, own in state.items() if not same(own, resumed.get(key))]
    shutil.rmtree(place)
    return {
        "case": name,
        "n_kills": n_kills,
        "seconds_left_alone": round(whole_seconds, 1),
        "n_episodes": len(whole),
        "same_episodes": whole.equals(other),
        "n_values": len(state),
        "n_different": len(different),
        "different": different[:5],
    }


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        told = run(name)
        print(json.dumps(told), flush=True)
        with (folders.RESULTS / "resume.jsonl").open("a") as file:
            file.write(json.dumps(told) + "\n")

"""GAIL, AIRL and behaviour cloning beside the library `imitation` (PyTorch), from the same demonstrations.

`imitation` needs an older Gymnasium, and so a virtual environment of its own:

    python3.11 -m venv .imitation
    .imitation/bin/pip install torch==2.13.0 "numpy<2" "setuptools<80" imitation==1.0.1
    python -m benchmarks.imitation.returns export  demonstrations as .npz, which it reads
    python -m benchmarks.imitation.library --peer .imitation/bin/python gail-cartpole airl-cartpole gail-pendulum
    python -m benchmarks.imitation.library --summary

Five seeds in turns, each run in a process of its own with one thread, evaluated by 100 greedy episodes. PPO has the
same hyperparameters in both (`cases.py`). Discriminators have those of their project: of `imitation` those of
its tutorials, which train it 8 (GAIL) or 16 times (AIRL) after each rollout; `--more-updates 10` ten times as often.
Behaviour cloning sees 320,000 rows in both.
Seconds are those of building and training, on the wall and of the processor, without imports. Rows go to
results/imitation-library.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.imitation.cases import CASES, Case

RESULTS = folders.RESULTS / "imitation-library.csv"
COLUMNS = ("library", "case", "seed", "env_steps", "mean", "std", "seconds", "processor_seconds")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def with_finder(name: str, seed: int, env_steps: int, folder: Path) -> dict[str, float]:
    """Train and evaluate an agent of Finder in this process."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import agents
    from benchmarks.imitation.returns import specification

    wall, processor = time.perf_counter(), time.process_time()
    agent = specification(CASES[name], folder).build(seed=seed)
    with agents.Trainer(agent) as trainer:
        trainer.train(env_steps=env_steps, progress=False)
    seconds, processor = time.perf_counter() - wall, time.process_time() - processor
    returns = agents.evaluate(agent, n_episodes=100)
    return {"mean": returns.mean(), "std": returns.std(), "seconds": seconds, "processor_seconds": processor}


def with_imitation(case: Case, seed: int, env_steps: int, folder: Path, more_updates: int) -> dict[str, Any]:
    """Return what `peers/imitation_run.py` is asked for."""
    return {
        "method": case.agent.partition("-")[0],
        "env": case.env,
        "seed": seed,
        "env_steps": env_steps,
        "demonstrations": str(folder / f"{case.expert}.npz"),
        "n_demonstrations": case.n_demonstrations,
        "more_updates": more_updates,
        "ppo": ppo(case.params),
    }


def ppo(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return Finder's hyperparameters of PPO in the words of Stable-Baselines3; a falling rate as first and last."""
    from agents.algorithms.ppo import PPOConfig

    names = ("n_envs", "n_steps", "batch_size", "n_epochs", "learning_rate", "gamma", "gae_lambda", "ent_coef")
    config = PPOConfig(**{name: params[name] for name in names if name in params})
    more = ("clip_range", "vf_coef", "max_grad_norm")
    values = {name: getattr(config, name) for name in (*names, *more)}
    rate = values["learning_rate"]
    if isinstance(rate, Mapping):
        values["learning_rate"] = [rate["config"][f"{end}_learning_rate"] for end in ("initial", "end")]
    return values


def run(given: argparse.Namespace) -> None:
    done = {(row["library"], row["case"], row["seed"], row["env_steps"]) for row in rows()}
    theirs = f"imitation x{given.more_updates}" if given.more_updates > 1 else "imitation"
    for name in given.names:
        env_steps = CASES[name].env_steps * given.times
        for seed in range(given.seeds):
            told = {"name": name, "seed": seed, "env_steps": env_steps, "folder": str(given.folder)}
            ours = [sys.executable, "-m", "benchmarks.imitation.library", "--one", json.dumps(told)]
            asked = with_imitation(CASES[name], seed, env_steps, given.folder, given.more_updates)
            peer = [given.peer, str(folders.PEERS / "imitation_run.py"), json.dumps(asked)]
            for library, command in (("finder", ours), (theirs, peer)):
                if (library, name, str(seed), str(env_steps)) not in done:
                    told_back = subprocess.run(
                        command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=True
                    ).stdout
                    numbers = json.loads(told_back.strip().splitlines()[-1])
                    write([library, name, seed, env_steps, *(f"{numbers[column]:.2f}" for column in COLUMNS[4:])])


def write(row: list[Any]) -> None:
    print(*row, flush=True)
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, row] if new else [row])


def rows() -> list[dict[str, str]]:
    """Return all runs so far."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        return list(csv.DictReader(file))


def summary() -> None:
    groups: dict[tuple[str, int, str], list[dict[str, str]]] = {}
    for row in rows():
        groups.setdefault((row["case"], int(row["env_steps"]), row["library"]), []).append(row)
    print("| case | steps | library | return, mean of seeds | seeds | wall, s | processor, s |")
    print("|---|---|---|---|---|---|---|")
    for (case, env_steps, library), found in sorted(groups.items()):
        returns = [float(row["mean"]) for row in found]
        mean = f"{np.mean(returns):.1f}"
        wall, processor = (np.median([float(row[name]) for row in found]) for name in COLUMNS[-2:])
        told = ", ".join(f"{value:.0f}" for value in returns)
        print(f"| {case} | {env_steps:,} | {library} | {mean} | {told} | {wall:.0f} | {processor:.0f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases")
    parser.add_argument("--peer", default=".imitation/bin/python", help="Python with `imitation`")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--times", type=int, default=1, help="multiple of the case's environment steps")
    parser.add_argument("--more-updates", type=int, default=1, help="multiple of the discriminator's updates")
    parser.add_argument("--folder", type=Path, default=folders.RESULTS / "experts", help="of the demonstrations")
    parser.add_argument("--summary", action="store_true", help="print the table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked_for = parser.parse_args()
    if asked_for.one:
        one = json.loads(asked_for.one)
        print(json.dumps(with_finder(one["name"], one["seed"], one["env_steps"], Path(one["folder"]))))
    elif asked_for.summary:
        summary()
    else:
        asked_for.folder = asked_for.folder.resolve()
        run(asked_for)

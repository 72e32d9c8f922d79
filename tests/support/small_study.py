"""Small studies in new processes, and their recorded episodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from processes import started

from studies.study.study import OpenStudy

SEARCH = """
import os, sys
from finder import LRFinder, tune, work
from finder.executors import choice

url, executor, name, kind = sys.argv[1:]
if folder := os.environ.get("FINDER_TEST_STRIKES"):
    from kills import hold_trials
    hold_trials(folder)
if n_paused := os.environ.get("FINDER_TEST_KILL_WHEN_PAUSED"):
    from kills import kill_when_paused
    kill_when_paused(int(n_paused))
if seconds := os.environ.get("FINDER_TEST_LEASE_SECONDS"):
    from studies.coordination import lease_manager
    lease_manager.LEASE_SECONDS, lease_manager.RENEW_SECONDS, lease_manager.WATCH_SECONDS = float(seconds), 0.5, 0.5
choice.TRIALS_AT_ONCE = 3  # trials that a sampler proposes for one population
common = {
    "executor": executor, "n_jobs": 1 if executor == "inline" or kind == "tune" else 2, "seeds": 2,
    "confirm": 1, "confirm_seeds": 2, "checkpoint_seconds": 0.05, "storage": url, "study_name": name,
    "fixed": {
        "jit_compile": False, "n_steps": 32, "n_envs": 4, "batch_size": 32, "n_epochs": 2, "hidden_sizes": [16]
    },
}
if kind == "work":
    work(name, url)
elif kind == "lr":
    LRFinder("ppo", "CartPole-v1").grid(1e-4, 1e-2, 3, env_steps=8_000, pruner="none", extend=False, **common)
elif kind == "race":
    LRFinder("ppo", "CartPole-v1").grid(1e-5, 1e-1, 6, env_steps=4_000, pruner="race", extend=False, **common)
elif kind == "asha":
    LRFinder("ppo", "CartPole-v1").grid(
        1e-5, 1e-1, 6, env_steps=4_000, pruner="asha", pruner_kwargs={"min_resource": 500, "reduction_factor": 2},
        extend=False, **common,
    )
else:
    space = {"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.999", "clip_range": "0.1:0.4"}
    tune(
        "ppo", "CartPole-v1", space, env_steps=4_000, n_trials=6, sampler_kwargs={"n_startup_trials": 2},
        pruner="median", pruner_kwargs={"n_startup_trials": 2, "n_warmup_steps": 1_000}, **common,
    )
"""
"""A search: `lr` of three rates without pruning, `race` or `asha` of six rates, `tune` of three hyperparameters; or
`work`, a worker of an existing study."""

Curve = list[tuple[int, int, int, float, int, float | None]]


def start(folder: Path, url: str, executor: str, name: str, kind: str = "lr", **variables: str) -> Any:
    """Start a search in a new process and session.

    Args:
        folder: Working directory, which gets the file `output` with everything that the search prints.
        url: The storage.
        executor: The executor of the trials.
        name: The study.
        kind: The kind of search; see `SEARCH`.
        **variables: Additional environment variables.
    """
    support = str(Path(__file__).parent)
    path = os.pathsep.join([support, *filter(None, [os.environ.get("PYTHONPATH")])])
    with (folder / "output").open("ab") as output:
        return started(
            [sys.executable, "-c", SEARCH, url, executor, name, kind],
            cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, **variables},
        )  # fmt: skip


def curves(study: OpenStudy) -> dict[int, Curve]:
    """Return all episodes of all trials, without wall times."""
    return {
        trial.number: [
            (each.seed, each.episode, each.env_steps, each.episode_return, each.length, each.loss)
            for each in study.storage.episodes.curve(study.episodes_key, trial.number)
        ]
        for trial in study.all_trials()
    }

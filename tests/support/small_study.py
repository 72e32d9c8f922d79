"""A small study in a process of its own, and everything that comes out of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from studies.study import OpenStudy

STUDY = """
import sys
from finder import LRFinder

url, executor, name = sys.argv[1:]
LRFinder("ppo", "CartPole-v1").grid(
    1e-4, 1e-2, 3, env_steps=8_000, seeds=2, executor=executor, n_jobs=1 if executor == "inline" else 2,
    pruner="none", confirm=1, confirm_seeds=2, extend=False, checkpoint_seconds=0.05, storage=url, study_name=name,
    params={"jit_compile": False, "n_steps": 32, "n_envs": 4, "batch_size": 32, "n_epochs": 2, "hidden_sizes": [16]},
)
"""

Curve = list[tuple[int, int, int, float, int, float | None]]


def start(folder: Path, url: str, executor: str, name: str) -> subprocess.Popen[bytes]:
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", STUDY, url, executor, name],
            cwd=folder, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip


def curves(study: OpenStudy) -> dict[int, Curve]:
    """Every episode of every trial, but for its time."""
    return {
        trial.number: [
            (each.seed, each.episode, each.env_steps, each.episode_return, each.length, each.loss)
            for each in study.storage.episodes.curve(study.episodes_key, trial.number)
        ]
        for trial in study.all_trials()
    }

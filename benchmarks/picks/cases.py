"""Tables, policies and budgets that `compare.py` compares, and a digest of the code that is replayed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import optuna

from benchmarks import folders

DEVELOPED_ON = (
    "dqn-cartpole", "ppo-cartpole", "ppo-cartpole-batch-512", "ppo-cartpole-rewards-0.01", "ppo-cartpole-rewards-100",
    "ppo-cartpole-width-256",
)  # fmt: skip
"""Tables on which the race's settings were chosen."""

LOOKED_AT = (
    "dqn-acrobot", "dqn-cartpole-rewards-0.01", "dqn-cartpole-rewards-100", "dqn-mountaincar", "ppo-acrobot",
    "ppo-acrobot-rewards-0.01", "ppo-acrobot-rewards-100", "ppo-mountaincar", "ppo-mountaincarcontinuous",
    "ppo-pendulum",
)  # fmt: skip
"""Tables whose results were known before the race was changed the last time. All others were made later."""

SHARE = 0.1
POLICIES = ("race", "grid", "random", "keep-top", "halving", "hyperband", "asha", "tpe-median")
SPENDING = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Shares of what all runs of a table cost, at which the race and the design with fixed seeds are compared."""


def code() -> str:
    """Return a digest of the code that proposes and decides, and of the code that measures."""
    rooms = ("adapters", "judging", "schedulers", "simulation", "statistics")
    files = [Path(__file__).with_name("measures.py")]
    for room in rooms:
        files += [path for path in sorted((folders.REPOSITORY / "studies" / room).iterdir()) if path.suffix == ".py"]
    versions = f"optuna {optuna.__version__}".encode()  # its samplers propose
    return hashlib.sha256(versions + b"".join(file.read_bytes() for file in files)).hexdigest()

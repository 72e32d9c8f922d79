"""The cells of `benchmarks/head_to_head/compare.py`: agents, environments, long runs, thresholds, and the sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

N_SEEDS = 10
FIRST_SEED = 1_000
"""First of the seeds of long runs; no search uses them."""

N_EPISODES = 20
N_POINTS = 10
"""Greedy episodes of an evaluation, and evaluations of a long run."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """An agent in an environment.

    Attributes:
        agent: The agent.
        env: The environment, as Finder takes it.
        env_steps: Environment steps of a long run.
        threshold: Greedy return that counts as solved.
        trial_steps: Environment steps of a trial of the peers, for searches of up to 5 minutes and for longer ones.
    """

    agent: str
    env: str
    env_steps: int
    threshold: float
    trial_steps: tuple[int, int]

    @property
    def marks(self) -> list[int]:
        """Environment steps at which a long run is evaluated."""
        return [self.env_steps * k // N_POINTS for k in range(1, N_POINTS + 1)]

    @property
    def env_id(self) -> str:
        """Id of the environment without the module that registers it."""
        return self.env.rpartition(":")[2]

    def steps_of_trial(self, minutes: float) -> int:
        """Return the environment steps of a trial of the peers."""
        return self.trial_steps[minutes > 5]


PPO_TRIALS, SAC_TRIALS = (50_000, 100_000), (4_000, 8_000)
"""The zoo's documentation searches PPO with trials of 50,000 steps. Two processes make about 1.5 million steps of PPO
in 5 minutes, and 40,000 of SAC: so at least the 10 trials end after which the zoo's sampler begins to model them."""

CELLS = {
    "ppo-acrobot": Cell(agent="ppo", env="Acrobot-v1", env_steps=100_000, threshold=-100.0, trial_steps=PPO_TRIALS),
    "ppo-lunarlander": Cell(
        agent="ppo", env="LunarLander-v3", env_steps=300_000, threshold=200.0, trial_steps=PPO_TRIALS
    ),
    "ppo-pendulum": Cell(agent="ppo", env="Pendulum-v1", env_steps=100_000, threshold=-200.0, trial_steps=PPO_TRIALS),
    "ppo-mountaincar": Cell(
        agent="ppo", env="MountainCarContinuous-v0", env_steps=50_000, threshold=90.0, trial_steps=(50_000, 50_000)
    ),
    "ppo-tanks": Cell(
        agent="ppo", env="new_environments:Tanks-v0", env_steps=100_000, threshold=-7.0, trial_steps=PPO_TRIALS
    ),
    "sac-pendulum": Cell(agent="sac", env="Pendulum-v1", env_steps=10_000, threshold=-200.0, trial_steps=SAC_TRIALS),
    "sac-tanks": Cell(
        agent="sac", env="new_environments:Tanks-v0", env_steps=10_000, threshold=-7.0, trial_steps=SAC_TRIALS
    ),
}

SEARCHERS = {
    "finder": "Finder",
    "finder-none": "Finder, --first none",
    "zoo": "rl-baselines3-zoo",
    "ray-asha": "Ray Tune, ASHA",
    "ray-asha-none": "Ray Tune, ASHA, no first values",
    "ray-pbt": "Ray Tune, PBT",
    "ray-pbt-none": "Ray Tune, PBT, no first values",
}
"""Sides that search. They begin with the zoo's values, but for the zoo itself and those that end in `-none`.

`finder-none` is left out where the zoo has none.
"""

DEFAULTS = {
    "sb3-defaults": "Stable-Baselines3's defaults",
    "finder-defaults": "Finder's defaults",
    "zoo-tuned": "the zoo's tuned values",
}
"""Sides that do not search (`--side none`)."""

NAMES = {**SEARCHERS, **DEFAULTS}

OURS = ("finder", "finder-none")
"""Sides that are compared with each other side."""

LIBRARIES = {"sb3": "Stable-Baselines3", "finder": "Finder"}
"""Libraries of the long runs."""

Row = Mapping[str, Any]
"""A line of results: a search (`kind` search) or one seed of a long run (`kind` run)."""


def key_of(row: Row) -> tuple[str, str, float, int]:
    """Return cell, side, minutes and number of a search; sides that do not search have 0 and 0."""
    return row["cell"], row["side"], row["minutes"], row["search"]


def starts_alike(ours: str, other: str, cell: str) -> bool:
    """Return whether a side of ours is compared with another one: both begin with the zoo's values, or neither.

    Sides that have no choice are compared with both: those that do not search, and the zoo's search. In a cell that the
    zoo has no values for, a search begins with none.
    """
    is_in_zoo = CELLS[cell].env == CELLS[cell].env_id
    return not other.startswith("ray-") or not is_in_zoo or ours.endswith("-none") == other.endswith("-none")

"""Where the environment changes, is the expert's reward worth more than a copy of its actions?

    python -m benchmarks.imitation.changed_dynamics  measures, unless the results are there, and prints the table
    python -m benchmarks.imitation.changed_dynamics --summary  prints the table

Five seeds of `airl-ppo` learn a reward from 10 episodes of the expert on CartPole-v1 (`imitation/returns.py experts`),
and five seeds of `bc` clone it. There are no demonstrations of the changed environment: the clone acts as it is, and
each reward trains one fresh agent from new weights. PPO with the true reward of the changed environment stands beside
them. Returns are those of 100 greedy episodes. Rows go to results/changed-dynamics.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from benchmarks import folders
from benchmarks.imitation.cases import CASES, SEEDS
from benchmarks.imitation.returns import specification
from benchmarks.imitation.saved_reward import ENV_STEPS, FRESH, N_EPISODES, learners, trained_by
from benchmarks.learning.greedy_returns import write_rows
from benchmarks.learning.judged_episodes import JUDGE_SEED
from studies.statistics.values import iqm_of_population

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

FILE = folders.RESULTS / "changed-dynamics.csv"


def cart_pole(length: float = 0.5, force: float = 10.0) -> gymnasium.Env[Any, Any]:
    """Return CartPole-v1 with another pole (half of its length, in metres), or with another force in newtons."""
    made = gymnasium.make("CartPole-v1")
    dynamics: Any = made.unwrapped
    dynamics.length, dynamics.force_mag = length, force
    dynamics.polemass_length = dynamics.masspole * length
    return made


CHANGED = {
    "the same": partial(cart_pole),
    "a pole of twice the length": partial(cart_pole, length=1.0),
    "a pole of four times the length": partial(cart_pole, length=2.0),
    "a pole of a fifth of the length": partial(cart_pole, length=0.1),
    "left and right exchanged": partial(cart_pole, force=-10.0),
}


class Row(NamedTuple):
    """The returns of a seed in a changed environment."""

    environment: str
    seed: int
    clone: float
    rewarded: float  # trained by the reward of AIRL
    true_reward: float  # trained by the reward of the environment


def measure(folder: Path) -> None:
    """Measure all seeds in all environments."""
    import agents

    clones = []
    for seed in range(SEEDS):
        clone = specification(CASES["bc-cartpole"], folder).build(seed)
        with agents.Trainer(clone) as trainer:
            trainer.train(env_steps=CASES["bc-cartpole"].env_steps)
        clones.append(clone)
    rows: list[Row] = []
    case = CASES["airl-cartpole"]
    for seed, _, run in learners(specification(case, folder)):
        for name, environment in CHANGED.items():
            own = agents.make("ppo", environment, seed=FRESH + seed)
            with agents.Trainer(own) as trainer:
                trainer.train(env_steps=ENV_STEPS)
            each = (clones[seed], trained_by(run, case, seed, environment), own)
            returns = (agents.evaluate(a, environment, n_episodes=N_EPISODES, seed=JUDGE_SEED + seed) for a in each)
            rows.append(Row(name, seed, *(values.mean() for values in returns)))
            print(rows[-1], flush=True)
    write_rows(FILE, [row._asdict() for row in rows], Row._fields)


def summary() -> None:
    """Print the table."""
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    print("| CartPole-v1 with | clone | by the reward of AIRL | by the true reward | seeds by the reward of AIRL |")
    print("|---|---|---|---|---|")
    for name in CHANGED:
        own = [row for row in rows if row["environment"] == name]
        means = [iqm_of_population([[float(row[who]) for row in own]])[0] for who in Row._fields[2:]]
        seeds = ", ".join(f"{float(row['rewarded']):.0f}" for row in own)
        print(f"| {name} | {' | '.join(f'{float(mean):.0f}' for mean in means)} | {seeds} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=folders.RESULTS / "experts", help="folder of the demonstrations")
    parser.add_argument("--summary", action="store_true", help="print the table")
    given = parser.parse_args()
    if not given.summary and not FILE.exists():
        measure(given.folder)
    summary()


if __name__ == "__main__":
    main()

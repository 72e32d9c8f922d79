"""Does the reward that a run has learned train a fresh agent, without demonstrations?

    python -m benchmarks.imitation.saved_reward airl-cartpole gail-acrobot ...    cases of `cases.py`
    python -m benchmarks.imitation.saved_reward --summary                         the table

Each case learns its reward for `ENV_STEPS` from demonstrations (`imitation/returns.py experts`), with steps of earlier
policies (`reward_history`) and without, in five seeds as one population. The reward of each seed then trains one fresh
agent with the same hyperparameters for as many steps. Returns are those of 100 greedy episodes in the environment. Rows
go to results/saved-reward-CASE.csv, and cases that are done are not run again.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import folders
from benchmarks.imitation.cases import CASES, SEEDS, Case
from benchmarks.imitation.returns import EXPERTS_FILE, experts_known, specification
from benchmarks.learning.greedy_returns import random_play, write_rows
from benchmarks.learning.judged_episodes import JUDGE_SEED
from studies.statistics.values import iqm_of_population

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

ENV_STEPS, N_EPISODES, FRESH = 100_000, 100, 100


class Row(NamedTuple):
    """The returns of an agent that learned its reward, and of the fresh agent that this reward trained."""

    case: str
    reward_history: int
    seed: int
    learner: float
    fresh: float


def learners(spec: Any, env_steps: int = ENV_STEPS) -> Iterator[tuple[int, Any, str]]:
    """Train the seeds of an agent that learns its reward; yield the seed, its agent and a run with its reward."""
    import agents
    from agents.population import Population

    population = Population(spec, [{"seed": seed} for seed in range(SEEDS)])
    with agents.Trainer(population) as trainer:
        trainer.train(env_steps=env_steps)
    for seed in range(SEEDS):
        learner = population.extract(seed)
        with tempfile.TemporaryDirectory() as run:
            callbacks = [agents.Checkpoint(run, weights_only=True)]
            with agents.Trainer(learner, callbacks=callbacks) as trainer:
                trainer.train(env_steps=learner.config.n_envs)  # writes a checkpoint; no update
            yield seed, learner, run


def trained_by(run: str, case: Case, seed: int, environment: Any = None) -> Any:
    """Return a fresh agent with the hyperparameters of a case, trained by the reward of a run."""
    import agents

    own = {name: value for name, value in case.params.items() if name in _fields(agents.PPO.config_class)}
    fresh = agents.make("rewarded-ppo", environment or case.env, seed=FRESH + seed, reward_from=run, **own)
    with agents.Trainer(fresh) as trainer:
        trainer.train(env_steps=ENV_STEPS)
    return fresh


def rows_of(name: str, case: Case, history: int, folder: Path) -> list[Row]:
    """Train the seeds of a case, and a fresh agent with the reward of each."""
    import agents

    rows = []
    for seed, learner, run in learners(specification(case, folder).with_params({"reward_history": history})):
        both = (learner, trained_by(run, case, seed))
        each = (agents.evaluate(agent, n_episodes=N_EPISODES, seed=JUDGE_SEED + seed) for agent in both)
        rows.append(Row(name, history, seed, *(returns.mean() for returns in each)))
        print(rows[-1], flush=True)
    return rows


def _fields(config_class: Any) -> set[str]:
    return {field.name for field in fields(config_class)}


def _file(name: str) -> Path:
    return folders.RESULTS / f"saved-reward-{name}.csv"


def summary() -> None:
    """Print the table: normalised returns, 0% for random play and 100% for the expert."""
    experts = experts_known()
    print("| case | steps of earlier policies | learner, IQM | fresh agent, IQM | seeds |")
    print("|---|---|---|---|---|")
    for name, case in CASES.items():
        if not _file(name).exists():
            continue
        with _file(name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        low, high = random_play(case.env), float(experts[case.expert]["greedy_mean"])
        for history in sorted({int(row["reward_history"]) for row in rows}, reverse=True):
            own = [row for row in rows if int(row["reward_history"]) == history]
            learner, fresh = (
                [100.0 * (float(row[who]) - low) / (high - low) for row in own] for who in ("learner", "fresh")
            )
            seeds = ", ".join(f"{value:.0f}%" for value in fresh)
            means = [f"{float(iqm_of_population([values])[0]):.1f}%" for values in (learner, fresh)]
            print(f"| {name} | {history:,} | {' | '.join(means)} | {seeds} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases with a learned reward")
    parser.add_argument("--folder", type=Path, default=folders.RESULTS / "experts", help="folder of the demonstrations")
    parser.add_argument("--summary", action="store_true", help="print the table")
    given = parser.parse_args()
    if given.summary:
        summary()
        return
    assert EXPERTS_FILE.exists(), "python -m benchmarks.imitation.returns experts"
    for name in given.names:
        if not _file(name).exists():
            rows = [row for history in (2_000, 0) for row in rows_of(name, CASES[name], history, given.folder)]
            write_rows(_file(name), [row._asdict() for row in rows], Row._fields)


if __name__ == "__main__":
    main()

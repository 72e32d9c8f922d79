"""Greedy returns of members along their training: what `learning/returns.py` and `imitation/returns.py` measure."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from benchmarks.learning.judged_episodes import JUDGE_SEED
from studies.statistics.values import iqm_of_population

COLUMNS = ("case", "seed", "env_steps", "n_episodes", "greedy_mean", "greedy_std", "train_seconds")
Array = np.ndarray[Any, Any]
_Run = TypeVar("_Run")


class Evaluation(NamedTuple):
    """Greedy episodes of a member."""

    seed: int
    env_steps: int
    returns: Array
    train_seconds: float  # of all members, evaluations not included

    def row(self, case: str) -> dict[str, Any]:
        """Return the evaluation as a row of a results file."""
        mean, std = self.returns.mean(), self.returns.std()
        values = (case, self.seed, self.env_steps, len(self.returns), mean, std, self.train_seconds)
        return dict(zip(COLUMNS, values, strict=True))


def trained(
    spec: Any, n_seeds: int, env_steps: int, play: Callable[..., Array], n_episodes: int = 100
) -> Iterator[list[Evaluation]]:
    """Train seeds of an agent as members of one population, and evaluate each at every tenth of the steps.

    Args:
        spec: The agent.
        n_seeds: Number of members, with the seeds 0, 1, ...
        env_steps: Environment steps of each.
        play: Agent, `n_episodes`, `seed` -> returns, such as `agents.evaluate`.
        n_episodes: Episodes of the last evaluation; the others have 20.

    Yields:
        An evaluation of each member.
    """
    import agents
    from agents.population import Population

    population, judge = Population(spec, [{"seed": seed} for seed in range(n_seeds)]), spec.build()
    assert isinstance(judge, agents.KerasAgent)
    seconds = 0.0
    with agents.Trainer(population) as trainer:
        for tenth in range(1, 11):
            began = time.perf_counter()
            trainer.train(env_steps=max(1, env_steps * tenth // 10 - trainer.env_steps))
            seconds += time.perf_counter() - began
            evaluations = []
            for position, run_of_member in enumerate(loaded_into(judge, population, trainer.runs)):
                returns = play(judge, n_episodes=n_episodes if tenth == 10 else 20, seed=JUDGE_SEED + position)
                seed = population.seeds[run_of_member.member]
                evaluations.append(Evaluation(seed, trainer.env_steps, returns, seconds))
            yield evaluations


def loaded_into(judge: Any, population: Any, runs: Sequence[_Run]) -> Iterator[_Run]:
    """Load the members of a population into an agent, one after the other.

    Args:
        judge: The agent, of the same spec.
        population: The population.
        runs: One for each member that is present, in the order of the members.

    Yields:
        The run whose member the agent is now.
    """
    from agents.backend.variables import assign_all
    from agents.population.saved_values import loaded_values

    state = population.get_state()
    values_of_members = loaded_values(judge, state["values"])
    for position, run in enumerate(runs):
        assign_all(judge.state_variables(), [values[position] for values in values_of_members])
        judge.set_extra_state(state["extra"][position % len(state["extra"])])
        judge.refresh()
        yield run


def measured(case: str, evaluated: Iterator[list[Evaluation]]) -> list[dict[str, Any]]:
    """Return the rows of a case, and print them as they come."""
    rows: list[dict[str, Any]] = []
    for evaluations in evaluated:
        rows += [evaluation.row(case) for evaluation in evaluations]
        told = " ".join(f"{evaluation.returns.mean():.4g}" for evaluation in evaluations)
        last = evaluations[-1]
        print(f"{case}  {last.env_steps:,} steps  {last.train_seconds:,.0f} s  {told}", flush=True)
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> None:
    """Write a results file, floats with two decimals."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()} for row in rows)


def read_evaluations(path: Path) -> dict[int, list[tuple[int, float]]]:
    """Return seed -> (environment steps, greedy return) of each evaluation; nothing if there is no such file."""
    by_seed: dict[int, list[tuple[int, float]]] = {}
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                by_seed.setdefault(int(row["seed"]), []).append((int(row["env_steps"]), float(row["greedy_mean"])))
    return by_seed


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the interquartile mean, by a bootstrap over seeds."""
    rng = np.random.default_rng(0)
    drawn = iqm_of_population(rng.choice(values, (10_000, len(values))))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


@cache
def random_play(env: str) -> float:
    """Return the mean return of 1,000 episodes with actions drawn uniformly."""
    import agents

    environment = agents.EnvironmentSpec(env).make()
    environment.action_space.seed(0)
    total = 0.0
    for episode in range(1_000):
        environment.reset(seed=episode)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
            total, over = total + float(reward), terminated or truncated
    environment.close()
    return total / 1_000

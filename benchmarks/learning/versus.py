"""MADDPG on games of two sides: the trained side against the untrained other one.

    python -m benchmarks.learning.versus tag adversary  # results/versus.csv; games that are there are not run again
    python -m benchmarks.learning.versus --summary      # the table

Five seeds train as members of one population, all agents of both sides together. Then each side is played by what was
trained, or at random, in 200 episodes a seed.
"""

from __future__ import annotations

import csv
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import folders

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

RESULTS = folders.RESULTS / "versus.csv"
COLUMNS = ("game", "seed", "hunters", "others", "hunters_return", "others_return")
SEEDS, EPISODES = 5, 200
PARAMS = {
    **{"n_envs": 8, "train_freq": 8, "gradient_steps": 8, "batch_size": 256, "buffer_size": 200_000, "gamma": 0.95},
    **{"learning_rate": 1e-3, "hidden_sizes": [64, 64]},
}


class Game(NamedTuple):
    """A game, the agents that hunt, and the others."""

    env: str
    hunters: tuple[str, ...]
    others: tuple[str, ...]
    env_steps: int = 200_000


GAMES = {
    "tag": Game("mpe2.simple_tag_v3:parallel_env", ("adversary_0", "adversary_1", "adversary_2"), ("agent_0",)),
    "adversary": Game("mpe2.simple_adversary_v3:parallel_env", ("adversary_0",), ("agent_0", "agent_1")),
}


def trained(game: Game) -> list[Any]:
    """Train all seeds; return their agents."""
    import agents
    from agents.population import Population

    spec = agents.AgentSpec.of("maddpg", agents.EnvironmentSpec(game.env), PARAMS)
    population = Population(spec, [{"seed": seed} for seed in range(SEEDS)])
    with agents.Trainer(population) as trainer:
        trainer.train(env_steps=game.env_steps)
    return [population.extract(position) for position in range(SEEDS)]


def play(agent: Any, game: Game, *, trained_sides: Sequence[bool], seed: int) -> tuple[float, float]:
    """Return the mean returns of hunters and others, each side trained or at random."""
    environment, rng = agent.environment.make(), np.random.default_rng(seed)
    names = environment.unwrapped.agent_names
    plays_at_random = np.array([not trained_sides[name in game.others] for name in names])
    totals = dict.fromkeys(names, 0.0)
    for episode in range(EPISODES):
        vector, _ = environment.reset(seed=seed + episode)
        over = False
        while not over:
            drawn = rng.integers(environment.action_space.nvec)
            actions = np.where(plays_at_random, drawn, agent.act(vector[None])[0])
            vector, _, terminated, truncated, info = environment.step(actions)
            over = terminated or truncated
        for name, value in info["agent_returns"].items():
            totals[name] += value / EPISODES
    environment.close()
    return sum(totals[name] for name in game.hunters), sum(totals[name] for name in game.others)


def main(names: list[str]) -> None:
    """Train and play the games that are not there yet."""
    rows = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    for name in names:
        if any(row["game"] == name for row in rows):
            continue
        for seed, agent in enumerate(trained(GAMES[name])):
            for sides in itertools.product((True, False), repeat=2):
                hunters, others = play(agent, GAMES[name], trained_sides=sides, seed=1_000_000)
                kinds = ["trained" if side else "random" for side in sides]
                values = (name, str(seed), *kinds, f"{hunters:.2f}", f"{others:.2f}")
                rows.append(dict(zip(COLUMNS, values, strict=True)))
                print(*values, flush=True)
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def summary() -> None:
    """Print the means over seeds, with their ranges."""
    print("| game | hunters | others | return of the hunters | return of the others |")
    print("|---|---|---|---|---|")
    rows = list(csv.DictReader(RESULTS.open()))
    for key in dict.fromkeys((row["game"], row["hunters"], row["others"]) for row in rows):
        own = [row for row in rows if (row["game"], row["hunters"], row["others"]) == key]
        told = []
        for column in ("hunters_return", "others_return"):
            values = [float(row[column]) for row in own]
            told.append(f"{np.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        print(f"| {' | '.join(key)} | {' | '.join(told)} |")


if __name__ == "__main__":
    if "--summary" in sys.argv:
        summary()
    else:
        main(sys.argv[1:] or list(GAMES))

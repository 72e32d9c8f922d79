"""Self-play on tic-tac-toe: MAPPO against its own earlier versions, beside training against random play only.

    python -m benchmarks.learning.self_play  # results/self-play.csv; trainings that are there are not run again
    python -m benchmarks.learning.self_play --summary  # the table
    python -m benchmarks.learning.self_play --picture  # self_play.png (needs Chromium)

Three seeds train as members of one population. At steps along the way each plays greedily, first or second, 300 games
against random play and 300 against a perfect player, which draws among its best moves. Needs `pettingzoo[classic]`.
"""

from __future__ import annotations

import csv
import functools
import os
import sys
from typing import Any

import numpy as np

from benchmarks import folders

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

RESULTS = folders.RESULTS / "self-play.csv"
COLUMNS = ("training", "seed", "env_steps", "opponent", "won", "drawn", "lost")
SEEDS, GAMES, STEPS, EVALUATIONS = 3, 300, 300_000, 10
PARAMS = {
    **{"team_reward": False, "n_envs": 16, "n_steps": 64, "batch_size": 128, "n_epochs": 4, "learning_rate": 7e-4},
    **{"ent_coef": 0.01, "gamma": 0.99},
}
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
Array = np.ndarray[Any, Any]


@functools.cache
def best_moves(own: frozenset[int], other: frozenset[int]) -> tuple[int, tuple[int, ...]]:
    """Return the result for the player to move (1, 0 or -1) and all moves that reach it."""
    if any(other.issuperset(line) for line in LINES):
        return -1, ()
    free = [square for square in range(9) if square not in own | other]
    if not free:
        return 0, ()
    results = {square: -best_moves(other, own | {square})[0] for square in free}
    best = max(results.values())
    return best, tuple(square for square, result in results.items() if result == best)


class PerfectPlayer:
    """An opponent that never loses.

    Args:
        space: Space of the joint observations.
        seed: Seed of the draws among its best moves.
    """

    def __init__(self, space: Any, seed: int) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)

    def begin(self) -> None:
        """Do nothing: it remembers nothing."""

    def act(self, vectors: Array) -> Array:
        """Return its moves for both agents; those of agents that are not at turn are ignored."""
        view = self._space.view(vectors[0])
        moves = []
        for observation in view.observations:
            own, other = (frozenset(np.flatnonzero(marks).tolist()) for marks in observation.reshape(9, 2).T)
            moves.append(self._rng.choice(best_moves(own, other)[1] or (0,)))
        return np.array([moves])


def play(agent: Any, opponents: Any, seed: int) -> tuple[float, float, float]:
    """Return the shares of won, drawn and lost games."""
    environment = agent.environment.make()
    environment.get_wrapper_attr("set_opponents")(opponents(environment.unwrapped.observation_space))
    results = []
    for game in range(GAMES):
        vector, _ = environment.reset(seed=seed + game)
        total, over = 0.0, False
        while not over:
            vector, reward, terminated, truncated, _ = environment.step(agent.act(vector[None])[0])
            total, over = total + float(reward), terminated or truncated
        results.append(total)
    environment.close()
    played = np.sign(results)
    return float((played > 0).mean()), float((played == 0).mean()), float((played < 0).mean())


def train(training: str) -> list[tuple[Any, ...]]:
    """Train all seeds; return their results along the way."""
    import agents
    from agents.population import Population

    wrapper = "agents.environments.multi_agent.opponents:Opponents"
    environment = agents.EnvironmentSpec("pettingzoo.classic.tictactoe_v3:env", wrappers=(wrapper,))
    spec = agents.AgentSpec.of("mappo", environment, PARAMS)
    population = Population(spec, [{"seed": seed} for seed in range(SEEDS)])
    callbacks = [agents.SelfPlay(every=10_000)] if training == "self-play" else []
    kinds = {"random": lambda space: [], "perfect": lambda space: [PerfectPlayer(space, seed=0)]}
    rows = []
    with agents.Trainer(population, callbacks=callbacks) as trainer:
        for mark in range(EVALUATIONS + 1):
            if mark:
                trainer.train(env_steps=STEPS * mark // EVALUATIONS - trainer.env_steps)
            for seed in range(SEEDS):
                agent = population.extract(seed)
                for kind, opponents in kinds.items():
                    shares = play(agent, opponents, seed=1_000_000)
                    rows.append((training, seed, trainer.env_steps, kind, *(round(share, 4) for share in shares)))
                    print(*rows[-1], flush=True)
    return rows


def read() -> list[dict[str, str]]:
    """Return the rows that are there."""
    return list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []


def main() -> None:
    """Run the trainings that are not there yet."""
    for training in ("self-play", "random play only"):
        if any(row["training"] == training for row in read()):
            continue
        rows, begins = train(training), not RESULTS.exists()
        with RESULTS.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *rows] if begins else rows)


def summary() -> None:
    """Print the last results: means over seeds, with their ranges."""
    print("| trained against | plays against | won | drawn | lost |")
    print("|---|---|---|---|---|")
    rows = read()
    for training, opponent in dict.fromkeys((row["training"], row["opponent"]) for row in rows):
        own = [row for row in rows if (row["training"], row["opponent"]) == (training, opponent)]
        last = max(int(row["env_steps"]) for row in own)
        told = []
        for column in ("won", "drawn", "lost"):
            values = [100 * float(row[column]) for row in own if int(row["env_steps"]) == last]
            told.append(f"{np.mean(values):.0f}% ({min(values):.0f} to {max(values):.0f})")
        print(f"| {training} | {opponent} | {' | '.join(told)} |")


def picture() -> None:
    """Draw the share of lost games along the training."""
    from plotly.subplots import make_subplots

    from benchmarks.picture import screenshot

    rows, kinds = read(), ("random", "perfect")
    colors = {"self-play": "#2563eb", "random play only": "#e11d48"}
    figure = make_subplots(cols=2, subplot_titles=[f"against {kind} play" for kind in kinds], shared_yaxes=True)
    for column, kind in enumerate(kinds, 1):
        for training, color in colors.items():
            for seed in range(SEEDS):
                key = (training, str(seed), kind)
                own = [row for row in rows if (row["training"], row["seed"], row["opponent"]) == key]
                figure.add_scatter(
                    x=[int(row["env_steps"]) for row in own],
                    y=[float(row["lost"]) for row in own],
                    name=f"trained with {training}" if training == "self-play" else f"trained against {training}",
                    showlegend=column == 1 and seed == 0,
                    line={"color": color, "width": 1.5},
                    row=1,
                    col=column,
                )
    figure.update_xaxes(title_text="environment steps")
    figure.update_yaxes(title_text="lost games", tickformat=".0%", rangemode="tozero", col=1)
    figure.update_layout(width=1000, height=360, template="plotly_white", margin={"t": 40, "l": 60, "r": 20, "b": 50})
    screenshot(figure, folders.BENCHMARKS / "self_play.png", 1000, 360)


if __name__ == "__main__":
    if "--summary" in sys.argv:
        summary()
    elif "--picture" in sys.argv:
        picture()
    else:
        main()

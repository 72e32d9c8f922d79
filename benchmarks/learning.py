"""Do the agents learn? Greedy returns over seeds, at steps along the way.

Each case trains every seed for its budget; every tenth of it the agent plays 20 greedy episodes, and 100 at the
end, in environments with seeds that training does not use. Results go to `benchmarks/results/learning-CASE.csv`, a
row an evaluation, and finished seeds are not run again.

    python benchmarks/learning.py ppo-cartpole dqn-cartpole
    python benchmarks/learning.py --summary      the table
    python benchmarks/learning.py --picture      benchmarks/learning.png (needs Chromium)
"""

from __future__ import annotations

import csv
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("case", "seed", "env_steps", "n_episodes", "greedy_mean", "greedy_std", "train_seconds")


@dataclass(frozen=True)
class Case:
    """An agent, an environment, a budget, and what is asked of them."""

    agent: str
    env: str
    env_steps: int
    seeds: int
    threshold: float
    needed: int
    params: dict[str, Any] = field(default_factory=dict)


DQN_CARTPOLE = {
    "learning_rate": 5e-4,
    "batch_size": 128,
    "train_freq": 256,
    "gradient_steps": 128,
    "target_update_interval": 1,
    "tau": 0.005,
    "double": True,
    "hidden_sizes": [256, 256],
    "exploration_final_eps": 0.04,
    "exploration_steps": 8_000,
    "buffer_size": 100_000,
}
PPO_LUNAR = {
    "n_envs": 16,
    "n_steps": 512,
    "n_epochs": 4,
    "gamma": 0.999,
    "gae_lambda": 0.98,
    "ent_coef": 0.01,
}
CASES = {
    "ppo-cartpole": Case("ppo", "CartPole-v1", 100_000, 10, 475, 9),
    "dqn-cartpole": Case("dqn", "CartPole-v1", 100_000, 10, 475, 8, DQN_CARTPOLE),
    "ppo-acrobot": Case("ppo", "Acrobot-v1", 300_000, 5, -90, 5, {"ent_coef": 0.01}),
    "ppo-lunarlander": Case("ppo", "LunarLander-v3", 1_000_000, 3, 200, 2, PPO_LUNAR),
}


def run(name: str, seed: int) -> list[dict[str, Any]]:
    import agents

    case = CASES[name]
    # Gymnasium's own environments: EnvPool, where it is installed, plays the same games with other random numbers.
    environment = agents.EnvironmentSpec(case.env, vectorization="sync")
    agent = agents.make(case.agent, environment, seed=seed, **case.params)
    rows, seconds = [], 0.0
    with agents.Trainer(agent) as trainer:
        for tenth in range(1, 11):
            began = time.perf_counter()
            trainer.train(env_steps=case.env_steps * tenth // 10 - trainer.env_steps)
            seconds += time.perf_counter() - began
            n_episodes = 100 if tenth == 10 else 20
            returns = agents.evaluate(agent, n_episodes=n_episodes, seed=1_000_000 + seed)
            values = (name, seed, trainer.env_steps, n_episodes, returns.mean(), returns.std(), seconds)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
            print(*(f"{v:.1f}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
    return rows


def main(names: list[str]) -> None:
    for name in names:
        path = RESULTS / f"learning-{name}.csv"
        done = {int(row["seed"]) for row in read(path)}
        for seed in range(CASES[name].seeds):
            if seed in done:
                continue
            rows = run(name, seed)
            new = not path.exists()
            with path.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerows(
                    {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()} for row in rows
                )


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def evaluations(name: str) -> dict[int, list[tuple[int, float]]]:
    """Seed -> (environment steps, greedy return) of each evaluation."""
    by_seed: dict[int, list[tuple[int, float]]] = {}
    for row in read(RESULTS / f"learning-{name}.csv"):
        by_seed.setdefault(int(row["seed"]), []).append((int(row["env_steps"]), float(row["greedy_mean"])))
    return by_seed


def summary() -> None:
    print("| case | steps | wanted | reach it | are there at the end | mean at the end | seeds at the end |")
    print("|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        by_seed = evaluations(name)
        final = [values[-1][1] for values in by_seed.values()]
        n = len(by_seed)
        reached = sum(max(value for _, value in values) >= case.threshold for values in by_seed.values())
        ended = sum(value >= case.threshold for value in final)
        told = ", ".join(f"{value:.0f}" for value in final)
        wanted = f">= {case.threshold:g} on {case.needed} of {case.seeds}"
        mean = sum(final) / max(1, n)
        print(f"| {name} | {case.env_steps:,} | {wanted} | {reached} of {n} | {ended} of {n} | {mean:.0f} | {told} |")


def picture() -> None:
    """Draws every seed's greedy returns, a panel a case."""
    from picture import screenshot
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=2, subplot_titles=list(CASES), vertical_spacing=0.16)
    for index, (name, case) in enumerate(CASES.items()):
        place = {"row": index // 2 + 1, "col": index % 2 + 1}
        for seed, values in evaluations(name).items():
            steps, returns = zip(*values, strict=True)
            figure.add_scatter(x=steps, y=returns, name=f"{name}, seed {seed}", line={"width": 1.5}, **place)
        figure.add_hline(y=case.threshold, line={"dash": "dot", "color": "#e11d48"}, **place)
        figure.update_xaxes(title_text="environment steps", **place)
        figure.update_yaxes(title_text="greedy return", **place)
    figure.update_layout(width=1100, height=720, showlegend=False, margin={"t": 40, "l": 60, "r": 20, "b": 50})
    screenshot(figure, Path(__file__).parent / "learning.png", 1100, 720)


if __name__ == "__main__":
    if "--summary" in sys.argv:
        summary()
    elif "--picture" in sys.argv:
        picture()
    else:
        main(sys.argv[1:] or list(CASES))

"""Rewards fitted to an expert on a grid of 10 x 10 by maximum causal entropy, beside the true ones.

    python -m benchmarks.imitation.causal_entropy  fits all cases into results/causal-entropy.csv, and prints the table
    python -m benchmarks.imitation.causal_entropy --summary  the table of what is there
    python -m benchmarks.imitation.causal_entropy --picture  causal_entropy.png (needs Chromium)

The expert is soft-optimal for the rewards of the grid. The fit sees the transitions and the expert's visits of cells,
exact or counted in episodes. A reward of states is compared with the true one as it is, and, as rewards of actions,
without the nearest potential shaping: visits cannot tell rewards apart that differ by shaping, as far as the horizon
does not.
"""

from __future__ import annotations

import csv
import sys
import time
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from scipy import stats

import agents.environments.grid_world  # noqa: F401 - registers GridWorld-v0
from agents.environments.tabular import model_of
from agents.functional.causal_entropy import FittedReward, fit_reward
from agents.functional.shaping import without_shaping
from agents.functional.soft_optimal import soft_optimal
from agents.functional.tabular import TabularModel
from agents.functional.tabular_episodes import empirical_visits, sample_episodes
from agents.functional.visits import visits_of
from benchmarks import folders

RESULTS = folders.RESULTS / "causal-entropy.csv"
OBSTACLES = ((2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (6, 4), (6, 5), (3, 7), (4, 7), (5, 7))
STEP_REWARDS = (-0.04, -0.015)
"""Range of the rewards of cells that are no goals, which are all different, so that their ranks mean something."""

TEMPERATURE = 0.01
SEEDS = 5
Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """An expert, and what is known of it."""

    horizon: int | None
    gamma: float
    n_episodes: int | None = None  # None: its exact visits

    @property
    def process(self) -> str:
        """The process in words."""
        return f"discount {self.gamma}" if self.horizon is None else f"horizon {self.horizon}"


EXACT = (Case(30, 1.0), Case(40, 1.0), Case(100, 1.0), Case(None, 0.95), Case(None, 0.99))
SAMPLED = tuple(Case(40, 1.0, n) for n in (10, 100, 1_000, 10_000, 100_000))
PICTURED = Case(40, 1.0)


class Row(NamedTuple):
    """One fit."""

    process: str
    episodes: str
    seed: int
    counted_gap: float  # largest difference between what the fit was given and the expert's visits
    gap: float  # and between the visits of the fitted policy and the expert's
    pearson: float  # of the fitted and the true rewards of cells
    spearman: float
    pearson_unshaped: float  # of both as rewards of actions, without shaping
    spearman_unshaped: float
    steps: int
    seconds: float


class Expert(NamedTuple):
    """A soft-optimal policy for the true rewards."""

    model: TabularModel
    reward: Array  # [S]
    policy: Array  # [T, S, A] or [S, A]
    visits: Array  # [S]


def expert_of(case: Case) -> Expert:
    made: Any = gym.make("GridWorld-v0", obstacles=OBSTACLES)
    model = model_of(made, horizon=case.horizon, gamma=case.gamma)
    acting, reward = ~model.terminal, made.unwrapped.state_rewards
    reward[acting] = np.random.default_rng(0).uniform(*STEP_REWARDS, acting.sum())
    policy = soft_optimal(model, reward, temperature=TEMPERATURE).policy
    return Expert(model, reward, policy, visits_of(model, policy).states)


def fitted(expert: Expert, case: Case, seed: int) -> tuple[Array, FittedReward]:
    """Returns the visits that the fit was given, and the fit."""
    if case.n_episodes is None:
        return expert.visits, fit_reward(expert.model, expert.visits, temperature=TEMPERATURE)
    episodes = sample_episodes(expert.model, expert.policy, case.n_episodes, np.random.default_rng(seed))
    counted = empirical_visits(expert.model, episodes.states)
    penalty = 0.01 / (case.n_episodes * TEMPERATURE)
    return counted, fit_reward(expert.model, counted, temperature=TEMPERATURE, penalty=penalty)


def measured(case: Case, seed: int) -> Row:
    expert = expert_of(case)
    began = time.perf_counter()
    given, fit = fitted(expert, case, seed)
    seconds = time.perf_counter() - began
    # Visits are computed again from the reward alone.
    visits = visits_of(expert.model, soft_optimal(expert.model, fit.reward, temperature=TEMPERATURE).policy).states
    cells = expert.model.reachable()
    acting = cells & ~expert.model.terminal
    whole = [reward[cells] for reward in (fit.reward, expert.reward)]
    unshaped = [without_shaping(expert.model, reward)[acting].ravel() for reward in (fit.reward, expert.reward)]
    return Row(
        case.process, "exact" if case.n_episodes is None else str(case.n_episodes), seed,
        float(np.abs(given - expert.visits).max()), float(np.abs(visits - expert.visits).max()),
        float(stats.pearsonr(*whole)[0]), float(stats.spearmanr(*whole)[0]),
        float(stats.pearsonr(*unshaped)[0]), float(stats.spearmanr(*unshaped)[0]),
        fit.n_steps, seconds,
    )  # fmt: skip


def run() -> None:
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        for case in (*EXACT, *SAMPLED):
            for seed in range(1 if case.n_episodes is None else SEEDS):
                row = measured(case, seed)
                writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in row])
                file.flush()


def summary() -> None:
    """Print the table of README.md beside it: medians over seeds."""
    groups: dict[tuple[str, str], list[list[float]]] = {}
    with RESULTS.open(newline="") as file:
        for process, episodes, _, *numbers in list(csv.reader(file))[1:]:
            groups.setdefault((process, episodes), []).append([float(number) for number in numbers])
    print("| process | episodes | gap of counts | gap of visits | Pearson | Spearman | without shaping | steps | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (process, episodes), rows in groups.items():
        counted, gap, pearson, spearman, pearson_left, spearman_left, steps, seconds = np.median(rows, axis=0)
        shown = f"{int(episodes):,}" if episodes.isdigit() else episodes
        counts = f"{counted:.1e}" if counted else ""
        print(
            f"| {process} | {shown} | {counts} | {gap:.1e} | {pearson:.4f} | {spearman:.3f} | "
            f"{pearson_left:.4f}, {spearman_left:.3f} | {steps:.0f} | {seconds:.1f} |"
        )


def picture() -> None:
    """Draws causal_entropy.png; goals, whose rewards are off the scale, have their values."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from benchmarks.picture import screenshot

    expert = expert_of(PICTURED)
    _, fit = fitted(expert, PICTURED, 0)
    cells = expert.model.reachable()
    maps = (
        ("true reward", expert.reward),
        ("fitted reward", fit.reward),
        ("visits of the expert", expert.visits),
        ("visits of the fitted policy", fit.visits),
    )
    figure = make_subplots(
        2, 2, subplot_titles=[title for title, _ in maps], horizontal_spacing=0.1, vertical_spacing=0.1
    )
    for place, (_, values) in enumerate(maps):
        shown = np.where(cells, values, np.nan)
        goals = np.where(cells & expert.model.terminal, np.char.mod("%.2f", values), "")
        row, column = divmod(place, 2)
        figure.add_trace(
            go.Heatmap(
                z=shown.reshape(10, 10), text=goals.reshape(10, 10), texttemplate="%{text}",
                coloraxis=f"coloraxis{row + 1}",
            ), row=row + 1, col=column + 1,
        )  # fmt: skip
    figure.update_xaxes(showgrid=False, showticklabels=False, constrain="domain")
    figure.update_yaxes(showgrid=False, showticklabels=False, autorange="reversed", scaleanchor="x", constrain="domain")
    bar = {"len": 0.45, "thickness": 14, "x": 1.02}
    figure.update_layout(
        template="plotly_white", plot_bgcolor="#888", width=900, height=860,
        margin={"l": 20, "r": 90, "t": 60, "b": 20},
        coloraxis={
            "colorscale": "Viridis", "cmin": STEP_REWARDS[0], "cmax": STEP_REWARDS[1], "colorbar": {**bar, "y": 0.78},
        },
        coloraxis2={"colorscale": "Magma", "colorbar": {**bar, "y": 0.22}},
    )  # fmt: skip
    screenshot(figure, folders.BENCHMARKS / "causal_entropy.png", 900, 860)


if __name__ == "__main__":
    if "--picture" in sys.argv[1:]:
        picture()
    else:
        if "--summary" not in sys.argv[1:]:
            run()
        summary()

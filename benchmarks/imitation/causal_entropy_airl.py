"""The reward that AIRL learns on the grid of `causal_entropy.py`, beside the true one and the exact fit.

    python -m benchmarks.imitation.causal_entropy_airl corner  trains into results/causal-entropy-airl.csv, and prints
    python -m benchmarks.imitation.causal_entropy_airl anywhere  the same with an expert that starts anywhere
    python -m benchmarks.imitation.causal_entropy_airl --summary  the table of what is there

The expert is soft-optimal for the true rewards at a discount of 0.95, from the first cell or from any cell. Both
methods see the same episodes of it, and the exact fit the transitions as well. Compared are rewards of cells (of AIRL
the network `reward`, which does not see actions), in all cells from which an episode goes on, and in those of them that
the expert visits ten times or more; and rewards of actions (of AIRL the whole of f) in the latter cells, without the
nearest potential shaping.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from scipy import stats

import agents.environments.grid_world  # noqa: F401 - registers GridWorld-v0
from agents.environments.tabular import model_of
from agents.functional.causal_entropy import fit_reward
from agents.functional.shaping import without_shaping
from agents.functional.soft_optimal import soft_optimal
from agents.functional.tabular import TabularModel
from agents.functional.tabular_episodes import Episodes, empirical_visits, sample_episodes
from agents.functional.visits import visits_of
from benchmarks import folders
from benchmarks.imitation.causal_entropy import OBSTACLES, STEP_REWARDS, TEMPERATURE
from benchmarks.learning.greedy_returns import measured, trained
from benchmarks.learning.judged_episodes import JUDGE_SEED

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

RESULTS = folders.RESULTS / "causal-entropy-airl.csv"
GAMMA, LONGEST, OFTEN = 0.95, 100, 10
SEEDS, N_EPISODES, ENV_STEPS = 5, 5_000, 200_000
PARAMS = {
    **{"gamma": GAMMA, "n_envs": 8, "n_steps": 256, "batch_size": 128, "n_epochs": 8, "learning_rate": 1e-3},
    **{"reward_hidden_sizes": (), "gradient_penalty": None, "reward.learning_rate": 1e-2},
}
"""Without hidden layers, reward and shaping are a number for each cell."""

Array = np.ndarray[Any, Any]


class Row(NamedTuple):
    """Correlations of two rewards."""

    start: str
    compared: str
    seed: int
    pearson: float  # of cells
    spearman: float
    pearson_visited: float  # of the cells that the expert visits often
    spearman_visited: float
    pearson_unshaped: float  # of actions in these cells, without shaping
    spearman_unshaped: float
    gap: float  # largest difference between the visits of the reward's soft-optimal policy and the expert's


class Reward(NamedTuple):
    """A reward, in units of its policy's temperature."""

    cells: Array  # [S]
    actions: Array  # [S, A], or [S] if it is of cells


class Task(NamedTuple):
    """The process, the true reward and the expert's episodes."""

    start: str
    model: TabularModel
    true: Reward
    visits: Array  # [S]
    episodes: Episodes
    kwargs: dict[str, Any]

    @property
    def acting(self) -> Array:
        """Cells in which an episode can go on."""
        return self.model.reachable() & ~self.model.terminal

    @property
    def visited(self) -> Array:
        """Those of them that the expert visits often."""
        counts = np.bincount(np.concatenate(self.episodes.states), minlength=self.model.n_states)
        return self.acting & (counts >= OFTEN)


def task_of(start: str) -> Task:
    kwargs: dict[str, Any] = {"obstacles": OBSTACLES, "start": (0, 0) if start == "corner" else None}
    made: Any = gym.make("GridWorld-v0", **kwargs)
    model = model_of(made, gamma=GAMMA)
    acting, reward = ~model.terminal, made.unwrapped.state_rewards
    reward[acting] = np.random.default_rng(0).uniform(*STEP_REWARDS, acting.sum())
    policy = soft_optimal(model, reward, temperature=TEMPERATURE).policy
    episodes = sample_episodes(model, policy, N_EPISODES, np.random.default_rng(0), max_steps=LONGEST)
    true = Reward(reward / TEMPERATURE, reward / TEMPERATURE)
    return Task(start, model, true, visits_of(model, policy).states, episodes, kwargs)


def compared(task: Task, one: Reward, other: Reward, name: str, seed: int) -> Row:
    """Compare a reward with another one."""
    visits = visits_of(task.model, soft_optimal(task.model, one.actions, temperature=1.0).policy).states
    pairs = [(one.cells[cells], other.cells[cells]) for cells in (task.acting, task.visited)]
    unshaped = [without_shaping(task.model, each.actions)[task.visited].ravel() for each in (one, other)]
    numbers = [float(of(*pair)[0]) for pair in (*pairs, unshaped) for of in (stats.pearsonr, stats.spearmanr)]
    numbers.append(float(np.abs(visits - task.visits).max()))
    return Row._make((task.start, name, seed, *numbers))


def write_dataset(task: Task, name: str) -> None:
    """Write the expert's episodes as a dataset of Minari."""
    from agents.demonstrations.writing import DatasetWriter, EpisodeRecord

    made = gym.make("GridWorld-v0", **task.kwargs)
    with DatasetWriter(name, made.observation_space, made.action_space, made.spec, {}) as writer:
        for states, actions in zip(task.episodes.states, task.episodes.actions, strict=True):
            ended, n = bool(task.model.terminal[states[-1]]), len(actions)
            if n:
                ends, last = np.zeros(n, bool), np.arange(n) == n - 1
                writer.add(
                    EpisodeRecord(
                        None, list(states), list(actions), list(task.true.cells[states[1:]]),
                        list(last if ended else ends), list(ends if ended else last),
                    )
                )  # fmt: skip


def learned(agent: Any, model: TabularModel) -> Reward:
    """Return g, and f with the rewards of the absorbing state that follow the last step."""
    rows, _ = agent.interface.convert_observation(np.arange(model.n_states))
    features = agent.scale.features(rows, model.terminal.astype(np.float32))
    g, h = (agent.infer(name, features)[:, 0].astype(np.float64) for name in ("reward", "shaping"))
    end = int(np.flatnonzero(model.terminal)[0])
    absorbing = g[end] + GAMMA * h[end] - h[end]
    then = GAMMA * h + model.terminal * absorbing * GAMMA / (1.0 - GAMMA)
    return Reward(g, np.where(model.terminal[:, None], 0.0, (g - h)[:, None] + model.expected(then)))


class Comparisons:
    """Evaluates agents, and compares their rewards with the true one and with the exact fit."""

    def __init__(self, task: Task) -> None:
        self.task = task
        counted = empirical_visits(task.model, task.episodes.states)
        exact = fit_reward(task.model, task.visits, temperature=TEMPERATURE)
        # A hundred times the penalty of `causal_entropy.py`: with less, rewards of rare cells fit the noise of counts.
        counts = fit_reward(task.model, counted, temperature=TEMPERATURE, penalty=1.0 / (N_EPISODES * TEMPERATURE))
        of_visits, self.of_counts = (Reward(*2 * [fit.reward / TEMPERATURE]) for fit in (exact, counts))
        self.rows = [
            compared(task, of_visits, task.true, "fit to exact visits, true", 0),
            compared(task, self.of_counts, task.true, "fit to the episodes, true", 0),
        ]

    def play(self, agent: Any, n_episodes: int, seed: int) -> Array:
        """Return greedy returns."""
        import agents

        reward, seed_of_agent = learned(agent, self.task.model), seed - JUDGE_SEED
        truly = compared(self.task, reward, self.task.true, "AIRL, true", seed_of_agent)
        print(truly, flush=True)
        if n_episodes == 100:
            self.rows += [
                truly,
                compared(self.task, reward, self.of_counts, "AIRL, fit to the episodes", seed_of_agent),
            ]
        return agents.evaluate(agent, n_episodes=n_episodes, seed=seed)


def run(starts: list[str]) -> None:
    import agents

    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        for start in starts:
            task = task_of(start)
            comparisons = Comparisons(task)
            print(*comparisons.rows, flush=True)
            write_dataset(task, f"grid/{start}-v0")
            environment = agents.EnvironmentSpec("agents.environments.grid_world:GridWorld-v0", task.kwargs, "sync")
            spec = agents.AgentSpec.of("airl-ppo", environment, {**PARAMS, "expert": f"grid/{start}-v0"})
            measured(start, trained(spec, SEEDS, ENV_STEPS, comparisons.play))
            write([row for row in known() if row["start"] != start], comparisons.rows)


def known() -> list[dict[str, str]]:
    """Return the rows of earlier runs."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        return list(csv.DictReader(file))


def write(others: list[dict[str, str]], rows: list[Row]) -> None:
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, Row._fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(others)
        for row in rows:
            named = row._asdict().items()
            writer.writerow({name: f"{value:.4g}" if isinstance(value, float) else value for name, value in named})


def summary() -> None:
    """Print the table of README.md beside it: medians over seeds."""
    groups: dict[tuple[str, str], list[list[float]]] = {}
    for row in known():
        start, name, _, *numbers = row.values()
        groups.setdefault((start, name), []).append([float(number) for number in numbers])
    print("| first cell | rewards | all cells | visited cells | actions there, without shaping | gap of visits |")
    print("|---|---|---|---|---|---|")
    for (start, name), rows in groups.items():
        a, b, c, d, e, f, gap = np.median(rows, axis=0)
        print(f"| {start} | {name} | {a:.3f}, {b:.3f} | {c:.3f}, {d:.3f} | {e:.3f}, {f:.3f} | {gap:.2f} |")


if __name__ == "__main__":
    if "--summary" not in sys.argv[1:]:
        run(sys.argv[1:] or ["corner", "anywhere"])
    summary()

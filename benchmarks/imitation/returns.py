"""How close do agents come to the expert whose demonstrations they learn from?

    python -m benchmarks.imitation.returns experts [ENVIRONMENT ...]  trains experts, and records 10 episodes of each
    python -m benchmarks.imitation.returns gail-cartpole airl-cartpole-1  cases of `cases.py`: of 10 episodes, of 1
    python -m benchmarks.imitation.returns export  demonstrations as .npz, for `library.py`
    python -m benchmarks.imitation.returns --summary  the tables
    python -m benchmarks.imitation.returns --picture  benchmarks/imitation.png (needs Chromium)

The figure of merit is the normalised return (agent - random play) / (expert - random play). An expert is the best of
three seeds by 100 episodes; its return is the mean of 500 others, in the environments in which agents are evaluated.
Demonstrations are datasets of Minari in the folder that `--folder` names, by default results/experts (not committed).
Evaluations are those of `returns.py`: greedy, 20 episodes every tenth of the steps and 100 at the end, all seeds in one
population. Rows go to results/imitation-CASE.csv, and cases that are done are not run again.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.imitation.cases import CASES, EXPERTS, SEEDS, Case
from benchmarks.learning.greedy_returns import (
    interval,
    measured,
    random_play,
    read_evaluations,
    trained,
    write_rows,
)
from benchmarks.learning.judged_episodes import JUDGE_SEED
from studies.statistics.values import iqm_of_population

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

EXPERTS_FILE = folders.RESULTS / "imitation-experts.csv"
EXPERT_COLUMNS = (
    "expert", "env", "agent", "env_steps", "seed", "greedy_mean", "greedy_std", "random_mean",
    "n_demonstrations", "demonstrations_mean", "first_demonstration", "n_steps",
)  # fmt: skip
EXPERT_SEEDS, N_DEMONSTRATIONS = 3, 10
CHOICE_SEED, RECORDING_SEED = 2_000_000, 3_000_000
"""Seeds of the environments in which the best seed is chosen and demonstrations are recorded."""

WANTED = 0.95
Array = np.ndarray[Any, Any]


# Experts ------------------------------------------------------------------------------------------------------------


class Best:
    """Evaluates agents, and keeps the state of the best one at the end of its training."""

    def __init__(self) -> None:
        self.best, self.position = -math.inf, -1
        self.state: dict[str, Any] = {}

    def play(self, agent: Any, n_episodes: int, seed: int) -> Array:
        """Return greedy returns."""
        import agents

        returns = agents.evaluate(agent, n_episodes=n_episodes, seed=seed - JUDGE_SEED + CHOICE_SEED)
        if n_episodes == 100 and returns.mean() > self.best:
            self.best, self.position, self.state = returns.mean(), seed - JUDGE_SEED, agent.get_state()
        return returns


def train_expert(name: str, folder: Path) -> dict[str, Any]:
    """Train, choose, evaluate and record an expert."""
    import agents

    case = EXPERTS[name]
    spec = agents.AgentSpec.of(case.agent, agents.EnvironmentSpec(case.env, vectorization="sync"), case.params)
    choice = Best()
    measured(f"expert-{name}", trained(spec, EXPERT_SEEDS, case.env_steps, choice.play))
    expert = spec.build()
    expert.set_state(choice.state)
    returns = [agents.evaluate(expert, n_episodes=100, seed=JUDGE_SEED + position) for position in range(SEEDS)]
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    recorded = agents.record(expert, f"{name}-v0", n_episodes=N_DEMONSTRATIONS, seed=RECORDING_SEED)
    episodes = [episode.episode_return for episode in recorded.episodes]
    values = (
        name, case.env, case.agent, case.env_steps, choice.position, np.mean(returns), np.std(returns),
        random_play(case.env), len(episodes), np.mean(episodes), episodes[0],
        sum(episode.length for episode in recorded.episodes),
    )  # fmt: skip
    return dict(zip(EXPERT_COLUMNS, values, strict=True))


def experts_known() -> dict[str, dict[str, str]]:
    """Return the rows of the experts that were trained."""
    if not EXPERTS_FILE.exists():
        return {}
    with EXPERTS_FILE.open(newline="") as file:
        return {row["expert"]: row for row in csv.DictReader(file)}


def train_experts(names: list[str], folder: Path) -> None:
    for name in names or list(EXPERTS):
        if not (folder / f"{name}-v0").exists():
            rows = {**experts_known(), name: train_expert(name, folder)}
            print(rows[name], flush=True)
            write_rows(EXPERTS_FILE, [rows[each] for each in EXPERTS if each in rows], EXPERT_COLUMNS)


def export(folder: Path) -> None:
    """Write the demonstrations in the spaces of the environments: states [sum of L + 1, F], actions, ends, lengths."""
    from agents.demonstrations.episodes import RecordedDataset
    from agents.demonstrations.folders import data_folder

    for name in experts_known():
        episodes = list(RecordedDataset.open(data_folder(folder / f"{name}-v0")).episodes(N_DEMONSTRATIONS))
        np.savez(
            folder / f"{name}.npz",
            states=np.concatenate([episode.observations for episode in episodes]),
            actions=np.concatenate([episode.actions for episode in episodes]),
            terminated=np.array([episode.terminated for episode in episodes]),
            lengths=np.array([len(episode.actions) for episode in episodes]),
        )


# Agents -------------------------------------------------------------------------------------------------------------


def specification(case: Case, folder: Path) -> Any:
    """Return an agent that learns from the demonstrations in a folder."""
    import agents

    expert = {"expert": str(folder / f"{case.expert}-v0"), "expert_episodes": case.n_demonstrations}
    environment = agents.EnvironmentSpec(case.env, vectorization="sync")
    return agents.AgentSpec.of(case.agent, environment, {**expert, **case.params})


def run(names: list[str], folder: Path) -> None:
    import agents

    for name in names or list(CASES):
        path, case = results_of(name), CASES[name]
        if not path.exists():
            evaluated = trained(specification(case, folder), SEEDS, case.env_steps, agents.evaluate)
            write_rows(path, measured(name, evaluated))


def results_of(name: str) -> Path:
    """Return the results file of a case."""
    return folders.RESULTS / f"imitation-{name}.csv"


def normalised(case: Case, returns: list[float]) -> list[float]:
    """Return returns as shares of the way from random play to the expert."""
    row = experts_known()[case.expert]
    lowest, highest = float(row["random_mean"]), float(row["greedy_mean"])
    return [(value - lowest) / (highest - lowest) for value in returns]


def summary() -> None:
    print("| environment | expert | steps | return | random play | 10 demonstrations | the first |")
    print("|---|---|---|---|---|---|---|")
    for row in experts_known().values():
        numbers = [float(row[name]) for name in EXPERT_COLUMNS[5:] if name not in ("greedy_std", "n_demonstrations")]
        mean, lowest, demonstrated, first, n_steps = numbers
        print(
            f"| {row['env']} | {row['agent']} | {int(row['env_steps']):,} | {mean:.1f} | {lowest:.1f} | "
            f"{demonstrated:.1f} ({n_steps:,.0f} steps) | {first:.1f} |"
        )
    print("\n| case | demonstrations | steps | return, IQM of seeds | normalised, IQM (95%) | seeds |")
    print("|---|---|---|---|---|---|")
    for name, case in CASES.items():
        final = [values[-1][1] for values in read_evaluations(results_of(name)).values()]
        if final:
            shares = normalised(case, final)
            low, high = interval(shares)
            reached = f"{iqm_of_population(shares):.1%}"
            reached = reached if iqm_of_population(shares) >= WANTED else f"**{reached}**"
            told = ", ".join(f"{share:.0%}" for share in shares)
            print(
                f"| {name} | {case.n_demonstrations} | {case.env_steps:,} | {iqm_of_population(final):.1f} | "
                f"{reached} ({low:.1%} to {high:.1%}) | {told} |"
            )


def picture() -> None:
    """Draw the normalised returns of every seed, a panel a case: environments beside, methods below one another."""
    import plotly.colors
    from plotly.subplots import make_subplots

    from benchmarks.picture import screenshot

    cases = {name: case for name, case in CASES.items() if "-states" not in name}  # beside another of its agent
    kinds = list(dict.fromkeys((case.agent, case.n_demonstrations) for case in cases.values()))
    columns = list(EXPERTS)
    places = {name: (kinds.index((c.agent, c.n_demonstrations)), columns.index(c.expert)) for name, c in cases.items()}
    titles = {place: name if results_of(name).exists() else "" for name, place in places.items()}
    figure = make_subplots(
        len(kinds), len(columns), subplot_titles=[titles[place] for place in sorted(titles)],
        vertical_spacing=0.25 / len(kinds), horizontal_spacing=0.04,
    )  # fmt: skip
    colors = plotly.colors.qualitative.Plotly
    for name, (row, column) in places.items():
        place = {"row": row + 1, "col": column + 1}
        for seed, values in read_evaluations(results_of(name)).items():
            steps, returns = zip(*values, strict=True)
            shares = normalised(CASES[name], list(returns))
            line = {"width": 1.5, "color": colors[seed]}
            figure.add_scatter(x=steps, y=shares, name=f"{name}, seed {seed}", line=line, **place)
        if titles[row, column]:
            figure.add_hline(y=WANTED, line={"dash": "dot", "color": "#e11d48"}, **place)
    figure.update_yaxes(range=[-0.2, 1.15], tickformat=".0%")
    height = 220 * len(kinds)
    figure.update_layout(
        width=1400, height=height, showlegend=False, margin={"t": 40, "l": 50, "r": 20, "b": 30},
        template="plotly_white",
    )  # fmt: skip
    screenshot(figure, folders.BENCHMARKS / "imitation.png", 1400, height)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases (default: all); or 'experts' and environments, or 'export'")
    parser.add_argument("--folder", type=Path, default=folders.RESULTS / "experts", help="folder of the demonstrations")
    parser.add_argument("--summary", action="store_true", help="print the tables")
    parser.add_argument("--picture", action="store_true", help="draw imitation.png")
    given = parser.parse_args()
    if given.summary:
        summary()
    elif given.picture:
        picture()
    elif given.names == ["export"]:
        export(given.folder.resolve())
    elif given.names[:1] == ["experts"]:
        train_experts(given.names[1:], given.folder.resolve())
    else:
        run(given.names, given.folder.resolve())

"""What do the agents reach? Greedy returns over seeds, at steps along the way, beside those of rl-baselines3-zoo.

Each case trains all its seeds as members of one population; every tenth of the budget each member plays 20 greedy
episodes, and 100 at the end, in environments with seeds that training does not use. Of goal environments the percentage
of episodes counts that reach their goal. Results go to
`benchmarks/results/returns-CASE.csv`, a row an evaluation, and cases that are done are not run again.

    python -m benchmarks.learning.returns ppo-cartpole dqn-cartpole
    python -m benchmarks.learning.returns --summary      the table
    python -m benchmarks.learning.returns --picture      benchmarks/returns.png (needs Chromium)
"""

from __future__ import annotations

import math
import os
import sys
from functools import partial
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.learning.greedy_returns import interval, measured, random_play, read_evaluations, trained, write_rows
from benchmarks.learning.returns_cases import CASES, MULTI_AGENT_CASES
from studies.statistics.values import iqm_of_population

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def run(name: str) -> list[dict[str, Any]]:
    import agents

    case = CASES[name]
    # Gymnasium's own environments: EnvPool, where it is installed, plays the same games with other random numbers.
    environment = agents.EnvironmentSpec(
        case.env, case.env_kwargs, "sync", wrappers=case.wrappers, max_episode_steps=case.max_episode_steps
    )
    spec = agents.AgentSpec.of(case.agent, environment, case.params)
    play = reached if case.goals else partial(agents.evaluate, explore=case.sampled)
    return measured(name, trained(spec, case.seeds, case.env_steps, play, case.n_episodes))


def reached(agent: Any, n_episodes: int, seed: int) -> Any:
    """100 for each episode whose last reward is 0, as goal environments give it where their goal is reached; else 0."""
    from agents.collection.collector import Collector

    agent.refresh()
    collector = Collector(agent.environment, 1, [seed])
    ended: list[float] = []
    while len(ended) < n_episodes:
        collected = collector.step(agent, explore=False)
        ended += [100.0 * float(collected.transition.rewards[0] == 0.0)] * len(collected.ended)
    collector.close()
    return np.array(ended)


def main(names: list[str]) -> None:
    for name in names:
        path = folders.RESULTS / f"returns-{name}.csv"
        if path.exists():
            continue
        write_rows(path, run(name))


def evaluations(name: str) -> dict[int, list[tuple[int, float]]]:
    """Seed -> (environment steps, greedy return) of each evaluation."""
    return read_evaluations(folders.RESULTS / f"returns-{name}.csv")


def summary() -> None:
    single = [name for name in CASES if name not in MULTI_AGENT_CASES]
    print("| case | steps | IQM of seeds (95%) | seeds | wanted | zoo, one run |")
    print("|---|---|---|---|---|---|")
    for name in single:
        case, final = CASES[name], [values[-1][1] for values in evaluations(name).values()]
        if final:
            wanted = "-" if case.threshold is None else f"{case.threshold:g}"
            if case.threshold is not None and iqm_of_population(final) < case.threshold:
                wanted = f"**{wanted}**"
            print(f"| {name} | {case.env_steps:,} | {final_returns(name, final)} | {wanted} | {case.beside} |")
    print("\n| case | steps | IQM of seeds (95%) | seeds | random play | published |")
    print("|---|---|---|---|---|---|")
    for name, case in MULTI_AGENT_CASES.items():
        final = [values[-1][1] for values in evaluations(name).values()]
        if final:
            played = f"{random_play(case.env):.3g}"
            print(f"| {name} | {case.env_steps:,} | {final_returns(name, final)} | {played} | {case.beside} |")


def final_returns(name: str, final: list[float]) -> str:
    """Return the columns with the interquartile mean and the seeds."""
    low, high = interval(final)
    threshold = CASES[name].threshold
    fine = threshold is not None and abs(threshold) <= 1  # returns of at most 1 need their decimals
    told = ", ".join(f"{value:.{2 if fine else 0}f}" for value in final)
    return "{:.{d}f} ({:.{d}f} to {:.{d}f}) | ".format(iqm_of_population(final), low, high, d=2 if fine else 1) + told


def picture() -> None:
    """Draws every seed's greedy returns, a panel a case."""
    from plotly.subplots import make_subplots

    from benchmarks.picture import screenshot

    done = [name for name in CASES if evaluations(name)]
    n_rows = math.ceil(len(done) / 4)
    figure = make_subplots(rows=n_rows, cols=4, subplot_titles=done, vertical_spacing=0.25 / n_rows)
    for index, name in enumerate(done):
        place = {"row": index // 4 + 1, "col": index % 4 + 1}
        for seed, values in evaluations(name).items():
            steps, returns = zip(*values, strict=True)
            figure.add_scatter(x=steps, y=returns, name=f"{name}, seed {seed}", line={"width": 1.5}, **place)
        if CASES[name].threshold is not None:
            figure.add_hline(y=CASES[name].threshold, line={"dash": "dot", "color": "#e11d48"}, **place)
    figure.update_layout(
        width=1400, height=240 * n_rows, showlegend=False, margin={"t": 40, "l": 40, "r": 20, "b": 30},
        template="plotly_white",
    )  # fmt: skip
    screenshot(figure, folders.BENCHMARKS / "returns.png", 1400, 240 * n_rows)


if __name__ == "__main__":
    if "--summary" in sys.argv:
        summary()
    elif "--picture" in sys.argv:
        picture()
    else:
        main(sys.argv[1:] or list(CASES))

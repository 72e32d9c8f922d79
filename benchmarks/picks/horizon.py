"""Picks for a run twenty times as long as those of the search, beside the best of a grid at full length.

    python -m benchmarks.picks.horizon                                  # everything that is missing
    python -m benchmarks.picks.horizon --only ppo-acrobot --searches 1  # a part of it
    python -m benchmarks.picks.horizon --table                          # the table of what was measured
    python -m benchmarks.picks.horizon --scale 0.05 --results /tmp/horizon.jsonl      # to try the script: shorter runs

Three times in each of three environments, `finder lr ppo --env-steps S --horizon 20*S` suggests a learning rate, on
other seeds each time. The suggestion, and the rate that was best in the search without the correction for the horizon,
then train ten seeds that no search saw for 20 * S steps, and so do 17 rates from 1e-5 to 1e-1. The value of a run is
the mean return of its last fifth. Regret is the mean of the grid's best rate minus that of the pick over these seeds,
as a share of the range of the grid; the best of 17 is one in hindsight, so a perfect pick has a regret a little above
zero. Intervals are bootstraps over searches and seeds, the same seeds for pick and grid.

All runs of five seeds are one population, in a process of one thread, two at a time. A search, and a rate with a seed,
is a line of `results/horizon.jsonl`; what is there is not run again. The table is `results/horizon.md`.

On two cores all of it took 46 minutes: 20 for Acrobot, which makes fewer steps a second than the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.result_lines import ONE_THREAD, Json, append_lines, read_lines, write_table

RESULTS = folders.RESULTS / "horizon.jsonl"
FACTOR = 20
SEEDS = range(2_000, 2_010)
CHUNK = 5  # seeds of a population
RATES = tuple(float(f"{10 ** (-5 + k / 4):.4g}") for k in range(17))
USUAL_RATE = 3e-4
"""Default rate of PPO."""
N_BOOTSTRAP = 4_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """An environment, and the environment steps of each run of a search in it."""

    env: str
    env_steps: int
    params: dict[str, Any] = field(default_factory=dict)


CASES = {
    "ppo-acrobot": Case(env="Acrobot-v1", env_steps=10_240),
    "ppo-pendulum": Case(env="Pendulum-v1", env_steps=10_240, params={"gamma": 0.9}),
    "ppo-tanks": Case(env="new_environments:Tanks-v0", env_steps=5_120),
}


def search(case: Case, env_steps: int, number: int) -> Json:
    """Return the suggestion of a search."""
    from studies import best, load_study

    with tempfile.TemporaryDirectory(prefix="horizon-") as folder:
        storage = f"sqlite:///{folder}/finder.db"
        command = [str(Path(sys.executable).with_name("finder")), "lr", "ppo", "--env", case.env]
        command += ["--env-steps", str(env_steps), "--horizon", str(FACTOR * env_steps)]
        command += ["--seeds", ",".join(str(100 * number + k) for k in range(3))]
        command += ["--storage", storage, "--study-name", "search"]
        for name, value in case.params.items():
            command += ["--set", f"{name}={value}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
        if ran.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        study = load_study("search", storage)
        rate = best(study).rate
        study.close()
    assert rate is not None
    return {
        "suggested": rate.suggested, "tested": rate.tested, "low": rate.low, "high": rate.high,
        "why_unsafe": rate.why_unsafe,
    }  # fmt: skip


def _environment() -> dict[str, str]:
    path = folders.python_path(folders.ENVIRONMENTS)  # of new_environments
    return {**os.environ, "PYTHONPATH": path, "FINDER_PROGRESS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}


def train_here(asked: Json) -> None:
    """Train rates on seeds in this process; print the value of each run."""
    from agents import AgentSpec, Trainer
    from agents.population import Population
    from studies.statistics.values import last_part_return

    members = [(rate, seed) for rate in asked["rates"] for seed in asked["seeds"]]
    spec = AgentSpec.of("ppo", asked["env"], asked["params"])
    population = Population(spec, [{"seed": seed, "learning_rate": rate} for rate, seed in members])
    with Trainer(population) as trainer:
        trainer.train(env_steps=asked["env_steps"])
        runs = trainer.runs
    for (rate, seed), run in zip(members, runs, strict=True):
        steps = [episode.env_steps for episode in run.history.episodes]
        returns = [episode.episode_return for episode in run.history.episodes]
        value = last_part_return(steps, returns, asked["env_steps"])
        failed = run.error is not None or not np.isfinite(value)
        print(json.dumps({"rate": rate, "seed": seed, "value": None if failed else round(value, 4)}))


def train(case: Case, env_steps: int, runs: Sequence[tuple[float, int]]) -> list[Json]:
    """Train rates on seeds, a population for each five seeds, two at a time."""
    commands = []
    for first in range(0, len(SEEDS), CHUNK):
        seeds = [seed for seed in SEEDS[first : first + CHUNK] if any(seed == own for _, own in runs)]
        rates = list(dict.fromkeys(rate for rate, seed in runs if seed in seeds))
        if seeds:
            asked = {"env": case.env, "params": case.params, "env_steps": env_steps, "rates": rates, "seeds": seeds}
            commands.append([sys.executable, "-m", "benchmarks.picks.horizon", "--one", json.dumps(asked)])
    told: list[Json] = []
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**_environment(), **ONE_THREAD})
        for command in commands
    ]
    for process in processes:
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"training {case.env} ended with {process.returncode}.")
        told += [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    wanted = set(runs)
    return [row for row in told if (row["rate"], row["seed"]) in wanted]


def measure(names: Sequence[str], searches: Sequence[int], scale: float, path: Path) -> None:
    """Run what is missing."""
    for name in names:
        case = CASES[name]
        env_steps = max(2_048, round(case.env_steps * scale))
        for number in searches:
            if not any(row["case"] == name and row.get("search") == number for row in read_lines(path)):
                row = {"kind": "search", "case": name, "search": number, **search(case, env_steps, number)}
                append_lines(path, row)
                print(json.dumps(row), flush=True)
        rows = [row for row in read_lines(path) if row["case"] == name]
        picks = [row[which] for row in rows if row["kind"] == "search" for which in ("suggested", "tested")]
        there = {(row["rate"], row["seed"]) for row in rows if row["kind"] == "run"}
        missing = [(rate, seed) for rate in dict.fromkeys([*RATES, *picks]) for seed in SEEDS]
        missing = [run for run in missing if run not in there]
        if missing:
            told = train(case, FACTOR * env_steps, missing)
            append_lines(path, *({"kind": "run", "case": name, "env_steps": FACTOR * env_steps, **row} for row in told))


def regrets(values: np.ndarray[Any, Any], picks: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    """Return the mean regret of picks and its 95% interval, as shares of the range of the grid.

    Args:
        values: [R, S] value of each rate of the grid on each seed.
        picks: [P, S] value of each pick on the same seeds.
    """

    def regret(grid: np.ndarray[Any, Any], own: np.ndarray[Any, Any]) -> float:
        means = grid.mean(axis=1)
        return float((means.max() - own.mean()) / (np.ptp(means) or 1.0))

    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(N_BOOTSTRAP):
        seeds = rng.integers(0, values.shape[1], values.shape[1])
        searches = rng.integers(0, len(picks), len(picks))
        drawn.append(regret(values[:, seeds], picks[searches][:, seeds]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return regret(values, picks), float(low), float(high)


def table(path: Path) -> list[str]:
    """Return the lines of the table."""
    usual = min(RATES, key=lambda rate: abs(np.log(rate / USUAL_RATE)))
    lines = [
        f"| case | search, steps | long run, steps | best of {len(RATES)} rates | suggested | regret (95%) | "
        f"without the correction | regret (95%) | {usual:.1e}, no search: regret (95%) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = read_lines(path)
    for name in CASES:
        runs = [row for row in rows if row["kind"] == "run" and row["case"] == name]
        picks = [row for row in rows if row["kind"] == "search" and row["case"] == name]
        worst = min((row["value"] for row in runs if row["value"] is not None), default=0.0)
        value = {(r["rate"], r["seed"]): worst if r["value"] is None else r["value"] for r in runs}
        if not picks or any((rate, seed) not in value for rate in RATES for seed in SEEDS):
            continue
        grid = np.array([[value[rate, seed] for seed in SEEDS] for rate in RATES])
        cells = []
        for which in ("suggested", "tested"):
            own = np.array([[value[pick[which], seed] for seed in SEEDS] for pick in picks])
            regret, low, high = regrets(grid, own)
            rates = ", ".join(f"{pick[which]:.1e}" for pick in picks)
            cells.append(f"{rates} | {regret:.1%} ({low:.1%} to {high:.1%})")
        regret, low, high = regrets(grid, grid[[RATES.index(usual)]])
        cells.append(f"{regret:.1%} ({low:.1%} to {high:.1%})")
        best, steps = RATES[int(np.argmax(grid.mean(axis=1)))], runs[0]["env_steps"]
        lines.append(f"| {name} | {steps // FACTOR:,} | {steps:,} | {best:.1e} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), help="some of " + ",".join(CASES))
    parser.add_argument("--searches", type=int, default=3, help="in each environment")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the steps of runs, to try the script")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        train_here(json.loads(arguments.one))
        return
    names = arguments.only.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}: give some of {','.join(CASES)}.")
    if arguments.scale != 1.0 and arguments.results == RESULTS:
        parser.error("--scale is for trying the script: give --results another file.")
    if not arguments.table:
        measure(names, range(1, arguments.searches + 1), arguments.scale, arguments.results)
    write_table(arguments.results.with_suffix(".md"), table(arguments.results))


if __name__ == "__main__":
    main()

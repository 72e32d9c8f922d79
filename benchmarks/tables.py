"""Tables of finished runs: every optimizer and learning rate of a grid, ten seeds each, for `finder replay`.

    python benchmarks/tables.py list                      # the cases, and which of them are there
    python benchmarks/tables.py make CASE ... | all       # makes what is missing, one case after another

A table is benchmarks/tables/CASE.parquet. Its columns are config, optimizer, learning_rate, seed, env_steps and return:
what a run was worth after so many environment steps, at twenty marks, as a study would judge it: the mean return of the
episodes that ended in the tenth of the budget before the mark, and at the last mark in the last fifth. A run that
diverged has no return from then on, and one whose first episode has not ended has none yet.

Every optimizer of a case is one part, made in a process of its own and kept in benchmarks/tables/parts/ until all are
there, so that what was interrupted goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "tables"
SEEDS = range(10)
N_MARKS = 20
RATES = {"adam": (-6, -1), "rmsprop": (-6, -1), "sgd(momentum=0.9)": (-5, 0), "lion": (-7, -2)}
"""Optimizer -> the powers of ten between which its rates lie, half a decade apart."""

WITHOUT_MOMENTUM = {"sgd(momentum=0.9)": (-5, 0), "sgd": (-4, 1)}
"""The same to compare plain SGD with momentum."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One table.

    Attributes:
        agent: The agent.
        env: The environment.
        env_steps: Budget of a run.
        params: Hyperparameters other than the agent's defaults.
        rates: Optimizer -> the powers of ten between which its rates lie, half a decade apart.
        reward_scale: What the agent's rewards are multiplied with; returns are told in the environment's own units.
    """

    agent: str
    env: str
    env_steps: int
    params: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, tuple[int, int]] = field(default_factory=lambda: RATES)
    reward_scale: float = 1.0


def _perturbed(name: str, case: Case) -> Iterator[tuple[str, Case]]:
    """The same with rewards, width or batch so that the usual rates are wrong."""

    def other(params: Mapping[str, Any], reward_scale: float = 1.0) -> Case:
        own = {**case.params, **params}
        return Case(agent=case.agent, env=case.env, env_steps=case.env_steps, params=own, reward_scale=reward_scale)

    yield name, case
    yield f"{name}-rewards-0.01", other({}, 0.01)
    yield f"{name}-rewards-100", other({}, 100.0)
    yield f"{name}-width-256", other({"hidden_sizes": [256, 256]})
    yield f"{name}-batch-512", other({"batch_size": 512})


CASES: dict[str, Case] = dict(
    [
        *_perturbed("ppo-cartpole", Case(agent="ppo", env="CartPole-v1", env_steps=51_200)),
        *_perturbed("dqn-cartpole", Case(agent="dqn", env="CartPole-v1", env_steps=50_000, params={"train_freq": 4})),
        *_perturbed("ppo-acrobot", Case(agent="ppo", env="Acrobot-v1", env_steps=81_920)),
        ("dqn-acrobot", Case(agent="dqn", env="Acrobot-v1", env_steps=50_000, params={"train_freq": 4})),
        ("ppo-pendulum", Case(agent="ppo", env="Pendulum-v1", env_steps=102_400, params={"gamma": 0.9})),
        ("ppo-mountaincarcontinuous", Case(agent="ppo", env="MountainCarContinuous-v0", env_steps=51_200)),
        ("ppo-mountaincar", Case(agent="ppo", env="MountainCar-v0", env_steps=102_400)),
        ("dqn-mountaincar", Case(agent="dqn", env="MountainCar-v0", env_steps=100_000, params={"train_freq": 4})),
        ("ppo-cartpole-momentum", Case(agent="ppo", env="CartPole-v1", env_steps=51_200, rates=WITHOUT_MOMENTUM)),
        ("ppo-acrobot-momentum", Case(agent="ppo", env="Acrobot-v1", env_steps=81_920, rates=WITHOUT_MOMENTUM)),
        ("ppo-lunarlander", Case(agent="ppo", env="LunarLander-v3", env_steps=204_800, params={"gamma": 0.999})),
        ("dqn-lunarlander", Case(agent="dqn", env="LunarLander-v3", env_steps=100_000, params={"train_freq": 4})),
    ]
)


def rates_of(case: Case, optimizer: str) -> list[float]:
    """Half a decade apart, over five decades."""
    low, high = case.rates[optimizer]
    return [float(f"{10 ** (low + i / 2):.4g}") for i in range(2 * (high - low) + 1)]


def part_path(name: str, optimizer: str) -> Path:
    return FOLDER / "parts" / f"{name}-{optimizer.replace('(', '-').rstrip(')')}.parquet"


def make_part(name: str, optimizer: str) -> None:
    """Trains every rate and seed of one optimizer together, and keeps what they were worth."""
    import pandas as pd

    case = CASES[name]
    rows = []
    began = time.perf_counter()
    for (rate, seed), curve in train(case, optimizer).items():
        config = f"{optimizer} {rate:g}"
        rows += [(config, optimizer, rate, seed, step, value) for step, value in curve]
    frame = pd.DataFrame(rows, columns=["config", "optimizer", "learning_rate", "seed", "env_steps", "return"])
    frame["seed"], frame["env_steps"] = frame["seed"].astype("int16"), frame["env_steps"].astype("int32")
    frame["return"] = frame["return"].astype("float32")
    path = part_path(name, optimizer)
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)
    seconds = time.perf_counter() - began
    steps = case.env_steps * len(rates_of(case, optimizer)) * len(SEEDS)
    print(f"{name} {optimizer}: {seconds:.0f} s, {steps / seconds:,.0f} steps/s", flush=True)


def train(case: Case, optimizer: str) -> dict[tuple[float, int], list[tuple[int, float]]]:
    """(rate, seed) -> what that run was worth at each mark; nothing from where it diverged on."""
    import numpy as np

    from agents import AgentSpec, Trainer
    from agents.population import Population
    from studies.statistics.values import last_part_return, windowed_mean

    members = [(rate, seed) for rate in rates_of(case, optimizer) for seed in SEEDS]
    spec = AgentSpec.of(scaled(case.agent, case.reward_scale), case.env, {**case.params, "optimizer": optimizer})
    population = Population(spec, [{"seed": seed, "learning_rate": rate} for rate, seed in members])
    with Trainer(population) as trainer:
        trainer.train(env_steps=case.env_steps)
        runs = trainer.runs
    result = {}
    for member, run in zip(members, runs, strict=True):
        steps = [episode.env_steps for episode in run.history.episodes]
        returns = [episode.episode_return for episode in run.history.episodes]
        curve = []
        for k in range(1, N_MARKS + 1):
            mark = case.env_steps * k // N_MARKS
            past = [value for at, value in zip(steps, returns, strict=True) if at <= mark]
            if k == N_MARKS:
                value = last_part_return(steps, returns, case.env_steps)
            else:
                value = windowed_mean(steps, returns, mark, case.env_steps // 10)
            if not np.isfinite(value) and past:
                value = past[-1]
            diverged = run.error is not None and run.env_steps < mark
            curve.append((mark, float("nan") if diverged else value))
        result[member] = curve
    return result


def scaled(agent: str, scale: float) -> Any:
    """The agent, learning from rewards times `scale`."""
    from agents.contract.registry import agent_class

    base: Any = agent_class(agent)
    if scale == 1.0:
        return base

    def preprocess_batch(self: Any, data: dict[str, Any]) -> dict[str, Any]:
        prepared: dict[str, Any] = base.preprocess_batch(
            self, {**data, "rewards": data["rewards"] * data["rewards"].dtype.type(scale)}
        )
        return prepared

    return type(base.__name__, (base,), {"preprocess_batch": preprocess_batch, "rowwise": base.rowwise})


def merge(name: str) -> None:
    """Puts the parts of a case together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    case = CASES[name]
    table = pa.concat_tables([pq.read_table(part_path(name, optimizer)) for optimizer in case.rates])
    about = {
        "agent": case.agent,
        "env": case.env,
        "params": str(dict(case.params)),
        "reward_scale": str(case.reward_scale),
        "command": f"python benchmarks/tables.py make {name}",
    }
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), **about}), FOLDER / f"{name}.parquet"
    )
    for optimizer in case.rates:
        part_path(name, optimizer).unlink()


def make(names: list[str], processes: int) -> None:
    """Makes what is missing, so many parts at a time, one thread each."""
    todo = [name for name in names if not (FOLDER / f"{name}.parquet").exists()]
    parts = [(n, o) for n in todo for o in CASES[n].rates if not part_path(n, o).exists()]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    running: list[tuple[subprocess.Popen[bytes], str, str]] = []
    while parts or running:
        while parts and len(running) < processes:
            name, optimizer = parts.pop(0)
            command = [sys.executable, __file__, "part", name, optimizer]
            running.append((subprocess.Popen(command, env={**os.environ, **threads}), name, optimizer))
        time.sleep(1)
        for entry in list(running):
            process, name, optimizer = entry
            if process.poll() is None:
                continue
            running.remove(entry)
            if process.returncode:
                raise SystemExit(f"{name} {optimizer} ended with {process.returncode}")
            if all(part_path(name, each).exists() for each in CASES[name].rates):
                merge(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "make", "part"])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_intermixed_args()
    if arguments.what == "part":
        make_part(*arguments.words)
    elif arguments.what == "make":
        make(list(CASES) if arguments.words == ["all"] else arguments.words, arguments.processes)
    else:
        for name in CASES:
            print(f"{name:32s} {'there' if (FOLDER / f'{name}.parquet').exists() else 'missing'}")


if __name__ == "__main__":
    main()

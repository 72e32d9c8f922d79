"""Tables of finished runs: every optimizer and learning rate of a grid, on many seeds, for `finder replay`.

    python -m benchmarks.picks.tables list                      # the cases, and which of them are there
    python -m benchmarks.picks.tables make CASE ... | all       # makes what is missing, one case after another
    python -m benchmarks.picks.tables make many                 # the eight tables of 40 seeds and four lengths of runs

A table is benchmarks/tables/CASE.parquet. Its columns are config, optimizer, learning_rate, seed, env_steps and return:
the value of a run after so many environment steps, at twenty marks, as a study would judge it: the mean return of the
episodes that ended in the tenth of the budget before the mark, and at the last mark in the last fifth. A run that
diverged has no return from then on, and one whose first episode has not ended has none yet.

Cases of 40 seeds (`tables_cases.MANY_SEEDS`) have a table for each of four lengths of runs, an eighth, a quarter, a
half and all of the longest: benchmarks/tables/many-seeds/CASE-STEPS.parquet. The runs are the same, judged as if they
had ended there: nothing that these agents do depends on the length of the run (tests/benchmarks/test_tables.py).

Every optimizer of a case, and every ten seeds, is one part, trained as one population in a process of its own with one
thread, and kept in benchmarks/tables/parts/ until all are there: what was interrupted is resumed with the next part.
Parts may be committed, so that another machine goes on.

A table of ten seeds takes minutes to an hour. How long those of 40 seeds take on two cores, computed from the steps
that 110 members make in a second of one core once they are compiled: ppo-cartpole-40 70,600 (a quarter of an hour),
dqn-cartpole-40 33,000 (half an hour), ppo-acrobot-40 18,900 (an hour and three quarters). Measured: ppo-pendulum-40
29,000 (an hour and a half), dqn-acrobot-40 11,900 to 15,100 (more than an hour). All eight take some eight hours. Each
part prints its own speed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import folders
from benchmarks.picks.tables_cases import ALL, CASES, MANY_SEEDS, Case, rates_of
from benchmarks.result_lines import ONE_THREAD

MANY = folders.TABLES / "many-seeds"
CHUNK = 10  # seeds of a part
N_MARKS = 20

Curve = list[tuple[int, float]]


def paths(name: str) -> list[Path]:
    """Return the tables of a case, one for each length of runs."""
    if name in MANY_SEEDS:
        return [MANY / f"{name}-{budget}.parquet" for budget in ALL[name].budgets]
    return [folders.TABLES / f"{name}.parquet"]


def parts_of(name: str) -> list[tuple[str, int]]:
    """Return the parts of a case: optimizer, and its first seed."""
    case = ALL[name]
    return [(optimizer, first) for first in range(0, case.n_seeds, CHUNK) for optimizer in case.rates]


def part_path(name: str, optimizer: str, first: int) -> Path:
    """Return the file of a part."""
    seeds = f"-seeds-{first}" if ALL[name].n_seeds > CHUNK else ""
    return folders.TABLES / "parts" / f"{name}-{optimizer.replace('(', '-').rstrip(')')}{seeds}.parquet"


def make_part(name: str, optimizer: str, first: int) -> None:
    """Train every rate of one optimizer on some seeds together, and write what they were worth."""
    import pandas as pd

    case, seeds = ALL[name], range(first, min(first + CHUNK, ALL[name].n_seeds))
    rows = []
    began = time.perf_counter()
    for (rate, seed), curves in train(case, optimizer, seeds).items():
        config = f"{optimizer} {rate:g}"
        for budget, curve in curves.items():
            rows += [(budget, config, optimizer, rate, seed, step, value) for step, value in curve]
    columns = ["budget", "config", "optimizer", "learning_rate", "seed", "env_steps", "return"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["seed"], frame["env_steps"] = frame["seed"].astype("int16"), frame["env_steps"].astype("int32")
    frame["return"], frame["budget"] = frame["return"].astype("float32"), frame["budget"].astype("int32")
    path = part_path(name, optimizer, first)
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)
    seconds = time.perf_counter() - began
    steps = case.env_steps * len(rates_of(case, optimizer)) * len(seeds)
    print(f"{name} {optimizer} seeds {first}-: {seconds:.0f} s, {steps / seconds:,.0f} steps/s", flush=True)


def train(case: Case, optimizer: str, seeds: Sequence[int]) -> dict[tuple[float, int], dict[int, Curve]]:
    """Return (rate, seed) -> budget -> the value of that run at each mark; NaN from where it diverged on."""
    from agents import AgentSpec, Trainer
    from agents.population import Population

    members = [(rate, seed) for rate in rates_of(case, optimizer) for seed in seeds]
    spec = AgentSpec.of(scaled(case.agent, case.reward_scale), case.env, {**case.params, "optimizer": optimizer})
    population = Population(spec, [{"seed": seed, "learning_rate": rate} for rate, seed in members])
    with Trainer(population) as trainer:
        trainer.train(env_steps=case.env_steps)
        runs = trainer.runs
    result: dict[tuple[float, int], dict[int, Curve]] = {}
    for member, run in zip(members, runs, strict=True):
        steps = [episode.env_steps for episode in run.history.episodes]
        returns = [episode.episode_return for episode in run.history.episodes]
        ended = run.env_steps if run.error is not None else None
        result[member] = {budget: curve_of(steps, returns, budget, ended) for budget in case.budgets}
    return result


def curve_of(steps: Sequence[int], returns: Sequence[float], budget: int, ended: int | None) -> Curve:
    """Return the value of a run at each mark of a budget, as a study of runs of that length would judge it.

    Args:
        steps: Environment steps at which its episodes ended, ascending.
        returns: Their returns.
        budget: Environment steps of a run.
        ended: Environment steps after which it diverged; None if it did not.
    """
    import numpy as np

    from studies.statistics.values import last_part_return, windowed_mean

    curve = []
    for k in range(1, N_MARKS + 1):
        mark = budget * k // N_MARKS
        n_past = int(np.searchsorted(steps, mark, side="right"))
        own = steps[:n_past], returns[:n_past]
        value = last_part_return(*own, budget) if k == N_MARKS else windowed_mean(*own, mark, budget // 10)
        if not np.isfinite(value) and n_past:
            value = returns[n_past - 1]
        diverged = ended is not None and ended < mark
        curve.append((mark, float("nan") if diverged else float(value)))
    return curve


def scaled(agent: str, scale: float) -> Any:
    """Return the agent, learning from rewards times `scale`."""
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
    """Write the tables of a case from its parts."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    case, parts = ALL[name], parts_of(name)
    everything = pa.concat_tables([pq.read_table(part_path(name, *part)) for part in parts])
    about = {
        "agent": case.agent,
        "env": case.env,
        "params": str(dict(case.params)),
        "reward_scale": str(case.reward_scale),
        "command": f"python -m benchmarks.picks.tables make {name}",
    }
    for budget, path in zip(case.budgets, paths(name), strict=True):
        table = everything.filter(pc.equal(everything["budget"], budget)).drop_columns(["budget"])
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **about}), path)
    for part in parts:
        part_path(name, *part).unlink()


def make(names: list[str], processes: int) -> None:
    """Make what is missing, so many parts at a time, one thread each."""
    todo = [name for name in names if not all(path.exists() for path in paths(name))]
    parts = [(n, o, first) for n in todo for o, first in parts_of(n) if not part_path(n, o, first).exists()]
    for name in todo:
        if all(part[0] != name for part in parts):
            merge(name)
    path = folders.python_path(folders.ENVIRONMENTS)  # of new_environments
    running: list[tuple[subprocess.Popen[bytes], str, str]] = []
    while parts or running:
        while parts and len(running) < processes:
            name, optimizer, first = parts.pop(0)
            command = [sys.executable, "-m", "benchmarks.picks.tables", "part", name, optimizer, str(first)]
            environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path}
            running.append((subprocess.Popen(command, env=environment), name, optimizer))
        time.sleep(1)
        for entry in list(running):
            process, name, optimizer = entry
            if process.poll() is None:
                continue
            running.remove(entry)
            if process.returncode:
                raise SystemExit(f"{name} {optimizer} ended with {process.returncode}")
            if all(part_path(name, *part).exists() for part in parts_of(name)):
                merge(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "make", "part"])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_intermixed_args()
    if arguments.what == "part":
        name, optimizer, first = arguments.words
        make_part(name, optimizer, int(first))
    elif arguments.what == "make":
        groups = {"all": list(CASES), "many": list(MANY_SEEDS)}
        names = [name for word in arguments.words for name in groups.get(word, [word])]
        unknown = [name for name in names if name not in ALL]
        if unknown:
            parser.error(f"there is no case {unknown[0]!r}: give all, many, or some of {', '.join(ALL)}.")
        make(names, arguments.processes)
    else:
        for name in ALL:
            print(f"{name:32s} {'there' if all(path.exists() for path in paths(name)) else 'missing'}")


if __name__ == "__main__":
    main()

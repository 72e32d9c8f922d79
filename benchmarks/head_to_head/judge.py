"""Long runs of `benchmarks/head_to_head/compare.py`: ten fresh seeds of a pick, in Stable-Baselines3 and in Finder.

Greedy returns are those of the same episodes in both libraries (`judged_episodes.py`), at ten marks. At a mark the
policy is that of the last update before it, also at the last one. In Stable-Baselines3 two processes of one thread
train five seeds each, one after another; in Finder all ten are members of one population, so that the seconds of a seed
are those of all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from benchmarks import folders
from benchmarks.head_to_head.cells import N_EPISODES, Cell
from benchmarks.head_to_head.searches import paths
from benchmarks.head_to_head.translation import to_finder, to_sb3
from benchmarks.result_lines import ONE_THREAD, Json

N_PROCESSES = 2


def is_description(pick: Json) -> bool:
    """Return whether a pick is in the words of Stable-Baselines3."""
    return "kwargs" in pick and "algo" in pick


def for_library(library: str, cell: Cell, pick: Json) -> tuple[Json, list[str]]:
    """Return a pick in the words of a library, and what could not be translated."""
    if library == "sb3":
        return (pick, []) if is_description(pick) else to_sb3(cell.agent, pick)
    return to_finder(pick) if is_description(pick) else (pick, [])


def long_runs(library: str, cell: Cell, pick: Json, seeds: Sequence[int], peer: str) -> Iterator[Json]:
    """Train a pick on some seeds.

    Yields:
        `seed`, `points` (lists of environment steps, mean and standard deviation of greedy returns and seconds of
        training), `error` and `untranslated` of each seed, as it ends.
    """
    asked, lost = for_library(library, cell, pick)
    told = {"env": cell.env, "marks": cell.marks, "n_episodes": N_EPISODES}
    if library == "finder":
        words = {**told, "agent": cell.agent, "params": asked, "seeds": list(seeds)}
        commands = [[sys.executable, "-m", "benchmarks.head_to_head.judge", json.dumps(words)]]
    else:
        script = str(folders.PEERS / "sb3_run.py")
        shares = [list(seeds[k::N_PROCESSES]) for k in range(N_PROCESSES)]
        commands = [[peer, script, json.dumps({**told, "description": asked, "seeds": own})] for own in shares if own]
    for line in _lines(commands, ONE_THREAD if library == "sb3" else {}):
        yield {**json.loads(line), "untranslated": lost}


def _lines(commands: Sequence[Sequence[str]], threads: dict[str, str]) -> Iterator[str]:
    """Run commands at the same time and yield the lines of JSON that they print, as they come."""
    lines: SimpleQueue[str | None] = SimpleQueue()
    environment = {**os.environ, **paths(), **threads}

    def run(command: Sequence[str]) -> None:
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("{"):
                        lines.put(line)
            if process.returncode:
                raise SystemExit(f"{' '.join(command)[:300]} ended with {process.returncode}.")
        finally:
            lines.put(None)

    with ThreadPoolExecutor(len(commands)) as pool:
        futures = [pool.submit(run, command) for command in commands]
        for _ in commands:
            while (line := lines.get()) is not None:
                yield line
        for future in futures:
            future.result()


def train_here(asked: Json) -> None:
    """Train a population in this process; print a line for each seed."""
    import agents
    from agents.population import Population
    from benchmarks.learning.greedy_returns import loaded_into
    from benchmarks.learning.judged_episodes import judged_returns

    spec = agents.AgentSpec.of(asked["agent"], asked["env"], asked["params"])
    points: dict[int, list[list[Any]]] = {seed: [] for seed in asked["seeds"]}
    began, judging = time.perf_counter(), 0.0
    population, judge = Population(spec, [{"seed": seed} for seed in asked["seeds"]]), spec.build()
    assert isinstance(judge, agents.KerasAgent)
    with agents.Trainer(population) as trainer:
        for mark in asked["marks"]:
            if all(run.error is not None for run in trainer.runs):
                break
            if trainer.env_steps < mark:
                trainer.train(env_steps=mark - trainer.env_steps)
            before = time.perf_counter()
            present = [run for run in trainer.runs if run.error is None]  # members that diverged have left
            for run in loaded_into(judge, population, present):
                returns = judged_returns(asked["env"], judge.predict, asked["n_episodes"])
                told = [trainer.env_steps, float(returns.mean()), float(returns.std())]
                points[asked["seeds"][run.member]].append([*told, round(before - began - judging, 2)])
            judging += time.perf_counter() - before
        errors = [None if run.error is None else str(run.error)[:200] for run in trainer.runs]
    for seed, error in zip(asked["seeds"], errors, strict=True):
        print(json.dumps({"seed": seed, "points": points[seed], "error": error}), flush=True)


if __name__ == "__main__":
    train_here(json.loads(sys.argv[1]))

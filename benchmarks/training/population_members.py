"""Sixteen members of one population beside sixteen single runs, of agents that learn together."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

from benchmarks.result_lines import ONE_THREAD
from benchmarks.training.population_search import note, write


def members(rounds: int) -> None:
    """Sixteen members of one population beside sixteen single runs, of agents that learn together."""
    lines = ["| agent | 16 members, steps/s | 16 single runs, steps/s | ratio |", "|---|---|---|---|"]
    for kind, env_steps in (("mappo", 20_480), ("qmix", 10_240)):
        rates: dict[int, list[float]] = {16: [], 1: []}
        for _ in range(rounds):
            for size, own in rates.items():
                told = json.dumps({"kind": kind, "size": size, "env_steps": env_steps})
                ran = subprocess.run(
                    [sys.executable, "-m", "benchmarks.training.population_members", told],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, **ONE_THREAD},
                )
                seconds = float(ran.stdout.strip().splitlines()[-1])
                own.append(16 * env_steps / seconds)
                note(what="members", kind=kind, size=size, env_steps=env_steps, seconds=seconds)
        together, alone = (statistics.median(own) for own in rates.values())
        lines.append(f"| {kind} | {together:,.0f} | {alone:,.0f} | {together / alone:.1f} |")
    write("members", lines)


def environment(rounds: int) -> None:
    """Measure simple_spread alone: steps a second on one thread, all agents standing still."""
    from mpe2 import simple_spread_v3

    own, rates, n_episodes = simple_spread_v3.parallel_env(), [], 200
    for seed in range(rounds):
        began, n_steps = time.perf_counter(), 0
        for episode in range(n_episodes):
            own.reset(seed=seed * n_episodes + episode)
            while own.agents:
                own.step(dict.fromkeys(own.agents, 0))
                n_steps += 1
        rates.append(n_steps / (time.perf_counter() - began))
    note(what="environment", env="mpe2.simple_spread_v3:parallel_env", steps_per_second=statistics.median(rates))


def train(words: str) -> None:
    """Train 16 seeds in groups of one size, one after another; print the seconds, compilation included."""
    from agents import AgentSpec, Trainer
    from agents.population import Population
    from benchmarks.learning.returns_cases import MULTI_AGENT_CASES

    told = json.loads(words)
    case, size = MULTI_AGENT_CASES[f"{told['kind']}-spread"], told["size"]
    spec = AgentSpec.of(case.agent, case.env, case.params)
    began = time.perf_counter()
    for first in range(0, 16, size):
        seeds = range(first, first + size)
        learner = Population(spec, [{"seed": seed} for seed in seeds]) if size > 1 else spec.build(first)
        with Trainer(learner) as trainer:
            trainer.train(env_steps=told["env_steps"], progress=False)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    train(sys.argv[1])

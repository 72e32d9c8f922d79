"""Memory of 128 DQN members with full replays, and of a study of 500 trials."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.training.population_search import note, write


def memory() -> None:
    """Measure the memory of 128 DQN members with full replays, and the growth of a process over 500 trials."""
    ran = subprocess.run([sys.executable, "-c", _REPLAYS], capture_output=True, text=True, check=True)
    full = json.loads(ran.stdout.strip().splitlines()[-1])
    note(what="replays", **full)
    ran = subprocess.run([sys.executable, "-c", _TRIALS], capture_output=True, text=True, check=True)
    grown = json.loads(ran.stdout.strip().splitlines()[-1])
    note(what="trials", **grown)
    write(
        "memory",
        [
            f"128 DQN members with full replays of 50,000: {full['megabytes'] / 1e3:.2f} GB, all of the process.",
            "",
            f"A study of 500 trials in populations of 16 in one process: {grown['at_50']:,.0f} MB after 50 trials, "
            f"{grown['at_500']:,.0f} MB after 500 ({grown['at_500'] / grown['at_50'] - 1:+.1%}).",
        ],
    )


_RESIDENT = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
"""

_REPLAYS = (
    _RESIDENT
    + """
import numpy as np
from agents import AgentSpec, Trainer
from agents.population import Population
from agents.buffers import Transition
population = Population(AgentSpec.of("dqn", "CartPole-v1", {"buffer_size": 50_000}), [{"seed": i} for i in range(128)])
trainer = Trainer(population)
trainer.train(env_steps=1_100)  # updates too
transition = trainer.collector.step(population).transition
while len(trainer.memory) < 50_000:
    trainer.memory.add(transition)
trainer.train(env_steps=20)
print(json.dumps({"megabytes": resident()}))
"""
)

_TRIALS = (
    _RESIDENT
    + """
from finder.executors.choice import make_executor
from finder.search.run_search import run_search
from studies import StudySpec
import finder.search.search as s
seen = {}
ended = s.Search.ended
def noting(self, number, outcome):
    ended(self, number, outcome)
    seen[len(seen) + 1] = resident()
s.Search.ended = noting
spec = StudySpec(name="memory", storage="memory", agents=("ppo",), env="CartPole-v1", n_trials=500, sampler="random",
                 params={"learning_rate": "1e-5:1e-1:log", "gamma": "0.9:0.999"}, seeds=(0,), env_steps=4_096,
                 pruner="none", executor="population", n_jobs=1, population=16, confirm=0)
run_search(spec)
print(json.dumps({"at_50": seen[50], "at_250": seen[250], "at_500": seen[500]}))
"""
)

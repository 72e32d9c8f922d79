"""What collector processes gain on slow environments: environment steps a second, updates included.

    python -m benchmarks.training.pool [--rounds 3]

PPO on BipedalWalker-v3 (as Gymnasium steps it), and PPO and DQN on a CartPole whose steps take 2 ms longer, as those
of a simulator do; 8 copies of the environment. Every run is a process of its own, the ways of stepping take turns, and
the second part of a run counts, so that starting and compiling do not. "twice" is two such runs at the same time, which
share nothing: what they gain together is what the cores of the machine have to give. Results go to
`results/pool.jsonl`, medians and their ratio to stepping in one process to the screen.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

from benchmarks import folders

RESULTS = folders.RESULTS / "pool.jsonl"
CASES = {  # agent, environment, environment steps that count
    "ppo-bipedalwalker": ("ppo", "BipedalWalker-v3", 32_768),
    "ppo-waiting": ("ppo", "waiting", 4_096),
    "dqn-waiting": ("dqn", "waiting", 3_200),
}
WAYS = ("sync", "twice", "subproc", "pool:2:sync", "pool:8:sync", "pool:2:async", "pool:8:async")

RUN = """
import json, sys, time
import gymnasium as gym
import agents
from gymnasium.envs.classic_control import CartPoleEnv

class Waiting(CartPoleEnv):
    def step(self, action):
        time.sleep(0.002)
        return super().step(action)

def waiting():
    return gym.wrappers.TimeLimit(Waiting(), 500)

name, env, way, env_steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
vectorization = "async" if way == "subproc" else "sync"
spec = agents.EnvironmentSpec(waiting if env == "waiting" else env, vectorization=vectorization)
agent = agents.AgentSpec.of(name, spec, {"n_envs": 8}).build(0)
pool = agents.Pool(int(way.split(":")[1]), way.split(":")[2]) if way.startswith("pool") else None
with agents.Trainer(agent, pool=pool) as trainer:
    trainer.train(env_steps=1_024 if name == "ppo" else 1_200)
    began = time.perf_counter()
    trainer.train(env_steps=env_steps)
    print(json.dumps(env_steps / (time.perf_counter() - began)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for case, (agent, env, env_steps) in CASES.items():
        ways = [way for way in WAYS if agent != "ppo" or not way.endswith("async")]
        speeds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                speeds[way].append(run(agent, env, way, env_steps))
        usual = statistics.median(speeds["sync"])
        for way, each in speeds.items():
            speed = statistics.median(each)
            row = {"case": case, "way": way, "steps_a_second": round(speed), "times_sync": round(speed / usual, 2)}
            print(json.dumps(row), flush=True)
            with RESULTS.open("a") as file:
                file.write(json.dumps({**row, "each": [round(one) for one in each]}) + "\n")


def run(agent: str, env: str, way: str, env_steps: int) -> float:
    """Environment steps a second."""
    words = [sys.executable, "-c", RUN, agent, env, way, str(env_steps)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(words, **pipes) for _ in range(2 if way == "twice" else 1)]
    told = [each.communicate() for each in runs]
    if any(each.returncode for each in runs):
        raise SystemExit(told[0][1])
    return sum(float(json.loads(out.splitlines()[-1])) for out, _ in told)


if __name__ == "__main__":
    main()

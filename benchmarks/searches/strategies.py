"""What each `tf.distribute` strategy costs beside none, and how far its weights are from those without one.

    python -m benchmarks.searches.strategies [--rounds 3]

PPO (640 gradient steps of 64 rows) and DQN (400 of 64 rows) on CartPole-v1, two replicas, each run in its own process;
the second half of a run counts, so that starting and compiling do not. Results go to `results/strategies.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

from benchmarks import folders

RESULTS = folders.RESULTS / "strategies.jsonl"
STRATEGIES = ("none", "one-device", "mirrored", "multi-worker-mirrored", "parameter-server")
ENV_STEPS = {"ppo": 4_096, "dqn": 1_400}

RUN = """
import json, sys, time
import numpy as np
import agents

name, strategy, env_steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
agent = agents.make(name, "CartPole-v1", seed=0, strategy=strategy, jit_compile=False)
with agents.Trainer(agent) as trainer:
    trainer.train(env_steps=env_steps // 2)
    began, before = time.perf_counter(), agent.gradient_steps
    trainer.train(env_steps=env_steps // 2)
    seconds = time.perf_counter() - began
weights = np.concatenate([v.numpy().ravel() for net in agent.networks.values() for v in net.variables])
print(json.dumps([seconds, agent.gradient_steps, agent.gradient_steps - before, weights.tolist()]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for name, env_steps in ENV_STEPS.items():
        runs = {strategy: [run(name, strategy, env_steps) for _ in range(rounds)] for strategy in STRATEGIES}
        _, n_steps, _, plain = runs["none"][0]
        usual = statistics.median(each[0] for each in runs["none"])
        for strategy, each in runs.items():
            seconds = statistics.median(one[0] for one in each)
            row = {
                "agent": name,
                "strategy": strategy,
                "gradient_steps": n_steps,
                "ms_a_step": round(1e3 * seconds / each[0][2], 2),
                "times_none": round(seconds / usual, 2),
                "furthest_weight": max(abs(a - b) for a, b in zip(each[0][3], plain, strict=True)),
            }
            print(json.dumps(row), flush=True)
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")


def run(name: str, strategy: str, env_steps: int) -> tuple[float, int, int, list[float]]:
    """Seconds of the second half, gradient steps of all and of that half, and the weights at the end."""
    words = [sys.executable, "-c", RUN, name, strategy, str(env_steps)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, n_steps, of_half, weights = json.loads(done.stdout.splitlines()[-1])
    return seconds, n_steps, of_half, weights


if __name__ == "__main__":
    main()

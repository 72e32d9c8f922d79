"""One run's speed beside Stable-Baselines3's: environment steps a second, updates included, one thread each.

The two take turns, several rounds, in processes of their own; what counts is the ratio of the medians. Stable-
Baselines3 lives in a virtual environment of its own:

    python3 -m venv .peers
    .peers/bin/pip install torch==2.13.0 stable-baselines3
    python benchmarks/speed.py --peer .peers/bin/python

"whole" counts everything from building the agent on, compilation included; "steady" only the second half.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
STEPS = {"ppo": 204_800, "dqn": 30_000}

OURS = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
import agents
kind, steps = sys.argv[1], int(sys.argv[2])
params = {
    "ppo": dict(n_envs=8, n_steps=128, batch_size=64, n_epochs=10, hidden_sizes=[64, 64]),
    "dqn": dict(batch_size=64, train_freq=1, gradient_steps=1, learning_starts=100, hidden_sizes=[64, 64]),
}[kind]
began = time.perf_counter()
agent = agents.make(kind, "CartPole-v1", seed=0, **params)
with agents.Trainer(agent) as trainer:
    trainer.train(env_steps=steps // 2)
    half = time.perf_counter()
    trainer.train(env_steps=steps - trainer.env_steps)
end = time.perf_counter()
print(json.dumps({"whole": steps / (end - began), "steady": (steps / 2) / (end - half)}))
"""

THEIRS = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import torch
torch.set_num_threads(1)
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
kind, steps = sys.argv[1], int(sys.argv[2])
class Half(BaseCallback):
    at = None
    def _on_step(self):
        if self.at is None and self.num_timesteps >= steps // 2:
            self.at = time.perf_counter()
        return True
began = time.perf_counter()
if kind == "ppo":
    env = make_vec_env("CartPole-v1", 8, seed=0)
    model = PPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=10, seed=0, device="cpu")
else:
    model = DQN("MlpPolicy", "CartPole-v1", batch_size=64, train_freq=1, gradient_steps=1, learning_starts=100,
                learning_rate=1e-3, buffer_size=50_000, target_update_interval=250, seed=0, device="cpu",
                policy_kwargs=dict(net_arch=[64, 64]))
half = Half()
model.learn(steps, callback=half)
end = time.perf_counter()
print(json.dumps({"whole": steps / (end - began), "steady": (steps / 2) / (end - half.at)}))
"""


def measure(python: str, script: str, kind: str, steps: int) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-c", script, kind, str(steps)], env=environment, capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=".peers/bin/python", help="Python with stable-baselines3 and torch")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lines = ["| agent | count | Finder, steps/s | Stable-Baselines3, steps/s | ratio |", "|---|---|---|---|---|"]
    for kind, steps in STEPS.items():
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(measure(sys.executable, OURS, kind, steps))
            theirs.append(measure(arguments.peer, THEIRS, kind, steps))
            print(kind, ours[-1], theirs[-1], flush=True)
        for count in ("whole", "steady"):
            mine = statistics.median(result[count] for result in ours)
            peer = statistics.median(result[count] for result in theirs)
            lines.append(f"| {kind.upper()} | {count} | {mine:,.0f} | {peer:,.0f} | {mine / peer:.1f} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "speed.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

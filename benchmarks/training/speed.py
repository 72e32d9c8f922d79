"""One run's speed beside that of Stable-Baselines3, SBX or RLlib: environment steps a second, updates included.

They take turns, several rounds, in processes of their own, each told to use one thread and kept on one core; what
counts is the ratio of the medians. `--anywhere` gives each of them all cores, and as many threads as it starts by
default. The peers live in a virtual environment of their own:

    python3 -m venv .peers
    .peers/bin/pip install torch==2.13.0 stable-baselines3 sbx-rl "ray[rllib]" mpe2
    python -m benchmarks.training.speed --peer .peers/bin/python

Each round is a line of `results/speed.jsonl`; the table has the medians of all that are there.

"whole" counts everything from building the agent on, compilation included; "steady" only the second half.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import folders
from benchmarks.result_lines import ONE_THREAD, append_lines, read_lines

OURS = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
kind, env, steps, n_envs, params, one_thread = json.loads(sys.argv[1])
if one_thread:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
import agents
began = time.perf_counter()
agent = agents.make(kind, agents.EnvironmentSpec(env, vectorization="sync"), seed=0, n_envs=n_envs, **params)
with agents.Trainer(agent) as trainer:
    trainer.train(env_steps=steps // 2)
    half = time.perf_counter()
    trainer.train(env_steps=steps - trainer.env_steps)
end = time.perf_counter()
print(json.dumps({"whole": steps / (end - began), "steady": (steps / 2) / (end - half)}))
"""

# SBX is the same classes on JAX: this script trains with either.
_SB3 = """
import importlib, json, sys, time, warnings
warnings.filterwarnings("ignore")
import torch
kind, env, steps, n_envs, params, one_thread = json.loads(sys.argv[1])
if one_thread:
    torch.set_num_threads(1)
library = importlib.import_module("LIBRARY")
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
class Half(BaseCallback):
    at = None
    def _on_step(self):
        if self.at is None and self.num_timesteps >= steps // 2:
            self.at = time.perf_counter()
        return True
began = time.perf_counter()
where = make_vec_env(env, n_envs, seed=0)
model = getattr(library, kind.upper())("MlpPolicy", where, seed=0, device="cpu", **params)
half = Half()
model.learn(steps, callback=half)
end = time.perf_counter()
print(json.dumps({"whole": steps / (end - began), "steady": (steps / 2) / (end - half.at)}))
"""

_RLLIB = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import torch
kind, env, steps, n_envs, params, one_thread = json.loads(sys.argv[1])
if one_thread:
    torch.set_num_threads(1)
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env
began = time.perf_counter()
register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
networks = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
config = PPOConfig().environment("spread").learners(num_learners=0)
config.env_runners(num_env_runners=0, num_envs_per_env_runner=n_envs, rollout_fragment_length=params.pop("n_steps"))
config.multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared", count_steps_by="env_steps")
config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"shared": RLModuleSpec(model_config=networks)}))
config.training(lr=3e-4, gamma=0.99, lambda_=0.95, clip_param=0.2, grad_clip=0.5, use_kl_loss=False, **params)
algorithm, done, half = config.build_algo(), 0, None
while done < steps:
    done = algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"]
    if half is None and done >= steps // 2:
        half, at = done, time.perf_counter()
end = time.perf_counter()
print(json.dumps({"whole": done / (end - began), "steady": (done - half) / (end - at)}))
"""


class Peer(NamedTuple):
    """A library to compare with, and the script that trains with it."""

    name: str
    script: str


SB3 = Peer("Stable-Baselines3", _SB3.replace("LIBRARY", "stable_baselines3"))
SBX = Peer("SBX", _SB3.replace("LIBRARY", "sbx"))
RLLIB = Peer("RLlib", _RLLIB)


@dataclass(frozen=True)
class Case:
    """The same settings, in the words of Finder and of its peers."""

    env: str
    steps: int
    ours: dict[str, Any]
    theirs: dict[str, Any]
    n_envs: int = 1
    peers: tuple[Peer, ...] = (SB3, SBX)


_DQN = {"batch_size": 64, "train_freq": 1, "gradient_steps": 1, "learning_starts": 100, "learning_rate": 1e-3}
_PPO = {"n_steps": 128, "batch_size": 64, "n_epochs": 10}
_OFF_POLICY = {"batch_size": 256, "train_freq": 1, "gradient_steps": 1, "learning_starts": 100, "learning_rate": 1e-3}
_WIDE = {"policy_kwargs": {"net_arch": [256, 256]}}

CASES = {
    "ppo": Case("CartPole-v1", 204_800, {**_PPO, "hidden_sizes": [64, 64]}, _PPO, n_envs=8),
    "a2c": Case("CartPole-v1", 204_800, {"n_steps": 5, "hidden_sizes": [64, 64]}, {"n_steps": 5}, 8, (SB3,)),
    "dqn": Case(
        "CartPole-v1",
        30_000,
        {**_DQN, "hidden_sizes": [64, 64], "buffer_size": 50_000, "target_update_interval": 250},
        {**_DQN, "policy_kwargs": {"net_arch": [64, 64]}, "buffer_size": 50_000, "target_update_interval": 250},
    ),
    "sac": Case("Pendulum-v1", 5_000, {**_OFF_POLICY, "hidden_sizes": [256, 256]}, {**_OFF_POLICY, **_WIDE}),
    "td3": Case("Pendulum-v1", 5_000, {**_OFF_POLICY, "hidden_sizes": [256, 256]}, {**_OFF_POLICY, **_WIDE}),
    # Agents of RLlib have critics of their own observations. A minibatch is 64 steps of all three agents in both.
    "mappo": Case(
        "mpe2.simple_spread_v3:parallel_env",
        40_960,
        {**_PPO, "hidden_sizes": [64, 64], "central_critic": False, "normalize_values": False},
        {"n_steps": 128, "train_batch_size_per_learner": 1024, "minibatch_size": 192, "num_epochs": 10},
        n_envs=8,
        peers=(RLLIB,),
    ),
}


def measure(python: str, script: str, kind: str, params: dict[str, Any], *, anywhere: bool) -> dict[str, float]:
    case = CASES[kind]
    told = json.dumps([kind, case.env, case.steps, case.n_envs, params, not anywhere])
    threads = {} if anywhere else ONE_THREAD
    cores = os.sched_getaffinity(0)
    done = subprocess.run(
        [python, "-c", script, told],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores if anywhere else {max(cores)}),
    )
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=".peers/bin/python", help="Python with the peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--anywhere", action="store_true", help="On all cores; results/speed-anywhere.*")
    parser.add_argument("cases", nargs="*", default=list(CASES), help="Which agents (default: all)")
    arguments = parser.parse_args()
    folders.RESULTS.mkdir(exist_ok=True)
    name, anywhere = "speed-anywhere" if arguments.anywhere else "speed", arguments.anywhere
    rounds = folders.RESULTS / f"{name}.jsonl"
    done = read_lines(rounds)
    for _ in range(arguments.rounds):
        for kind in arguments.cases:
            case = CASES[kind]
            line = {"agent": kind, "ours": measure(sys.executable, OURS, kind, case.ours, anywhere=anywhere)}
            for peer in case.peers:
                line[peer.name] = measure(arguments.peer, peer.script, kind, case.theirs, anywhere=anywhere)
            done.append(line)
            print(json.dumps(line), flush=True)
            append_lines(rounds, line)
    write_table(done, folders.RESULTS / f"{name}.md")


def write_table(done: list[dict[str, Any]], path: Path) -> None:
    """The medians of all rounds of each agent, beside each peer."""
    lines = ["| agent | peer | count | Finder, steps/s | peer, steps/s | ratio |", "|---|---|---|---|---|---|"]
    for kind, case in CASES.items():
        for peer in case.peers:
            rounds = [each for each in done if each["agent"] == kind and peer.name in each]
            for count in ("whole", "steady") if rounds else ():
                mine = statistics.median(each["ours"][count] for each in rounds)
                theirs = statistics.median(each[peer.name][count] for each in rounds)
                told = f"{mine:,.0f} | {theirs:,.0f} | {mine / theirs:.1f}"
                lines.append(f"| {kind.upper()} | {peer.name} | {count} | {told} |")
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

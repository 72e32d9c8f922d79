"""Populations measured: speed beside Stable-Baselines3, growth, halving, memory, and the default search.

    python -m benchmarks.training.population speed --peer .peers/bin/python  # speed.py has the peer
    python -m benchmarks.training.population growth  # 1, 2, 4, ... 128 members
    python -m benchmarks.training.population halving  # 64 configurations, halved and to the end
    python -m benchmarks.training.population memory  # 128 DQN members; 500 trials
    python -m benchmarks.training.population search  # finder lr ppo --env CartPole-v1, its defaults
    python -m benchmarks.training.population members  # 16 members beside 16 single runs, several agents
    python -m benchmarks.training.population environment  # their environment alone, without an agent
    python -m benchmarks.training.population picture  # docs/populations.png, of what was measured

Every search is a whole one: processes started, code compiled, everything recorded to SQLite. The imports of TensorFlow
and of PyTorch are not counted. Ours and the peer take turns, and what counts are ratios of medians. Results go to
benchmarks/results/population-*.md, and every single measurement to benchmarks/results/population.jsonl as soon as it
is made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import folders
from benchmarks.result_lines import ONE_THREAD, read_lines
from benchmarks.training.population_members import environment, members
from benchmarks.training.population_memory import memory
from benchmarks.training.population_search import note, search, write

SPEED = {  # kind: environment, trials, seeds, environment steps of a member, environment steps of a run of the peer
    "ppo": ("CartPole-v1", 16, 2, 50_000, 60_000),
    "ppo-acrobot": ("Acrobot-v1", 16, 2, 10_240, 30_720),  # stepped one by one on both sides
    "ppo-lunarlander": ("LunarLander-v3", 16, 2, 10_240, 30_720),
    "dqn": ("CartPole-v1", 16, 2, 50_000, 40_000),
    "dqn-one-layer": ("CartPole-v1", 16, 2, 50_000, 40_000),
    "sac": ("Pendulum-v1", 16, 1, 2_000, 2_000),
    "td3": ("Pendulum-v1", 16, 1, 2_000, 2_000),
    "sac-small": ("Pendulum-v1", 16, 1, 5_000, 3_000),
    "td3-small": ("Pendulum-v1", 16, 1, 5_000, 3_000),
    # Start and compilation, ten seconds, are a third of the searches above, and a tenth of these.
    "sac-small-long": ("Pendulum-v1", 16, 1, 20_000, 3_000),
    "td3-small-long": ("Pendulum-v1", 16, 1, 20_000, 3_000),
}
SHORT = 51_200

PEER = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import torch
torch.set_num_threads(1)
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
kind, env, steps, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
began = time.perf_counter()
if kind.partition("-")[0] == "ppo":
    model = PPO("MlpPolicy", make_vec_env(env, 8, seed=seed), n_steps=128, batch_size=64, n_epochs=10,
                seed=seed, device="cpu", policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])))
elif kind.partition("-")[0] in ("sac", "td3"):
    layers = [64, 64] if "small" in kind else [256, 256]
    model = {"sac": SAC, "td3": TD3}[kind.partition("-")[0]](
        "MlpPolicy", env, batch_size=256, train_freq=1, gradient_steps=1, learning_starts=100,
        learning_rate=1e-3, seed=seed, device="cpu", policy_kwargs=dict(net_arch=layers))
else:
    layers = [128] if kind == "dqn-one-layer" else [128, 128]
    model = DQN("MlpPolicy", env, batch_size=64, train_freq=4, gradient_steps=1, learning_starts=1000,
                learning_rate=1e-3, buffer_size=50_000, target_update_interval=250, seed=seed, device="cpu",
                policy_kwargs=dict(net_arch=layers))
model.learn(steps)
print(json.dumps(steps / (time.perf_counter() - began)))
"""


def peers(python: str, kind: str, env: str, steps: int) -> float:
    """Environment steps a second of the peer in two processes at the same time."""
    runs = [
        subprocess.Popen(
            [python, "-c", PEER, kind, env, str(steps), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        for seed in (0, 1)
    ]
    return sum(float(run.communicate()[0].strip().splitlines()[-1]) for run in runs)


def speed(peer: str, rounds: int, kinds: Sequence[str]) -> None:
    """All members beside the peer in two processes, in turns."""
    for _ in range(rounds):
        for kind in kinds:
            env, n_trials, n_seeds, env_steps, peer_steps = SPEED[kind]
            done = search(kind, n_trials, n_seeds, env_steps, env=env)
            theirs = peers(peer, kind, env, peer_steps)
            note(what="speed", kind=kind, ours=done["env_steps"] / done["seconds"], theirs=theirs)
    measured = read_lines(folders.RESULTS / "population.jsonl")
    lines = [
        "| agent | members | Finder, steps/s | Stable-Baselines3, two processes, steps/s | ratio |",
        "|---|---|---|---|---|",
    ]
    for kind in SPEED:
        rows = [each for each in measured if each["what"] == "speed" and each["kind"] == kind]
        if rows:
            mine, other = (statistics.median(row[whose] for row in rows) for whose in ("ours", "theirs"))
            n_members = SPEED[kind][1] * SPEED[kind][2]
            lines.append(f"| {kind} | {n_members} | {mine:,.0f} | {other:,.0f} | {mine / other:.1f} |")
    write("speed", lines)


def growth() -> None:
    """Seconds of 1, 2, 4, ... 128 runs of the same budget; other environments with and without EnvPool."""
    lines = ["| environment | stepped | runs | seconds | steps/s |", "|---|---|---|---|---|"]
    cases = [("CartPole-v1", "auto", 20_480, [1, 2, 4, 8, 16, 32, 64, 128])]
    for env in ("Acrobot-v1", "LunarLander-v3"):
        cases += [(env, kind, 10_240, [2, 8, 32]) for kind in ("sync", "envpool")]
    for env, kind, env_steps, sizes in cases:
        for size in sizes:
            done = search("ppo", size, 1, env_steps, env=env, vectorization=kind)
            note(what="growth", env=env, runs=size, **done)
            rate = done["env_steps"] / done["seconds"]
            lines.append(f"| {env} | {done['vectorization']} | {size} | {done['seconds']:.1f} | {rate:,.0f} |")
    write("growth", lines)


def halving(rounds: int, env_steps: int) -> None:
    """Measure successive halving over 64 configurations beside training all of them to the end."""
    lines = [
        f"64 learning rates, PPO, {env_steps:,} environment steps each; a quarter goes on from rungs at 1/16 (the "
        f"first report after it is at 1/10) and at 1/4 of the budget. Medians of {rounds} rounds in turns. Starting "
        "two processes and compiling is part of both times.",
        "",
        "| environment | all to the end, s | halved, s | share of the time | share of the steps |",
        "|---|---|---|---|---|",
    ]
    for env in ("CartPole-v1", "LunarLander-v3"):
        measured = []
        for _ in range(rounds):
            whole = search("ppo", 64, 1, env_steps, env=env)
            halved = search("ppo", 64, 1, env_steps, env=env, pruner="successive-halving")
            measured.append((whole["seconds"], halved["seconds"]))
            note(what="halving", env=env, whole=whole, halved=halved, share=halved["seconds"] / whole["seconds"])
        all_of_them, some = (statistics.median(each) for each in zip(*measured, strict=True))
        share = statistics.median(halved / whole for whole, halved in measured)
        steps = halved["env_steps"] / whole["env_steps"]
        lines.append(f"| {env} | {all_of_them:.0f} | {some:.0f} | {share:.0%} | {steps:.0%} |")
    write("halving" if env_steps == SHORT else f"halving-{env_steps}", lines)


def picture() -> None:
    """Draws the newest measurements of growth, beside the peer."""
    import plotly.graph_objects as go

    from benchmarks.picture import screenshot

    newest: dict[str, dict[int, float]] = {}
    peers_told = []
    for measured in (folders.RESULTS / "population.jsonl").read_text().splitlines():
        told = json.loads(measured)
        if told["what"] == "growth":
            name = f"{told['env']}, {told['vectorization']}"
            newest.setdefault(name, {})[told["runs"]] = told["env_steps"] / told["seconds"]
        elif told["what"] == "speed" and told["kind"] == "ppo":
            peers_told.append(told["theirs"])
    figure = go.Figure()
    for name, rates in newest.items():
        sizes = sorted(rates)
        figure.add_scatter(x=sizes, y=[rates[size] for size in sizes], name=name, mode="lines+markers")
    theirs = statistics.median(peers_told[-3:])
    line = {"dash": "dot", "color": "#e11d48"}
    name = "Stable-Baselines3 in two processes,<br>CartPole-v1"
    figure.add_scatter(x=[1, 128], y=[theirs, theirs], name=name, mode="lines", line=line)
    sizes = [1, 2, 4, 8, 16, 32, 64, 128]
    figure.update_xaxes(title_text="runs trained at the same time", type="log", tickvals=sizes, ticktext=sizes)
    figure.update_yaxes(title_text="environment steps a second, all runs", type="log", tickformat=",", dtick="D2")
    figure.update_layout(width=900, height=440, template="plotly_white", margin={"t": 20, "l": 70, "r": 20, "b": 50})
    screenshot(figure, folders.REPOSITORY / "docs" / "populations.png", 900, 440)


def default_search() -> None:
    """Seconds of the command with its defaults."""
    seconds = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            command = [str(Path(sys.executable).with_name("finder")), "lr", "ppo", "--env", "CartPole-v1"]
            began = time.perf_counter()
            ran = subprocess.run(
                [*command, "--storage", f"sqlite:///{folder}/finder.db"], capture_output=True, text=True, check=True
            )
            seconds.append(time.perf_counter() - began)
            note(what="search", seconds=seconds[-1], pick=ran.stdout.strip())
    write(
        "search",
        [f"`finder lr ppo --env CartPole-v1`: {statistics.median(seconds):.0f} s (median of 3; {ran.stdout.strip()})."],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["speed", "growth", "members", "environment", "halving", "memory", "search", "picture"]
    parser.add_argument("what", choices=names)
    parser.add_argument("words", nargs="?", default="")
    parser.add_argument("--peer", default=".peers/bin/python", help="Python with stable-baselines3 and torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--env-steps", type=int, default=SHORT, help="of each run, for halving")
    arguments = parser.parse_args()
    os.environ.update(ONE_THREAD)
    if arguments.what == "members":
        members(arguments.rounds)
    elif arguments.what == "environment":
        environment(arguments.rounds)
    elif arguments.what == "speed":
        speed(arguments.peer, arguments.rounds, arguments.words.split(",") if arguments.words else list(SPEED))
    elif arguments.what == "halving":
        halving(arguments.rounds, arguments.env_steps)
    else:
        others = {"growth": growth, "memory": memory, "search": default_search, "picture": picture}
        others[arguments.what]()


if __name__ == "__main__":
    main()

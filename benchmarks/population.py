"""Populations measured: speed beside Stable-Baselines3, growth, halving, memory, and the default search.

    python benchmarks/population.py speed --peer .peers/bin/python    # see benchmarks/speed.py for the peer
    python benchmarks/population.py floor                             # what the arithmetic alone would take
    python benchmarks/population.py growth                            # 1, 2, 4, ... 128 members
    python benchmarks/population.py halving                           # 64 configurations, halved and to the end
    python benchmarks/population.py memory                            # 128 DQN members; 500 trials
    python benchmarks/population.py search                            # finder lr ppo --env CartPole-v1, its defaults
    python benchmarks/population.py members                           # 16 members beside 16 single runs, several agents
    python benchmarks/population.py environment                       # their environment alone, without an agent
    python benchmarks/population.py picture                           # docs/populations.png, of what was measured

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
from typing import Any

from result_lines import ONE_THREAD, append_lines, read_lines, write_table

RESULTS = Path(__file__).parent / "results"
DQN = {"batch_size": 64, "train_freq": 4, "hidden_sizes": [128, 128]}
DQN_SMALL = {"batch_size": 64, "train_freq": 4, "hidden_sizes": [128]}
OFF_POLICY = {"learning_starts": 100, "batch_size": 256, "hidden_sizes": [256, 256]}
SMALL = {**OFF_POLICY, "hidden_sizes": [64, 64]}
PARAMS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "dqn": DQN,
    "dqn-one-layer": DQN_SMALL,
    "sac": OFF_POLICY,
    "td3": OFF_POLICY,
    "sac-small": SMALL,
    "td3-small": SMALL,
    "sac-small-long": SMALL,
    "td3-small-long": SMALL,
}
SPEED = {  # kind: environment, trials, seeds, environment steps of a member, environment steps of a run of the peer
    "ppo": ("CartPole-v1", 16, 2, 50_000, 60_000),
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
kind, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
began = time.perf_counter()
if kind == "ppo":
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=seed), n_steps=128, batch_size=64, n_epochs=10,
                seed=seed, device="cpu", policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])))
elif kind.partition("-")[0] in ("sac", "td3"):
    layers = [64, 64] if "small" in kind else [256, 256]
    model = {"sac": SAC, "td3": TD3}[kind.partition("-")[0]](
        "MlpPolicy", "Pendulum-v1", batch_size=256, train_freq=1, gradient_steps=1, learning_starts=100,
        learning_rate=1e-3, seed=seed, device="cpu", policy_kwargs=dict(net_arch=layers))
else:
    layers = [128] if kind == "dqn-one-layer" else [128, 128]
    model = DQN("MlpPolicy", "CartPole-v1", batch_size=64, train_freq=4, gradient_steps=1, learning_starts=1000,
                learning_rate=1e-3, buffer_size=50_000, target_update_interval=250, seed=seed, device="cpu",
                policy_kwargs=dict(net_arch=layers))
model.learn(steps)
print(json.dumps(steps / (time.perf_counter() - began)))
"""


def note(**measured: Any) -> dict[str, Any]:
    """Keeps one measurement."""
    append_lines(RESULTS / "population.jsonl", measured)
    print(measured, flush=True)
    return measured


def write(name: str, lines: Sequence[str]) -> None:
    """Keeps a table."""
    write_table(RESULTS / f"population-{name}.md", lines)


def search(
    kind: str, n_trials: int, n_seeds: int, env_steps: int, *, env: str = "CartPole-v1", **fields: Any
) -> dict[str, float]:
    """One search in a Python of its own; gives its seconds and what it did."""
    words = {"kind": kind, "n_trials": n_trials, "n_seeds": n_seeds, "env_steps": env_steps, "env": env, **fields}
    ran = subprocess.run(
        [sys.executable, __file__, "one", json.dumps(words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ONE_THREAD},
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    result: dict[str, float] = json.loads(ran.stdout.strip().splitlines()[-1])
    return result


def one(words: str) -> None:
    """What `search` runs."""
    import numpy as np

    from agents.backend.silence import import_tensorflow
    from agents.processes.fork_server import await_fork_server, prepare_processes
    from finder.executors.preparation import CHILD
    from finder.search.run_search import run_search
    from studies import StudySpec

    context = prepare_processes(CHILD)
    import_tensorflow()
    await_fork_server(context)
    told = json.loads(words)
    kind, n_trials = told.pop("kind"), told.pop("n_trials")
    rates = [float(f"{rate:.4g}") for rate in np.geomspace(1e-4, 1e-2, n_trials)]
    vectorization = told.pop("vectorization", "auto")
    pruner = told.pop("pruner", "none")
    with tempfile.TemporaryDirectory() as folder:
        spec = StudySpec(
            name="benchmark",
            storage=f"sqlite:///{folder}/finder.db",
            agents=(kind.partition("-")[0],),
            fixed=PARAMS[kind],
            trials=tuple({"learning_rate": rate} for rate in rates),
            seeds=tuple(range(told.pop("n_seeds"))),
            pruner=pruner,
            vectorization=vectorization,
            confirm=0,
            **told,
        )
        began = time.perf_counter()
        study, stopped = run_search(spec)
        seconds = time.perf_counter() - began
        trials = study.trials()
        steps = sum(trial.user_attrs.get("env_steps", 0) for trial in trials) * len(spec.seeds)
        kinds = {trial.user_attrs["configuration"]["vectorization"] for trial in trials}
        states = [trial.state.name for trial in trials]
    if stopped or "FAIL" in states:
        raise SystemExit(f"stopped: {stopped}; {states}")
    print(json.dumps({"seconds": seconds, "env_steps": steps, "vectorization": sorted(kinds)[0]}))


def peers(python: str, kind: str, steps: int) -> float:
    """Environment steps a second of the peer in two processes at the same time."""
    runs = [
        subprocess.Popen(
            [python, "-c", PEER, kind, str(steps), str(seed)],
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
            theirs = peers(peer, kind, peer_steps)
            note(what="speed", kind=kind, ours=done["env_steps"] / done["seconds"], theirs=theirs)
    measured = read_lines(RESULTS / "population.jsonl")
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


def floor() -> None:
    """What the gradient steps of one member cost beside their arithmetic at the speed of NumPy's matrix product."""
    import numpy as np

    from agents import AgentSpec
    from agents.buffers import Batches
    from agents.buffers.buffer import in_order
    from agents.population import Population

    lines = [
        "| agent | floating-point operations a gradient step | floor, µs | measured, µs | times the floor |",
        "|---|---|---|---|---|",
    ]
    rng, n_members, rows = np.random.default_rng(0), 32, 64
    for kind, hidden, passes in (("ppo", 64, 6), ("dqn", 128, 4)):
        product = 2 * rows * (4 * hidden + hidden * hidden + hidden * 2)
        operations = passes * product  # forward and backward of two networks; of one, and forward of its target
        floor_us = operations / _products_a_second(rows, hidden) * 1e6
        population = Population(
            AgentSpec.of(kind, "CartPole-v1", PARAMS[kind]), [{"seed": i} for i in range(n_members)]
        )
        if kind == "ppo":
            data: dict[str, np.ndarray[Any, Any]] = {
                "observations": rng.normal(size=(n_members, 1024, 4)).astype(np.float32),
                "actions": rng.integers(0, 2, (n_members, 1024)),
                "log_probs": np.full((n_members, 1024), -0.69, np.float32),
                "advantages": rng.normal(size=(n_members, 1024)).astype(np.float32),
                "returns": rng.normal(size=(n_members, 1024)).astype(np.float32),
            }
            orders = [rng.permutation(1024).reshape(-1, rows) for _ in range(10)]
            indices = np.broadcast_to(np.concatenate(orders).astype(np.int32), (n_members, 160, rows))
            batches = Batches(data, indices)
        else:
            data = {
                "observations": rng.normal(size=(n_members, rows, 4)).astype(np.float32),
                "actions": rng.integers(0, 2, (n_members, rows)),
                "rewards": np.ones((n_members, rows), np.float32),
                "lengths": np.ones((n_members, rows), np.int32),
                "next_observations": rng.normal(size=(n_members, rows, 4)).astype(np.float32),
                "terminated": np.zeros((n_members, rows), bool),
            }
            batches = Batches(data, in_order(1, rows, (n_members,)), contiguous=True)
        population.update(batches)
        seconds = []
        for _ in range(20):
            began = time.perf_counter()
            population.update(batches)
            seconds.append(time.perf_counter() - began)
        each = statistics.median(seconds) / n_members / batches.indices.shape[1] * 1e6
        note(what="floor", kind=kind, operations=operations, floor_us=floor_us, measured_us=each)
        lines.append(f"| {kind} | {operations:,} | {floor_us:.0f} | {each:.0f} | {each / floor_us:.1f} |")
    write("floor", lines)


def _products_a_second(rows: int, hidden: int) -> float:
    """Floating-point operations a second of NumPy's product of matrices as large as the hidden layer's."""
    import numpy as np

    a, b = np.ones((rows, hidden), np.float32), np.ones((hidden, hidden), np.float32)
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(100):
            a @ b
        best = min(best, (time.perf_counter() - began) / 100)
    return 2 * rows * hidden * hidden / best


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


def members(rounds: int) -> None:
    """Sixteen members of one population beside sixteen single runs, of agents that learn together."""
    lines = ["| agent | 16 members, steps/s | 16 single runs, steps/s | ratio |", "|---|---|---|---|"]
    for kind, env_steps in (("mappo", 20_480), ("qmix", 10_240)):
        rates: dict[int, list[float]] = {16: [], 1: []}
        for _ in range(rounds):
            for size, own in rates.items():
                told = json.dumps({"kind": kind, "size": size, "env_steps": env_steps})
                ran = subprocess.run(
                    [sys.executable, __file__, "train", told],
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
    from returns_cases import MULTI_AGENT_CASES

    from agents import AgentSpec, Trainer
    from agents.population import Population

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


def halving(rounds: int, env_steps: int) -> None:
    """What successive halving over 64 configurations costs of training all of them to the end."""
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
    from picture import screenshot

    newest: dict[str, dict[int, float]] = {}
    peers_told = []
    for measured in (RESULTS / "population.jsonl").read_text().splitlines():
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
    screenshot(figure, Path(__file__).parent.parent / "docs" / "populations.png", 900, 440)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [
        "speed",
        "floor",
        "growth",
        "members",
        "environment",
        "halving",
        "memory",
        "search",
        "picture",
        "one",
        "train",
    ]
    parser.add_argument("what", choices=names)
    parser.add_argument("words", nargs="?", default="")
    parser.add_argument("--peer", default=".peers/bin/python", help="Python with stable-baselines3 and torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--env-steps", type=int, default=SHORT, help="of each run, for halving")
    arguments = parser.parse_args()
    os.environ.update(ONE_THREAD)
    if arguments.what == "one":
        one(arguments.words)
    elif arguments.what == "train":
        train(arguments.words)
    elif arguments.what == "members":
        members(arguments.rounds)
    elif arguments.what == "environment":
        environment(arguments.rounds)
    elif arguments.what == "speed":
        speed(arguments.peer, arguments.rounds, arguments.words.split(",") if arguments.words else list(SPEED))
    elif arguments.what == "halving":
        halving(arguments.rounds, arguments.env_steps)
    else:
        others = {"floor": floor, "growth": growth, "memory": memory, "search": default_search, "picture": picture}
        others[arguments.what]()


def memory() -> None:
    """What 128 DQN members with full replays take, and whether a process grows over 500 trials."""
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


if __name__ == "__main__":
    main()

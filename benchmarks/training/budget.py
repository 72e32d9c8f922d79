"""The time of a gradient step, part by part: products of matrices, optimizers, losses, targets, stores of members.

    python -m benchmarks.training.budget                                       # all cases
    python -m benchmarks.training.budget sac td3-small                         # some

Each case is 16 members, whose compiled update XLA's profiler records, in a process of its own on one thread. The parts
are sums over the operations that XLA compiled, told apart by the names that TensorFlow gave them, scaled to the time
without the profiler, which adds to small operations. The floor is the
floating-point operations of the products of hidden layers at the speed of NumPy's product of matrices of that size, on
one thread of the same processor. Every operation goes to results/budget-CASE.csv, and the table to results/budget.md.
"""

from __future__ import annotations

import argparse
import collections
import csv
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import folders

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
N_MEMBERS = 16


class Case(NamedTuple):
    """An update whose time is measured.

    The number of products counts one for each pass of all rows of a minibatch through the layer between the two hidden
    ones: forward, for the weights' gradient, and for the inputs' gradient.
    """

    kind: str
    env: str
    units: int  # of each of two hidden layers
    rows: int  # of a minibatch
    products: int  # of hidden layers in a gradient step
    params: dict[str, Any]


CASES = {
    "ppo": Case("ppo", "CartPole-v1", 64, 64, 6, {}),
    "a2c": Case("a2c", "CartPole-v1", 64, 40, 6, {"n_steps": 5, "n_envs": 8}),
    "dqn": Case("dqn", "CartPole-v1", 128, 64, 4, {"batch_size": 64, "train_freq": 4}),
    # SAC: next actions 1, targets 2, critics 2 + 4; actor 1 + 2, critics 2 + 2 for the gradient of the actions.
    "sac": Case("sac", "Pendulum-v1", 256, 256, 16, {"batch_size": 256}),
    "sac-small": Case("sac", "Pendulum-v1", 64, 256, 16, {"batch_size": 256}),
    # TD3: target actor 1, targets 2, critics 2 + 4; in every second step actor 1 + 2 and critic 1 + 1.
    "td3": Case("td3", "Pendulum-v1", 256, 256, 12, {"batch_size": 256}),
    "td3-small": Case("td3", "Pendulum-v1", 64, 256, 12, {"batch_size": 256}),
}

PARTS = {
    "products": "products of matrices",
    "members": "loads and stores of members",
    "optimizer": "clipping and optimizers",
    "targets": "target networks",
    "losses": "the rest of losses and gradients",
}


def measure(name: str) -> None:
    """Print the time of a gradient step in µs, and the time of each operation, as JSON."""
    from agents import AgentSpec, EnvironmentSpec, Trainer
    from agents.backend.tensorflow import tf
    from agents.population import Population

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    case = CASES[name]
    params = {"hidden_sizes": [case.units, case.units], "learning_starts": 300, **case.params}
    if case.kind in ("ppo", "a2c"):
        del params["learning_starts"]
    spec = AgentSpec.of(case.kind, EnvironmentSpec(case.env), params)
    population = Population(spec, [{"seed": seed} for seed in range(N_MEMBERS)])
    updates: list[Any] = []
    update = population.update

    def recorded(batches: Any) -> Any:
        updates.append(batches)
        return update(batches)

    population.update = recorded  # type: ignore[method-assign]
    with Trainer(population) as trainer:
        while not updates:
            trainer.train(env_steps=trainer.env_steps + 64)
    batches = updates[-1]
    n_steps = batches.indices.shape[-2]
    seconds: list[float] = []
    while sum(seconds) < 2.0:
        began = time.perf_counter()
        update(batches)
        seconds.append(time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as folder:
        repeats = max(1, 20 // n_steps)
        tf.profiler.experimental.start(folder)
        for _ in range(repeats):
            update(batches)
        tf.profiler.experimental.stop()
        operations = _operations(folder)
    each = N_MEMBERS * n_steps
    measured = {
        "us": statistics.median(seconds) / each * 1e6,
        "operations": {name: us / each / repeats for name, us in operations.items()},
    }
    print(json.dumps(measured))


def _operations(folder: str) -> dict[str, float]:
    """Return the time of each recorded operation in µs."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(Path(glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)[0]).read_bytes())
    times: collections.Counter[str] = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                times[plane.event_metadata[event.metadata_id].name] += event.duration_ps / 1e6
    return dict(times)


def _compiled(folder: str) -> dict[str, tuple[str, str]]:
    """Return operation -> (kind, name of TensorFlow) of the largest function that XLA compiled."""
    texts = [path.read_text() for path in Path(folder).glob("*after_optimizations.txt")]
    found = {}
    for line in max(texts, key=len).splitlines():
        matched = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = \S+(?: \S+)*? ?([a-z][a-z0-9\-]*)\(", line)
        if matched:
            name = re.search(r'op_name="([^"]*)"', line)
            found[matched[1]] = matched[2], name[1] if name else ""
    return found


def part_of(operation: str, kind: str, name: str) -> str:
    """Return the part of a gradient step to which an operation belongs."""
    if kind == "dot" or "dot" in operation or operation.startswith("MatMul"):
        return "products"
    if "dynamic-update-slice" in operation or "dynamic-slice" in operation or kind == "copy" or "/load/" in name:
        return "members"
    if "/store/" in name:
        return "members"
    for part in ("optimizer", "targets"):
        if f"{part}/" in name:
            return part
    return "losses"


def budget(name: str) -> dict[str, float]:
    """Measure a case in a process of its own; return µs of a gradient step by part, "total" and "floor"."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={folder} --xla_dump_hlo_as_text"
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.training.budget", "--measure", name],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **ONE_THREAD, "XLA_FLAGS": flags},
        )
        if ran.returncode:
            raise SystemExit(ran.stderr)
        compiled = _compiled(folder)
    measured = json.loads(ran.stdout.strip().splitlines()[-1])
    own = {each: us for each, us in measured["operations"].items() if each in compiled}
    parts = dict.fromkeys(PARTS, 0.0)
    folders.RESULTS.mkdir(exist_ok=True)
    with (folders.RESULTS / f"budget-{name}.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["operation", "part", "us", "name"])
        for operation, us in sorted(own.items(), key=lambda item: -item[1]):
            kind, told = compiled[operation]
            if kind in ("while", "conditional", "call"):  # their operations are recorded one by one
                continue
            part = part_of(operation, kind, told)
            parts[part] += us
            table.writerow([operation, part, f"{us:.2f}", told])
    scale = measured["us"] / sum(parts.values())
    parts = {part: us * scale for part, us in parts.items()}
    flops = 2 * case.rows * case.units * case.units * case.products
    return {"floor": flops / _products_a_second(case.rows, case.units) * 1e6, "total": measured["us"], **parts}


def _products_a_second(rows: int, units: int) -> float:
    """Return the floating-point operations a second of NumPy's product on one thread."""
    code = (
        "import time, numpy as np\n"
        f"a, b = np.ones(({rows}, {units}), np.float32), np.ones(({units}, {units}), np.float32)\n"
        "best = float('inf')\n"
        "for _ in range(30):\n"
        "    began = time.perf_counter()\n"
        "    for _ in range(100): a @ b\n"
        "    best = min(best, (time.perf_counter() - began) / 100)\n"
        f"print({2 * rows * units * units} / best)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **ONE_THREAD}
    )
    return float(ran.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.cases[0])
        return
    lines = [
        f"| agent | units | rows | floor | measured | share | {' | '.join(PARTS.values())} |",
        "|---|---|---|---|---|---|" + "---|" * len(PARTS),
    ]
    for name in arguments.cases:
        case, us = CASES[name], budget(name)
        told = f"{us['floor']:,.0f} | {us['total']:,.0f} | {us['floor'] / us['total']:.0%}"
        lines.append(
            f"| {name} | {case.units} | {case.rows} | {told} | " + " | ".join(f"{us[p]:,.0f}" for p in PARTS) + " |"
        )
        print(lines[-1], flush=True)
    if arguments.cases == list(CASES):
        (folders.RESULTS / "budget.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

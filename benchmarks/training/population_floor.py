"""Gradient steps of populations beside what their arithmetic alone would take."""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.training.population_search import PARAMS, note, write


def floor() -> None:
    """Measure gradient steps of one member beside their arithmetic at the speed of NumPy's matrix product."""
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

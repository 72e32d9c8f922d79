"""Does the range test stop where training diverges, and only there? Off-policy agents, ten seeds each.

Every case runs through the range test on losses, with the agent's defaults otherwise:

- ``control``: the rates stay at the algorithm's default. Nothing diverges, so every stop is a false one.
- ``all`` and ``critic``: the rates of all optimizers, or of the critics, grow from 1e-6 to 10. A stop at or below the
  default rate is a false one, and a sweep that comes to its end has missed that training diverged.
- ``actor``: the rate of the actor alone, likewise. An actor whose actions are squashed (TD3, DDPG) saturates at high
  rates, and its loss stays within bounds: there is no divergence to be found in it.

Each sequence of losses is judged by the rule of the range test, and beside it by the one that it replaces (a rise of
four times the usual range above the best, of the loss of any optimizer).

    python -m benchmarks.searches.range_test_stops            # measures what is missing in results/range-test-stops.csv
    python -m benchmarks.searches.range_test_stops --summary  # prints the table
"""

from __future__ import annotations

import argparse
import csv
import math
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import agents
from agents import Trainer
from agents.callbacks.callback import Callback
from agents.contract.agent import UpdateMetrics
from benchmarks import folders
from finder.range_test.range_test import range_test

RESULTS = folders.RESULTS / "range-test-stops.csv"
COLUMNS = (
    "agent",
    "env",
    "case",
    "seed",
    "updates",
    "default_rate",
    "stopped_at",
    "reason",
    "before_at",
    "before_whose",
)
AGENTS = {"sac": "Pendulum-v1", "td3": "Pendulum-v1", "ddpg": "Pendulum-v1", "dqn": "CartPole-v1"}
SEEDS = range(10)
SWEEP, CONTROL = 300, 500
START, END = 1e-6, 10.0


class FormerGuard:
    """The rule that was replaced: a smoothed loss rises above its best by four times its usual range."""

    def __init__(self) -> None:
        self._first: list[float] = []
        self._n, self._average = 0, 0.0
        self._best, self._highest, self._highest_before_best = math.inf, -math.inf, -math.inf

    def diverged(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return True
        self._n += 1
        self._average = 0.9 * self._average + 0.1 * loss
        smoothed = self._average / (1 - 0.9**self._n)
        self._highest = max(self._highest, smoothed)
        if smoothed < self._best:
            self._best, self._highest_before_best = smoothed, self._highest
        if self._n <= 10:
            self._first.append(loss)
            return False
        usual = max(self._highest_before_best - self._best, float(np.std(self._first)), 1e-8)
        return smoothed > self._best + 4.0 * usual


class RuleBefore(Callback):
    """Notes where the former rule would have stopped, which judged the losses of all optimizers.

    Args:
        swept: An optimizer whose rate is swept.
    """

    every_gradient_step = True

    def __init__(self, swept: str) -> None:
        self._swept = swept
        self._guards: dict[str, FormerGuard] = {}
        self.stopped_at, self.whose = math.nan, ""

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        for name, values in update.losses.items():
            if not self.whose and self._guards.setdefault(name, FormerGuard()).diverged(float(values.mean())):
                self.stopped_at, self.whose = trainer.agent.get_learning_rate(self._swept), name


def cases_of(agent: str) -> list[str]:
    return ["control", "all"] if agent == "dqn" else ["control", "all", "critic", "actor"]


def measured() -> list[dict[str, str]]:
    if not RESULTS.exists():
        return []
    with RESULTS.open() as file:
        return list(csv.DictReader(file))


def measure() -> None:
    """Measures every case that has no row yet; can be interrupted at any time."""
    done = {(row["agent"], row["case"], int(row["seed"])) for row in measured()}
    if not RESULTS.exists():
        with RESULTS.open("w") as file:
            csv.writer(file).writerow(COLUMNS)
    for name, env in AGENTS.items():
        left = [(case, seed) for case in cases_of(name) for seed in SEEDS if (name, case, seed) not in done]
        agent = agents.make(name, env) if left else None
        for case, seed in left:
            row = run(agent, name, env, case, seed)
            with RESULTS.open("a") as file:
                csv.writer(file).writerow([row[column] for column in COLUMNS])
            print(" ".join(f"{row[column]}" for column in COLUMNS), flush=True)


def run(agent: Any, name: str, env: str, case: str, seed: int) -> dict[str, Any]:
    """Makes one range test with an agent that is as its seed makes it."""
    agent.reset(seed)
    default = float(agent.config.learning_rate)
    agent.set_learning_rate(default)
    start, end, n = (default, default * (1 + 1e-9), CONTROL) if case == "control" else (START, END, SWEEP)
    optimizer = case if case in ("critic", "actor") else None
    before = RuleBefore(optimizer or next(iter(agent.optimizers)))
    with Trainer(agent, seed=seed, callbacks=[before]) as trainer:
        result = range_test(trainer, start, end, n, metric="loss", optimizer=optimizer)
    if result.error is not None:
        raise result.error
    return {
        "agent": name,
        "env": env,
        "case": case,
        "seed": seed,
        "updates": len(result.losses.rates),
        "default_rate": f"{default:g}",
        "stopped_at": f"{result.losses.rates[-1]:.3g}" if result.diverged else "",
        "reason": result.reason,
        "before_at": f"{before.stopped_at:.3g}" if before.whose else "",
        "before_whose": before.whose,
    }


def summary() -> str:
    """Returns the table of stops as Markdown."""
    lines = [
        "| agent | rates swept | runs | false stops | true stops | at rates | false stops before |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = measured()
    for agent in AGENTS:
        for case in cases_of(agent):
            own = [row for row in rows if (row["agent"], row["case"]) == (agent, case)]
            if not own:
                continue
            stops = [float(row["stopped_at"]) for row in own if row["stopped_at"]]
            false = sum(_is_false(row, row["stopped_at"]) for row in own)
            before = sum(_is_false(row, row["before_at"]) for row in own)
            true = [rate for rate in stops if case != "control" and rate > float(own[0]["default_rate"])]
            at = f"{min(true):.2g} to {max(true):.2g}" if true else ""
            told = "none, held at the default" if case == "control" else case
            true_text = "" if case == "control" else str(len(true))
            lines.append(f"| {agent} | {told} | {len(own)} | {false} | {true_text} | {at} | {before} |")
    return "\n".join(lines)


def _is_false(row: dict[str, str], stopped_at: str) -> bool:
    return bool(stopped_at) and (row["case"] == "control" or float(stopped_at) <= float(row["default_rate"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary", action="store_true", help="print the table of what was measured")
    if not parser.parse_args().summary:
        measure()
    print(summary())

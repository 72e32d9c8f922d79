"""Measure the share of a training that drawing batches takes: what processes that prepare them could save.

For prioritised replay (DQN, CartPole-v1) and hindsight replay (SAC, a point that is to reach a goal), each with its
defaults: processor time of the whole training, of drawing minibatches (sums of the tree, goals, rewards anew), of the
priorities that go back, and what it takes to hand one such minibatch from another process over, through shared memory.

    python -m benchmarks.picks.replay_share
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import gymnasium as gym
import numpy as np
from multiprocess import Pipe

import agents
from agents import EnvironmentSpec, Trainer
from benchmarks import folders

RESULTS = folders.RESULTS / "replay-share.md"
WARM_UP, MEASURED = 1_000, 1_500


class Reach(gym.Env[Any, Any]):
    """A point in three dimensions that is to come near a goal."""

    def __init__(self) -> None:
        box = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(-1, 1, (2, 3)).astype(np.float32)
        return self.seen(), {}

    def seen(self) -> dict[str, Any]:
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = np.clip(self.at + 0.1 * action, -1, 1).astype(np.float32)
        return self.seen(), float(self.compute_reward(self.at, self.goal, {})), False, False, {}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.1).astype(np.float64)


gym.register("Reach-v0", entry_point=f"{__name__}:Reach", max_episode_steps=50)


def measure(name: str, env: EnvironmentSpec, **params: Any) -> str:
    agent = agents.make(name, env, learning_starts=500, **params)
    spent: defaultdict[str, float] = defaultdict(float)
    taken: list[dict[str, Any]] = []
    with Trainer(agent) as trainer:
        trainer.train(env_steps=WARM_UP)  # compiles
        for method in ("take", "learned", "add"):
            _time(trainer.buffer, method, spent, taken)
        before, updates = time.process_time(), agent.gradient_steps
        trainer.train(env_steps=MEASURED)
        whole, n = time.process_time() - before, agent.gradient_steps - updates
    over = _hand_over(taken[-1])
    drawn, told = spent["take"] / n, spent["learned"] / n
    row = [f"{value * 1e6:,.0f}" for value in (whole / n, drawn, told, over)]
    return f"| {name} | {params['replay']} | {' | '.join(row)} | {drawn / (whole / n):.1%} |"


def _time(buffer: Any, method: str, spent: defaultdict[str, float], taken: list[dict[str, Any]]) -> None:
    call = getattr(buffer, method)

    def timed(*arguments: Any) -> Any:
        began = time.thread_time()
        result = call(*arguments)
        spent[method] += time.thread_time() - began
        if method == "take":
            taken[:] = [result]
        return result

    setattr(buffer, method, timed)


def _hand_over(batch: dict[str, Any], rounds: int = 2_000) -> float:
    """Seconds of processor time to copy a minibatch out of shared memory, and to be rung for and answer."""
    arrays = {key: np.asarray(values) for key, values in batch.items()}
    shared = {key: values.copy() for key, values in arrays.items()}
    bell, rope = Pipe()
    began = time.thread_time()
    for _ in range(rounds):
        rope.send_bytes(b".")
        bell.recv_bytes()
        for key, values in shared.items():
            np.copyto(arrays[key], values)
        bell.send_bytes(b".")
        rope.recv_bytes()
    return (time.thread_time() - began) / rounds


if __name__ == "__main__":
    lines = [
        "| agent | replay | whole update, µs | drawing, µs | priorities, µs | handing over, µs | share of drawing |",
        "|---|---|---|---|---|---|---|",
        measure("dqn", EnvironmentSpec("CartPole-v1"), replay="prioritized", train_freq=1),
        measure("sac", EnvironmentSpec("Reach-v0"), replay="hindsight"),
    ]
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))

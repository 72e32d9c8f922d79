"""Long runs with Stable-Baselines3, started by `head_to_head/judge.py`; prints a line of JSON for each seed."""
# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import time
import warnings

import torch
from sb3_model import build, greedy
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.learning.judged_episodes import judged_returns

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


class Judge(BaseCallback):
    """Evaluates the policy at marks, and ends the training at the last one.

    The policy at a mark is that of the last update before it: the rest of a rollout is collected afterwards.
    """

    def __init__(self, env: str, marks: list[int], n_episodes: int):
        super().__init__()
        self.env, self.marks, self.n_episodes, self.points = env, marks, n_episodes, []
        self.began, self.judging = time.perf_counter(), 0.0

    def _on_step(self) -> bool:
        while len(self.points) < len(self.marks) and self.num_timesteps >= self.marks[len(self.points)]:
            before = time.perf_counter()
            returns = judged_returns(self.env, greedy(self.model), self.n_episodes)
            seconds = before - self.began - self.judging
            self.judging += time.perf_counter() - before
            self.points.append([self.num_timesteps, float(returns.mean()), float(returns.std()), round(seconds, 2)])
        return len(self.points) < len(self.marks)


def main(asked: dict) -> None:
    """Train and judge each seed."""
    for seed in asked["seeds"]:
        judge = Judge(asked["env"], asked["marks"], asked["n_episodes"])
        model = build(asked["description"], asked["env"], seed)
        try:
            model.learn(asked["marks"][-1], callback=judge)
            error = None
        except (ValueError, AssertionError) as raised:  # parameters that are not finite
            error = str(raised)[:200]
        print(json.dumps({"seed": seed, "points": judge.points, "error": error}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

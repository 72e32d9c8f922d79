"""Count the steps of all environments of a search, whose trials run in several processes.

    python examples/shared_counter.py

With `executor="ray"` it counts on all machines of a Ray cluster.
"""

import gymnasium as gym

import agents
from finder import LRFinder


class Record:
    """The longest episode, and how it began: an object like any other, whose methods are called by all processes."""

    def __init__(self):
        self.longest = 0
        self.began = None

    def record(self, length, began):
        if length > self.longest:
            self.longest, self.began = length, began

    def best(self):
        return self.longest, self.began


class Watched(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.steps = agents.distributed.shared("steps")  # a counter; the first process that asks makes it
        self.longest = agents.distributed.shared("record", Record)

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        self.began, self.length = observation.tolist(), 0
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.length += 1
        if terminated or truncated:  # a call to another process takes 0.1 ms, so whole episodes are reported
            self.steps.add(self.length)
            self.longest.record(self.length, self.began)
        return observation, reward, terminated, truncated, info


if __name__ == "__main__":
    rates = LRFinder("ppo", Watched).grid(1e-4, 1e-2, 3, env_steps=20_000, executor="process", n_jobs=2)
    print(rates.best)
    print("steps in whole episodes:", agents.distributed.shared("steps").value())
    print("longest episode, and how it began:", *agents.distributed.shared("record", Record).best())

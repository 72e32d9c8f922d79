"""A slow environment: runners collect, one agent learns, and other threads and processes act with it by its name.

python examples/collectors.py            # four processes of this machine
python examples/collectors.py ray        # the same, four actors of a Ray cluster (pip install ray)
"""

import sys
import threading
import time

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

import agents


class Slow(CartPoleEnv):
    """CartPole in a simulator that takes 2 ms a step."""

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)


def slow():
    return gym.wrappers.TimeLimit(Slow(), 500)


def watch(seconds=5.0):
    """What the agent thinks of a pole that falls to the right, every few seconds."""
    seen = np.array([[0.0, 0.0, 0.1, 0.5]], np.float32)
    learner = agents.reach("the learner", wait_seconds=300)
    while not done.wait(seconds):
        learner.refresh()
        print(f"version {learner.version}: pushes {('left', 'right')[learner.act(seen)[0]]}")


agent = agents.AgentSpec.of("ppo", agents.EnvironmentSpec(slow)).build(seed=0)
# Environments that wait need no core each: so actors ask Ray for half of one.
pool = agents.Pool(4, engine="ray", cpus=0.5) if "ray" in sys.argv else agents.Pool(4)
done = threading.Event()
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
with agents.Trainer(agent, pool=pool, callbacks=[agents.Progress(), agents.Publish("the learner")]) as trainer:
    result = trainer.train(env_steps=30_000)
    done.set()
    watcher.join()
print(f"{result.env_steps / result.wall_seconds:.0f} steps a second; the last returns: {trainer.history.returns[-5:]}")

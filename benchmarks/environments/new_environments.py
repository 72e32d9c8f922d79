"""Small environments of our own, on which no library and no default of Finder was tuned; they need NumPy alone.

    finder tune ppo --env new_environments:Tanks-v0        # with this folder in PYTHONPATH

`Tanks-v0` has continuous actions, `Catch-v0` and `Inventory-v0` have discrete ones. All are stochastic and cost a few
microseconds a step. Importing this module registers them.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, Any]


class Tanks(gym.Env[Array, Array]):
    """Hold the level of the second of two tanks in series at a set point by the inflow of the first.

    The action is the inflow, -1 (closed) to 1 (open). Outflows grow with the root of a level, so the second tank lags
    behind. The set point jumps in every step with a probability of 2%, and inflows are disturbed by noise. The
    observation is both levels, the set point and the last inflow, each within -1 and 1. The reward is minus the
    distance to the set point, and minus a tenth of the change of the inflow.
    """

    observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._first, self._second = self.np_random.uniform(0.1, 0.9, 2).tolist()
        self._target, self._inflow = self.np_random.uniform(0.2, 0.8), 0.5
        return self._observation(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        inflow = min(max(0.5 + 0.5 * float(action[0]), 0.0), 1.0)
        noise, jump = self.np_random.normal(0.0, 0.05), self.np_random.random() < 0.02
        between, out = 0.8 * math.sqrt(self._first), 0.7 * math.sqrt(self._second)
        self._first = min(max(self._first + 0.15 * (max(inflow + noise, 0.0) - between), 0.0), 1.0)
        self._second = min(max(self._second + 0.15 * (between - out), 0.0), 1.0)
        reward = -abs(self._second - self._target) - 0.1 * abs(inflow - self._inflow)
        self._inflow = inflow
        if jump:
            self._target = self.np_random.uniform(0.2, 0.8)
        return self._observation(), reward, False, False, {}

    def _observation(self) -> Array:
        state = (self._first, self._second, self._target, self._inflow)
        return np.array([2.0 * value - 1.0 for value in state], np.float32)


class Catch(gym.Env[Array, Any]):
    """Catch balls, one after another, with a paddle that has inertia.

    Actions push left, not at all, and right. A ball falls in about 20 steps, drifts sideways and bounces off the walls.
    The observation is its place and drift, and place and speed of the paddle. The reward is 1 for a ball that is caught
    and -1 for one that is not; all other steps have none.
    """

    observation_space = gym.spaces.Box(-2.0, 2.0, (5,), np.float32)
    action_space = gym.spaces.Discrete(3)
    _x: float
    _height: float
    _drift: float
    _fall: float

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._paddle, self._speed = 0.0, 0.0
        self._throw()
        return self._observation(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._speed = 0.8 * self._speed + 0.03 * (int(action) - 1)
        self._paddle += self._speed
        if abs(self._paddle) > 1.0:
            self._paddle, self._speed = math.copysign(1.0, self._paddle), 0.0
        self._x += self._drift + 0.01 * self.np_random.normal()
        if abs(self._x) > 1.0:
            self._x, self._drift = math.copysign(2.0, self._x) - self._x, -self._drift
        self._height -= self._fall
        reward = 0.0
        if self._height <= 0.0:
            reward = 1.0 if abs(self._x - self._paddle) < 0.15 else -1.0
            self._throw()
        return self._observation(), reward, False, False, {}

    def _throw(self) -> None:
        self._x, self._height = self.np_random.uniform(-1.0, 1.0), 1.0
        self._drift, self._fall = self.np_random.uniform(-0.08, 0.08), self.np_random.uniform(0.04, 0.06)

    def _observation(self) -> Array:
        return np.array([self._x, self._height, 10.0 * self._drift, self._paddle, 5.0 * self._speed], np.float32)


class Inventory(gym.Env[Array, Any]):
    """Order goods that arrive two days later, for a demand that has a season.

    The action is an order of 0, 5, ..., 30 pieces. Demand is Poisson, with a mean between 4 and 16 over a season of 20
    days. A piece that is sold earns 1, one that is left costs 0.1 a day, one that is missing costs 0.5, and each order
    costs 1. The reward is a tenth of the day's profit. The observation is the stock, both orders on their way, and the
    season as sine and cosine.
    """

    observation_space = gym.spaces.Box(-2.0, 2.0, (5,), np.float32)
    action_space = gym.spaces.Discrete(7)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._day, self._stock, self._coming = int(self.np_random.integers(20)), 10, [10, 10]
        return self._observation(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        order = 5 * int(action)
        self._stock = min(self._stock + self._coming.pop(0), 60)
        self._coming.append(order)
        demand = int(self.np_random.poisson(10.0 + 6.0 * math.sin(0.1 * math.pi * self._day)))
        sold = min(demand, self._stock)
        self._stock -= sold
        self._day += 1
        profit = sold - 0.1 * self._stock - 0.5 * (demand - sold) - (1.0 if order else 0.0)
        return self._observation(), 0.1 * profit, False, False, {}

    def _observation(self) -> Array:
        season = 0.1 * math.pi * self._day
        amounts = (self._stock / 30.0, self._coming[0] / 15.0 - 1.0, self._coming[1] / 15.0 - 1.0)
        return np.array([*amounts, math.sin(season), math.cos(season)], np.float32)


for _id, _name, _steps in (("Tanks-v0", "Tanks", 100), ("Catch-v0", "Catch", 200), ("Inventory-v0", "Inventory", 60)):
    if _id not in gym.registry:
        gym.register(_id, f"new_environments:{_name}", max_episode_steps=_steps)

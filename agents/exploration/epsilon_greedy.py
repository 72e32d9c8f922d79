"""ε-greedy policies: the best action, and an exploratory action with probability ε."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.errors import ConfigurationError
from agents.exploration.policy import Policy
from agents.exploration.registry import require_keys, require_positive
from agents.exploration.sampling import Actions, Values, boltzmann_weights, categorical, check_values, uniform
from agents.functional.schedules import LinearSchedule, Schedule, schedule_from


class EpsilonGreedy(Policy):
    """Policy of the best action, or with probability ε any allowed action. Draws 2N uniforms per call.

    Args:
        epsilon: ε in [0, 1]: a number, or a schedule of it over environment steps (or its JSON form). DQN's "from 1
            to 0.05 over 10,000 steps" is `EpsilonGreedy(LinearSchedule(1.0, 0.05, 10_000))`. Defaults to 0.1.

    Raises:
        ConfigurationError: ε is, or at some step would be, outside [0, 1].
    """

    rowwise = True

    def __init__(self, epsilon: float | Schedule | Mapping[str, Any] = 0.1) -> None:
        self._schedule = schedule_from(epsilon)
        low, high = self._schedule.bounds
        if low < 0.0 or high > 1.0:
            raise ConfigurationError(f"epsilon must be in [0, 1] at every step, got {epsilon!r}")
        self._env_steps = 0

    @property
    def epsilon(self) -> float:
        """The current ε."""
        return self._schedule(self._env_steps)

    def select(self, values: npt.NDArray[Any], rng: np.random.Generator) -> Actions:
        """Choose the best action, or with probability ε an exploratory one; see `Policy.select`."""
        checked, best = check_values(values)
        coins, choices = rng.random((len(checked), 2)).T  # both are always drawn: [N], [N]
        return np.where(coins < self.epsilon, self._explore(checked, best, choices), np.argmax(checked, axis=1))

    def _explore(self, values: Values, best: Values, uniforms: Values) -> Actions:
        """Return the exploratory action for every row, [N]."""
        return uniform(values, uniforms)

    def step(self, n: int) -> None:
        """Advance ε by `n` environment steps, n >= 0."""
        super().step(n)
        self._env_steps += int(n)

    def get_state(self) -> dict[str, Any]:
        """Return the number of environment steps: `{"env_steps": int}`."""
        return {"env_steps": self._env_steps}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; raises ValueError for a state of another policy."""
        require_keys(type(self).__name__, state, {"env_steps"})
        env_steps = int(state["env_steps"])
        if env_steps < 0:
            raise ValueError(f"env_steps must be >= 0, got {env_steps}")
        self._env_steps = env_steps


class AdaptiveEpsilonGreedy(EpsilonGreedy):
    """ε-greedy policy whose ε decreases linearly over environment steps and then stays constant.

    Set the rate in one of two ways: `decay` (decrease per environment step) or `n_steps` (environment steps of the
    whole decrease, as in DQN, Mnih et al. 2013, arXiv 1312.5602: from 1 to 0.1 over a million frames).

    Args:
        start: ε at the beginning, in [0, 1]. Defaults to 1.0.
        end: ε at the end, in [0, start]. Defaults to 0.1.
        decay: Decrease of ε per environment step, > 0. Defaults to 1e-4 when `n_steps` is not given either.
        n_steps: Environment steps from `start` to `end`, > 0.

    Raises:
        ConfigurationError: An argument is out of range, or both `decay` and `n_steps` are given.
    """

    def __init__(
        self, start: float = 1.0, end: float = 0.1, decay: float | None = None, n_steps: float | None = None
    ) -> None:
        if not 0.0 <= end <= start <= 1.0:
            raise ConfigurationError(f"epsilon must go 0 <= end <= start <= 1, got start={start!r}, end={end!r}")
        if n_steps is not None:
            if decay is not None:
                raise ConfigurationError(f"give decay or n_steps, not both: got decay={decay!r}, n_steps={n_steps!r}")
            super().__init__(LinearSchedule(start, end, n_steps))
            return
        decay = 1e-4 if decay is None else decay
        if not 0.0 < decay < math.inf:
            raise ConfigurationError(f"decay must be a finite number > 0, got {decay!r}")
        super().__init__(LinearSchedule(start, end, (start - end) / decay) if start > end else start)


class MaxBoltzmann(EpsilonGreedy):
    """Policy of the best action, or with probability ε a draw of `Boltzmann`. Draws 2N uniforms per call.

    From Wiering, "Explorations in Efficient Reinforcement Learning" (PhD thesis, Amsterdam 1999): exploration that
    rarely wastes steps on actions known to be bad.

    Args:
        epsilon: ε in [0, 1], a number or a schedule of it as in `EpsilonGreedy`. Defaults to 0.1.
        temperature: τ > 0 as in `Boltzmann`. Defaults to 1.0.
        clip: Bound on the exponent, > 0, as in `Boltzmann`. Defaults to 500.0.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    def __init__(
        self,
        epsilon: float | Schedule | Mapping[str, Any] = 0.1,
        temperature: float = 1.0,
        clip: float = 500.0,
    ) -> None:
        super().__init__(epsilon)
        self.temperature = require_positive("temperature", temperature)
        self.clip = require_positive("clip", clip)

    def _explore(self, values: Values, best: Values, uniforms: Values) -> Actions:
        return categorical(boltzmann_weights(values, best, self.temperature, self.clip), uniforms)

"""Noise that is added to continuous actions, as exploration of a deterministic policy.

Noise is in the unit of the actions; the caller clips the sum to the action space. Random numbers are drawn from the
generator that is passed in. `get_state` and `set_state` save and restore the state of a process.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.errors import ConfigurationError
from agents.exploration.registry import make_by_name, require_keys, require_positive
from agents.functional.schedules import ConstantSchedule, LinearSchedule, Schedule


class Noise(ABC):
    """Base class for random processes in action space, those of users included."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Draw the noise of the next action of every environment.

        Args:
            shape: Shape of the actions, [N, D]: N environments, D action dimensions.
            rng: The exploration stream.

        Returns:
            Noise, float32 of that shape.
        """

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """Restart the process where an episode has ended.

        Args:
            mask: Environments to reset, bool [N]. None resets all, and the next sample may have another shape.

        Raises:
            ValueError: The mask is not a bool array of the shape [N].
        """
        if mask is not None:
            _check_mask(mask)

    def step(self, n: int) -> None:
        """Advance schedules by `n` environment steps (summed over environments), n >= 0."""
        if n < 0:
            raise ValueError(f"n must be >= 0 environment steps, got {n!r}")

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return the state of the process, as scalars and arrays that JSON (as lists) or npz can hold."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; raises ValueError for a state of another noise."""


class GaussianNoise(Noise):
    """Independent normal noise at every step, whose standard deviation may decrease over environment steps.

    Args:
        mu: Mean, finite. Defaults to 0.0.
        sigma: Standard deviation at the beginning, >= 0. Defaults to 0.1 (as in TD3, Fujimoto et al. 2018, arXiv
            1802.09477, for actions within ±1).
        sigma_min: Standard deviation at the end of a linear decrease, in [0, sigma]. None keeps `sigma`.
        n_steps: Environment steps of the decrease, > 0; given exactly when `sigma_min` is.

    Raises:
        ConfigurationError: A parameter is out of range, or only one of `sigma_min` and `n_steps` is given.
    """

    def __init__(
        self, mu: float = 0.0, sigma: float = 0.1, sigma_min: float | None = None, n_steps: int | None = None
    ) -> None:
        self.mu = _finite("mu", mu)
        _not_negative("sigma", sigma)
        self._schedule: Schedule
        if sigma_min is None or n_steps is None:
            if sigma_min is not None or n_steps is not None:
                raise ConfigurationError(
                    f"give sigma_min and n_steps, or neither: got sigma_min={sigma_min!r}, n_steps={n_steps!r}"
                )
            self._schedule = ConstantSchedule(sigma)
        else:
            if not 0.0 <= sigma_min <= sigma:
                raise ConfigurationError(f"sigma_min must be in [0, sigma={sigma!r}], got {sigma_min!r}")
            self._schedule = LinearSchedule(sigma, sigma_min, n_steps)
        self._env_steps = 0

    @property
    def sigma(self) -> float:
        """The current standard deviation."""
        return self._schedule(self._env_steps)

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Draw independent normal numbers; see `Noise.sample`."""
        return (self.mu + self.sigma * rng.standard_normal(shape)).astype(np.float32)

    def step(self, n: int) -> None:
        """Advance σ by `n` environment steps, n >= 0."""
        super().step(n)
        self._env_steps += int(n)

    def get_state(self) -> dict[str, Any]:
        """Return the number of environment steps: `{"env_steps": int}`."""
        return {"env_steps": self._env_steps}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; raises ValueError for a state of another noise."""
        require_keys(type(self).__name__, state, {"env_steps"})
        env_steps = int(state["env_steps"])
        if env_steps < 0:
            raise ValueError(f"env_steps must be >= 0, got {env_steps}")
        self._env_steps = env_steps


class OrnsteinUhlenbeckNoise(Noise):
    """Autocorrelated noise: each sample is the previous one pulled towards the mean, plus a normal step.

    x ← x + θ (μ - x) dt + σ √dt · normal(0, 1), one x for every environment and action dimension, starting at μ. Used
    by DDPG (Lillicrap et al. 2015, arXiv 1509.02971) for control with inertia, with these defaults for θ and σ. Every
    call of `sample` is one step of the process; x is reset to μ where an episode has ended (`reset`).

    Args:
        theta: θ, strength of the pull towards the mean, in [0, 2 / dt) (the process diverges beyond).
            Defaults to 0.15.
        mu: μ, the mean, finite. Defaults to 0.0.
        sigma: σ, the scale of the normal steps, >= 0. Defaults to 0.2.
        dt: Duration of one step, > 0. Defaults to 1e-2.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    def __init__(self, theta: float = 0.15, mu: float = 0.0, sigma: float = 0.2, dt: float = 1e-2) -> None:
        self.dt = require_positive("dt", dt)
        if not 0.0 <= theta * dt < 2.0:
            raise ConfigurationError(f"theta must be in [0, 2 / dt = {2.0 / dt:g}), got {theta!r}")
        self.theta = float(theta)
        self.mu = _finite("mu", mu)
        self.sigma = _not_negative("sigma", sigma)
        self._x: npt.NDArray[np.float64] | None = None  # [N, D] once the shape is known

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Advance the process by one step in every environment; see `Noise.sample`.

        Raises:
            ValueError: The shape differs from that of the running process; `reset()` allows a new shape.
        """
        shape = tuple(shape)
        if self._x is None:
            self._x = np.full(shape, self.mu)
        if self._x.shape != shape:
            raise ValueError(f"the process has the shape {list(self._x.shape)}, got {list(shape)}; reset() it first")
        pull = self.theta * (self.mu - self._x) * self.dt
        self._x = self._x + pull + self.sigma * math.sqrt(self.dt) * rng.standard_normal(shape)
        return self._x.astype(np.float32)

    def reset(self, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """Reset the process to μ where an episode has ended; see `Noise.reset`."""
        super().reset(mask)
        if mask is None:
            self._x = None
        elif self._x is not None:
            if mask.shape != self._x.shape[:1]:
                raise ValueError(f"the mask must have the shape {list(self._x.shape[:1])}, got {list(mask.shape)}")
            self._x[mask] = self.mu

    def get_state(self) -> dict[str, Any]:
        """Return the process: `{"x": float64 [N, D]}`, or a [0] array before the first sample."""
        return {"x": np.zeros(0) if self._x is None else self._x.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; raises ValueError for a state of another noise."""
        require_keys(type(self).__name__, state, {"x"})
        x = np.array(state["x"], dtype=np.float64)
        if not np.isfinite(x).all():
            raise ValueError(f"x must be finite, got {x.tolist()}")
        self._x = None if x.shape == (0,) else x


NOISES: dict[str, type[Noise]] = {"gaussian": GaussianNoise, "ornstein-uhlenbeck": OrnsteinUhlenbeckNoise}
"""Every noise class by name."""


def make_noise(name_or_noise: str | Noise, **kwargs: Any) -> Noise:
    """Make a noise by name; a noise is returned unchanged.

    Args:
        name_or_noise: A name in `NOISES` (case, hyphens and underscores do not matter); a class of your own as
            "module:Class" or "file.py:Class"; or a noise.
        **kwargs: Arguments of that noise.

    Raises:
        ConfigurationError: Unknown name or argument (the nearest ones are given), or an argument out of range.
    """
    return make_by_name("noise", NOISES, name_or_noise, Noise, kwargs)  # type: ignore[type-abstract]


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ConfigurationError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _not_negative(name: str, value: float) -> float:
    if not 0.0 <= value < math.inf:
        raise ConfigurationError(f"{name} must be a finite number >= 0, got {value!r}")
    return float(value)


def _check_mask(mask: npt.NDArray[np.bool_]) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.ndim != 1:
        raise ValueError(f"the mask must be a bool array of the shape [N], got {mask!r}")

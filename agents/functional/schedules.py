"""Schedules: a number as a pure function of environment steps.

Exploration rates, noise scales, clip ranges and swept learning rates all follow one of three curves. A schedule holds
no counter: the caller passes the number of environment steps, so that restoring a run is restoring one integer.
Schedules are frozen, comparable, picklable and convertible to JSON and back (`to_dict`, `schedule_from`), as
hyperparameters that are sent to other processes have to be.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, TypeGuard

from agents.errors import ConfigurationError, unknown_name


class Schedule(ABC):
    """A number that depends only on the environment steps made so far."""

    kind: ClassVar[str]
    """The schedule's name in JSON: the value of the key `"schedule"`."""

    @abstractmethod
    def __call__(self, step: float) -> float:
        """Return the value after `step` environment steps.

        Args:
            step: Environment steps made so far, >= 0.

        Raises:
            ValueError: `step` is negative or NaN.
        """

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value of the schedule, for checks of the whole range."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, for example `{"schedule": "linear", "start": 1.0, "end": 0.1, "n_steps": 9000}`."""
        return {"schedule": self.kind, **dataclasses.asdict(self)}  # type: ignore[call-overload]


@dataclasses.dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """A constant value.

    Args:
        value: The value, finite.
    """

    value: float

    kind: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        _require_finite("value", self.value)

    def __call__(self, step: float) -> float:
        """Return the value after `step` environment steps; see `Schedule.__call__`."""
        _require_step(step)
        return float(self.value)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return float(self.value), float(self.value)


@dataclasses.dataclass(frozen=True)
class _Ramp(Schedule):
    """Base class for schedules that go from `start` to `end` in `n_steps` environment steps, and stay at `end`."""

    start: float
    end: float
    n_steps: float

    def __call__(self, step: float) -> float:
        """Return the value after `step` environment steps; see `Schedule.__call__`."""
        _require_step(step)
        if step >= self.n_steps:
            return float(self.end)
        return _clamp(self._between(step / self.n_steps), self.bounds)

    @abstractmethod
    def _between(self, done: float) -> float:
        """Return the value after a share of the steps, 0 <= done < 1."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return float(min(self.start, self.end)), float(max(self.start, self.end))


@dataclasses.dataclass(frozen=True)
class LinearSchedule(_Ramp):
    """A straight line from `start` to `end` over `n_steps` environment steps, then exactly `end`.

    Args:
        start: Value at step 0, finite.
        end: Value from step `n_steps` on, finite; smaller or larger than `start`.
        n_steps: Environment steps from `start` to `end`, > 0. May be fractional, as when derived from a rate of change.
    """

    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        _require_finite("start", self.start)
        _require_finite("end", self.end)
        _require_positive("n_steps", self.n_steps)

    def _between(self, done: float) -> float:
        return self.start * (1.0 - done) + self.end * done


@dataclasses.dataclass(frozen=True)
class ExponentialSchedule(_Ramp):
    """A straight line on a log axis: each step multiplies by `(end / start) ** (1 / n_steps)`, up to exactly `end`.

    Args:
        start: Value at step 0, finite and > 0.
        end: Value from step `n_steps` on, finite and > 0; smaller or larger than `start`.
        n_steps: Environment steps (or increases, in a learning-rate range test) from `start` to `end`, > 0.
    """

    kind: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        _require_positive("start", self.start)
        _require_positive("end", self.end)
        _require_positive("n_steps", self.n_steps)

    def _between(self, done: float) -> float:
        return float(self.start ** (1.0 - done) * self.end**done)


SCHEDULES: dict[str, type[Schedule]] = {
    schedule.kind: schedule for schedule in (ConstantSchedule, LinearSchedule, ExponentialSchedule)
}
"""Every schedule class by its name in JSON."""


def schedule_from(value: float | Mapping[str, Any] | Schedule) -> Schedule:
    """Make a schedule from a value of a configuration.

    Args:
        value: A finite number (constant), the JSON form of `Schedule.to_dict`, or a schedule, which is returned
            unchanged.

    Returns:
        The schedule.

    Raises:
        ConfigurationError: The value is none of these, the schedule is unknown (the nearest name is given), or a
            parameter is missing, unknown or out of range.
    """
    if isinstance(value, Schedule):
        return value
    if _is_number(value):
        return ConstantSchedule(float(value))
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"a schedule is a number or a mapping with the key 'schedule', got {value!r}")
    parameters = dict(value)
    kind = parameters.pop("schedule", None)
    schedule_class = SCHEDULES.get(kind) if isinstance(kind, str) else None
    if schedule_class is None:
        raise unknown_name("schedule", kind, SCHEDULES)
    expected = {field.name for field in dataclasses.fields(schedule_class)}  # type: ignore[arg-type]
    if parameters.keys() != expected:
        raise ConfigurationError(
            f"the schedule {kind!r} takes exactly the parameters {sorted(expected)}, got {sorted(map(str, parameters))}"
        )
    return schedule_class(**parameters)


def _clamp(value: float, bounds: tuple[float, float]) -> float:
    """Keep rounding from leaving the bounds."""
    low, high = bounds
    return float(min(max(value, low), high))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require_finite(name: str, value: float) -> None:
    if not _is_number(value) or not math.isfinite(value):
        raise ConfigurationError(f"{name} must be a finite number, got {value!r}")


def _require_positive(name: str, value: float) -> None:
    if not _is_number(value) or not 0.0 < value < math.inf:
        raise ConfigurationError(f"{name} must be a finite number > 0, got {value!r}")


def _require_step(step: float) -> None:
    if not step >= 0:
        raise ValueError(f"step must be >= 0, got {step!r}")

"""Intervals of a training: in environment steps, episodes or seconds."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from agents.config.hyperparameters import LARGEST
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer


_WRITTEN = re.compile(r"([\d_,]+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(|steps|env_steps|episodes|s|seconds)")


@dataclass(frozen=True, kw_only=True)
class Every:
    """An interval; exactly one of the three is set.

    Attributes:
        env_steps: In environment steps: due at each multiple, or just after it if several environments step together.
        episodes: In episodes of training.
        seconds: In seconds.

    Raises:
        ConfigurationError: None or several are set, or the value is not above 0.
    """

    env_steps: int | None = None
    episodes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that are not an interval."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ConfigurationError(f"An interval must be in one of env_steps, episodes or seconds, got {given}.")
        [(name, value)] = given.items()
        if not (math.isfinite(value) and value > 0):
            raise ConfigurationError(f"An interval must be above 0, got {name} {value:g}.")

    @classmethod
    def of(cls, value: int | str | Every) -> Every:
        """Parse an interval: ``10000`` (environment steps), ``"50 episodes"``, ``"60 s"``.

        Raises:
            ConfigurationError: The value is not an interval.
        """
        if isinstance(value, Every):
            return value
        found = _WRITTEN.fullmatch(str(value).strip().lower())
        number = float(found[1].replace(",", "").replace("_", "") or "nan") if found else math.nan
        unit = found[2] if found else ""
        if isinstance(value, bool) or not number <= LARGEST or (unit not in ("s", "seconds") and number % 1):
            raise ConfigurationError(
                f"An interval must be environment steps (10000), episodes (50episodes) or seconds (60s), got {value!r}."
            )
        if unit in ("s", "seconds"):
            return cls(seconds=number)
        return cls(episodes=int(number)) if unit == "episodes" else cls(env_steps=int(number))

    def __str__(self) -> str:
        if self.env_steps is not None:
            return f"{self.env_steps}"
        return f"{self.episodes}episodes" if self.episodes is not None else f"{self.seconds:.15g}s"


class IntervalTimer:
    """Timer of an interval, which is due each time that the interval has passed.

    Steps and episodes are counted by the training, so that a resumed training keeps its intervals; seconds begin anew.

    Args:
        every: The interval.
        trainer: The trainer, when training begins or is resumed.
    """

    def __init__(self, every: Every, trainer: Trainer) -> None:
        self._every = every
        self._began = time.monotonic()
        self._passed = self._count(trainer)

    def due(self, trainer: Trainer) -> bool:
        """Return whether the interval has passed since the last time that this returned True."""
        passed = self._count(trainer)
        if passed == self._passed:
            return False
        self._passed = passed
        return True

    def _count(self, trainer: Trainer) -> int:
        every = self._every
        if every.env_steps is not None:
            return trainer.env_steps // every.env_steps
        if every.episodes is not None:
            return len(trainer.history.returns) // every.episodes
        assert every.seconds is not None
        return int((time.monotonic() - self._began) / every.seconds)

"""The learning-rate range test (Smith 2015, arXiv 1506.01186), made for reinforcement learning.

One run whose learning rate grows from step to step, with what its loss or its episodes did at each rate. It
answers in the time of one short run, but it mixes the effect of the rate with the progress of training, which
the grid of `LRFinder.grid` does not; so it is for a first look, and for finding where training diverges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from agents.agent import Agent, UpdateMetrics
from agents.callbacks import Callback, Episode
from agents.errors import ConfigurationError
from agents.schedules import ExponentialSchedule
from agents.trainer import Budget, Trainer
from finder.suggestion import Suggestion, smooth, suggest

if TYPE_CHECKING:
    import pandas as pd

Metrics = Literal["reward", "loss"]

_SMOOTHING = 0.1
"""Share of the points over which a curve is smoothed before a suggestion is read from it."""

_MIN_LEARNED = 10
"""Rates at which the agent must have learned before a curve over them says anything."""

_DIVERGED = 4.0
"""How many times its usual range a smoothed loss may rise above its best before the test stops."""


@dataclass
class Sweep:
    """What was seen while the learning rate grew: parallel lists, a point an episode or a gradient step."""

    rates: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    env_steps: list[int] = field(default_factory=list)

    def add(self, rate: float, value: float, env_steps: int) -> None:
        """Adds a point."""
        self.rates.append(rate)
        self.values.append(value)
        self.env_steps.append(env_steps)


@dataclass(frozen=True, kw_only=True)
class RangeTestResult:
    """Outcome of a range test.

    Attributes:
        metrics: What a point is: ``"reward"`` (the return of an episode) or ``"loss"`` (of a gradient step).
        optimizer: Whose rate was swept.
        rewards: Return of each episode, at the rate that was in force when it ended.
        losses: Loss of each gradient step (`metrics="loss"`), or at each episode's end.
        normalized: The returns as distances from the mean of the last `window_size` episodes, in their standard
            deviations.
        suggestion: The rate that the curve suggests, or none, and why.
        reason: Why the test ended.
        n_learned: At how many of the rates the agent made an update. With one increase an episode, an agent that learns
            from long rollouts meets most rates without learning anything at them.
    """

    metrics: Metrics
    optimizer: str
    rewards: Sweep
    losses: Sweep
    normalized: list[float]
    suggestion: Suggestion
    reason: str
    n_learned: int

    @property
    def best(self) -> float | None:
        """The suggested learning rate, or None where the curve does not suggest one (`suggestion.reason` says why)."""
        return self.suggestion.rate

    def curve(self, of: Metrics | None = None) -> tuple[list[float], list[float]]:
        """Ascending rates and their values; of what was asked for, or of `of`.

        What was not asked for may have several values at one rate (episodes that end between two gradient steps):
        then their mean.
        """
        sweep = self.rewards if (of or self.metrics) == "reward" else self.losses
        at_rate: dict[float, list[float]] = {}
        for rate, value in zip(sweep.rates, sweep.values, strict=True):
            at_rate.setdefault(rate, []).append(value)
        return list(at_rate), [float(np.mean(values)) for values in at_rate.values()]

    def table(self) -> pd.DataFrame:
        """A row a point: learning_rate, value, env_steps, and for returns the normalised one."""
        import pandas as pd

        sweep = self.rewards if self.metrics == "reward" else self.losses
        frame = pd.DataFrame({"learning_rate": sweep.rates, "value": sweep.values, "env_steps": sweep.env_steps})
        return frame.assign(normalized=self.normalized) if self.metrics == "reward" else frame

    def plot(self) -> Any:
        """The curve, smoothed, with the suggestion marked."""
        from finder.figures import plot_sweep

        rates, values = self.curve()
        return plot_sweep(rates, values, self.metrics, sma=smoothing_window(len(values)), suggestion=self.suggestion)


def range_test(
    trainer: Trainer,
    start_lr: float,
    end_lr: float,
    n_increases: int,
    *,
    metrics: Metrics = "reward",
    optimizer: str | None = None,
    window_size: int = 20,
    env_steps: int | None = None,
    episodes: int | None = None,
) -> RangeTestResult:
    """Trains while the rate grows by the same factor `n_increases` times, from `start_lr` to exactly `end_lr`.

    The rate grows once an episode for ``metrics="reward"`` and once a gradient step for ``"loss"``. Nothing counts
    before the first gradient step (while a replay fills, no rate has any effect).

    Args:
        trainer: What is trained; it is changed. `LRFinder` gives a copy.
        start_lr: First rate, > 0.
        end_lr: Last rate, > `start_lr`.
        n_increases: N, >= 1.
        metrics: What is watched.
        optimizer: Whose rate is swept, by name; None for all.
        window_size: Episodes that a return is normalised against.
        env_steps: Ends the test earlier.
        episodes: Ends the test earlier.

    Raises:
        ConfigurationError: Rates or numbers out of range.
    """
    check_sweep(start_lr, end_lr, n_increases, window_size, metrics)
    budget = Budget(env_steps=env_steps, episodes=episodes)
    sweeper = _Sweeper(
        trainer.agent, ExponentialSchedule(start_lr, end_lr, n_increases), n_increases, metrics, optimizer
    )
    try:
        with trainer.also_telling(sweeper):
            for _ in trainer.iterate(budget):
                pass
    except FloatingPointError as error:
        sweeper.reason = str(error)
    sweep = sweeper.rewards if metrics == "reward" else sweeper.losses
    return RangeTestResult(
        metrics=metrics,
        optimizer=optimizer or "all",
        rewards=sweeper.rewards,
        losses=sweeper.losses,
        normalized=normalized(sweeper.rewards.values, window_size),
        suggestion=read_suggestion(sweep.rates, sweep.values, metrics, len(sweeper.learned)),
        reason=sweeper.reason or "budget reached",
        n_learned=len(sweeper.learned),
    )


def check_sweep(start_lr: float, end_lr: float, n_increases: int, window_size: int, metrics: str) -> None:
    """Raises `ConfigurationError` unless a range test can be made with these."""
    check_rates(start_lr, end_lr)
    for name, number in (("N", n_increases), ("window_size", window_size)):
        if number < 1:
            raise ConfigurationError(f"{name} must be >= 1, got {number}.")
    if metrics not in ("reward", "loss"):
        raise ConfigurationError(f"metrics must be 'reward' or 'loss', got {metrics!r}.")


def check_rates(start_lr: float, end_lr: float) -> None:
    """Raises `ConfigurationError` unless 0 < start_lr < end_lr."""
    if not (math.isfinite(start_lr) and math.isfinite(end_lr) and 0 < start_lr < end_lr):
        raise ConfigurationError(f"start_lr must be > 0 and smaller than end_lr, got {start_lr!r} and {end_lr!r}.")


def smoothing_window(n_points: int) -> int:
    """Points that a curve of this length is smoothed over."""
    return max(1, round(n_points * _SMOOTHING))


def read_suggestion(
    rates: list[float], values: list[float], metrics: Metrics, n_learned: int, sma: int | None = None
) -> Suggestion:
    """The rate at which the smoothed curve improves fastest, or none.

    A moving average over what came before shows everything half a window late, that is at too high a rate; the
    suggestion is moved back by that much.

    Args:
        rates: Ascending rates.
        values: One each.
        metrics: What the values are.
        n_learned: At how many rates the agent made an update.
        sma: Points of the moving average; by default a tenth of the points.
    """
    if n_learned < min(_MIN_LEARNED, len(rates)):
        reason = (
            f"the agent learned at {n_learned} of {len(rates)} rates only, so that its curve says little about them: "
            f"raise N, shorten its rollouts, watch the loss, or train every rate afresh with grid()"
        )
        return Suggestion(rate=None, index=None, rule="steepest", reason=reason)
    window = smoothing_window(len(values)) if sma is None else sma
    found = suggest(rates, smooth(values, window), maximize=metrics == "reward", rule="steepest")
    if found.index is None:
        return found
    index = max(0, found.index - window // 2)
    return found._replace(rate=float(rates[index]), index=index)


def normalized(returns: list[float], window_size: int) -> list[float]:
    """Each return as its distance from the mean of the last `window_size` returns, itself included, in their spreads.

    0 where they are all the same.
    """
    result = []
    for index, value in enumerate(returns):
        window = np.asarray(returns[max(0, index + 1 - window_size) : index + 1])
        spread = window.std()
        result.append(float((value - window.mean()) / spread) if spread > 0 else 0.0)
    return result


class _Sweeper(Callback):
    """Raises the rate and notes what happens."""

    def __init__(
        self, agent: Agent, schedule: ExponentialSchedule, n_increases: int, metrics: Metrics, optimizer: str | None
    ) -> None:
        self.every_gradient_step = metrics == "loss"
        self.rewards, self.losses = Sweep(), Sweep()
        self.learned: set[float] = set()  # rates at which an update was made
        self.reason = ""
        self._agent = agent
        self._schedule = schedule
        self._n_increases = n_increases
        self._metrics = metrics
        self._optimizer = optimizer
        self._k = 0
        self._rate = float(schedule(0))
        self._guard = _DivergenceGuard()
        self._collapse = _CollapseGuard()
        agent.set_learning_rate(self._rate, optimizer)

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        if trainer.agent.gradient_steps == 0 or self.reason:
            return
        self.rewards.add(self._rate, episode.episode_return, episode.env_steps)
        if self._metrics == "reward":
            if episode.loss is not None:
                self.losses.add(self._rate, episode.loss, episode.env_steps)
            if self._collapse.collapsed(episode.episode_return):
                self._stop(trainer, f"the returns collapsed at a learning rate of {self._rate:.3g}")
            else:
                self._raise_rate(trainer)

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        if self.reason:
            return
        self.learned.add(self._rate)
        if not update.finite:
            self._stop(trainer, f"the loss became {update.loss} at a learning rate of {self._rate:.3g}")
        elif self._metrics == "loss":
            self.losses.add(self._rate, update.loss, trainer.env_steps)
            if self._guard.diverged(update.loss):
                self._stop(trainer, f"the loss diverged at a learning rate of {self._rate:.3g}")
            else:
                self._raise_rate(trainer)

    def _raise_rate(self, trainer: Trainer) -> None:
        if self._k == self._n_increases:
            self._stop(trainer, "every rate was tried")
            return
        self._k += 1
        self._rate = float(self._schedule(self._k))
        self._agent.set_learning_rate(self._rate, self._optimizer)

    def _stop(self, trainer: Trainer, reason: str) -> None:
        self.reason = reason
        trainer.stop(reason)


class _DivergenceGuard:
    """Says when a loss has left its usual range for good; also right for losses below zero.

    The loss is smoothed; its usual range is the distance between the largest and the smallest smoothed value up
    to its best one, and at least the spread of its first values.
    """

    _WARM_UP = 10

    def __init__(self) -> None:
        self._values: list[float] = []
        self._average = 0.0
        self._best = math.inf
        self._highest_before_best = -math.inf
        self._highest = -math.inf

    def diverged(self, loss: float) -> bool:
        """Takes the next loss."""
        self._values.append(loss)
        self._average = 0.9 * self._average + 0.1 * loss
        smoothed = self._average / (1 - 0.9 ** len(self._values))
        self._highest = max(self._highest, smoothed)
        if smoothed < self._best:
            self._best, self._highest_before_best = smoothed, self._highest
        if len(self._values) <= self._WARM_UP:
            return False
        spread = float(np.std(self._values[: self._WARM_UP]))
        usual = max(self._highest_before_best - self._best, spread, 1e-8)
        return smoothed > self._best + _DIVERGED * usual


class _CollapseGuard:
    """Says when returns are back where they began, after they had clearly risen: what divergence looks like in them.

    Returns are averaged over ten episodes; a rise is clear from three standard deviations of the first ten on.
    """

    _WINDOW = 10

    def __init__(self) -> None:
        self._returns: list[float] = []
        self._best = -math.inf

    def collapsed(self, episode_return: float) -> bool:
        """Takes the next return."""
        self._returns.append(episode_return)
        if len(self._returns) < 2 * self._WINDOW:
            return False
        first = self._returns[: self._WINDOW]
        began, spread = float(np.mean(first)), max(float(np.std(first)), 1e-8)
        now = float(np.mean(self._returns[-self._WINDOW :]))
        self._best = max(self._best, now)
        return self._best - began > 3 * spread and now <= began

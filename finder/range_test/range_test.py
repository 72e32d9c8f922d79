"""The learning-rate range test (Smith 2015, arXiv 1506.01186) for reinforcement learning.

One run whose learning rate grows, with the loss or the returns at each rate. The test takes the time of one short run,
but mixes the effect of the rate with the progress of training, unlike the grid of `LRFinder.grid`. Use it for a first
impression, and to find where training diverges.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from agents.contract.agent import Agent
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError
from agents.functional.schedules import ExponentialSchedule
from agents.renamed import renamed_arguments, warn_renamed
from agents.training.run import Budget
from agents.training.trainer import Trainer
from finder.range_test.band import band_of
from finder.range_test.curve import smoothing_window, trim
from finder.range_test.metric import Metric, MetricName, curve_metric
from finder.range_test.reading import read_suggestion
from finder.range_test.suggestion import Suggestion, no_suggestion
from finder.range_test.sweep import Sweep, Sweeper, comparable, merged
from studies.words import counted

if TYPE_CHECKING:
    import pandas as pd

    from studies.figures.range_tests import Band

MOST_RATES, MOST_INCREASES = 1_000, 100_000
"""Largest numbers of rates of a grid, and of increases of a range test."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RangeTestResult:
    """Outcome of a range test.

    Attributes:
        metric: The metric of the curve: ``"return"`` (of an episode) or ``"loss"`` (of a gradient step).
        optimizer: Name of the optimizer whose rate was swept, or ``"all"``.
        rewards: Return of each episode, at the rate at its end.
        losses: Loss of each gradient step (`metric="loss"`), or at each episode's end.
        normalized: The returns as distances from the mean of the last `window_size` episodes, in their standard
            deviations.
        suggestion: The suggested rate or None, with the reason.
        reason: Why the test ended.
        error: The error of the environment or the agent that ended the test, which then has no suggestion; else None.
        diverged: Whether the test ended because the rate was too high.
        seeds: The seed of each run.
        runs: The single runs of a pooled result (`finder.range_test.pooling`).
        low: Lower end of the 95% interval of the suggestion; NaN for a single run.
        high: Upper end of this interval.
    """

    metric: Metric
    optimizer: str
    rewards: Sweep
    losses: Sweep
    normalized: list[float]
    suggestion: Suggestion
    reason: str
    error: Exception | None = None
    diverged: bool = False
    seeds: tuple[int, ...] = ()
    runs: tuple[RangeTestResult, ...] = ()
    low: float = math.nan
    high: float = math.nan

    @property
    def parameter(self) -> str:
        """The parameter that was swept: `learning_rate`, or that of one of several optimizers."""
        return "learning_rate" if self.optimizer in ("all", "default") else f"{self.optimizer}.learning_rate"

    def __repr__(self) -> str:
        what = "no suggestion" if self.best is None else f"{self.parameter} {self.best:.3g}"
        points = (
            f"{len(self.curve()[0]):,} rates by {self.metric}, {counted(len(self.seeds) or 1, 'run')}; "
            f"the test ended: {self.reason}"
        )
        return f"RangeTestResult({what}: {self.suggestion.reason}; {points})"

    @property
    def metrics(self) -> Literal["reward", "loss"]:
        """Deprecated: use `metric`."""
        warn_renamed("RangeTestResult.metrics", "metric")
        return "reward" if self.metric == "return" else "loss"

    @property
    def best(self) -> float | None:
        """The suggested learning rate, or None (`suggestion.reason` has the reason)."""
        return self.suggestion.rate

    def curve(self, of: MetricName | None = None) -> tuple[list[float], list[float]]:
        """Return ascending rates and the mean value at each rate.

        Args:
            of: The metric. Defaults to the metric of the test.
        """
        return self._sweep(of).curve()

    def band(self, of: MetricName | None = None) -> Band | None:
        """Return the smoothed mean curve of several runs with its lowest and highest run; None for a single run.

        Args:
            of: The metric. Defaults to the metric of the test.
        """
        return band_of([run.curve(of) for run in self.runs])

    def read(
        self, n_skip_beginning: int = 0, n_skip_end: int = 0, sma: int | None = None, rule: str | None = None
    ) -> Suggestion:
        """Return the suggestion of the curve without its first and last points; see `finder.range_test.reading`.

        That of several runs is read from the mean of comparable curves (`finder.range_test.sweep.comparable`).
        """
        kept, _ = trim(*self.curve(), n_skip_beginning, n_skip_end)
        ends = (kept[0], kept[-1]) if kept else (math.inf, math.inf)
        parts = [result._sweep().between(*ends) for result in self.runs or (self,)]
        sweep = merged(comparable(parts, maximize=self.metric == "return")) if self.runs else parts[0]
        rates, values = sweep.curve()
        return read_suggestion(
            rates,
            values,
            self.metric,
            sma=sma,
            sources=sweep.sources() if self.metric == "loss" else None,
            rule=rule,
            diverged=self.diverged and n_skip_end == 0,
        )

    def _sweep(self, of: MetricName | None = None) -> Sweep:
        return self.rewards if curve_metric(of or self.metric) == "return" else self.losses

    def table(self) -> pd.DataFrame:
        """Return a table of the points: learning_rate, value, env_steps, and the normalised value for returns."""
        import pandas as pd

        sweep = self._sweep()
        frame = pd.DataFrame({"learning_rate": sweep.rates, "value": sweep.values, "env_steps": sweep.env_steps})
        return frame.assign(normalized=self.normalized) if self.metric == "return" else frame

    def plot(self) -> Any:
        """Draw the smoothed curve, of several runs with their band, and the suggestion with its interval."""
        from finder.range_test.figures import plot_sweep

        rates, values = self.curve()
        sma = smoothing_window(len(values))
        interval = (self.low, self.high)
        return plot_sweep(
            rates, values, self.metric, sma=sma, suggestion=self.suggestion, band=self.band(), interval=interval
        )


@renamed_arguments(metrics="metric")
def range_test(
    trainer: Trainer,
    start_lr: float,
    end_lr: float,
    n_increases: int,
    *,
    metric: MetricName = "return",
    optimizer: str | None = None,
    window_size: int = 20,
    env_steps: int | None = None,
    episodes: int | None = None,
) -> RangeTestResult:
    """Train an agent while the rate grows `n_increases` times by the same factor, from `start_lr` to exactly `end_lr`.

    For ``metric="loss"`` the rate grows once a gradient step, as in Smith's test. For ``"return"`` it grows
    when an episode has ended after an update with the present rate: once an episode if the agent learns at every step,
    once a rollout if rollouts are longer than episodes. Episodes before the first gradient step do not count.

    An error of the environment or the agent ends the test; the result has the error and the curve so far.

    Args:
        trainer: The trainer, which is modified. `LRFinder` passes a copy.
        start_lr: First rate, > 0.
        end_lr: Last rate, > `start_lr`.
        n_increases: N, >= 1.
        metric: The metric of the curve. Defaults to ``"return"``.
        optimizer: Name of the optimizer whose rate is swept; None for all.
        window_size: Number of episodes for the normalisation of returns. Defaults to 20.
        env_steps: Limit of environment steps, or None.
        episodes: Limit of episodes, or None.

    Raises:
        ConfigurationError: Rates or numbers out of range.
    """
    check_sweep(start_lr, end_lr, n_increases, window_size)
    watched = curve_metric(metric)
    budget = Budget(env_steps=env_steps, episodes=episodes)
    sweeper = Sweeper(
        trainer.agent, ExponentialSchedule(start_lr, end_lr, n_increases), n_increases, watched, optimizer
    )
    trainer.clear_stops()
    error: Exception | None = None
    try:
        with trainer.with_listeners(sweeper), _losses_after_steps(trainer.agent, watched):
            for _ in trainer.iterate(budget):
                pass
    except ConfigurationError:
        raise
    except Exception as raised:  # noqa: BLE001 - any error of the environment or the agent is reported
        sweeper.reason = f"{type(raised).__name__}: {raised}"
        if isinstance(raised, FloatingPointError) and sweeper.learned:
            sweeper.diverged = True  # the rate may be the cause
        else:
            error = raised
    result = RangeTestResult(
        metric=watched,
        optimizer=optimizer or "all",
        rewards=sweeper.rewards,
        losses=sweeper.losses,
        normalized=normalized(sweeper.rewards.values, window_size),
        suggestion=no_suggestion("none", f"the test was ended by an error, {sweeper.reason}"),
        reason=sweeper.reason or "budget reached",
        error=error,
        diverged=sweeper.diverged,
    )
    if error is not None:
        return result
    if not result.curve()[0]:
        return replace(result, suggestion=no_suggestion("none", _why_no_points(trainer, sweeper.reason, budget)))
    return replace(result, suggestion=result.read())


def _why_no_points(trainer: Trainer, ended: str, budget: Budget) -> str:
    """Return why a curve has no points, given why the test ended before its budget was spent, or ""."""
    if ended:
        return f"nothing was learned before the test ended: {ended}"
    what = "no episode ended after the first update" if trainer.agent.gradient_steps else "no update was made"
    flag = "--episodes" if budget.env_steps is None or trainer.env_steps < budget.env_steps else "--env-steps"
    return f"{what} within {trainer.env_steps:,} environment steps: give more ({flag})"


def _losses_after_steps(agent: Agent, metric: Metric) -> AbstractContextManager[None]:
    """Record losses after gradient steps, which show divergence, if the metric is the loss (Keras agents only)."""
    if metric == "loss" and isinstance(agent, KerasAgent):
        return agent.losses_after_steps()
    return nullcontext()


def check_sweep(start_lr: float, end_lr: float, n_increases: int, window_size: int) -> None:
    """Raise `ConfigurationError` if the arguments of a range test are out of range."""
    check_rates(start_lr, end_lr)
    for name, number in (("N", n_increases), ("window_size", window_size)):
        if not is_whole(number) or not 1 <= number <= MOST_INCREASES:
            raise ConfigurationError(f"{name} must be >= 1 and <= {MOST_INCREASES}, and whole, got {number!r}.")


def check_rates(start_lr: float, end_lr: float) -> None:
    """Raise `ConfigurationError` unless 0 < start_lr < end_lr."""
    are_numbers = all(isinstance(end, int | float | np.number) for end in (start_lr, end_lr))
    if not (are_numbers and math.isfinite(start_lr) and math.isfinite(end_lr) and 0 < start_lr < end_lr):
        raise ConfigurationError(
            f"start_lr must be > 0 and smaller than end_lr, both finite, got {start_lr!r} and {end_lr!r}."
        )


def evenly_spaced(start_lr: float, end_lr: float, n_rates: int) -> list[float]:
    """Return rates that are evenly spaced on a log axis, with four digits each.

    Raises:
        ConfigurationError: The ends are not learning rates, or there are too few or too many rates.
    """
    check_rates(start_lr, end_lr)
    if not is_whole(n_rates) or not 2 <= n_rates <= MOST_RATES:
        raise ConfigurationError(f"n_rates must be >= 2 and <= {MOST_RATES}, and whole, got {n_rates!r}.")
    rates = [float(f"{rate:.4g}") for rate in np.geomspace(start_lr, end_lr, int(n_rates))]
    if len(set(rates)) < n_rates:
        raise ConfigurationError(
            f"n_rates is {n_rates}, but {n_rates} rates from {start_lr:g} to {end_lr:g} do not differ in their first "
            "four digits: give fewer, or a wider range."
        )
    return rates


def is_whole(number: Any) -> bool:
    """Return whether a value is a number without a fraction; True and False are none."""
    return not isinstance(number, bool) and isinstance(number, Real) and float(number).is_integer()


def normalized(returns: list[float], window_size: int) -> list[float]:
    """Normalise each return by the mean and standard deviation of the last `window_size` returns, itself included.

    The result is 0 where the standard deviation is 0.
    """
    result = []
    for index, value in enumerate(returns):
        window = np.asarray(returns[max(0, index + 1 - window_size) : index + 1])
        spread = window.std()
        result.append(float((value - window.mean()) / spread) if spread > 0 else 0.0)
    return result

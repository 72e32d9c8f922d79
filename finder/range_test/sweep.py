"""The sweep of a range test: a callback that raises the rate, records the curve, and stops when training diverges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agents.callbacks.callback import Callback
from agents.contract.agent import Agent, UpdateMetrics
from agents.functional.schedules import ExponentialSchedule
from agents.training.records import Episode
from agents.training.trainer import Trainer
from agents.updates.gradient_steps import LOSS_AFTER
from finder.range_test.curve import smooth, smoothing_window
from finder.range_test.divergence import CollapseGuard, DivergenceGuard, RewardScale, steps_per_decade
from finder.range_test.metric import Metric


@dataclass(repr=False)
class Sweep:
    """The points of a sweep as parallel lists: one point for each episode or gradient step."""

    rates: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    env_steps: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Sweep({len(self.rates):,} points)"

    def add(self, rate: float, value: float, env_steps: int) -> None:
        """Add a point."""
        self.rates.append(rate)
        self.values.append(value)
        self.env_steps.append(env_steps)

    def curve(self) -> tuple[list[float], list[float]]:
        """Return each rate once, with the mean of its values."""
        at_rate: dict[float, list[float]] = {}
        for rate, value in zip(self.rates, self.values, strict=True):
            at_rate.setdefault(rate, []).append(value)
        return list(at_rate), [float(np.mean(values)) for values in at_rate.values()]

    def sources(self) -> list[int]:
        """Return the environment steps at each rate of the curve, which identify the rollout."""
        return list(dict(zip(self.rates, self.env_steps, strict=True)).values())

    def between(self, first: float, last: float) -> Sweep:
        """Return the points from one rate to another, both included."""
        kept = [i for i, rate in enumerate(self.rates) if first <= rate <= last]
        return Sweep([self.rates[i] for i in kept], [self.values[i] for i in kept], [self.env_steps[i] for i in kept])

    def scaled(self, factor: float, shift: float) -> Sweep:
        """Return the points with their values multiplied by a factor, and then shifted."""
        return replace(self, values=[factor * value + shift for value in self.values])


def merged(sweeps: Sequence[Sweep]) -> Sweep:
    """Merge the points of several sweeps, in the order of their rates."""
    points = [point for each in sweeps for point in zip(each.rates, each.values, each.env_steps, strict=True)]
    together = Sweep()
    for point in sorted(points, key=lambda point: point[0]):
        together.add(*point)
    return together


def comparable(sweeps: Sequence[Sweep], *, maximize: bool) -> list[Sweep]:
    """Return the sweeps of several runs such that no run decides what their mean shows, by its size or its absence.

    A curve that improves by more than that of the median run is scaled down to it: the mean would show where this run
    learns. None is scaled up, since curves that do not improve would become large noise. The improvement is that of the
    moving average from its worst mean before the best one. All curves are then shifted to one level, the median over
    the rates that all runs reached: a run that ends early would otherwise change the mean of those that follow.

    Args:
        sweeps: One each run.
        maximize: Whether larger values are better.
    """
    curves = [each.curve() for each in sweeps]
    improvements = [_improvement(values, maximize=maximize) for _, values in curves]
    known = sorted(each for each in improvements if each > 0)
    typical = known[(len(known) - 1) // 2] if known else 0.0
    factors = [typical / each if each > typical else 1.0 for each in improvements]
    end = min((rates[-1] for rates, _ in curves if rates), default=0.0)
    levels = [factor * _level(*curve, end) for factor, curve in zip(factors, curves, strict=True)]
    common = float(np.mean(levels)) if levels else 0.0
    return [each.scaled(factors[i], common - levels[i]) for i, each in enumerate(sweeps)]


def _improvement(values: Sequence[float], *, maximize: bool) -> float:
    """Return the rise of the moving average from its worst mean before the best one to the best; 0 without a mean."""
    finite = np.array([value if maximize else -value for value in values if math.isfinite(value)])
    if len(finite) == 0:
        return 0.0
    sma = smoothing_window(len(finite))
    means = smooth(finite, sma)[sma - 1 :]
    best = int(np.argmax(means))
    with np.errstate(over="ignore"):  # values of opposite huge size
        return float(means[best] - means[: best + 1].min())


def _level(rates: Sequence[float], values: Sequence[float], end: float) -> float:
    """Return the median of the finite values up to a rate, 0 without any."""
    finite = [value for rate, value in zip(rates, values, strict=True) if rate <= end and math.isfinite(value)]
    return float(np.median(finite)) if finite else 0.0


class Sweeper(Callback):
    """Raises the rate, records the curve, and stops the training when the loss or the returns diverge.

    Only the losses of the swept optimizers are checked for divergence, because the others keep their rates. A loss of
    any optimizer that is not finite ends the sweep.

    Args:
        agent: The agent.
        schedule: The rate after each increase.
        n_increases: Number of increases.
        metric: The metric that determines when the rate is raised, and the rule for divergence.
        optimizer: Name of the optimizer whose rate is swept; None for all.

    Attributes:
        rewards: Return of each episode.
        losses: Loss of each gradient step, or at each episode's end.
        learned: Rates at which an update was made.
        reason: Why the sweep has ended; empty before.
        diverged: Whether the sweep ended because the rate was too high.
    """

    def __init__(
        self, agent: Agent, schedule: ExponentialSchedule, n_increases: int, metric: Metric, optimizer: str | None
    ) -> None:
        self.every_gradient_step = metric == "loss"
        self.rewards, self.losses = Sweep(), Sweep()
        self.learned: set[float] = set()
        self.reason = ""
        self._agent = agent
        self._schedule = schedule
        self._n_increases = n_increases
        self._metric = metric
        self._optimizer = optimizer
        self._k = 0
        self._returns: list[float] = []  # of the episodes that ended at this rate
        self._seen = False  # whether an episode has ended after an update at this rate
        self._rate = float(schedule(0))
        self.diverged = False
        delay = steps_per_decade(float(schedule(0)), float(schedule(n_increases)), n_increases)
        judged = agent.optimizers if optimizer is None else (optimizer,)
        self._guards = {name: DivergenceGuard(delay) for name in judged}  # a sum of losses would hide one of them
        self._scale = RewardScale(float(getattr(agent.config, "gamma", 1.0)))
        self._collapse = CollapseGuard()
        agent.set_learning_rate(self._rate, optimizer)

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        if trainer.agent.gradient_steps == 0 or self.reason:
            return
        self.rewards.add(self._rate, episode.episode_return, episode.env_steps)
        if self._metric == "loss":
            return
        if episode.loss is not None:
            self.losses.add(self._rate, episode.loss, episode.env_steps)
        self._returns.append(episode.episode_return)
        self._seen = self._rate in self.learned
        if self._seen and self._k == self._n_increases:
            self._stop(trainer, "every rate was tried")

    def on_step_end(self, trainer: Trainer) -> None:
        if trainer.newest_rewards is not None:
            self._scale.add(trainer.newest_rewards)

    def on_update_begin(self, trainer: Trainer) -> None:
        # The episodes up to the next update show the effect of the previous update.
        if not self._seen or self.reason:
            return
        if self._collapse.collapsed(float(np.mean(self._returns))):
            self._stop_diverged(trainer, f"the returns collapsed at a learning rate of {self._rate:.3g}")
        else:
            self._returns.clear()
            self._raise_rate(trainer)

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        if self.reason:
            return
        if not update.finite:
            if self.learned or all(np.isfinite(values[0]) for values in update.losses.values()):
                self._stop_diverged(trainer, f"{_non_finite_text(update)} at a learning rate of {self._rate:.3g}")
            return  # at the first gradient step the rate is not the cause, and the trainer raises an error
        self.learned.add(self._rate)
        if self._metric == "loss":
            own = {name: float(values.mean()) for name, values in update.losses.items()}
            loss = own[self._optimizer] if self._optimizer is not None else update.loss
            self.losses.add(self._rate, loss, trainer.env_steps)
            largest = self._scale.largest_value
            diverged = [
                name for name, guard in self._guards.items() if guard.diverged(own[name], largest, _rise(update, name))
            ]
            if diverged:
                whose = "the loss" if len(own) == 1 else f"the loss of {diverged[0]}"
                self._stop_diverged(trainer, f"{whose} diverged at a learning rate of {self._rate:.3g}")
            else:
                self._raise_rate(trainer)

    def _raise_rate(self, trainer: Trainer) -> None:
        if self._k == self._n_increases:
            self._stop(trainer, "every rate was tried")
            return
        self._k += 1
        self._seen = False
        self._rate = float(self._schedule(self._k))
        self._agent.set_learning_rate(self._rate, self._optimizer)

    def _stop_diverged(self, trainer: Trainer, reason: str) -> None:
        self.diverged = True
        self._stop(trainer, reason)

    def _stop(self, trainer: Trainer, reason: str) -> None:
        self.reason = reason
        trainer.stop(reason)


def _rise(update: UpdateMetrics, name: str) -> float:
    """Return the mean rise of the loss of an optimizer on the minibatch of each gradient step; NaN if unknown."""
    after = update.metrics.get(LOSS_AFTER + name)
    if after is None:
        return math.nan
    rises = np.asarray(after) - update.losses[name]
    made = ~np.isnan(rises)  # an optimizer may step every second time only
    return float(rises[made].mean()) if made.any() else math.nan


def _non_finite_text(update: UpdateMetrics) -> str:
    """Return the message for losses that are not finite."""
    values = {name: losses[~np.isfinite(losses)] for name, losses in update.losses.items()}
    name, broken = next((name, own) for name, own in values.items() if len(own))
    return f"the loss{'' if len(values) == 1 else f' of {name}'} became {broken[0]}"

"""The progress of a training as lines of text, and their printing at intervals."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from agents.contract.agent import Agent
from agents.training.line_interval import next_line
from agents.training.listeners import Listener
from agents.training.training import Training


class ProgressLine:
    """The line of `agents.Progress` and `Trainer.train`: time, steps, episodes, speed, returns, learning rate.

    Args:
        window: Number of episodes of each run in the mean return. Defaults to None: those of the last fifth of the
            training so far, at least one for each copy of the environment, at most 100.
    """

    def __init__(self, window: int | None = None) -> None:
        self.window = window
        self._start = (0.0, 0)  # seconds and environment steps when this training started or resumed

    def start(self, trainer: Training) -> None:
        """Measure speed from now on."""
        self._start = (trainer.wall_seconds, sum(run.env_steps for run in trainer.runs))

    def text(self, trainer: Training) -> str:
        """Return the line for this moment."""
        runs = trainer.runs
        steps, episodes = sum(run.env_steps for run in runs), sum(len(run.history.returns) for run in runs)
        seconds = trainer.wall_seconds
        speed = (steps - self._start[1]) / max(seconds - self._start[0], 1e-9)
        means = [
            run.history.mean_return(self.window or run.history.n_recent(run.env_steps))
            for run in runs
            if run.history.returns
        ]
        mean = _return_text(sum(means) / len(means)) if means else "-"
        rates = rates_text(trainer)
        best = _return_text(max(max(run.history.returns) for run in runs if run.history.returns)) if means else "-"
        return (
            f"{seconds:7.1f} s  {steps:>9,} steps  {episodes:>6,} episodes  {speed:>8,.0f} steps/s  "
            f"mean return {mean}  best {best}{f'  {rates}' if rates else ''}"
        )


class ProgressPrinter(Listener):
    """Print progress lines at intervals, and one at the end.

    Args:
        every_seconds: Seconds between lines. Defaults to None: two at first, later up to ten.
        stream: Output stream. Defaults to standard error.
        window: Number of episodes in the mean. Defaults to None: those of the last fifth of the training so
            far, at least one for each copy of the environment, at most 100.
    """

    last = True

    def __init__(
        self, every_seconds: float | None = None, stream: TextIO | None = None, window: int | None = None
    ) -> None:
        self.every_seconds = every_seconds
        self.stream = stream
        self._line = ProgressLine(window)
        self._began = self._next = 0.0

    @property
    def window(self) -> int | None:
        """The number of episodes in the mean; None for those of the last fifth of the training so far."""
        return self._line.window

    def on_train_begin(self, trainer: Training) -> None:
        """Start the clock."""
        self._began = time.monotonic()
        self._next = next_line(self._began, self.every_seconds)
        self._line.start(trainer)

    def on_step_end(self, trainer: Training) -> None:
        """Print a line if one is due."""
        if time.monotonic() >= self._next:
            self.show(trainer)
            self._next = next_line(self._began, self.every_seconds)

    def on_train_end(self, trainer: Training) -> None:
        """Print the last line."""
        self.show(trainer)

    def show(self, trainer: Training) -> None:
        """Print a line."""
        print(self.line(trainer), file=self.stream or sys.stderr, flush=True)

    def line(self, trainer: Training) -> str:
        """Return the line for this moment."""
        return self._line.text(trainer)


def _return_text(value: float) -> str:
    """Return a return with one decimal, a small one with three digits."""
    return f"{value:.1f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def rates_text(trainer: Training) -> str:
    """Return the current learning rates; nothing for a population, whose members have their own."""
    agent = trainer.agent
    if not isinstance(agent, Agent):
        return ""
    rates = {name: f"{agent.get_learning_rate(name):.3g}" for name in agent.optimizers}
    if len(set(rates.values())) > 1:
        return f"learning rate {', '.join(f'{name} {rate}' for name, rate in rates.items())}"
    return f"learning rate {next(iter(rates.values()))}" if rates else ""

"""The progress of a training as one line of text."""

from __future__ import annotations

from agents.contract.agent import Agent
from agents.training.training import Training


class ProgressLine:
    """The line of `agents.Progress` and `Trainer.train`: time, steps, episodes, speed, returns, learning rate.

    Args:
        window: Number of episodes of each run in the mean return. Defaults to 100.
    """

    def __init__(self, window: int = 100) -> None:
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
        means = [run.history.mean_return(self.window) for run in runs if run.history.returns]
        mean = f"{sum(means) / len(means):.1f}" if means else "-"
        rates = rates_text(trainer)
        best = f"{max(max(run.history.returns) for run in runs if run.history.returns):.1f}" if means else "-"
        return (
            f"{seconds:7.1f} s  {steps:>9,} steps  {episodes:>6,} episodes  {speed:>8,.0f} steps/s  "
            f"mean return {mean}  best {best}{f'  {rates}' if rates else ''}"
        )


def rates_text(trainer: Training) -> str:
    """Return the current learning rates; nothing for a population, whose members have their own."""
    agent = trainer.agent
    if not isinstance(agent, Agent):
        return ""
    rates = {name: f"{agent.get_learning_rate(name):.3g}" for name in agent.optimizers}
    if len(set(rates.values())) > 1:
        return f"learning rate {', '.join(f'{name} {rate}' for name, rate in rates.items())}"
    return f"learning rate {next(iter(rates.values()))}" if rates else ""

"""Greedy evaluations of the runs of a group, for studies that are judged by them."""

from __future__ import annotations

from collections.abc import Callable

from agents import seeding
from agents.environments.time_limits import time_limit
from agents.errors import MembersFailedError
from agents.population.greedy_returns import GreedyReturns, greedy_returns, n_environments
from agents.training.trainer import Trainer

_LONGEST_MEASUREMENT = 1.0
"""Longest measurement of the time of an evaluation, in seconds."""


class GreedyEvaluations:
    """Evaluates the members of a trainer, apart from their training.

    The episodes of an evaluation depend on the seed of a run and on its environment steps, so that trials with the same
    seeds are evaluated on the same episodes, and differ from those of training.

    Args:
        trainer: The trainer.
        n_episodes: Episodes of each member in an evaluation.
        on_step: Called after every step of the environments.
    """

    def __init__(self, trainer: Trainer, n_episodes: int, on_step: Callable[[], None]) -> None:
        self._trainer = trainer
        self._n_episodes = n_episodes
        self._on_step = on_step
        self._newest: tuple[int, dict[int, float]] = (-1, {})

    def values(self) -> dict[int, float]:
        """Return member -> mean greedy return, of all present members at this point of their training.

        Members that fail have no value: their runs have the error, and those that cannot act have left. A point of the
        training is evaluated once.

        Raises:
            Exception: The error of a single agent or of its environment.
        """
        trainer = self._trainer
        if self._newest[0] != trainer.env_steps:
            played = self._play(self._stepped)
            values = {trainer.present[position]: float(own.mean()) for position, own in played.returns.items()}
            self._newest = trainer.env_steps, values
            for position, error in played.errors.items():
                trainer.fail(error, trainer.present[position])
        return self._newest[1]

    def forget(self) -> None:
        """Forget the newest evaluation, as members have changed since."""
        self._newest = (-1, {})

    def seconds_at_most(self, clock: Callable[[], float]) -> float:
        """Return the seconds of an evaluation of one run whose episodes all reach the time limit of the environment.

        Args:
            clock: Returns the time in seconds.
        """
        trainer, times = self._trainer, [clock()]
        limit = time_limit(trainer.environment)
        n_runs = len(trainer.present)

        def ended() -> bool:
            times.append(clock())
            return times[-1] - times[1] >= _LONGEST_MEASUREMENT

        self._play(ended)
        if limit is None or len(times) < 3:  # the first step compiles
            return 0.0
        n_rounds = -(-self._n_episodes // n_environments(trainer.environment, trainer.agent, self._n_episodes))
        return (times[-1] - times[1]) / (len(times) - 2) * limit * n_rounds / n_runs

    def _play(self, ended: Callable[[], bool]) -> GreedyReturns:
        """Play the episodes of all present members that can act; the others leave."""
        trainer = self._trainer
        while True:
            seeds = [evaluation_seed(trainer.runs[member].seed, trainer.env_steps) for member in trainer.present]
            try:
                return greedy_returns(
                    trainer.agent, trainer.environment, seeds, n_episodes=self._n_episodes, ended=ended
                )
            except MembersFailedError as failure:
                if not trainer.remove_failed(failure.errors):
                    return GreedyReturns({}, {}, 0)

    def _stepped(self) -> bool:
        self._on_step()
        return False


def evaluation_seed(seed: int, env_steps: int) -> int:
    """Return the seed of the environments of an evaluation, which no training uses.

    Args:
        seed: Seed of the run.
        env_steps: Environment steps of the run.
    """
    return seeding.integers(seed, f"evaluation after {env_steps}", 1)[0]

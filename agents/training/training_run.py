"""The run of a user's training function: its settings, and its reports.

In a study, Finder makes the run. Outside of a study, the caller makes it::

    with agents.TrainingRun("CartPole-v1", seed=0, env_steps=1_000_000) as run:
        train(run, learning_rate=3e-4)
    print(run.history.mean_return())
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, NonFiniteError
from agents.training.records import Episode, History
from agents.training.run import Budget, Run, RunningEpisode


class RunEnded(BaseException):
    """The run is over: its budget is used up, or its trial was pruned or stopped.

    `TrainingRun.report` raises it to end the function. Do not catch it; `finally:` blocks and context managers run as
    usual. It is not an `Exception`, so that ``except Exception:`` does not catch it by accident.
    """


class TrainingRun:
    """The run that a training function receives.

    A context manager, which catches the `RunEnded` of a run at its end.

    Args:
        environment: The environment: an id, a function that makes one, or a spec.
        seed: Seed of everything in this run. Defaults to 0.
        env_steps: Budget in environment steps, >= 1. Defaults to None: no limit.
        episodes: Budget in episodes, >= 1. Defaults to None: no limit.
        on_episode: Called with every episode. Defaults to None.
        told: Deprecated name of `on_episode`.

    Attributes:
        environment: The environment: ``run.environment.make()`` makes any number of instances.
        seed: Seed of everything in this run. In a study, the global generators of Python, NumPy and PyTorch are
            already seeded with it.
        env_steps: The run's budget in environment steps, or None.
        episodes: The run's budget in episodes, or None.
    """

    def __init__(
        self,
        environment: str | Callable[..., Any] | EnvironmentSpec,
        *,
        seed: int = 0,
        env_steps: int | None = None,
        episodes: int | None = None,
        on_episode: Callable[[Episode], None] | None = None,
        told: Callable[[Episode], None] | None = None,
    ) -> None:
        if told is not None:
            warnings.warn("told is deprecated: use on_episode.", DeprecationWarning, stacklevel=2)
        self.environment = EnvironmentSpec.of(environment)
        self.seed = seed
        self.env_steps = env_steps
        self.episodes = episodes
        self.progress = Run(seed=seed)
        """Counters and status of the run."""
        self.ended = False
        """True if the run is over: further reports are ignored."""
        self._budget = Budget(env_steps=env_steps, episodes=episodes)
        self._on_episode = on_episode or told
        self._began = time.perf_counter()
        self._reporting = threading.RLock()

    @property
    def history(self) -> History:
        """The episodes so far."""
        return self.progress.history

    def report(
        self,
        episode_return: float,
        length: int | None = None,
        loss: float | None = None,
        *,
        env_steps: int | None = None,
        custom_metrics: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Report the end of an episode.

        Args:
            episode_return: Sum of its rewards; or any other number that measures the run, where more is better.
            length: Number of its steps. Defaults to the environment steps since the last report.
            loss: Loss of the newest update. Defaults to None: there was none.
            env_steps: Environment steps of the complete run so far. Defaults to those at the last report plus `length`;
                pass them if several environments are stepped in parallel, or steps belong to no episode.
            custom_metrics: Further numbers of the episode, by name.

        Raises:
            RunEnded: The run is over.
            NonFiniteError: Return or loss is NaN or infinite: the run cannot continue.
            ConfigurationError: The numbers of steps are impossible, or a number has a fraction or is text.
        """
        with self._reporting:  # the function may use threads
            if self.ended:
                raise RunEnded
            try:
                episode = self._episode(episode_return, length, loss, env_steps, custom_metrics)
            except Exception as error:
                self.progress.error, self.ended = error, True  # even if the function catches it
                raise
            self.progress.env_steps, self.progress.newest_loss = episode.env_steps, episode.loss
            self.history.add(episode)
            if self._on_episode is not None:
                self._on_episode(episode)
            if self.is_over():
                self.ended = True
                raise RunEnded

    def is_over(self) -> bool:
        """Return whether the budget is used up, or the run was stopped."""
        return self._budget.is_over(self.progress) or self._budget.steps_reached(self.progress.env_steps)

    def _episode(self, episode_return: Any, length: Any, loss: Any, env_steps: Any, metrics: Any) -> Episode:
        before = self.progress.env_steps
        if length is None and env_steps is None:
            raise ConfigurationError(
                "report(...) needs the progress of the run: pass the episode's length, or env_steps."
            )
        at = before + _steps("length", length) if env_steps is None else _steps("env_steps", env_steps)
        own_length = at - before if length is None else _steps("length", length)
        if own_length < 0 or at < max(before, 1):
            raise ConfigurationError(
                f"report(...) got env_steps={at} and length={own_length} after env_steps={before}: "
                f"env_steps are those of the complete run so far, and never decrease."
            )
        number = _number("episode_return", episode_return)
        own_loss = None if loss is None else _number("loss", loss)
        for name, value in (("episode_return", number), ("loss", own_loss)):
            if value is not None and not np.isfinite(value):
                raise NonFiniteError(
                    f"report(...) got {name}={value} after {at:,} environment steps"
                    + (": leave the loss out where there was no update." if name == "loss" else ".")
                )
        seconds = time.perf_counter() - self._began
        index, notes = len(self.history.returns), self.progress.running.pop(0, RunningEpisode())
        measured = {**notes.custom_metrics, **metrics}
        return Episode(index, at, number, own_length, own_loss, seconds, 0, 0, measured, notes.user_data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.ended = True
        return kind is not None and issubclass(kind, RunEnded)


def _number(name: str, given: Any) -> float:
    """Return a reported number, which may be an array or a tensor of one."""
    try:
        if isinstance(given, str | bytes):
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        raise ConfigurationError(f"report(...) got {name}={given!r}: give a number.") from None


def _steps(name: str, given: Any) -> int:
    """Return a reported number of steps."""
    number = _number(name, given)
    if not number.is_integer():
        raise ConfigurationError(f"report(...) got {name}={given!r}: give a whole number of steps.")
    return int(given)

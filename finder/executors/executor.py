"""The contract of all executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from agents.errors import unknown_name
from finder.trial import Outcome, TrialSpec
from studies.records import EpisodeRecord

NextTrial = Callable[[], TrialSpec | None]


class StudyListener(Protocol):
    """Who hears of all trials, always in the parent process and from one thread."""

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        """A trial's agents are built."""

    def episodes(self, number: int, records: list[EpisodeRecord]) -> None:
        """Episodes of a trial have ended."""

    def report(self, number: int, env_steps: int, value: float) -> bool:
        """A trial's value at an environment step; True prunes the trial."""

    def ended(self, number: int, outcome: Outcome) -> None:
        """A trial has ended. Nothing more is heard of it."""


class Executor(ABC):
    """Runs trials until there are no more.

    A trial is asked for only when there is room to run it, so that whoever proposes it knows as much as possible.
    """

    @abstractmethod
    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        """Runs what `next_trial` gives, until it gives None and every trial has ended.

        Raises:
            KeyboardInterrupt: Goes through, after every trial that was running has been ended as interrupted.
        """


def make_executor(name: str, n_jobs: int = 1) -> Executor:
    """The executor of a name.

    Args:
        name: ``"inline"``: one trial after another, in this process. ``"process"``: a process a trial.
        n_jobs: Trials at the same time; `inline` takes 1 only.

    Raises:
        ConfigurationError: An unknown name, or a number of jobs that it cannot do.
    """
    from agents.errors import ConfigurationError
    from finder.executors.inline import InlineExecutor
    from finder.executors.process import ProcessExecutor

    if name == "process":
        return ProcessExecutor(n_jobs)
    if name == "inline":
        if n_jobs != 1:
            raise ConfigurationError(
                f"The inline executor runs one trial at a time, not n_jobs={n_jobs}; use 'process'."
            )
        return InlineExecutor()
    raise unknown_name("executor", name, ["inline", "process"])

"""The contract of all executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord

NextTrial = Callable[[], TrialSpec | None]


class StudyListener(Protocol):
    """Who hears of all trials, always in the parent process and from one thread."""

    @property
    def prunes(self) -> bool:
        """Whether `rung` may ever stop a trial; where it may not, nobody waits for its answer."""

    @property
    def share(self) -> int | None:
        """Most trials to take at a time, so that others have some too; None for no limit."""

    @property
    def n_to_resume(self) -> int:
        """Trials that wait to continue; the next ones that are given."""

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        """A trial's agents are built."""

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
        """Episodes of trials have ended; none at all is a sign of life."""

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> set[int]:
        """Trial -> seed -> value at an environment step to which all of them have come; answers which are pruned."""

    def ended(self, number: int, outcome: Outcome) -> None:
        """A trial has ended. Nothing more is heard of it."""


class Executor(ABC):
    """Runs trials until there are no more.

    A trial is asked for only when there is room to run it, so that whoever proposes it knows as much as possible.

    Attributes:
        notes: What is worth knowing of why it was chosen, for people.
    """

    notes: Sequence[str] = ()

    @property
    @abstractmethod
    def description(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def trials_at_once(self, n_seeds: int) -> int:
        """About how many trials of so many seeds it runs at the same time."""

    @abstractmethod
    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        """Runs what `next_trial` gives, until it gives None and every trial has ended.

        Raises:
            KeyboardInterrupt: Goes through, after every trial that was running has been ended as interrupted.
        """

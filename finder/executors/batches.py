"""Which trials run together: how many are asked for at a time, and who of several workers gets which."""

from __future__ import annotations

from dataclasses import dataclass

from finder.executors.executor import NextTrial, StudyListener
from finder.trials.trial import TrialSpec


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How trials are put into batches.

    Attributes:
        members: Most runs (trials times seeds) of one batch; a trial is never cut. None: one trial a batch.
        trials: Most trials that are asked for at a time, over all batches; None without limit. Few, where whoever
            proposes them learns from the results of earlier ones.
    """

    members: int | None = None
    trials: int | None = None

    @property
    def name(self) -> str | None:
        """What records call batches of several runs."""
        return None if self.members is None else "population"

    @property
    def description(self) -> str | None:
        """The same for people."""
        return None if self.members is None else f"populations of up to {self.members} runs"

    def trials_of(self, n_workers: int, n_seeds: int) -> int:
        """About how many trials so many workers run at the same time."""
        if self.members is None:
            return n_workers
        room = max(1, n_workers * self.members // n_seeds)
        return room if self.trials is None else min(room, self.trials)

    def next(self, next_trial: NextTrial, n_workers: int, listener: StudyListener) -> list[list[TrialSpec]]:
        """The next batches, up to one a worker; none when there are no trials left.

        Args:
            next_trial: Gives the next trial.
            n_workers: Workers without work.
            listener: Knows how many trials to leave to others, beyond one for each worker.
        """
        limit, room = self._limits(n_workers, listener)
        trials: list[TrialSpec] = []
        while room > 0 and (limit is None or len(trials) < limit):
            trial = next_trial()
            if trial is None:
                break
            trials.append(trial)
            room -= len(trial.seeds)
            if self._is_whole_again(trials, listener):
                break
        return split_into_batches(trials, n_workers)

    def _is_whole_again(self, trials: list[TrialSpec], listener: StudyListener) -> bool:
        """Return whether these are what is left of a batch that was interrupted, and gets no others.

        Those would be judged beside it, and proposed before its results are known, as nobody had it before.
        """
        matters = self.members is not None and (self.trials is not None or listener.prunes)
        return matters and any(trial.resumed for trial in trials) and not listener.n_to_resume

    def _limits(self, n_workers: int, listener: StudyListener) -> tuple[int | None, float]:
        """Most trials, None without limit, and most runs over all batches."""
        if self.members is None:
            return n_workers, float("inf")
        share = listener.share
        known = [
            limit for limit in (self.trials, None if share is None else max(share, n_workers)) if limit is not None
        ]
        return min(known, default=None), self.members * n_workers


def split_into_batches(trials: list[TrialSpec], n_workers: int) -> list[list[TrialSpec]]:
    """Shares trials out so that workers have equally many runs, and those of equal structure stay together.

    Where trials of equal structure go to several workers, neighbours part: those that a plan has side by side do about
    as well, and where the worse half leaves at a rung, no worker shall be left without work.
    """
    structures: dict[tuple[object, ...], list[TrialSpec]] = {}
    for trial in trials:
        structures.setdefault(trial.agent.structure(), []).append(trial)
    ordered = [trial for group in structures.values() for i in range(n_workers) for trial in group[i::n_workers]]
    total = sum(len(trial.seeds) for trial in ordered)
    batches: list[list[TrialSpec]] = [[] for _ in range(n_workers)]
    before = 0
    for trial in ordered:
        middle = before + len(trial.seeds) / 2
        batches[int(middle * n_workers / total)].append(trial)
        before += len(trial.seeds)
    return [batch for batch in batches if batch]

"""The cost of a search in seconds, from the speed of its runs, and the most that an amount pays for: pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from finder.trials.speed import KEPT_STRUCTURES
from studies.adapters.expected_pruning import Course
from studies.spec.objectives import greedy_episodes_of

if TYPE_CHECKING:
    from finder.trials.speed import Speed
    from studies.spec.spec import StudySpec

LOST_AT_RUNGS = 0.05
"""Share of the time that processes lose by waiting for each other (`docs/guides/speed.md`)."""

RECORDING = 0.05
"""Share of the time that recording takes beside training."""

PROCESS_SECONDS = 3.0
"""Seconds until a process has started: the import of TensorFlow, if it does not overlap with other work."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of the trials of a search.

    Attributes:
        speeds: Label of each agent -> its speed.
        n_processes: Processes that run trials at the same time.
        n_cores: Cores of the machine.
        together: Whether a process trains many trials at the same time; otherwise one trial a process.
        own_processes: Whether trials run in other processes than this one. Those of populations run the confirmation
            too; others are started again for it.
        evaluation_interval: Environment steps of a run between its evaluations, for studies that are judged by these; 0
            for none.
        n_evaluations: Evaluations of a run, for such studies; 0 for none.
        n_structures: Different structures of agents among the trials. Trials of one structure are trained in the same
            process if possible, so that each process compiles its share of them.
    """

    speeds: Mapping[str, Speed]
    n_processes: int
    n_cores: int
    together: bool
    own_processes: bool
    n_structures: int = 1
    evaluation_interval: float = 0.0
    n_evaluations: int = 0

    @property
    def first_update(self) -> int:
        """Environment steps of a run before its first update, of the slowest starter."""
        return max(speed.first_update for speed in self.speeds.values())

    @property
    def process_seconds(self) -> float:
        """Seconds until the processes of the trials have started."""
        return PROCESS_SECONDS if self.own_processes else 0.0

    @property
    def compile_seconds(self) -> float:
        """Seconds in which a process builds and compiles all structures of its trials."""
        n_own = min(self.n_structures, math.ceil(self.n_structures / self.n_processes) + 1)
        return self._compile_one * (n_own if self.together else 1)

    @property
    def _compile_one(self) -> float:
        return max(speed.start_seconds for speed in self.speeds.values())

    @property
    def compiles_for_each_trial(self) -> bool:
        """True if each trial has a process of its own."""
        return self.own_processes and not self.together

    def start_seconds(self, n_batches: int, n_confirmed: int) -> float:
        """Return the seconds of the start of processes and of compilation.

        A process that trains many trials compiles once, and is kept for the confirmation.

        Args:
            n_batches: Batches of trials that run one after another.
            n_confirmed: Finalists that are confirmed.
        """
        n_compilations = n_batches if self.compiles_for_each_trial else 1
        searching = self.compile_seconds * n_compilations + self.process_seconds
        return searching + self.later_start_seconds(n_confirmed)

    def later_start_seconds(self, n_trials: int) -> float:
        """Return the seconds of the start of processes and of compilation for a confirmation, or for further trials.

        Args:
            n_trials: Finalists that are confirmed, or the further trials.
        """
        if not n_trials:
            return 0.0
        if self.compiles_for_each_trial:
            return (self.compile_seconds + self.process_seconds) * math.ceil(n_trials / self.n_processes)
        if not self.together or self.n_structures <= KEPT_STRUCTURES:
            return 0.0
        return self._compile_one * math.ceil(min(n_trials, self.n_structures) / self.n_processes)

    def batch_seconds(self, course: Course, n_seeds: int, reached: int = 0) -> float:
        """Return the seconds of a batch of trials, without the start of processes and compilation.

        Args:
            course: How many trials train up to which environment steps.
            n_seeds: Seeds of each trial.
            reached: Environment steps that each run has made, which are left out. Defaults to 0.
        """
        seconds, before = 0.0, 0
        for stage in course:
            first, last = max(before, reached), max(stage.until, reached)
            seconds += self._stage_seconds(first, last, stage.n_trials, n_seeds)
            before = stage.until
        return seconds * (1 + RECORDING)

    def confirmation_seconds(
        self, env_steps: int, n_trials: int, n_seeds: int, relative: Sequence[float] = ()
    ) -> float:
        """Return the seconds of a confirmation, without the start of processes and compilation.

        Args:
            env_steps: Environment steps of each run.
            n_trials: Finalists.
            n_seeds: Seeds of each.
            relative: Time of a training step of each finalist, as a multiple of the usual one. Defaults to none: 1.
        """
        # The seeds of finalists of one structure are divided evenly among populations (`finder.executors.batches`).
        divides = self.together and self.n_structures == 1
        costs = replace(self, evaluation_interval=env_steps / self.n_evaluations if self.n_evaluations else 0.0)
        slower = self._busiest(relative, divides=divides) if relative else None
        return costs._stage_seconds(0, env_steps, n_trials, n_seeds, divides=divides, slower=slower) * (1 + RECORDING)

    def _busiest(self, relative: Sequence[float], *, divides: bool) -> float:
        """Return the time of the process with most to do, as a multiple of that where all trials take the usual time.

        Args:
            relative: Time of a step of each trial, as a multiple of the usual one.
            divides: Whether the seeds of each trial are divided among all processes.
        """
        if divides:
            return sum(relative) / len(relative)
        loads = [0.0] * min(self.n_processes, len(relative))
        for one in sorted(relative, reverse=True):
            loads[loads.index(min(loads))] += one
        return max(loads) / math.ceil(len(relative) / len(loads))

    def _stage_seconds(
        self, first: int, last: int, n_trials: int, n_seeds: int, *, divides: bool = False, slower: float | None = None
    ) -> float:
        """Return the seconds of the environment steps from `first` to `last` of each run."""
        if last <= first or not n_trials:
            return 0.0
        busy = min(self.n_processes, n_trials * n_seeds if divides else n_trials)
        n_runs = math.ceil(n_trials * n_seeds / busy) if divides else math.ceil(n_trials / busy) * n_seeds
        shared = self.slowed_by_others(busy)
        per_label = []
        for speed in self.speeds.values():
            early = max(0, min(last, speed.first_update) - first) * speed.start_share
            steps = early + max(0, last - max(first, speed.first_update))
            if self.together:
                n_own = min(self.n_structures, math.ceil(n_trials / busy))
                each = n_own * speed.shared_seconds + n_runs * speed.run_seconds
            else:
                each = math.ceil(n_trials / busy) * speed.step_seconds(n_seeds)
            n_evaluations = self._n_evaluations(last) - self._n_evaluations(first)
            evaluating = n_evaluations * n_runs * speed.evaluation_seconds
            per_label.append((slower or 1.0) * steps * each + evaluating)
        # Agents in processes of their own end when the slowest does; in a population they are trained in turns. Own
        # times of trials are multiples of the mean.
        takes_mean = self.together or slower is not None
        return shared * (sum(per_label) / len(per_label) if takes_mean else max(per_label))

    def slowed_by_others(self, n_busy: int) -> float:
        """Return the time of a process beside others, as a multiple of its time alone.

        Args:
            n_busy: Processes that train at the same time, itself included.
        """
        return max(1.0, n_busy / self.n_cores) * (1.0 if n_busy == 1 else 1 + LOST_AT_RUNGS)

    def _n_evaluations(self, env_steps: int) -> int:
        """Return the evaluations of a run up to an environment step."""
        return math.floor(env_steps / self.evaluation_interval + 1e-9) if self.evaluation_interval else 0

    def of_study(self, spec: StudySpec) -> Costs:
        """Return the costs with the evaluations of the runs of a study, and no more structures than it has trials."""
        costs = replace(self, n_structures=min(self.n_structures, spec.n_trials))
        if not greedy_episodes_of(spec) or spec.env_steps is None:
            return costs
        return replace(costs, evaluation_interval=spec.env_steps / spec.n_reports, n_evaluations=spec.n_reports)


# The most that an amount pays for -----------------------------------------------------------------------------------


def largest_within(cost: Callable[[int], float], amount: float, low: int, high: int) -> int | None:
    """Return the largest number whose cost, which grows with it, is within an amount; None if `low` costs more.

    The result may be too small by a thousandth.
    """
    found = [within for within, _ in brackets(cost, amount, low, high)]
    return found[-1] if found else None


def brackets(cost: Callable[[int], float], amount: float, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield ever closer pairs of a number within an amount and one beyond it; none if `low` costs more.

    The one beyond is `high` + 1 while none is known. The first number of the last pair is that of `largest_within`.
    """
    if cost(low) > amount:
        return
    within, beyond = low, low
    yield within, high + 1
    while beyond < high:
        beyond = min(high, 2 * beyond)
        if cost(beyond) > amount:
            break
        within = beyond
        yield within, high + 1
    else:
        return
    yield within, beyond
    while beyond - within > max(1, within // 1_000):
        middle = (within + beyond) // 2
        if cost(middle) > amount:
            beyond = middle
        else:
            within = middle
        yield within, beyond

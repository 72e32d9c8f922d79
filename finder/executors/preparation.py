"""The start of worker processes before it is known whether they pay: they import TensorFlow while this process does.

The module imports little, as commands import it before anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.backend.cores import cores
from studies.spec.scheduler_names import is_population_based

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec

CHILD = "finder.executors.worker_process"
"""Module that the fork server of worker processes imports."""

WORTH_PREPARING = 20_000
"""Environment steps over all runs from which processes are prepared before it is known whether they pay."""


def probably_uses_processes(spec: StudySpec) -> bool:
    """Return whether worker processes will probably run a study, before the speed of its agents is known."""
    return are_processes_likely(
        executor=spec.executor, pruner=spec.pruner, strategy=spec.strategy, n_jobs=spec.n_jobs,
        n_trials=spec.n_trials, n_steps=n_steps_of(spec),
    )  # fmt: skip


def are_processes_likely(
    *, executor: str | None, pruner: str, strategy: str, n_jobs: int | None, n_trials: int, n_steps: int | None
) -> bool:
    """Return whether worker processes will probably run trials.

    Args:
        executor: Name of the executor; None for none.
        pruner: Name of the scheduler, or empty.
        strategy: Name of the distribution strategy.
        n_jobs: Number of processes that is asked for; None if it is to be chosen.
        n_trials: Number of trials.
        n_steps: Environment steps of all runs; None if they are unknown.
    """
    if executor == "ray" or is_population_based(pruner):
        return False
    if executor == "process" or strategy != "none":
        return True
    chosen = min(cores(), n_trials) if n_steps is None or n_steps >= WORTH_PREPARING else 1
    return executor != "inline" and (n_jobs or chosen) > 1


def prepare_workers() -> None:
    """Start the fork server of worker processes, which imports TensorFlow; does nothing if it is running."""
    from agents.processes.fork_server import prepare_processes

    prepare_processes(CHILD)


def n_steps_of(spec: StudySpec) -> int | None:
    """Return the environment steps of all runs, None where the budget is in episodes."""
    return None if spec.env_steps is None else spec.env_steps * len(spec.seeds) * spec.n_trials

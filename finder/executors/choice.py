"""Which executor a study runs on."""

from __future__ import annotations

from agents.errors import ConfigurationError, unknown_name
from finder.executors.batches import Batching
from finder.executors.executor import Executor

EXECUTORS = ("population", "process", "inline")

POPULATION = 64
"""Members of a population at most, where nobody says otherwise."""


def make_executor(
    name: str, n_jobs: int = 1, *, population: int = POPULATION, trials_at_once: int | None = None
) -> Executor:
    """The executor of a name.

    Args:
        name: ``"population"``: many trials at a time, in this process or in `n_jobs` others. ``"process"``: a process
            a trial. ``"inline"``: one trial after another, in this process.
        n_jobs: Processes at the same time; `inline` takes 1 only.
        population: Runs (trials times seeds) that a process trains at the same time, >= 1.
        trials_at_once: Most trials that a population asks for before it has results; None without limit.

    Raises:
        ConfigurationError: An unknown name, or a number that it cannot do.
    """
    from finder.executors.inline import InlineExecutor
    from finder.executors.process import ProcessExecutor

    if population < 1:
        raise ConfigurationError(f"population must be >= 1, got {population}.")
    if name == "process":
        return ProcessExecutor(n_jobs)
    if name == "population":
        batching = Batching(members=population, trials=trials_at_once)
        return InlineExecutor(batching) if n_jobs == 1 else ProcessExecutor(n_jobs, batching)
    if name == "inline":
        if n_jobs != 1:
            raise ConfigurationError(
                f"The inline executor runs one trial at a time, not n_jobs={n_jobs}; use 'population' or 'process'."
            )
        return InlineExecutor(Batching())
    raise unknown_name("executor", name, EXECUTORS)

"""The plan of a search as numbers: its trials, environment steps, rungs, time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from finder.budgets.cost import Costs
from finder.executors.choice import PROCESS_BYTES
from studies.scheduling.expected_pruning import Course, Stage, expected_courses, kept_trials, run_steps
from studies.spec.spec import StudySpec


@dataclass(frozen=True, kw_only=True)
class TimeEstimate:
    """The estimated time of a search in seconds.

    Attributes:
        start_seconds: Start of processes and compilation, for the search and for the confirmation.
        search_seconds: Training of the trials of the search.
        confirmation_seconds: Training of the confirmation.
        minutes: The budget in minutes, None without one.
    """

    start_seconds: float
    search_seconds: float
    confirmation_seconds: float
    minutes: float | None = None

    @property
    def total_seconds(self) -> float:
        """All seconds."""
        return self.start_seconds + self.search_seconds + self.confirmation_seconds


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """The plan of a search. `finder.dry_run` returns it; its representation is the text that `--dry-run` prints.

    Attributes:
        spec: The study, with its budget.
        n_trials: Trials of the search.
        n_seeds: Seeds of each trial.
        env_steps: Environment steps of each run; None for a budget in episodes.
        rungs: Environment steps at which trials are pruned, and how many continue, in the first batch of trials.
        n_batches: Batches of trials that run one after another.
        extends: Whether further learning rates follow if the best one is at the edge of the range.
        n_confirmed: Finalists that are run again on further seeds.
        confirm_seeds: Further seeds of each finalist.
        most_steps: Environment steps of all runs at most, confirmation included, without an extension of the range.
        expected_steps: Environment steps of all runs as expected with pruning, confirmation included.
        executor: Description of the executor.
        n_processes: Processes that run trials.
        time: The estimated time; None if it is unknown.
        memory_bytes: The estimated memory of all processes; None if it is unknown.
        free_bytes: The free memory of the machine; None if it is unknown.
        measured: How the speed was measured, a sentence for each agent.
        notes: Further sentences: why the executor was chosen, what the study has already.
    """

    spec: StudySpec
    n_trials: int
    n_seeds: int
    env_steps: int | None
    rungs: tuple[Stage, ...]
    n_batches: int
    extends: bool
    n_confirmed: int
    confirm_seeds: int
    most_steps: int | None
    expected_steps: int | None
    executor: str
    n_processes: int
    time: TimeEstimate | None = None
    memory_bytes: float | None = None
    free_bytes: int | None = None
    measured: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        from finder.budgets.plan_text import plan_lines

        return "\n".join(f"{name:<14}{text}" if name else text for name, text in plan_lines(self))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        spec, time = self.spec, self.time
        return {
            "study": spec.name,
            "kind": spec.kind,
            "agents": list(spec.agents),
            "env": spec.env,
            "trials": self.n_trials,
            "seeds": self.n_seeds,
            "env_steps": self.env_steps,
            "episodes": spec.episodes,
            "sampler": None if spec.plan() else spec.sampler,
            "pruner": spec.pruner,
            "rungs": [{"env_steps": stage.until, "trials_that_continue": stage.n_trials} for stage in self.rungs],
            "batches": self.n_batches,
            "extends_range": self.extends,
            "confirmation": {"trials": self.n_confirmed, "seeds": self.confirm_seeds},
            "total_env_steps": {"most": self.most_steps, "expected": self.expected_steps},
            "executor": self.executor,
            "processes": self.n_processes,
            "minutes": spec.minutes,
            "seconds": None if time is None else {**asdict(time), "total_seconds": time.total_seconds},
            "memory_bytes": self.memory_bytes,
            "free_memory_bytes": self.free_bytes,
            "measured": list(self.measured),
            "notes": list(self.notes),
        }


def n_trials_of(spec: StudySpec) -> int:
    """Return the trials of the search of a study."""
    return len(spec.plan()) or spec.n_trials


def n_finalists(spec: StudySpec, n_trials: int) -> int:
    """Return how many finalists are confirmed: none of a single trial, among which there is nothing to choose."""
    return min(spec.confirm, n_trials) if n_trials > 1 else 0


def most_steps(spec: StudySpec, env_steps: int, n_trials: int) -> int:
    """Return the environment steps of all runs if nothing is pruned."""
    confirming = n_finalists(spec, n_trials) * spec.confirm_seeds
    return env_steps * (n_trials * len(spec.seeds) + confirming)


def expected_steps(spec: StudySpec, courses: Sequence[Course], env_steps: int, n_trials: int) -> int:
    """Return the environment steps of all runs with the expected pruning."""
    confirming = env_steps * n_finalists(spec, n_trials) * spec.confirm_seeds
    return len(spec.seeds) * sum(map(run_steps, courses)) + confirming


def with_budget(spec: StudySpec, env_steps: int, n_trials: int | None = None) -> StudySpec:
    """Return a study with another budget of each run, and with another number of trials if it is given."""
    changes: dict[str, Any] = {"env_steps": env_steps}
    if n_trials is not None:
        changes["n_trials"] = n_trials
    return spec.model_copy(update=changes)


def estimated_time(spec: StudySpec, costs: Costs, n_trials: int, at_once: int | None) -> TimeEstimate:
    """Estimate the time of a search with a budget in environment steps."""
    courses = expected_courses(spec, n_trials, at_once)
    seconds = sum(costs.batch_seconds(course, len(spec.seeds)) for course in courses)
    n_confirmed = n_finalists(spec, n_trials)
    return TimeEstimate(
        start_seconds=costs.start_seconds(len(courses), n_confirmed),
        search_seconds=seconds,
        confirmation_seconds=confirmation_seconds(spec, costs, n_confirmed, spec.confirm_seeds),
        minutes=spec.minutes,
    )


def confirmation_seconds(spec: StudySpec, costs: Costs, n_trials: int, n_seeds: int) -> float:
    """Return the seconds of a confirmation, without the start of processes."""
    if not n_trials or spec.env_steps is None:
        return 0.0
    return costs.batch_seconds((Stage(spec.env_steps, n_trials),), n_seeds)


def rungs_of(courses: Sequence[Course]) -> tuple[Stage, ...]:
    """Return the rungs of the first batch."""
    return tuple(kept_trials(courses[0])) if courses else ()


def memory_of(costs: Costs, n_runs: int) -> float:
    """Return the bytes of all processes, each with its share of the runs that are trained at the same time."""
    of_runs = n_runs * max(speed.run_bytes for speed in costs.speeds.values())
    return costs.n_processes * PROCESS_BYTES + of_runs

"""The plan of a search: its trials, environment steps, rungs, time and memory, as numbers, JSON and text."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from finder.progress.search_progress import seconds_text
from studies.adapters.expected_pruning import Stage
from studies.judging.search_history import finalists_text, n_finalists
from studies.spaces.configurations import is_whole_space
from studies.spaces.space_notation import space_text, spaces_text
from studies.spec.metrics import metric_of
from studies.spec.objectives import greedy_episodes_of, names_of
from studies.spec.spec import StudySpec
from studies.words import counted

_QUESTIONS = {
    "lr": "Which learning rate of {agents} on {env}?",
    "opt": "Which optimizer of {agents} on {env}?",
    "agents": "Which of {agents} on {env}?",
    "tune": "Which hyperparameters of {agents} on {env}?",
}


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

    @property
    def text(self) -> str:
        """The time with its parts."""
        parts = [
            (self.start_seconds, "start and compilation"),
            (self.search_seconds, "search"),
            (self.confirmation_seconds, "confirmation"),
        ]
        listed = ", ".join(f"{what} {seconds_text(seconds)}" for seconds, what in parts if seconds)
        budget = f" of {counted_minutes(self.minutes)}" if self.minutes is not None else ""
        return f"about {seconds_text(self.total_seconds)}{budget} ({listed})"


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """The plan of a search. `finder.dry_run` returns it; its representation is the text that `--dry-run` prints.

    Attributes:
        spec: The study, with its budget.
        rungs: Environment steps at which trials are pruned, and how many continue, in the first batch of trials.
        n_batches: Batches of trials that run one after another.
        extends: Whether further learning rates follow if the best one is at the edge of the range.
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
    rungs: tuple[Stage, ...]
    n_batches: int
    extends: bool
    most_steps: int | None
    expected_steps: int | None
    executor: str
    n_processes: int
    time: TimeEstimate | None = None
    memory_bytes: float | None = None
    free_bytes: int | None = None
    measured: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(f"{name:<14}{text}" if name else text for name, text in self.lines)

    @property
    def n_trials(self) -> int:
        """Trials of the search."""
        return self.spec.n_trials

    @property
    def n_seeds(self) -> int:
        """Seeds of each trial."""
        return len(self.spec.seeds)

    @property
    def env_steps(self) -> int | None:
        """Environment steps of each run; None for a budget in episodes."""
        return self.spec.env_steps

    @property
    def n_confirmed(self) -> int:
        """Finalists that are run again on further seeds."""
        return n_finalists(self.spec)

    @property
    def confirm_seeds(self) -> int:
        """Further seeds of each finalist."""
        return self.spec.confirm_seeds

    @property
    def confirm_env_steps(self) -> int | None:
        """Environment steps of each of their runs; None: as many as in the search."""
        return self.spec.confirm_env_steps

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The plan as text: lines with their names. The first one is the question, and has none."""
        return _lines(self)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        spec, time = self.spec, self.time
        return {
            "study": spec.name,
            "kind": spec.kind,
            "agents": list(spec.agents),
            "env": spec.env,
            "params": {} if spec.plan() else {name: space_text(own) for name, own in spec.search_space().items()},
            "trials": self.n_trials,
            "seeds": self.n_seeds,
            "env_steps": self.env_steps,
            "episodes": spec.episodes,
            "metrics": list(names_of(spec)),
            "sampler": None if spec.plan() else spec.sampler,
            "pruner": spec.pruner,
            "rungs": [{"env_steps": stage.until, "trials_that_continue": stage.n_trials} for stage in self.rungs],
            "batches": self.n_batches,
            "extends_range": self.extends,
            "confirmation": {
                "trials": self.n_confirmed,
                "seeds": self.confirm_seeds,
                "env_steps": self.confirm_env_steps or self.env_steps,
            },
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


def counted_minutes(minutes: float) -> str:
    """Return `1 minute` or `2.5 minutes`."""
    return f"{minutes:g} {'minute' if minutes == 1 else 'minutes'}"


def chosen_text(spec: StudySpec, time: TimeEstimate | None) -> str:
    """Return what was chosen for a budget of the whole search, as a sentence."""
    limit = _limit_text(spec) + ("" if spec.minutes is not None else " in total")
    as_long = ", as long as the long run"
    longest = as_long if spec.env_steps == spec.horizon else ""
    about = "" if time is None else f", about {seconds_text(time.total_seconds)} from now"
    again = ""
    if spec.confirms_longer and (finalists := finalists_text(spec)):
        longer = as_long if spec.confirm_budget == spec.horizon else ""
        again = f", then {finalists} with {spec.confirm_budget:,}{longer}"
    return (
        f"{limit}: {counted(spec.n_trials, 'trial')} of {counted(len(spec.seeds), 'seed')}, "
        f"{spec.env_steps:,} environment steps each{longest}{again}{about}"
    )


def unfinished_text(spec: StudySpec, n_left: int) -> str:
    """Return a sentence about trials that were not run, or not to their end, because of the budget."""
    if spec.minutes is not None:
        flag, more = "minutes", f"{math.ceil(2 * spec.minutes)}"
    else:
        flag, more = "total-env-steps", f"{2 * (spec.total_env_steps or 0)}"
    budget = _limit_text(spec)
    trials = "1 trial was" if n_left == 1 else f"{n_left} trials were"
    if spec.storage == "memory":
        return (
            f"{trials} not run to the end within the budget of {budget}; with a storage, the search could be continued."
        )
    return (
        f"{trials} not run to the end within the budget of {budget}. To continue: the same search with --study-name "
        f"{spec.name} --{flag} {more} (study_name={spec.name!r}, {flag.replace('-', '_')}={more})."
    )


def stopped_text(spec: StudySpec, env_steps: int) -> str:
    """Return a sentence about finalists that were stopped for the budget, and are judged by their last common report.

    Args:
        spec: The study.
        env_steps: Environment steps of that report.
    """
    return (
        f"the budget of {_limit_text(spec)} was spent before the finalists had ended; they are judged by their last "
        f"common report, after {env_steps:,} of {spec.confirm_budget:,} environment steps."
    )


def _limit_text(spec: StudySpec) -> str:
    """Return the budget of a whole search, such as `3 minutes`."""
    return (
        counted_minutes(spec.minutes)
        if spec.minutes is not None
        else f"{spec.total_env_steps or 0:,} environment steps"
    )


def _lines(plan: SearchPlan) -> list[tuple[str, str]]:
    spec = plan.spec
    question = _QUESTIONS.get(spec.kind, _QUESTIONS["tune"])
    lines = [
        ("", question.format(agents=", ".join(spec.agents), env=spec.env)),
        *([] if spec.plan() else [("Search space", spaces_text(spec.search_space()))]),
        ("Trials", _trials(plan)),
        ("Each run", _run(spec)),
        ("Judged by", _judged_by(spec)),
        ("Pruning", _pruning(plan)),
        ("Confirmation", _confirmation(spec)),
        ("In total", _total(plan)),
        ("Runs in", plan.executor),
        ("Time", "unknown" if plan.time is None else plan.time.text),
        ("Memory", _memory(plan)),
    ]
    lines += [("Measured" if k == 0 else "", sentence) for k, sentence in enumerate(plan.measured)]
    return lines + [("Note", note) for note in plan.notes]


def _trials(plan: SearchPlan) -> str:
    spec = plan.spec
    how = "planned" if spec.plan() else f"from the sampler {spec.sampler}"
    if not spec.plan() and is_whole_space(spec.search_space(), spec.n_trials):
        how = f"{how} (the whole space)"
    several = f", in {plan.n_batches} batches" if plan.n_batches > 1 else ""
    extended = "; more if the best rate is at the edge of the range" if plan.extends else ""
    return f"{plan.n_trials:,} {how}, {counted(plan.n_seeds, 'seed')} each{several}{extended}"


def _run(spec: StudySpec) -> str:
    return spec.budget_text + _evaluations(spec)


def _evaluations(spec: StudySpec) -> str:
    """Return what is played beside the training, whose steps are not counted; empty if nothing is."""
    if not (n_episodes := greedy_episodes_of(spec)):
        return ""
    how_often = f"each of {counted(len(spec.report_marks), 'report')}" if spec.env_steps is not None else "each report"
    return f", {counted(n_episodes, 'greedy episode')} at {how_often} (their steps are not counted, their time is)"


def _judged_by(spec: StudySpec) -> str:
    return "; ".join(f"{name}: {metric_of(name).description}" for name in names_of(spec))


def _pruning(plan: SearchPlan) -> str:
    name = plan.spec.pruner
    if name == "none":
        return "none: all trials run to their end"
    if not plan.rungs:
        return f"{name}; none is counted on"
    per = plan.spec.pruner_kwargs.get("per")
    batch = " in each batch" if plan.n_batches > 1 else ""
    rungs = ", ".join(f"{stage.n_trials} after {stage.until:,}" for stage in plan.rungs)
    return f"{name}{f' per {per}' if per else ''}: about {rungs} steps continue{batch}"


def _confirmation(spec: StudySpec) -> str:
    if not (again := finalists_text(spec)):
        return "none"
    longer = f", {spec.confirm_budget:,} environment steps each" if spec.confirms_longer else ""
    return f"{again} again on {counted(spec.confirm_seeds, 'further seed')}{longer}"


def _total(plan: SearchPlan) -> str:
    if plan.most_steps is None or plan.expected_steps is None:
        return "unknown environment steps: the budget is in episodes, and these have no step limit"
    most = f"{plan.most_steps:,} environment steps at most{' without further rates' if plan.extends else ''}"
    if plan.expected_steps == plan.most_steps:
        return most
    return f"{most}, about {plan.expected_steps:,} with pruning"


def _memory(plan: SearchPlan) -> str:
    if plan.memory_bytes is None:
        return "unknown"
    free = "" if plan.free_bytes is None else f" ({plan.free_bytes / 1e9:.1f} GB are free)"
    return f"about {plan.memory_bytes / 1e9:.1f} GB{free}"

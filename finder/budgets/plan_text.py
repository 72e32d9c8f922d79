"""The plan of a search as text, a line for each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from finder.progress.search_progress import seconds_text
from studies.spec.spec import StudySpec
from studies.words import counted, the_best

if TYPE_CHECKING:
    from finder.budgets.search_plan import SearchPlan, TimeEstimate

_QUESTIONS = {
    "lr": "Which learning rate of {agents} on {env}?",
    "opt": "Which optimizer of {agents} on {env}?",
    "agents": "Which of {agents} on {env}?",
    "tune": "Which hyperparameters of {agents} on {env}?",
}


def plan_lines(plan: SearchPlan) -> list[tuple[str, str]]:
    """Return the lines of a plan, each with its name; the first one is the question and has none."""
    spec = plan.spec
    question = _QUESTIONS.get(spec.kind, _QUESTIONS["tune"])
    lines = [
        ("", question.format(agents=", ".join(spec.agents), env=spec.env)),
        ("Trials", _trials(plan)),
        ("Each run", _run(plan)),
        ("Pruning", _pruning(plan)),
        ("Confirmation", _confirmation(plan)),
        ("In total", _total(plan)),
        ("Runs in", plan.executor),
        ("Time", "unknown" if plan.time is None else time_text(plan.time)),
        ("Memory", _memory(plan)),
    ]
    lines += [("Measured" if k == 0 else "", sentence) for k, sentence in enumerate(plan.measured)]
    return lines + [("Note", note) for note in plan.notes]


def chosen_text(spec: StudySpec, time: TimeEstimate | None) -> str:
    """Return what was chosen for a budget of the whole search, as a sentence."""
    if spec.minutes is not None:
        limit = f"{counted_minutes(spec.minutes)}"
    else:
        limit = f"{spec.total_env_steps:,} environment steps in total"
    about = "" if time is None else f", about {seconds_text(time.total_seconds)} from now"
    return (
        f"{limit}: {counted(len(spec.plan()) or spec.n_trials, 'trial')} of {counted(len(spec.seeds), 'seed')}, "
        f"{spec.env_steps:,} environment steps each{about}"
    )


def counted_minutes(minutes: float) -> str:
    """Return `1 minute` or `2.5 minutes`."""
    return f"{minutes:g} {'minute' if minutes == 1 else 'minutes'}"


def time_text(time: TimeEstimate) -> str:
    """Return an estimated time with its parts."""
    parts = [
        (time.start_seconds, "start and compilation"),
        (time.search_seconds, "search"),
        (time.confirmation_seconds, "confirmation"),
    ]
    listed = ", ".join(f"{what} {seconds_text(seconds)}" for seconds, what in parts if seconds)
    budget = f" of {counted_minutes(time.minutes)}" if time.minutes is not None else ""
    return f"about {seconds_text(time.total_seconds)}{budget} ({listed})"


def _trials(plan: SearchPlan) -> str:
    spec = plan.spec
    how = "planned" if spec.plan() else f"from the sampler {spec.sampler}"
    several = f", in {plan.n_batches} batches" if plan.n_batches > 1 else ""
    extended = "; more if the best rate is at the edge of the range" if plan.extends else ""
    return f"{plan.n_trials:,} {how}, {counted(plan.n_seeds, 'seed')} each{several}{extended}"


def _run(plan: SearchPlan) -> str:
    if plan.env_steps is not None:
        return counted(plan.env_steps, "environment step")
    return counted(plan.spec.episodes or 0, "episode")


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


def _confirmation(plan: SearchPlan) -> str:
    if not plan.n_confirmed:
        return "none"
    return f"{the_best(plan.n_confirmed)} again on {counted(plan.confirm_seeds, 'further seed')}"


def _total(plan: SearchPlan) -> str:
    if plan.most_steps is None or plan.expected_steps is None:
        return "unknown environment steps: the budget is in episodes, and these have no step limit"
    most = f"{plan.most_steps:,} environment steps at most"
    if plan.expected_steps == plan.most_steps:
        return most
    return f"{most}, about {plan.expected_steps:,} with pruning"


def _memory(plan: SearchPlan) -> str:
    if plan.memory_bytes is None:
        return "unknown"
    free = "" if plan.free_bytes is None else f" ({plan.free_bytes / 1e9:.1f} GB are free)"
    return f"about {plan.memory_bytes / 1e9:.1f} GB{free}"

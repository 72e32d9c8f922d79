"""What is refused of a new search: budgets that contradict each other."""

from __future__ import annotations

from studies.errors import StudyError
from studies.spec.spec import StudySpec
from studies.words import counted


def refuse_contradictions(spec: StudySpec) -> None:
    """Raise `StudyError` for a search whose settings contradict each other.

    Studies that earlier versions made with such settings can still be read.

    Args:
        spec: The study as it was requested.
    """
    if spec.episodes is not None and any(name.startswith("steps-to:") for name in (spec.metric, *spec.metrics)):
        raise StudyError(
            "steps-to counts environment steps, and the budget is in episodes: runs that do not reach the return have "
            "no common end, and those of short episodes would seem to be the fastest. Give env_steps (--env-steps) "
            "instead."
        )
    if not spec.has_limit or spec.chooses_budget:
        return
    field = "minutes" if spec.minutes is not None else "total_env_steps"
    planned = len(spec.plan())
    given = "n_trials" if "n_trials" in spec.model_fields_set else ""
    what = counted(planned, "planned trial") if planned else given
    if what:
        raise StudyError(
            f"{field} was given with env_steps {spec.env_steps:,} and {what}, which leaves nothing to choose for it: "
            f"leave out env_steps (--env-steps), {'' if spec.plan() else 'n_trials (--n-trials), '}or {field} "
            f"(--{field.replace('_', '-')})."
        )

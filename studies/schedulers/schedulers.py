"""Schedulers by name, with defaults that suit noisy learning curves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from studies.errors import StudyError, nearest
from studies.schedulers.arguments import checked_arguments
from studies.schedulers.asha import ASHA
from studies.schedulers.halving import Halving
from studies.schedulers.hyperband import Hyperband
from studies.schedulers.keep_top import KeepTop
from studies.schedulers.percentile import Percentile
from studies.schedulers.race import Race
from studies.schedulers.scheduler import Scheduler
from studies.schedulers.sequential_test import SequentialTest
from studies.spaces.spaces import Json
from studies.spec.scheduler_names import RACES, canonical_pruner_name

RACE_RUNGS = (0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares of the budget at the rungs of a race."""

SCHEDULERS = ("race", "sequential-test", "keep-top", "median", "percentile", "successive-halving", "hyperband", "asha")
"""Names of schedulers; `studies.make_pruner` describes them."""


def make_scheduler(
    name: str, kwargs: Mapping[str, Json], marks: Sequence[int], parameters: Collection[str], what: str
) -> Scheduler:
    """Return a scheduler whose defaults scale with the budget.

    Args:
        name: A name in `SCHEDULERS`, in any of the spellings of `studies.make_pruner`.
        kwargs: Arguments of the scheduler, as JSON values; they replace the defaults.
        marks: Environment steps at which trials report, ascending, the budget last; empty if the budget is in episodes.
        parameters: Names of the searched parameters.
        what: Name of the scheduler in errors.

    Raises:
        StudyError: If an argument is unknown or out of range, or the scheduler needs a budget in environment steps.
    """
    canonical = canonical_pruner_name(name)
    assert canonical in SCHEDULERS
    budget = marks[-1] if marks else None
    if canonical in ("median", "percentile"):
        defaults: dict[str, Json] = {
            "percentile": 50.0 if canonical == "median" else 25.0,
            "n_warmup_steps": None if budget is None else budget // 2,
        }
        kwargs = checked_arguments(Percentile, kwargs, what, taken={"percentile"} if canonical == "median" else set())
        return _built(Percentile, {**defaults, **kwargs}, kwargs, what)
    at_rungs: dict[str, tuple[type[Scheduler], str, dict[str, Json]]] = {
        **{
            own: (target, "rungs", {"rungs": _near(marks, RACE_RUNGS), "budget": budget})
            for own, target in (("race", Race), ("sequential-test", SequentialTest))
        },
        "keep-top": (KeepTop, "at", {"at": _near(marks, (0.3,))[0]}),
        "successive-halving": (Halving, "min_resource", {"min_resource": _part(budget, 16)}),
        "hyperband": (Hyperband, "min_resource", {"min_resource": _part(budget, 27), "max_resource": budget}),
        "asha": (ASHA, "min_resource", {"min_resource": _first_report(marks), "max_resource": budget}),
    }
    if canonical in RACES and kwargs.get("per") is not None and kwargs["per"] not in parameters:
        raise StudyError(f"{what} is to race per {kwargs['per']!r}. {nearest(str(kwargs['per']), parameters)}")
    scheduler, first, defaults = at_rungs[canonical]
    needs_budget = "budget" in defaults or "max_resource" in defaults
    if budget is None and (needs_budget or first not in kwargs):
        instead = "" if needs_budget else f", or {first}"
        raise StudyError(
            f"{what} needs rungs in environment steps: give the budget as env_steps (--env-steps){instead}."
        )
    kwargs = checked_arguments(scheduler, kwargs, what, taken=set())
    return _built(scheduler, {**(defaults if budget is not None else {}), **kwargs}, kwargs, what)


def _built(
    scheduler: type[Scheduler], arguments: Mapping[str, Json], given: Mapping[str, Json], what: str
) -> Scheduler:
    try:
        return scheduler(**arguments)
    except (TypeError, ValueError) as error:
        raise StudyError(f"{what} refused {dict(given)!r}: {error}") from error


def _first_report(marks: Sequence[int]) -> int:
    """Return the report nearest to a sixteenth of the budget, before its end; that part itself where there is none."""
    part = _part(marks[-1] if marks else None, 16)
    return min(marks[:-1], key=lambda mark: abs(mark - part), default=part)


def _part(budget: int | None, divisor: int) -> int:
    return max(1, (budget or 1) // divisor)


def _near(marks: Sequence[int], shares: Sequence[float]) -> list[Json]:
    """Return the report marks nearest to these shares of the budget, each once; without a budget in steps just 1."""
    if not marks:
        return [1]
    near: set[int] = {min(marks, key=lambda mark: abs(mark - share * marks[-1])) for share in shares}
    return sorted(near - {marks[-1]}) or [marks[-1]]

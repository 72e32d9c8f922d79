"""Pruners by name. Their steps are environment steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from studies.errors import StudyError, nearest
from studies.scheduling.samplers import check_arguments, chosen_by_name
from studies.spec.scheduler_names import RACES, canonical_pruner_name, check_pruner_name
from studies.spec.spaces import Json

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

    from studies.spec.spec import StudySpec

_WITHDRAWN = {
    "wilcoxon": (
        "its test takes the points of one learning curve for independent measurements, which they are not, and so "
        "stops trials by chance. Use 'race', 'sequential-test' (a test over seeds, which are independent) or 'median'."
    )
}
"""Withdrawn pruner -> reason. Studies that name one can still be read."""


def make_pruner(name: str, kwargs: Mapping[str, Json], spec: StudySpec) -> BasePruner:
    """Return a pruner with defaults that suit noisy learning curves.

    The defaults of Optuna count steps from 0 to about 100 and prune from the first one. The defaults here scale with
    the budget:

    - `race`: after 10, 20, 30, 50 and 70% of the budget, the best 90, 80, 70, 50 and 30% continue
      (`studies.scheduling.rungs.RacePruner`); with `per`, a parameter such as `optimizer`, each of its values has its
      own race.
    - `sequential-test`: at the same rungs, trials are pruned whose seeds distinguish them from the best with the
      confidence `level` (0.99) (`SequentialTestPruner`); `per` as above.
    - `keep-top`: the best `keep` (3) continue after `at` (30% of the budget) (`KeepTopPruner`).
    - `median`, `percentile` (25 by default): compare at equal environment steps (`EqualStepsPruner`), with at least 4
      other trials and after half of the budget, because noisy early curves would prune good trials.
    - `successive-halving`: first rung at a sixteenth of the budget, factor 4 (`HalvingPruner`); it needs a budget in
      environment steps.
    - `hyperband`: first rung at a twenty-seventh, factor 3 (`HyperbandPruner`); it needs a budget in environment steps.
    - `patient`: when the best of the last `patience` + 1 (5 + 1) reports is worse than the best before them by more
      than `min_delta`, it consults the pruner named in `wrapped` (none: it prunes). A level curve is not pruned.
    - `threshold` (`lower`, `upper`): as in Optuna.

    Args:
        name: A name in `PRUNERS`, or a class name of Optuna, in any case.
        kwargs: Arguments of the pruner, as JSON values; they replace the defaults.
        spec: Spec of the study, for its budget.

    Raises:
        StudyError: If the name is unknown or withdrawn, or an argument is unknown or rejected.
    """
    canonical = canonical_pruner_name(check_pruner_name(name))
    assert canonical is not None
    what = f"the pruner {name!r}"
    if canonical in _WITHDRAWN:
        raise StudyError(f"{what} was withdrawn: {_WITHDRAWN[canonical]}")
    try:
        with chosen_by_name():
            return _build(canonical, dict(kwargs), spec, what)
    except StudyError:
        raise
    except (TypeError, ValueError) as error:
        raise StudyError(f"{what} refused {dict(kwargs)!r}: {error}") from error


RACE_RUNGS = (0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares of the budget at the rungs of a race."""


def _build(name: str, kwargs: dict[str, Json], spec: StudySpec, what: str) -> BasePruner:
    from optuna import pruners

    from studies.scheduling import rungs
    from studies.scheduling.equal_steps import EqualStepsPruner

    budget = spec.env_steps
    at_rungs: dict[str, tuple[type[BasePruner], str, dict[str, Json]]] = {
        **{
            own: (target, "rungs", {"rungs": _marks(spec, RACE_RUNGS), "budget": budget})
            for own, target in (("race", rungs.RacePruner), ("sequential-test", rungs.SequentialTestPruner))
        },
        "keep-top": (rungs.KeepTopPruner, "at", {"at": _marks(spec, (0.3,))[0]}),
        "successive-halving": (rungs.HalvingPruner, "min_resource", {"min_resource": _part(budget, 16)}),
        "hyperband": (
            rungs.HyperbandPruner,
            "min_resource",
            {"min_resource": _part(budget, 27), "max_resource": budget},
        ),
    }
    if name in RACES and kwargs.get("per") is not None and kwargs["per"] not in spec.search_space():
        raise StudyError(f"{what} is to race per {kwargs['per']!r}. {nearest(str(kwargs['per']), spec.search_space())}")
    target: type[BasePruner]
    defaults: dict[str, Json] = {}
    taken: set[str] = set()
    if name == "none":
        target = pruners.NopPruner
        if kwargs:
            raise StudyError(f"{what} takes no arguments, but {sorted(kwargs)} was given: leave it out.")
    elif name in ("median", "percentile"):
        target = EqualStepsPruner
        defaults = {"percentile": 50.0 if name == "median" else 25.0}
        defaults["n_warmup_steps"] = None if budget is None else budget // 2
        taken = {"percentile"} if name == "median" else set()
    elif name in at_rungs:
        target, first, of_budget = at_rungs[name]
        needs_budget = "budget" in of_budget or "max_resource" in of_budget
        if budget is None and (needs_budget or first not in kwargs):
            instead = "" if needs_budget else f", or {first}"
            raise StudyError(f"{what} needs rungs in environment steps: give the budget as env_steps{instead}.")
        if budget is not None:
            defaults = of_budget
    elif name == "patient":
        named = kwargs.pop("wrapped", "none")
        if canonical_pruner_name(str(named)) in RACES:
            raise StudyError(f"{what} cannot wrap a race, which compares trials at its own rungs.")
        wrapped = make_pruner(named, {}, spec)
        check_arguments(pruners.PatientPruner, kwargs, what, taken={"wrapped_pruner"})
        inner = None if isinstance(wrapped, pruners.NopPruner) else wrapped
        return pruners.PatientPruner(inner, **{"patience": 5, **kwargs})
    else:
        target = pruners.ThresholdPruner
    check_arguments(target, kwargs, what, taken)
    return target(**{**defaults, **kwargs})


def _part(budget: int | None, divisor: int) -> int:
    return max(1, (budget or 1) // divisor)


def _marks(spec: StudySpec, shares: Sequence[float]) -> list[Json]:
    """Return the report marks nearest to these shares of the budget, each once; without a budget in steps just 1."""
    if spec.env_steps is None:
        return [1]
    marks = spec.report_marks
    near: set[int] = {min(marks, key=lambda mark: abs(mark - share * marks[-1])) for share in shares}
    return sorted(near - {marks[-1]}) or [marks[-1]]

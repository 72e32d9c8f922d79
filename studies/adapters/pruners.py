"""Pruners by name. Their steps are environment steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from studies.adapters.quiet_optuna import without_experimental_warnings
from studies.errors import StudyError
from studies.population_based.by_name import population_based_of
from studies.schedulers.arguments import checked_arguments
from studies.schedulers.schedulers import SCHEDULERS, make_scheduler
from studies.spaces.spaces import Json
from studies.spec.scheduler_names import (
    POPULATION_BASED,
    RACES,
    canonical_pruner_name,
    check_pruner_name,
    is_population_based,
    pauses_trials,
)

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

    Trials of the Optuna study that are not part of the search decide nothing.

    The defaults of Optuna count steps from 0 to about 100 and prune from the first one. The defaults here scale with
    the budget:

    - `race`: after 10, 20, 30, 50 and 70% of the budget, the best 90, 80, 70, 50 and 30% continue
      (`studies.schedulers.race.Race`); with `per`, a parameter such as `optimizer`, each of its values has its
      own race.
    - `sequential-test`: at the same rungs, trials are pruned whose seeds distinguish them from the best with the
      confidence `level` (0.99) (`SequentialTest`); `per` as above.
    - `keep-top`: the best `keep` (3) continue after `at` (30% of the budget) (`KeepTop`).
    - `median`, `percentile` (25 by default): compare at equal environment steps (`Percentile`), with at least 4
      other trials and after half of the budget, because noisy early curves would prune good trials.
    - `successive-halving`: first rung at a sixteenth of the budget, factor 4 (`Halving`); it needs a budget in
      environment steps.
    - `hyperband`: first rung at a twenty-seventh, factor 3 (`Hyperband`); it needs a budget in environment steps.
    - `asha`: first rung at the report nearest to a sixteenth, factor 4 (`ASHA`): trials are paused at rungs, and the
      best quarter of each rung continues. It needs a budget in environment steps, and agents whose state can be saved.
    - `patient`: when the best of the last `patience` + 1 (5 + 1) reports is worse than the best before them by more
      than `min_delta`, it consults the scheduler named in `wrapped` (none: it prunes). A level curve is not pruned.
    - `threshold` (`lower`, `upper`): as in Optuna.
    - `pbt`, `pb2`: prune nothing. Trials are members of one population that copy each other
      (`studies.population_based`).

    Args:
        name: A name in `PRUNERS`, or a class name of Optuna, in any case.
        kwargs: Arguments, as JSON values; they replace the defaults.
        spec: Spec of the study, for its budget.

    Raises:
        StudyError: If the name is unknown or withdrawn, or an argument is unknown or rejected.
    """
    canonical = canonical_pruner_name(check_pruner_name(name))
    assert canonical is not None
    what = f"the scheduler {name!r}"
    if canonical in _WITHDRAWN:
        raise StudyError(f"{what} was withdrawn: {_WITHDRAWN[canonical]}")
    try:
        with without_experimental_warnings():  # users have chosen the class by name
            return _build(canonical, dict(kwargs), spec, what)
    except StudyError:
        raise
    except (TypeError, ValueError) as error:
        raise StudyError(f"{what} refused {dict(kwargs)!r}: {error}") from error


def _build(name: str, kwargs: dict[str, Json], spec: StudySpec, what: str) -> BasePruner:
    from optuna import pruners

    from studies.adapters.scheduler_pruner import SchedulerPruner

    if name in SCHEDULERS:
        marks = spec.report_marks if spec.env_steps is not None else ()
        scheduler = make_scheduler(name, kwargs, marks, spec.search_space(), what)
        return SchedulerPruner(scheduler, spec.parameter_names)
    if name == "none":
        if kwargs:
            raise StudyError(f"{what} takes no arguments, but {sorted(kwargs)} was given: leave it out.")
        return pruners.NopPruner()
    if name in POPULATION_BASED:  # Optuna is asked nothing: members are compared by the process that trains them
        population_based_of(spec.model_copy(update={"pruner": name, "pruner_kwargs": kwargs}))
        return pruners.NopPruner()
    if name == "threshold":
        kwargs = checked_arguments(pruners.ThresholdPruner, kwargs, what, taken=set())
        return pruners.ThresholdPruner(**kwargs)
    named = kwargs.pop("wrapped", "none")
    if canonical_pruner_name(str(named)) in RACES:
        raise StudyError(f"{what} cannot wrap a race, which compares trials at its own rungs.")
    if pauses_trials(str(named)):
        raise StudyError(f"{what} cannot wrap {named!r}, which pauses trials: wrap a pruner that stops them.")
    if is_population_based(str(named)):
        raise StudyError(f"{what} cannot wrap {named!r}, which prunes nothing: give {named!r} alone.")
    wrapped = make_pruner(named, {}, spec)
    kwargs = checked_arguments(pruners.PatientPruner, kwargs, what, taken={"wrapped_pruner"})
    inner = None if isinstance(wrapped, pruners.NopPruner) else wrapped
    return pruners.PatientPruner(inner, **{"patience": 5, **kwargs})

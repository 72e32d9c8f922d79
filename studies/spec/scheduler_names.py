"""Names of samplers and schedulers, as users write them."""

from __future__ import annotations

from typing import Any

from studies.errors import StudyError, nearest

GRID_SAMPLERS = frozenset({"grid", "bruteforce"})
"""Samplers that are plans: the study runs the rows of `studies.spaces.plan.grid_rows`, which survives interruptions."""

SAMPLERS = ("tpe", "random", "cmaes", "gp", "qmc", "nsgaii", "nsgaiii", *sorted(GRID_SAMPLERS))
"""Names that `studies.make_sampler` accepts, beside class names of Optuna such as `TPESampler`."""

PRIOR_SAMPLERS = ("tpe", "gp")
"""Samplers that learn from any finished trials, those of another study included; the others only from their own."""

PRUNERS = (
    "none",
    "race",
    "sequential-test",
    "median",
    "percentile",
    "successive-halving",
    "sha",
    "hyperband",
    "asha",
    "keep-top",
    "patient",
    "threshold",
    "pbt",
    "pb2",
)
"""Names of schedulers that `studies.make_pruner` accepts, beside class names of Optuna such as `MedianPruner`."""

RACES = ("race", "sequential-test")
"""Schedulers that race: they compare single seeds at rungs, and can race the values of a parameter separately."""

POPULATION_BASED = ("pbt", "pb2")
"""Schedulers that prune nothing: members of one population copy each other (`studies.population_based`)."""

_NAMES = {name.replace("-", ""): name for name in PRUNERS} | {
    "nop": "none",
    "sha": "successive-halving",
    "wilcoxon": "wilcoxon",
}
"""Name without hyphens -> short name; aliases and withdrawn schedulers included."""


def canonical_sampler_name(name: str) -> str:
    """Return the short name of a sampler: `TPESampler`, `cma-es` and `TPE` become `tpe`, `cmaes` and `tpe`."""
    return name.lower().replace("-", "").replace("_", "").removesuffix("sampler")


def check_sampler_name(name: Any) -> str:
    """Return `name` if a sampler has it.

    Raises:
        StudyError: If the name is unknown; names the nearest ones.
    """
    if not isinstance(name, str) or canonical_sampler_name(name) not in SAMPLERS:
        raise StudyError(f"there is no sampler {name!r}. {nearest(str(name), SAMPLERS)}")
    return name


def is_grid(name: str) -> bool:
    """Return whether a sampler is a plan (`GRID_SAMPLERS`)."""
    return canonical_sampler_name(name) in GRID_SAMPLERS


def learns_from_results(name: str) -> bool:
    """Return whether the proposals of a sampler depend on the results of earlier trials."""
    return canonical_sampler_name(name) not in {"random", "qmc", *GRID_SAMPLERS}


def canonical_pruner_name(name: str) -> str | None:
    """Return the short name of a scheduler (`SuccessiveHalvingPruner` and `sha` are the same), None if unknown."""
    return _NAMES.get(name.lower().replace("-", "").replace("_", "").removesuffix("pruner"))


def prunes_trials(name: str) -> bool:
    """Return whether a scheduler prunes trials."""
    return canonical_pruner_name(name) not in ("none", *POPULATION_BASED)


def pauses_trials(name: str) -> bool:
    """Return whether a scheduler pauses trials, and continues some of them later."""
    return canonical_pruner_name(name) == "asha"


def is_population_based(name: str) -> bool:
    """Return whether a scheduler is population-based training."""
    return canonical_pruner_name(name) in POPULATION_BASED


def check_pruner_name(name: Any) -> str:
    """Return `name` if a scheduler has it, or a withdrawn one had it.

    Stored studies with a withdrawn scheduler can be read but not run.

    Raises:
        StudyError: If the name is unknown; names the nearest ones.
    """
    if not isinstance(name, str) or canonical_pruner_name(name) is None:
        raise StudyError(f"there is no scheduler {name!r}. {nearest(str(name), PRUNERS)}")
    return name

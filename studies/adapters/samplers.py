"""Samplers by name, for studies without a plan."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from studies.adapters.quiet_optuna import without_experimental_warnings
from studies.errors import StudyError
from studies.schedulers.arguments import checked_arguments
from studies.spaces.spaces import Json
from studies.spec.scheduler_names import GRID_SAMPLERS, canonical_sampler_name, check_sampler_name

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from studies.spec.spec import StudySpec

_CLASSES = {
    "tpe": "TPESampler",
    "random": "RandomSampler",
    "cmaes": "CmaEsSampler",
    "gp": "GPSampler",
    "qmc": "QMCSampler",
    "nsgaii": "NSGAIISampler",
    "nsgaiii": "NSGAIIISampler",
}
_PACKAGES = {"cmaes": "cmaes", "gp": "torch"}


def make_sampler(name: str, kwargs: Mapping[str, Json], seed: int, spec: StudySpec) -> BaseSampler:
    """Return a sampler.

    Args:
        name: A name in `SAMPLERS`, or a class name of Optuna, with or without "Sampler", in any case.
        kwargs: Arguments of the sampler, as JSON values.
        seed: Seed of its random numbers, different for every trial (`studies.adapters.trial_sampler`).
        spec: Spec of the study. Low-discrepancy sequences (`qmc`) use its seed, since they store their position in the
            storage and continue only under the same seed; parameters outside of the sequence, such as conditional ones,
            are drawn with `seed`.

    Returns:
        The sampler. Studies with a plan never call it, so they get a random one.

    Raises:
        StudyError: If the name is unknown, an argument is unknown or rejected, or a required package is missing.
    """
    from optuna import samplers

    canonical = canonical_sampler_name(check_sampler_name(name))
    if canonical in GRID_SAMPLERS:
        return samplers.RandomSampler(seed=seed)
    package = _PACKAGES.get(canonical)
    if package is not None and importlib.util.find_spec(package) is None:
        raise StudyError(
            f"the sampler {name!r} needs the package {package!r}, which is not installed: pip install {package}."
        )
    sampler_class = getattr(samplers, _CLASSES[canonical])
    own: dict[str, Any] = {"seed": seed}
    if canonical == "qmc":
        own = {"seed": spec.seed, "independent_sampler": samplers.RandomSampler(seed=seed)}
    kwargs = checked_arguments(sampler_class, kwargs, what=f"the sampler {name!r}", taken=set(own))
    given = {**_for_conditions(sampler_class, kwargs, spec), **kwargs}
    try:
        with without_experimental_warnings():  # users have chosen the class by name
            sampler: BaseSampler = sampler_class(**given, **own)
    except (TypeError, ValueError) as error:
        raise StudyError(f"the sampler {name!r} refused {dict(kwargs)!r}: {error}") from error
    return sampler


def _for_conditions(sampler_class: type[Any], kwargs: Mapping[str, Json], spec: StudySpec) -> dict[str, Json]:
    """Return further arguments that suit conditional parameters, {} where there are none.

    TPE models parameters together that exist in the same trials (`group`). Other samplers propose a parameter that does
    not exist in every trial by itself, and would warn of that in each trial.
    """
    if not any(space.when for space in spec.params.values()):
        return {}
    known = inspect.signature(sampler_class).parameters
    if "group" in known:
        return {} if kwargs.get("multivariate") is False else {"group": True}
    return {"warn_independent_sampling": False} if "warn_independent_sampling" in known else {}

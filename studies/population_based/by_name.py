"""The population-based training of a study, from its name and arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from studies.errors import StudyError, nearest
from studies.population_based.pb2 import PB2
from studies.population_based.pbt import PBT
from studies.population_based.population_based import PopulationBased
from studies.spaces.numbers import is_number
from studies.spec.population_rules import perturb_steps_of, searched_ranges
from studies.spec.scheduler_names import canonical_pruner_name, is_population_based

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec

_CLASSES: dict[str, type[PopulationBased]] = {"pbt": PBT, "pb2": PB2}

_OF_THE_STUDY = ("spaces", "seed")


def population_based_of(spec: StudySpec) -> PopulationBased | None:
    """Return the population-based training of a study; None if its trials are not trained so.

    Its seed is that of the study.

    Raises:
        StudyError: An argument is unknown or out of range.
    """
    if not is_population_based(spec.pruner):
        return None
    own = _CLASSES[str(canonical_pruner_name(spec.pruner))]
    allowed = [name for name in inspect.signature(own).parameters if name not in _OF_THE_STUDY]
    for key in spec.pruner_kwargs:
        if key not in allowed:
            raise StudyError(f"the scheduler {spec.pruner!r} has no argument {key!r}. {nearest(key, allowed)}")
    for name, given in spec.pruner_kwargs.items():
        _check_kind(f"the scheduler {spec.pruner!r}", name, given, inspect.signature(own).parameters[name].default)
    arguments = {**spec.pruner_kwargs, "perturb_steps": perturb_steps_of(spec)}
    try:
        return own(spaces=searched_ranges(spec), seed=spec.seed, **arguments)
    except (TypeError, ValueError) as error:
        raise StudyError(f"the scheduler {spec.pruner!r} refused {dict(spec.pruner_kwargs)!r}: {error}") from error


def _check_kind(what: str, name: str, given: object, default: object) -> None:
    """Raise `StudyError` for an argument of another kind than its default: whole numbers, numbers or two numbers."""
    if isinstance(default, tuple):
        good, wanted = isinstance(given, Sequence) and all(map(is_number, given)), "a list of two numbers"
    elif isinstance(default, float):
        good, wanted = is_number(given), "a number"
    else:  # a number of something
        good, wanted = isinstance(given, int) and not isinstance(given, bool), "a whole number"
    if not good:
        raise StudyError(f"{name} of {what} is {given!r}: give {wanted}.")

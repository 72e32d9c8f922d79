"""Searches that start from the trials of another study."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from agents.config.agent_config import AgentConfig
from agents.contract.spec import config_class
from agents.errors import ConfigurationError, check_whole
from finder.budgets.earlier import with_choices_of
from finder.results.search_result import SearchResult
from studies.checked_model import plain
from studies.spec.compatibility import differences
from studies.spec.spec import StudySpec
from studies.study.study import OpenStudy, load_study

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

N_BEST = 5
"""Trials of the other study that are tried first, unless a number is given."""


def with_warm_start(
    spec: StudySpec,
    source: str | OpenStudy | SearchResult,
    storage: str | PathLike[str] | None = None,
    n_best: int | None = None,
) -> StudySpec:
    """Return a study that tries the best trials of another one first, and whose sampler learns from all of them.

    They follow the first trials that the study has already. `studies.analysis.warm_start` decides which trials can
    inform the sampler.

    Args:
        spec: The study.
        source: The other study, its name, or the result of its search.
        storage: Storage of the other study. Defaults to None: that of the study.
        n_best: Trials that are tried first, at least 0. Defaults to None: 5, but no more than the study has trials.

    Raises:
        ConfigurationError: The study would start from itself, or `n_best` is not a number of its trials.
        StudyError: There is no such study (names the nearest), it has no pick, or no parameter in common.
    """
    from studies.analysis.warm_start import start_from

    check_whole(0, warm_start_trials=n_best)
    n_best = plain(n_best)
    if storage is not None and not (isinstance(storage, str | PathLike) and str(storage).strip()):
        raise ConfigurationError(f"warm_start_storage is {storage!r}: give a file or a URL, or leave it out.")
    source = source.study if isinstance(source, SearchResult) else source
    if not isinstance(source, str | OpenStudy):
        raise ConfigurationError(
            f"warm_start is {source!r}: give the name of a study, an open study (studies.load_study), or the result of "
            "a search."
        )
    left = spec.n_trials - len(spec.first)
    if n_best is not None and n_best > left:
        raise ConfigurationError(
            f"warm_start_trials is {n_best}, but the study has {spec.n_trials} trials, {len(spec.first)} of them given "
            f"by first: give at most {left}, or more trials."
        )
    if spec.plan():
        raise ConfigurationError("A warm start is for samplers, and this study has a plan or a grid: leave it out.")
    opened: AbstractContextManager[OpenStudy] = (
        load_study(source, storage or spec.storage) if isinstance(source, str) else contextlib.nullcontext(source)
    )
    with opened as other:
        is_itself = (other.name, other.storage.label) == (spec.name, _label(spec.storage))
        if is_itself and not differences(other.spec, with_choices_of(spec, other.spec)):
            raise ConfigurationError(
                f"The study {spec.name!r} cannot start from itself: give the new study another name (--study-name "
                f"{spec.name}-2; in Python study_name={spec.name + '-2'!r}), or leave the warm start out to resume it."
            )
        start = start_from(other, spec, N_BEST if n_best is None else n_best, _opposites(spec), _optimizers(spec))
    return StudySpec.from_json_dict(
        {
            **spec.model_dump(mode="json", exclude_unset=True),  # what was not given stays so
            "first": [*spec.first, *start.first],
            "warm_start": start.warm_start.model_dump(mode="json"),
        }
    )


def _opposites(spec: StudySpec) -> Mapping[str, str]:
    """Return hyperparameter -> complement, and complement -> hyperparameter."""
    found: dict[str, str] = {}
    for label in spec.agents:
        with contextlib.suppress(ConfigurationError):  # a class from a script, which cannot be found by its label
            found |= config_class(label).complements()
    return {**found, **{name: complement for complement, name in found.items()}}


def _optimizers(spec: StudySpec) -> Mapping[str, str]:
    """Return agent -> label of its optimizer with the settings that the study does not search."""
    found: dict[str, str] = {}
    for label in spec.agents:
        given = {**spec.agent_params.get(label, {}), **spec.fixed}
        with contextlib.suppress(ConfigurationError):  # a class from a script, which cannot be found by its label
            config = config_class(label).from_dict(given)
            if isinstance(config, AgentConfig):
                found[label] = config.optimizer_spec().label_with_schedule
    return found


def _label(storage: str) -> str:
    from studies.storage.storage_url import parse_storage_url

    return parse_storage_url(storage).label

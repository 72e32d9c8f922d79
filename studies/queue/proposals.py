"""Parameters of a new trial: those of its plan, and those that the sampler proposes, no configuration twice.

A search over a few values would otherwise train the same configuration on the same seeds again and again, as samplers
propose good configurations often.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial

from studies.adapters.trial_sampler import TrialSampler
from studies.queue.trial_states import StartedTrial
from studies.spaces.conditions import holds
from studies.spaces.configurations import configurations, is_finite_space
from studies.spaces.spaces import encode
from studies.spec.attributes import exclusion_reason, is_confirmation

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

ATTEMPTS = 10
"""Proposals of a sampler for one trial, until one was not tried before."""

MOST_CONFIGURATIONS = 10_000
"""Largest space in which a configuration that was not tried is searched for if no proposal is new."""

Params = Mapping[str, Any]
Configuration = frozenset[tuple[str, Any]]


def configuration(params: Params, distributions: Mapping[str, BaseDistribution]) -> Configuration:
    """Return the parameters that can differ between trials, equal for equal configurations.

    Args:
        params: Parameters of a trial, as Optuna stores them.
        distributions: Distributions of the search.
    """
    return frozenset(
        (name, _position(value, distributions[name]))
        for name, value in params.items()
        if name in distributions and not distributions[name].single()
    )


def _position(value: Any, distribution: BaseDistribution) -> Any:
    """Return a value; of a range of real numbers with a step its number of steps, which has no rounding error."""
    if isinstance(distribution, FloatDistribution) and distribution.step is not None:
        return round((value - distribution.low) / distribution.step)
    return value


def suggest_parameters(study: optuna.Study, started: StartedTrial[FrozenTrial]) -> StartedTrial[Trial]:
    """Return a running trial with all its parameters set.

    The sampler proposes those that are neither planned nor set: a process may have died between two parameters. If all
    proposals were tried before, the nearest configuration that was not is taken; if there is none, one is repeated.

    Conditional parameters are suggested only where their conditions hold, so that samplers learn of a parameter from
    the trials that have it.

    Samplers may be slow: call this with the lease of the trial, and without the planning lease.

    Args:
        study: Optuna study.
        started: The trial.
    """
    study._thread_local.cached_all_trials = None  # as `ask` does, so that samplers read all trials again
    due = {name for name in started.distributions if holds(started.conditions.get(name, {}), started.trial.params)}
    with warnings.catch_warnings():
        # A step of a grid may be a rounding error away from Optuna's; `settle` has accepted it.
        warnings.filterwarnings("ignore", message="Fixed parameter")
        if due <= started.trial.params.keys():
            trial = Trial(study, started.trial._trial_id)
        else:
            trial, params = _proposed(study, started)
            trial._fixed_params = dict(params)
            for name in params:
                trial._suggest(name, started.distributions[name])
    return StartedTrial(**{**started._asdict(), "trial": trial})


class _Draw(NamedTuple):
    """Parameters of a trial, none of which is written.

    Attributes:
        params: The parameters.
        is_sampled: Whether the sampler has proposed one of them.
        is_same: Whether those that are set already were drawn again.
    """

    params: Params
    is_sampled: bool
    is_same: bool


def _proposed(study: optuna.Study, started: StartedTrial[FrozenTrial]) -> tuple[Trial, Params]:
    """Return a trial and all its parameters."""
    sampler, distributions = study.sampler, started.distributions
    tried: set[Configuration] | None = None
    draws: list[Params] = []
    for attempt in range(ATTEMPTS):
        if isinstance(sampler, TrialSampler):
            sampler.attempt = attempt
        trial = Trial(study, started.trial._trial_id)
        draw = _drawn(study, trial, started)
        if not draw.is_sampled:
            return trial, draw.params
        tried = _tried(study, started) if tried is None else tried
        if draw.is_same and configuration(draw.params, distributions) not in tried:
            return trial, draw.params
        draws.append(draw.params)
        if isinstance(sampler, TrialSampler) and not sampler.redraws:
            break
    assert tried is not None
    if (nearest := _nearest_untried(started, draws[0], tried)) is not None:
        return trial, nearest
    new = [params for params in draws if configuration(params, distributions) not in tried]
    return trial, (new or draws)[0]


def _drawn(study: optuna.Study, trial: Trial, started: StartedTrial[FrozenTrial]) -> _Draw:
    there, planned = started.trial.params, _planned(started)
    params: dict[str, Any] = {}
    is_sampled, is_same = False, True
    for name, distribution in started.distributions.items():
        if not holds(started.conditions.get(name, {}), params):
            continue
        is_given = name in planned or distribution.single()
        value = planned[name] if name in planned else _value(study, trial, name, distribution)
        params[name] = there.get(name, value)
        is_sampled |= not is_given
        is_same &= params[name] == value
    return _Draw(params, is_sampled, is_same)


def _planned(started: StartedTrial[FrozenTrial]) -> Params:
    planned: Params = started.trial.system_attrs.get("fixed_params", {})
    return planned


def _value(study: optuna.Study, trial: Trial, name: str, distribution: Any) -> Any:
    if distribution.single():
        return distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low
    if trial._is_relative_param(name, distribution):
        return trial.relative_params[name]
    return study.sampler.sample_independent(study, trial._get_latest_trial(), name, distribution)


def _tried(study: optuna.Study, started: StartedTrial[FrozenTrial]) -> set[Configuration]:
    """Return the configurations that are not to be proposed again; none where a repetition is unlikely.

    Those of failed trials belong to them, as their replacement is another configuration, but for those that this
    process retries.
    """
    distributions = started.distributions
    is_unlikely = any(
        isinstance(each, FloatDistribution)
        and each.step is None
        and not each.single()
        and name not in started.conditions
        for name, each in distributions.items()
    )
    if is_unlikely:
        return set()
    return {
        configuration({**each.system_attrs.get("fixed_params", {}), **each.params}, distributions)
        for each in study._storage.get_all_trials(study._study_id, deepcopy=False)
        if each.number not in {started.trial.number, *started.retried}
        and not is_confirmation(each)
        and not exclusion_reason(each, distributions)
    }


def _nearest_untried(
    started: StartedTrial[FrozenTrial], params: Params, tried: Collection[Configuration]
) -> dict[str, Any] | None:
    """Return the configuration nearest to a proposal that was not tried; None if there is none, or too many to list."""
    if not (started.spaces and is_finite_space(started.spaces)):
        return None
    rows = list(itertools.islice(configurations(started.spaces), MOST_CONFIGURATIONS + 1))
    if len(rows) > MOST_CONFIGURATIONS:
        return None
    given = configuration({**_planned(started), **started.trial.params}, started.distributions)
    random.Random(started.trial.number).shuffle(rows)  # of all rows, so that a repeated call breaks ties alike
    listed = [{name: encode(value) for name, value in row.items()} for row in rows]
    found = [(row, configuration(row, started.distributions)) for row in listed]
    left = [row for row, own in found if given <= own and own not in tried]
    return min(left, key=lambda row: _distance(row, params, started.distributions), default=None)


def _distance(row: Params, other: Params, distributions: Mapping[str, BaseDistribution]) -> float:
    """Return the sum of the differences in each parameter, from 0 to 1 each."""
    return sum(
        _difference(row[name], other[name], distribution) if {name} <= row.keys() & other.keys() else 1.0
        for name, distribution in distributions.items()
        if name in row.keys() | other.keys()
    )


def _difference(one: Any, other: Any, distribution: BaseDistribution) -> float:
    if not isinstance(distribution, IntDistribution | FloatDistribution) or distribution.single():
        return float(one != other)
    ends = (one, other, distribution.low, distribution.high)
    at, at_other, low, high = map(math.log, ends) if distribution.log else map(float, ends)
    return abs(at - at_other) / (high - low)

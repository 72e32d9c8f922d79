"""Trials of a warm start in the form in which Optuna's samplers read trials."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from studies.spaces.spaces import distribution, encode, settle
from studies.spec.attributes import DIVERGED_ATTR
from studies.spec.scheduler_names import PRIOR_SAMPLERS, canonical_sampler_name

if TYPE_CHECKING:
    from studies.spec.spec import StudySpec
    from studies.spec.warm_start import PriorTrial

NUMBER = -1
"""Number of all of them: samplers order trials by number, and these are the oldest."""

_ENDED = datetime.datetime(2000, 1, 1)


def prior_trials(spec: StudySpec) -> list[FrozenTrial]:
    """Return the trials of the warm start of a study, with the distributions of the study.

    Returns:
        No trials if the study has no warm start, or now has a sampler that cannot use them.
    """
    if spec.warm_start is None or canonical_sampler_name(spec.sampler) not in PRIOR_SAMPLERS:
        return []
    return [_frozen(each, spec) for each in spec.warm_start.trials]


def _frozen(prior: PriorTrial, spec: StudySpec) -> FrozenTrial:
    spaces = {name: space for name, space in spec.search_space().items() if name in prior.params}
    state, reports = TrialState.COMPLETE, dict[int, float]()
    if prior.value is None:  # it diverged
        state = TrialState.FAIL
    elif prior.pruned_at is not None:
        state, reports = TrialState.PRUNED, {prior.pruned_at: prior.value}
    return FrozenTrial(
        number=NUMBER,
        trial_id=NUMBER,
        state=state,
        value=prior.value,
        datetime_start=_ENDED,
        datetime_complete=_ENDED,
        params={name: encode(settle(space, prior.params[name])) for name, space in spaces.items()},
        distributions={name: distribution(space) for name, space in spaces.items()},
        user_attrs={DIVERGED_ATTR: True} if state == TrialState.FAIL else {},
        system_attrs={},
        intermediate_values=reports,
    )

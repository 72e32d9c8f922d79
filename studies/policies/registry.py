"""Policies by name."""

from __future__ import annotations

from collections.abc import Mapping

from studies.errors import StudyError, nearest
from studies.policies import baselines
from studies.policies.default import default_search
from studies.policies.policy import Policy
from studies.policies.race import race
from studies.policies.tpe import tpe_median

POLICIES: Mapping[str, Policy] = {
    "race": race,
    "default": default_search,
    "grid": baselines.grid,
    "random": baselines.random_search,
    "keep-top": baselines.keep_top,
    "halving": baselines.successive_halving,
    "hyperband": baselines.hyperband,
    "tpe-median": tpe_median,
}


def make_policy(name: str) -> Policy:
    """Return the policy with a name.

    Raises:
        StudyError: If there is none; names the nearest.
    """
    if name not in POLICIES:
        raise StudyError(f"there is no policy {name!r}. {nearest(name, POLICIES)}")
    return POLICIES[name]

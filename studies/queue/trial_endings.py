"""Endings of trials: states, values, attributes and reasons."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple, get_args

from optuna.trial import FrozenTrial, TrialState

from studies.errors import StudyError
from studies.spaces.spaces import Json, check_json
from studies.spec.attributes import DIVERGED_ATTR, FAILURE_ATTR, PAUSED_ATTR, REASON_ATTR, TRACEBACK_ATTR, FailureKind
from studies.spec.scheduler_names import canonical_pruner_name, pauses_trials

TRACEBACK_BYTES = 8_192
"""Maximum length of a stored traceback in bytes."""

REASON_CHARACTERS = 1_000
"""Maximum length of a stored reason in characters."""

BUDGET = "budget"
"""Takes the place of the scheduler of trials that were pruned to keep the budget of the search."""


class TrialEnding(NamedTuple):
    """Ending of a trial.

    Attributes:
        state: COMPLETE, PRUNED or FAIL.
        value: Value of a complete trial.
        attrs: Attributes to store.
    """

    state: TrialState
    value: float | None
    attrs: dict[str, Json]


def completion(
    value: float, seed_values: Mapping[int, float] | None = None, extra: Mapping[str, Json] | None = None
) -> TrialEnding:
    """Return the ending of a trial that used its whole budget: a failure if its values are not finite.

    Raises:
        StudyError: If `extra` is not JSON.
    """
    values = {"value": value, **{f"value of seed {seed}": each for seed, each in (seed_values or {}).items()}}
    wrong = [f"the {name} is {each}" for name, each in values.items() if not math.isfinite(each)]
    if wrong:
        return failure(f"no usable result: {wrong[0]}", "", extra)
    return _checked(TrialEnding(TrialState.COMPLETE, float(value), _seed_attrs(seed_values, extra)))


def pruning(
    scheduler: str,
    env_steps: int,
    value: float,
    seed_values: Mapping[int, float] | None = None,
    extra: Mapping[str, Json] | None = None,
) -> TrialEnding:
    """Return the ending of a trial that was pruned after this many environment steps, with this value.

    Args:
        scheduler: Name of the scheduler, or `BUDGET`.
        env_steps: Environment steps of each of its seeds.
        value: Its value there.
        seed_values: Value of each seed.
        extra: Further attributes.

    Raises:
        StudyError: If `extra` is not JSON.
    """
    known = {seed: each for seed, each in (seed_values or {}).items() if math.isfinite(each)}
    attrs = {"pruned_at": int(env_steps), REASON_ATTR: pruning_reason(scheduler, env_steps, value)}
    return _checked(TrialEnding(TrialState.PRUNED, None, {**attrs, **_seed_attrs(known, extra)}))


def pause(
    env_steps: int, seed_values: Mapping[int, float] | None = None, extra: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """Return the attributes of a trial that was paused after this many environment steps.

    Raises:
        StudyError: If `extra` is not JSON.
    """
    attrs: dict[str, Json] = {PAUSED_ATTR: int(env_steps), **_seed_attrs(seed_values, extra)}
    check_json(attrs)
    return attrs


def failure(
    reason: str, traceback: str = "", extra: Mapping[str, Json] | None = None, *, kind: FailureKind = "error"
) -> TrialEnding:
    """Return the ending of a trial that raised, diverged or lost its process; see `Recorder.failed`.

    Raises:
        StudyError: If `extra` is not JSON, or the kind is unknown.
    """
    if kind not in get_args(FailureKind):
        raise StudyError(f"kind is {kind!r}: give one of {', '.join(get_args(FailureKind))}.")
    attrs: dict[str, Json] = {**(extra or {}), REASON_ATTR: reason[:REASON_CHARACTERS], FAILURE_ATTR: kind}
    if kind == "diverged":
        attrs[DIVERGED_ATTR] = True  # for earlier versions
    if traceback:
        attrs[TRACEBACK_ATTR] = end_of(traceback)
    return _checked(TrialEnding(TrialState.FAIL, None, attrs))


def pruning_reason(scheduler: str, env_steps: int, value: float) -> str:
    """Return the reason of a trial that was pruned after this many environment steps, with this value."""
    at = f" with {value:.4g}" if math.isfinite(value) else ""
    after = f"{at} after {env_steps:,} environment steps"
    if scheduler == BUDGET:
        return f"there was no budget for all trials, and it was one of the worst{after} (budget)"
    when = f"{after} (scheduler {scheduler})"
    if canonical_pruner_name(scheduler) == "race":  # it also judges by neighbouring rates, and by their expected drift
        return f"others were expected to end better; it was stopped{when}"
    if pauses_trials(scheduler):
        return f"it was paused and never promoted{when}"
    return f"it had fallen behind{when}"


def short_reason(trial: FrozenTrial) -> str:
    """Return the reason why a trial was pruned, without value and steps; "" if it was not pruned."""
    if trial.state != TrialState.PRUNED:
        return ""
    reason = str(trial.user_attrs.get(REASON_ATTR, ""))
    by = r"(?= \((?:scheduler|pruner|budget))"  # earlier versions wrote `pruner`
    return re.sub(rf"(; it was stopped)?( with \S+)? after [\d,]+ environment steps{by}", "", reason)


def end_of(traceback: str) -> str:
    """Return the last `TRACEBACK_BYTES` of a traceback, which include the cause."""
    encoded = traceback.encode()
    if len(encoded) <= TRACEBACK_BYTES:
        return traceback
    mark = "... (beginning cut)\n"
    return mark + encoded[-(TRACEBACK_BYTES - len(mark)) :].decode(errors="ignore")


def _seed_attrs(seed_values: Mapping[int, float] | None, extra: Mapping[str, Json] | None) -> dict[str, Json]:
    attrs: dict[str, Json] = dict(extra or {})
    if seed_values:
        attrs["seed_values"] = {str(seed): float(value) for seed, value in seed_values.items()}
    return attrs


def _checked(ending: TrialEnding) -> TrialEnding:
    check_json(ending.attrs)
    return ending

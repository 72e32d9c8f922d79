"""Parameter sets that a search tries before its sampler proposes any."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from agents.config.network_config import NetworkConfig
from agents.config.optimizers import OptimizerSpec
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError, unknown_name
from studies.errors import StudyError
from studies.spaces.conditions import existing
from studies.spaces.numbers import complement, is_number
from studies.spaces.spaces import Choice, FloatRange, IntRange, Space, as_json, settle
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec
from studies.words import counted

NEGLIGIBLE = 1e-6
"""Largest end of a range on a log axis that counts as 0, such as 1e-8 for a coefficient."""


def first_trials(
    agent: AgentSpec,
    spaces: Mapping[str, Space],
    fixed: Mapping[str, Any],
    given: Sequence[Mapping[str, Any]],
    n_trials: int | None,
) -> list[dict[str, Any]]:
    """Return the parameter sets that a user gave, by the names that the study searches.

    A hyperparameter that is searched as its complement, such as `gamma` as `one_minus_gamma`, is converted. One that is
    fixed to the given value is left out.

    Args:
        agent: The agent.
        spaces: Search space.
        fixed: Hyperparameters with the same value in every trial.
        given: Parameter sets.
        n_trials: Trials of the study; None if their number is not given.

    Raises:
        ConfigurationError: A set is given twice, is empty, or has a hyperparameter that does not exist, is not searched
            or is fixed to another value; or there are fewer trials than sets.
    """
    rows: list[dict[str, Any]] = []
    for each in given:
        if not isinstance(each, Mapping) or not each:
            raise ConfigurationError(
                f"first has {each!r}: give parameter sets, such as {{'learning_rate': 3e-4}}, each with a parameter, "
                "or 'zoo' for tuned values."
            )
        row: dict[str, Any] = {}
        for name, value in each.items():
            row |= _searched(agent, spaces, fixed, name, value)
        if row in rows:
            raise ConfigurationError(f"first has {dict(each)!r} twice: give each parameter set once.")
        if row:
            rows.append(row)
    if isinstance(n_trials, int) and 1 <= n_trials < len(rows):  # the study refuses other numbers
        raise ConfigurationError(
            f"first has {counted(len(rows), 'parameter set')}, but n_trials is {n_trials}: give at least "
            f"{counted(len(rows), 'trial')} (--n-trials {len(rows)}; in Python n_trials={len(rows)})."
        )
    return rows


def _searched(
    agent: AgentSpec, spaces: Mapping[str, Space], fixed: Mapping[str, Any], name: str, value: Any
) -> dict[str, Any]:
    """Return the searched parameter of a value of a set, {} if the study fixes that value."""
    if name in spaces:
        return {name: value}
    complements = agent.config.complements()
    opposite = {**complements, **{full: part for part, full in complements.items()}}.get(name)
    if opposite is not None and opposite in spaces and is_number(value):
        return {opposite: complement(value)}
    known = type(agent.config).describe()
    if "." not in name and name not in known and name not in complements:
        raise unknown_name(f"hyperparameter of {agent.label}", name, {*spaces, *known})
    if name in fixed:
        if fixed[name] == value:
            return {}
        raise ConfigurationError(
            f"first has {name}={value!r}, but {name} is fixed to {fixed[name]!r} in every trial: leave one of them out."
        )
    raise ConfigurationError(
        f"first has {name}={value!r}, but {name} is not searched: give it a space (searched: {', '.join(spaces)}), or "
        f"fix it in every trial (--set {name}={value}; in Python fixed={{{name!r}: {value!r}}})."
    )


def with_current_params(study: StudySpec, current: Mapping[str, Any], agent: AgentSpec) -> StudySpec:
    """Return a study whose last first trial has the values of the agent itself, unless they are among the others.

    If the search space contains these values, and they are certainly tried, they are the baseline of the study. A study
    with several metrics has none: its baseline would be compared with a pick.

    Args:
        study: The study.
        current: Result of `current_params`; empty if the agent has none of the searched values.
        agent: The agent.
    """
    if not current:
        return study
    first = study.first if current in study.first else (*study.first, dict(current))
    changes: dict[str, Any] = {"first": first}
    is_compared = not study.metrics and not is_population_based(study.pruner)
    is_tried = first.index(current) < study.n_trials
    if is_tried and is_compared and _is_present(current, agent, study.params):
        changes["baseline"] = dict(current)
    return study.model_copy(update=changes)


def _is_present(current: Mapping[str, Any], agent: AgentSpec, spaces: Mapping[str, Space]) -> bool:
    """Return whether a result of `current_params` has all values of an agent unchanged.

    A range on a log axis cannot contain 0, for which its lower end stands if it is `NEGLIGIBLE`.
    """

    def is_same(name: str, space: Space) -> bool:
        value = _present(name, space, agent)
        if isinstance(space, FloatRange) and value == 0 and 0 < space.low <= NEGLIGIBLE:
            value = space.low
        return name in current and current[name] == value

    return all(is_same(name, spaces[name]) for name in existing({**dict.fromkeys(spaces), **current}, spaces))


def _present(name: str, space: Space, agent: AgentSpec) -> Any:
    """Return the value of a hyperparameter of an agent; an optimizer as a choice writes it, such as with 1e-5."""
    value = own_value(agent, name)
    if name != "optimizer" or not isinstance(space, Choice):
        return value
    return next((choice for choice in space.values if OptimizerSpec.of(choice).label == value), value)


def own_value(agent: AgentSpec, name: str) -> Any:
    """Return an agent's value of a hyperparameter as a study has it; sizes of layers that it leaves open are stated."""
    own = agent.config.value_of(name)
    if name == "hidden_sizes" and own is None and isinstance(agent.config, NetworkConfig):
        own = agent.config.layers("", agent.environment.spaces()[0])["hidden_sizes"]  # others for images
    return as_json(own)


def current_params(agent: AgentSpec, spaces: Mapping[str, Space]) -> dict[str, Any]:
    """Return the configuration of an agent as a point of the search space, for the first trial.

    A number outside of its range becomes the nearest end; a value that is not among the choices or steps, and a
    parameter whose condition does not hold, are left out.
    """
    row = {}
    for name, space in spaces.items():
        value = _present(name, space, agent)
        if isinstance(space, FloatRange | IntRange):
            if not is_number(value):
                continue
            value = min(max(value, space.low), space.high)
        with contextlib.suppress(StudyError):
            row[name] = settle(space, value)
    return existing(row, spaces)

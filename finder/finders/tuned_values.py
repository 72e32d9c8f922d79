"""Tuned hyperparameters of rl-baselines3-zoo as the first trial of a search."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from agents.contract.registry import agent_class
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from finder.finders.first_trials import own_value
from studies.errors import StudyError
from studies.spaces.conditions import existing, in_order
from studies.spaces.numbers import complement
from studies.spaces.spaces import Choice, FloatRange, IntRange, Space, settle

ZOO = "zoo"
"""Name of these values among the first trials of a search."""

_SOURCE = "rl-baselines3-zoo 2.9.2"
_OF_LENGTH = ("buffer_size", "learning_starts")


class TunedTrial(NamedTuple):
    """Tuned values as a trial.

    Attributes:
        row: The searched parameters: those that were tuned, and the agent's own values of the others.
        note: Sentences on which values were taken, and which differ.
    """

    row: dict[str, Any]
    note: str


def with_tuned_values(
    given: str | Sequence[Mapping[str, Any] | str],
    agent: AgentSpec,
    spaces: Mapping[str, Space],
    current: Mapping[str, Any],
) -> tuple[list[Any], list[str]]:
    """Return parameter sets with the tuned values in place of `zoo`, and notes for the user.

    Args:
        given: Parameter sets, or `zoo` among them or alone.
        agent: See `tuned_trial`.
        spaces: See `tuned_trial`.
        current: See `tuned_trial`.

    Raises:
        ConfigurationError: There are no tuned values, or none of them is searched.
    """
    sets: list[Any] = []
    notes: list[str] = []
    for each in [given] if isinstance(given, str) else given:
        if each != ZOO:
            sets.append(each)
            continue
        if notes:
            raise ConfigurationError(f"first has {ZOO!r} twice: give it once.")
        tuned = tuned_trial(agent, spaces, current)
        sets.append(tuned.row)
        notes.append(tuned.note)
    return sets, notes


def tuned_values(agent: str, env: str) -> dict[str, Any]:
    """Return the tuned hyperparameters of an agent in an environment, and `env_steps`, the length of their runs.

    Args:
        agent: Name of the agent.
        env: Id of the environment.

    Raises:
        ConfigurationError: There are none; names those that there are.
    """
    known = _all()
    label = agent.lower()
    if label not in known:
        raise ConfigurationError(
            f"There are no tuned values of the agent {agent!r} in {_SOURCE}: give your own sets, or take one of "
            f"{', '.join(known)}."
        )
    own = known[label]
    if env not in own or env == "defaults":
        others = [name for name, table in known.items() if env in table and env != "defaults"]
        also = f" For {env}: {', '.join(others)}." if others else ""
        raise ConfigurationError(
            f"There are no tuned values of {label} for the environment {env!r} in {_SOURCE}: give your own sets. "
            f"For {label}: {', '.join(name for name in own if name != 'defaults')}.{also}"
        )
    return {**own["defaults"], **own[env]}


def has_tuned_values(agent: AgentSpec) -> bool:
    """Return whether there are tuned values of an agent in its environment.

    There are none of a class or function of one's own with the name of an algorithm, and none of trained weights, whose
    networks are what they are.
    """
    label = agent.label.lower()
    if label not in _all() or agent.state is not None or type(agent.config) is not agent_class(label).config_class:
        return False
    return _environment(agent.environment) in _all()[label]


def widened(spaces: Mapping[str, Space], agent: AgentSpec, fixed: Iterable[str]) -> dict[str, Space]:
    """Return a search space in which the tuned values are a point, as far as it is a choice that lacks them.

    A choice gets the tuned value as a further one. A hyperparameter that is neither searched nor fixed, and whose tuned
    value is another than the agent's, becomes a choice between the two. What belongs to the length of the tuned runs
    (`buffer_size`, `learning_starts`), arguments, which belong to one choice only, and what was set for the agent stay
    as they are.

    Args:
        spaces: Search space.
        agent: The agent, with the fixed hyperparameters of the study.
        fixed: Their names.

    Raises:
        ConfigurationError: There are no tuned values.
    """
    tuned = tuned_values(agent.label, _environment(agent.environment))
    complements = agent.config.complements()
    known = agent.config.effective_hyperparameters()
    searched = {complements.get(name, name) for name in spaces}
    kept = {*fixed, *_OF_LENGTH, *agent.config.non_default_values()}
    wide = dict(spaces)
    for name, value in tuned.items():
        space = wide.get(name)
        if isinstance(space, Choice) and value not in space.values:
            wide[name] = Choice((*space.values, value), when=space.when)
        elif name in known and name not in {*searched, *kept} and not isinstance(value, dict):
            own = own_value(agent, name)
            if own != value:
                wide[name] = Choice((own, value))
    return wide


def tuned_trial(agent: AgentSpec, spaces: Mapping[str, Space], current: Mapping[str, Any]) -> TunedTrial:
    """Return the tuned values of an agent in its environment as a point of a search space.

    Args:
        agent: The agent, with the fixed hyperparameters of the study.
        spaces: Search space.
        current: Its own values, for searched hyperparameters that were not tuned (`current_params`).

    Raises:
        ConfigurationError: There are no tuned values, or none of them is searched.
    """
    tuned = tuned_values(agent.label, _environment(agent.environment))
    n_steps = tuned.pop("env_steps")
    complements = agent.config.complements()
    searched = {complements.get(name, name) for name in spaces}
    row, outside, at_ends = dict(current), [], []
    for name, space in in_order(spaces).items():
        plain = complements.get(name, name)
        if plain not in tuned:
            continue
        value = complement(tuned[plain]) if plain != name else tuned[plain]
        if isinstance(space, FloatRange | IntRange) and space.step is None and not space.low <= value <= space.high:
            at_ends.append(_text(name, value))
            value = min(max(value, space.low), space.high)
        try:
            row[name] = settle(space, value)
        except StudyError:
            row.pop(name, None)
            outside.append(_text(name, value))
    taken = [_text(name, row[name]) for name in row if complements.get(name, name) in tuned]
    if not taken:
        raise ConfigurationError(
            f"None of the tuned values lies in the search space: search some of {', '.join(sorted(tuned))}, or leave "
            f"{ZOO!r} out."
        )
    sentences = [
        f"First trial: tuned values of {_SOURCE} for {agent.label} in {_environment(agent.environment)}, "
        f"from runs of {n_steps:,} steps: {', '.join(taken)}."
    ]
    if at_ends:
        sentences.append(f"Outside of their ranges, so at the nearest ends: {', '.join(at_ends)}.")
    if outside:
        sentences.append(f"Outside of the search space, so left to the sampler: {', '.join(outside)}.")
    others = _differences(agent, {name: value for name, value in tuned.items() if name not in searched})
    if others:
        sentences.append(f"Not searched, and different in this study: {', '.join(others)}.")
    return TunedTrial(existing(row, spaces), " ".join(sentences))


def _differences(agent: AgentSpec, tuned: Mapping[str, Any]) -> list[str]:
    """Return tuned values that differ from those of the agent, as text."""
    found = []
    for name, value in tuned.items():
        own = own_value(agent, name)
        if own != value:
            found.append(f"{_text(name, value)} (here {_word(own)})")
    return found


def _environment(environment: EnvironmentSpec) -> str:
    """Return the id under which values were tuned: continuous actions are an argument of LunarLander."""
    described = environment.described
    is_continuous = bool(described["env_kwargs"].get("continuous"))
    env = str(described["env"])
    return env.replace("LunarLander-", "LunarLanderContinuous-") if is_continuous else env


def _text(name: str, value: Any) -> str:
    return f"{name}={_word(value)}"


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _all() -> dict[str, dict[str, dict[str, Any]]]:
    text = files(__package__).joinpath("tuned_values.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)

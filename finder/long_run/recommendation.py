"""The agent and callbacks of the pick of a study, exactly as in the study, for the long run."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.callbacks.callback import find_maker
from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, whole_number
from finder.search.object_resolver import with_stretched_schedules
from finder.search.options import weights_digest
from studies.analysis.recommendation import Recommendation
from studies.population_based.schedule import scaled
from studies.spaces.rate_schedules import kept_text
from studies.study.study import OpenStudy, check_open
from studies.words import is_named_object, object_name


def recommended_agent(
    study: OpenStudy,
    pick: Recommendation,
    agent: str | type[Agent] | None = None,
    weights: Mapping[str, Any] | None = None,
    environment: Any = None,
    *,
    env_steps: int | None = None,
) -> AgentSpec:
    """Return the agent of a pick: its class, environment, configuration and initial weights.

    Args:
        study: The study.
        pick: Its pick.
        agent: The class of the agent or its place, needed if the study had a class that was defined in a script.
        weights: Initial weights (`agents.load_weights`), needed if the trials did not start from new weights. A study
            records their digest only.
        environment: The environment or its place, needed if the study had a class or function from Python.
        env_steps: Environment steps of the long run, >= 1, to which a learning-rate schedule is stretched. A warning is
            issued if it cannot be: the budget of the study is in episodes, or the schedule is not of Keras. Defaults to
            None: it keeps the gradient steps that it has in the runs of the study.

    Raises:
        ConfigurationError: Class, environment or weights are missing or differ from those of the study, the study had a
            training function from Python, or `env_steps` is no whole number from 1.
    """
    long_run = whole_number(1, "env_steps", env_steps)
    spec = agent_of_pick(study, pick, agent, weights, environment, env_steps=long_run)
    if long_run is not None and (kept := kept_text(pick.config, study.spec.env_steps)):
        warnings.warn(kept, stacklevel=2)
    return spec


def agent_of_pick(
    study: OpenStudy,
    pick: Recommendation,
    agent: str | type[Agent] | None,
    weights: Mapping[str, Any] | None,
    environment: Any,
    *,
    env_steps: int | None,
) -> AgentSpec:
    """Return the agent of a pick as `recommended_agent` does, without its warnings."""
    check_open(study)
    if not isinstance(pick, Recommendation):
        raise ConfigurationError(f"pick is {pick!r}: give the pick of the study, such as studies.best(study).")
    label = pick.agent
    if agent is None and not pick.is_agent_named:
        raise ConfigurationError(
            f"The agent {label!r} of the study {study.name!r} was defined in a script: give the place of the class, "
            f"module:{label} or file.py:{label}. A training function is called from Python, with the pick of the study "
            f"(finder best {shlex.quote(study.name)})."
        )
    given = agent if isinstance(agent, str) else getattr(agent, "__name__", label)  # None: that of the study
    if given.rpartition(":")[2].lower() != label.rpartition(":")[2].lower():
        remedy = "leave the agent out" if pick.is_agent_named else f"give the place of {label}"
        raise ConfigurationError(f"The pick of {study.name!r} is of the agent {label!r}, not {given!r}: {remedy}.")
    spec = AgentSpec.of(agent or label, _environment_of(study, pick, environment), pick.config)
    wanted = study.spec.agent_weights.get(pick.name_in_study)
    if wanted is None and weights is not None:
        raise ConfigurationError(
            f"Trials of {study.name!r} started from new weights, so its pick does too: leave the checkpoint out."
        )
    if wanted is not None and weights is None:
        raise ConfigurationError(
            f"Trials of {study.name!r} started from trained weights: give these, as a checkpoint to start from."
        )
    spec = replace(with_stretched_schedules(spec, study.spec.env_steps, env_steps), state=weights)
    if wanted is not None and weights_digest(spec) != wanted:
        raise ConfigurationError(f"Trials of {study.name!r} started from other weights than these.")
    return spec


def _environment_of(study: OpenStudy, pick: Recommendation, given: Any) -> EnvironmentSpec:
    is_own = is_named_object(pick.env)
    if not is_own and given in (None, pick.env):
        return EnvironmentSpec.of_described(pick, study.vectorization)
    if given is None:
        raise ConfigurationError(
            f"The environment {pick.env!r} of the study {study.name!r} was a class or function in Python: give its "
            f"place, module:{object_name(pick.env)} or file.py:{object_name(pick.env)} (--env)."
        )
    own = EnvironmentSpec.of(given)
    name = own.label.rpartition(":")[2]
    if not is_own or (pick.env.isidentifier() and name != pick.env):
        remedy = f"give the place of {pick.env}" if is_own else "leave the environment out"
        raise ConfigurationError(
            f"The pick of {study.name!r} is for the environment {pick.env!r}, not {name!r}: {remedy}."
        )
    return EnvironmentSpec(
        own.id, dict(pick.env_kwargs), study.vectorization, tuple(pick.wrappers), pick.max_episode_steps
    )


def recommended_callbacks(study: OpenStudy, given: Sequence[str] | None = None) -> Sequence[str]:
    """Return the places of the callbacks of the pick of a study.

    Args:
        study: The study.
        given: Their places, needed if the study had classes that were defined in a script, and further callbacks after
            these.

    Raises:
        ConfigurationError: A callback cannot be found, or too few are given.
    """
    recorded = study.spec.callbacks
    if given is not None and len(given) < len(recorded):
        raise ConfigurationError(
            f"Trials of {study.name!r} had {len(recorded)} callbacks ({', '.join(recorded)}): give all of them again, "
            f"in that order, and further ones after them; or none, for those alone."
        )
    places = recorded if given is None else given
    for place in places:
        try:
            find_maker(place)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error} Trials of {study.name!r} had the callbacks {', '.join(recorded) or 'none'}: give their "
                f"places (--callback for each, in that order)."
            ) from error
    return places


def schedule_of_run(
    pick: Recommendation, env_steps: int | None, budget: int | None
) -> tuple[tuple[int, dict[str, float]], ...]:
    """Return the changes of hyperparameters that a long run of a pick makes: steps, and what is set there.

    A schedule is stretched to the budget of the run, as what it did at the beginning and at the end of a training
    belongs there. Without a budget in environment steps it keeps its steps.

    Args:
        pick: The pick.
        env_steps: Environment steps of the runs of the study.
        budget: Environment steps of the long run, or None.
    """
    whole = pick.schedule if env_steps is None or budget is None else scaled(pick.schedule, env_steps, budget)
    return tuple((each.env_steps, dict(each.params)) for each in whole if each.env_steps > 0)

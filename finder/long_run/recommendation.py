"""The agent of a study's pick, exactly as the study had it, for the long run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.callbacks.callback import find_maker
from agents.contract.agent import Agent
from agents.contract.registry import ALGORITHMS
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from finder.search.options import weights_digest
from studies.analysis.recommendation import Recommendation
from studies.study.study import OpenStudy


def recommended_agent(
    study: OpenStudy,
    pick: Recommendation,
    agent: str | type[Agent] | None = None,
    weights: Mapping[str, Any] | None = None,
) -> AgentSpec:
    """Return the agent of a pick: its class, environment, configuration and the weights that it started from.

    Args:
        study: The study.
        pick: Its pick.
        agent: Where the agent's class is, needed where the study was given a class of a script.
        weights: What trials of the study started from (`agents.load_weights`), needed where they did not start from
            weights that their seeds drew. A study keeps their digest only.

    Raises:
        ConfigurationError: Class or weights are missing, or not those of the study.
    """
    label = pick.agent
    if agent is None and ":" not in label and label.lower() not in ALGORITHMS:
        raise ConfigurationError(
            f"The agent {label!r} of the study {study.name!r} was given by a script: where it is a class, say where, "
            f"as module:{label} or file.py:{label}; a training function is called from Python, with what the study "
            f"found (finder best {shlex.quote(study.name)})."
        )
    environment = EnvironmentSpec.of_described(pick, study.stepped_by)
    spec = AgentSpec.of(agent or label, environment, pick.config)
    if spec.label.rpartition(":")[2].lower() != label.rpartition(":")[2].lower():
        raise ConfigurationError(f"The pick of {study.name!r} is of the agent {label!r}, not {spec.label!r}.")
    wanted = study.spec.agent_weights.get(label)
    if wanted is None and weights is not None:
        raise ConfigurationError(f"Trials of {study.name!r} started from new weights: the pick starts from none.")
    if wanted is not None and weights is None:
        raise ConfigurationError(
            f"Trials of {study.name!r} started from trained weights: give these, as a checkpoint to start from."
        )
    spec = replace(spec, state=weights)
    if wanted is not None and weights_digest(spec) != wanted:
        raise ConfigurationError(f"Trials of {study.name!r} started from other weights than these.")
    return spec


def recommended_callbacks(study: OpenStudy, given: Sequence[str] | None = None) -> Sequence[str]:
    """Return the places of the callbacks that a study's pick was trained with.

    Args:
        study: The study.
        given: Where they are, needed where the study was given classes of a script; and after these, further ones.

    Raises:
        ConfigurationError: One cannot be found any more, or those that are given are fewer.
    """
    told = study.spec.callbacks
    if given is not None and len(given) < len(told):
        raise ConfigurationError(
            f"Trials of {study.name!r} had {len(told)} callbacks ({', '.join(told)}): give all of them again, in that "
            f"order, and further ones after them; or none, for those alone."
        )
    places = told if given is None else given
    for place in places:
        try:
            find_maker(place)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error} Trials of {study.name!r} had the callbacks {', '.join(told) or 'none'}: say where they are "
                f"(--callback for each, in that order)."
            ) from error
    return places

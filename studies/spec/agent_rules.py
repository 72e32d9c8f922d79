"""Rules of agents: each is named once, and settings, plans and spaces name agents of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from studies.errors import StudyError
from studies.spaces.space_notation import space_text
from studies.spaces.spaces import Choice, Json, Space


class Agents(Protocol):
    """Settings of a `studies.spec.spec.StudySpec` that the rules read."""

    @property
    def agents(self) -> Sequence[str]: ...
    @property
    def agent_params(self) -> Mapping[str, Any]: ...
    @property
    def agent_weights(self) -> Mapping[str, Any]: ...
    @property
    def params(self) -> Mapping[str, Space]: ...
    @property
    def fixed(self) -> Mapping[str, Json]: ...
    @property
    def trials(self) -> Sequence[Mapping[str, Json]]: ...


def check_agents(spec: Agents) -> None:
    """Raise `StudyError` if agents are named twice, or if anything names another agent."""
    agents = list(spec.agents)
    if len(set(agents)) != len(agents):
        raise StudyError(f"agents is {agents}: give each one once.")
    for field, of_agents in (("agent_params", spec.agent_params), ("agent_weights", spec.agent_weights)):
        strange = sorted(set(of_agents) - set(agents))
        if strange:
            raise StudyError(f"{field} has {strange[0]!r}, which is none of the agents {agents}.")
    if len(agents) > 1 and any("agent" not in row for row in spec.trials):
        raise StudyError(f"a planned trial has no agent: give 'agent' as one of {agents}.")
    searched = spec.params.get("agent")
    if searched is not None and not (isinstance(searched, Choice) and set(searched.values) == set(agents)):
        over = list(searched.values) if isinstance(searched, Choice) else space_text(searched)
        raise StudyError(f"agent is searched over {over} but agents is {agents}.")
    for row in spec.trials:
        if row.get("agent", agents[0]) not in agents:
            raise StudyError(f"a planned trial has the agent {row['agent']!r} but agents is {agents}.")
    if len(agents) > 1 and "agent" in spec.fixed:
        raise StudyError(f"agent is fixed to {spec.fixed['agent']!r} but agents is {agents}.")

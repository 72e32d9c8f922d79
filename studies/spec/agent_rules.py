"""Rules of agents: each is named once, and settings, plans and spaces name agents of the study."""

from __future__ import annotations

from studies.errors import StudyError
from studies.spaces.space_notation import space_text
from studies.spaces.spaces import Choice
from studies.spec.fields import SpecFields


def check_agents(spec: SpecFields) -> None:
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

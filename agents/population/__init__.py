"""Many members of one agent, trained in step as one: the reason that a search is fast."""

from agents.population.population import Population
from agents.population.size import bytes_of_member
from agents.population.workshop import Workshop

__all__ = ["Population", "Workshop", "bytes_of_member"]

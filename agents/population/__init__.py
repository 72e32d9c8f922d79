"""Many members of one agent, trained in step as one: the reason that a search is fast."""

from agents.population.population import Population, Workshop
from agents.population.size import bytes_of_member

__all__ = ["Population", "Workshop", "bytes_of_member"]

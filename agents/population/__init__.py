"""Many members of one agent, trained in step as one: the reason that a search is fast."""

from agents.population.population import Population, Workshop

__all__ = ["Population", "Workshop"]

"""Populations: members of one agent, trained in step in one compiled agent; the reason why a search is fast."""

from agents.population.population import Population
from agents.population.size import bytes_of_member, seconds_per_step
from agents.population.template import CompiledTemplate, TemplateCache

__all__ = ["CompiledTemplate", "Population", "TemplateCache", "bytes_of_member", "seconds_per_step"]

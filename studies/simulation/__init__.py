"""Searches over tables of finished runs, without training.

They are driven by the schedulers, and judged by the functions, of live studies: what is measured is what a study does.
"""

from studies.simulation.decision import Decision, Policy
from studies.simulation.design import SearchDesign
from studies.simulation.policies import POLICIES, SearchPolicy, make_policy
from studies.simulation.run_table import RunTable
from studies.simulation.simulated_search import SimulatedSearch, simulate

__all__ = [
    "POLICIES",
    "Decision",
    "Policy",
    "RunTable",
    "SearchDesign",
    "SearchPolicy",
    "SimulatedSearch",
    "make_policy",
    "simulate",
]

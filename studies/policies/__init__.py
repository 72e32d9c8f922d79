"""Search policies: which runs to train how far, and what to recommend. Pure functions over numbers, without agents."""

from studies.policies.policy import Decision, Policy, Problem, Round, Values
from studies.policies.registry import POLICIES, make_policy

__all__ = ["POLICIES", "Decision", "Policy", "Problem", "Round", "Values", "make_policy"]

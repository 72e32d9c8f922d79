"""Algorithms for several agents that share an environment: one paper per file, and what they share.

Each is one learner: its observations hold those of all agents (`agents.environments.joint_space`), its actions too.
"""

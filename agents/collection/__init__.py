"""Collection: stepping environments with an agent, in this process or in several (`Pool`).

The returns of episodes are summed here; those of each of several agents, by their environment (`JointEnv`).
"""

from agents.collection.pool import Pool

__all__ = ["Pool"]

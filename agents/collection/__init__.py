"""Collection: stepping environments with an agent, in this process or in several (`Pool`).

Rewards of episodes are summed in this room only.
"""

from agents.collection.pool import Pool

__all__ = ["Pool"]

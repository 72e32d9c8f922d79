"""Collection: stepping environments with an agent, in this process or in several (`Pool`).

Only this room sums the rewards of an episode.
"""

from agents.collection.pool import Pool

__all__ = ["Pool"]

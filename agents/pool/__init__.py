"""Several processes that step environments for one agent that learns: `Trainer(agent, pool=4)`."""

from agents.pool.pool import Pool

__all__ = ["Pool"]

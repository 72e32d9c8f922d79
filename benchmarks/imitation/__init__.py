"""Imitation and inverse reinforcement learning: returns, beside a peer, and where a reward helps."""

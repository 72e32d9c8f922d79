"""Memories: where transitions wait until an update wants them."""

from agents.buffers.buffer import Batches, Memory, Transition
from agents.buffers.hindsight import HindsightReplay
from agents.buffers.join import join
from agents.buffers.prioritized import PrioritizedReplay
from agents.buffers.rewriting import RewritingMemory, Trajectory
from agents.buffers.rollout import RolloutMemory
from agents.buffers.trajectories import TrajectoryReplay
from agents.buffers.uniform import UniformReplay

__all__ = [
    "Batches",
    "HindsightReplay",
    "Memory",
    "PrioritizedReplay",
    "RewritingMemory",
    "RolloutMemory",
    "Trajectory",
    "TrajectoryReplay",
    "Transition",
    "UniformReplay",
    "join",
]

"""Memories: where transitions wait until an update wants them."""

from agents.replay.hindsight import HindsightReplay
from agents.replay.join import join
from agents.replay.memory import Batches, Memory, Transition
from agents.replay.prioritized import PrioritizedReplay
from agents.replay.rewriting import RewritingMemory, Trajectory
from agents.replay.rollout import RolloutMemory
from agents.replay.trajectories import TrajectoryReplay
from agents.replay.uniform import UniformReplay

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

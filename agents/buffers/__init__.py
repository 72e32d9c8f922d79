"""Buffers: rollouts and replay buffers, from which updates take their minibatches."""

from agents.buffers.buffer import Batches, Buffer, Transition
from agents.buffers.buffer import Memory as Memory
from agents.buffers.hindsight import HindsightReplay
from agents.buffers.join import join
from agents.buffers.prioritized import PrioritizedReplay
from agents.buffers.rewriting import RewritingBuffer, Trajectory
from agents.buffers.rollout import RolloutBuffer
from agents.buffers.rollout import RolloutMemory as RolloutMemory
from agents.buffers.sequences import SequenceReplay
from agents.buffers.trajectories import TrajectoryReplay
from agents.buffers.uniform import UniformReplay

__all__ = [
    "Batches",
    "Buffer",
    "HindsightReplay",
    "PrioritizedReplay",
    "RewritingBuffer",
    "RolloutBuffer",
    "SequenceReplay",
    "Trajectory",
    "TrajectoryReplay",
    "Transition",
    "UniformReplay",
    "join",
]

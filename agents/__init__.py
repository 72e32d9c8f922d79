"""How an agent learns: environments, collection, memories, exploration, losses, and the one training loop.

Names are imported when they are first used, so that importing this package does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.algorithms.off_policy import OffPolicyAgent as OffPolicyAgent
    from agents.algorithms.off_policy import OffPolicyConfig as OffPolicyConfig
    from agents.buffers import HindsightReplay as HindsightReplay
    from agents.buffers import PrioritizedReplay as PrioritizedReplay
    from agents.buffers import RolloutMemory as RolloutMemory
    from agents.buffers import Trajectory as Trajectory
    from agents.buffers import TrajectoryReplay as TrajectoryReplay
    from agents.buffers import UniformReplay as UniformReplay
    from agents.callbacks.callback import Callback as Callback
    from agents.callbacks.callback import Episode as Episode
    from agents.callbacks.callback import Evaluation as Evaluation
    from agents.callbacks.callback import LambdaCallback as LambdaCallback
    from agents.callbacks.callback import Progress as Progress
    from agents.callbacks.callback import StopAtReturn as StopAtReturn
    from agents.callbacks.checkpoint import Checkpoints as Checkpoints
    from agents.callbacks.curriculum import Curriculum as Curriculum
    from agents.callbacks.evaluate import Evaluate as Evaluate
    from agents.callbacks.history_file import HistoryFile as HistoryFile
    from agents.callbacks.history_file import read_evaluations as read_evaluations
    from agents.callbacks.history_file import read_history as read_history
    from agents.callbacks.intervals import Every as Every
    from agents.callbacks.plateaus import EarlyStop as EarlyStop
    from agents.callbacks.plateaus import ReduceOnPlateau as ReduceOnPlateau
    from agents.callbacks.publish import Publish as Publish
    from agents.callbacks.publish import reach as reach
    from agents.callbacks.signals import StopOnSignals as StopOnSignals
    from agents.callbacks.tensorboard import TensorBoard as TensorBoard
    from agents.checkpoints.file import load_agent as load_agent
    from agents.checkpoints.file import load_weights as load_weights
    from agents.checkpoints.file import resume as resume
    from agents.collection.pool import Pool as Pool
    from agents.config.agent_config import AgentConfig as AgentConfig
    from agents.config.hyperparameters import Hyperparameter as Hyperparameter
    from agents.config.hyperparameters import hyperparameter as hyperparameter
    from agents.config.optimizers import OptimizerSpec as OptimizerSpec
    from agents.contract.agent import Agent as Agent
    from agents.contract.agent import UpdateMetrics as UpdateMetrics
    from agents.contract.keras_agent import KerasAgent as KerasAgent
    from agents.contract.spec import AgentSpec as AgentSpec
    from agents.contract.spec import make as make
    from agents.environments import EnvironmentSpec as EnvironmentSpec
    from agents.errors import ConfigurationError as ConfigurationError
    from agents.errors import NonFiniteError as NonFiniteError
    from agents.errors import UntrustedFileError as UntrustedFileError
    from agents.networks.builders import network as network
    from agents.playing.play import PlayedEpisode as PlayedEpisode
    from agents.playing.play import play as play
    from agents.shared_objects import Counter as Counter
    from agents.shared_objects import serve_shared as serve_shared
    from agents.shared_objects import shared as shared
    from agents.training.evaluation import evaluate as evaluate
    from agents.training.trainer import Trainer as Trainer
    from agents.training.training_run import RunEnded as RunEnded
    from agents.training.training_run import TrainingRun as TrainingRun

_HOME = {
    "agents.contract.agent": ("Agent", "UpdateMetrics"),
    "agents.callbacks.callback": ("Callback", "Episode", "Evaluation", "LambdaCallback", "Progress", "StopAtReturn"),
    "agents.checkpoints.file": ("load_agent", "load_weights", "resume"),
    "agents.callbacks.checkpoint": ("Checkpoints",),
    "agents.config.agent_config": ("AgentConfig",),
    "agents.callbacks.curriculum": ("Curriculum",),
    "agents.environments": ("EnvironmentSpec",),
    "agents.errors": ("ConfigurationError", "NonFiniteError", "UntrustedFileError"),
    "agents.training.evaluation": ("evaluate",),
    "agents.callbacks.evaluate": ("Evaluate",),
    "agents.callbacks.history_file": ("HistoryFile", "read_evaluations", "read_history"),
    "agents.config.hyperparameters": ("Hyperparameter", "hyperparameter"),
    "agents.callbacks.signals": ("StopOnSignals",),
    "agents.callbacks.intervals": ("Every",),
    "agents.contract.keras_agent": ("KerasAgent",),
    "agents.callbacks.publish": ("Publish", "reach"),
    "agents.networks.builders": ("network",),
    "agents.algorithms.off_policy": ("OffPolicyAgent", "OffPolicyConfig"),
    "agents.config.optimizers": ("OptimizerSpec",),
    "agents.callbacks.plateaus": ("EarlyStop", "ReduceOnPlateau"),
    "agents.playing.play": ("PlayedEpisode", "play"),
    "agents.collection.pool": ("Pool",),
    "agents.buffers": (
        "HindsightReplay",
        "PrioritizedReplay",
        "RolloutMemory",
        "Trajectory",
        "TrajectoryReplay",
        "UniformReplay",
    ),
    "agents.shared_objects": ("Counter", "serve_shared", "shared"),
    "agents.contract.spec": ("AgentSpec", "make"),
    "agents.callbacks.tensorboard": ("TensorBoard",),
    "agents.training.trainer": ("Trainer",),
    "agents.training.training_run": ("RunEnded", "TrainingRun"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [
    "Agent",
    "AgentConfig",
    "AgentSpec",
    "Callback",
    "Checkpoints",
    "ConfigurationError",
    "Counter",
    "Curriculum",
    "EarlyStop",
    "EnvironmentSpec",
    "Episode",
    "Evaluate",
    "Evaluation",
    "Every",
    "HindsightReplay",
    "HistoryFile",
    "Hyperparameter",
    "KerasAgent",
    "LambdaCallback",
    "NonFiniteError",
    "OffPolicyAgent",
    "OffPolicyConfig",
    "OptimizerSpec",
    "PlayedEpisode",
    "Pool",
    "PrioritizedReplay",
    "Progress",
    "Publish",
    "ReduceOnPlateau",
    "RolloutMemory",
    "RunEnded",
    "StopAtReturn",
    "StopOnSignals",
    "TensorBoard",
    "Trainer",
    "TrainingRun",
    "Trajectory",
    "TrajectoryReplay",
    "UniformReplay",
    "UntrustedFileError",
    "UpdateMetrics",
    "evaluate",
    "hyperparameter",
    "load_agent",
    "load_weights",
    "make",
    "network",
    "play",
    "reach",
    "read_evaluations",
    "read_history",
    "resume",
    "serve_shared",
    "shared",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'agents' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

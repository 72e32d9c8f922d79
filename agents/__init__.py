"""How an agent learns: environments, collection, memories, exploration, losses, and the one training loop.

Names are imported when they are first used, so that importing this package does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.agent import Agent as Agent
    from agents.agent import UpdateMetrics as UpdateMetrics
    from agents.callbacks import Callback as Callback
    from agents.callbacks import Episode as Episode
    from agents.callbacks import Evaluation as Evaluation
    from agents.callbacks import LambdaCallback as LambdaCallback
    from agents.callbacks import Progress as Progress
    from agents.callbacks import StopAtReturn as StopAtReturn
    from agents.checkpoint_file import load_agent as load_agent
    from agents.checkpoint_file import load_weights as load_weights
    from agents.checkpoint_file import resume as resume
    from agents.checkpoints import Checkpoints as Checkpoints
    from agents.config import AgentConfig as AgentConfig
    from agents.curriculum import Curriculum as Curriculum
    from agents.environments import EnvironmentSpec as EnvironmentSpec
    from agents.errors import ConfigurationError as ConfigurationError
    from agents.errors import NonFiniteError as NonFiniteError
    from agents.errors import UntrustedFileError as UntrustedFileError
    from agents.evaluation import evaluate as evaluate
    from agents.evaluations import Evaluate as Evaluate
    from agents.history_file import HistoryFile as HistoryFile
    from agents.history_file import read_evaluations as read_evaluations
    from agents.history_file import read_history as read_history
    from agents.hyperparameters import Hyperparameter as Hyperparameter
    from agents.hyperparameters import hyperparameter as hyperparameter
    from agents.interrupts import StopOnSignals as StopOnSignals
    from agents.intervals import Every as Every
    from agents.keras_agent import KerasAgent as KerasAgent
    from agents.named import Publish as Publish
    from agents.named import reach as reach
    from agents.networks import network as network
    from agents.off_policy import OffPolicyAgent as OffPolicyAgent
    from agents.off_policy import OffPolicyConfig as OffPolicyConfig
    from agents.optimizers import OptimizerSpec as OptimizerSpec
    from agents.plateaus import EarlyStop as EarlyStop
    from agents.plateaus import ReduceOnPlateau as ReduceOnPlateau
    from agents.playing import PlayedEpisode as PlayedEpisode
    from agents.playing import play as play
    from agents.pool import Pool as Pool
    from agents.replay import HindsightReplay as HindsightReplay
    from agents.replay import PrioritizedReplay as PrioritizedReplay
    from agents.replay import RolloutMemory as RolloutMemory
    from agents.replay import Trajectory as Trajectory
    from agents.replay import TrajectoryReplay as TrajectoryReplay
    from agents.replay import UniformReplay as UniformReplay
    from agents.shared_objects import Counter as Counter
    from agents.shared_objects import serve_shared as serve_shared
    from agents.shared_objects import shared as shared
    from agents.spec import AgentSpec as AgentSpec
    from agents.spec import make as make
    from agents.tensorboard import TensorBoard as TensorBoard
    from agents.trainer import Trainer as Trainer
    from agents.training_run import RunEnded as RunEnded
    from agents.training_run import TrainingRun as TrainingRun

_HOME = {
    "agents.agent": ("Agent", "UpdateMetrics"),
    "agents.callbacks": ("Callback", "Episode", "Evaluation", "LambdaCallback", "Progress", "StopAtReturn"),
    "agents.checkpoint_file": ("load_agent", "load_weights", "resume"),
    "agents.checkpoints": ("Checkpoints",),
    "agents.config": ("AgentConfig",),
    "agents.curriculum": ("Curriculum",),
    "agents.environments": ("EnvironmentSpec",),
    "agents.errors": ("ConfigurationError", "NonFiniteError", "UntrustedFileError"),
    "agents.evaluation": ("evaluate",),
    "agents.evaluations": ("Evaluate",),
    "agents.history_file": ("HistoryFile", "read_evaluations", "read_history"),
    "agents.hyperparameters": ("Hyperparameter", "hyperparameter"),
    "agents.interrupts": ("StopOnSignals",),
    "agents.intervals": ("Every",),
    "agents.keras_agent": ("KerasAgent",),
    "agents.named": ("Publish", "reach"),
    "agents.networks": ("network",),
    "agents.off_policy": ("OffPolicyAgent", "OffPolicyConfig"),
    "agents.optimizers": ("OptimizerSpec",),
    "agents.plateaus": ("EarlyStop", "ReduceOnPlateau"),
    "agents.playing": ("PlayedEpisode", "play"),
    "agents.pool": ("Pool",),
    "agents.replay": (
        "HindsightReplay",
        "PrioritizedReplay",
        "RolloutMemory",
        "Trajectory",
        "TrajectoryReplay",
        "UniformReplay",
    ),
    "agents.shared_objects": ("Counter", "serve_shared", "shared"),
    "agents.spec": ("AgentSpec", "make"),
    "agents.tensorboard": ("TensorBoard",),
    "agents.trainer": ("Trainer",),
    "agents.training_run": ("RunEnded", "TrainingRun"),
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

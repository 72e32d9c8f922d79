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
    from agents.callbacks import LambdaCallback as LambdaCallback
    from agents.callbacks import Progress as Progress
    from agents.callbacks import StopAtReturn as StopAtReturn
    from agents.config import AgentConfig as AgentConfig
    from agents.config import hyperparameter as hyperparameter
    from agents.environments import EnvironmentSpec as EnvironmentSpec
    from agents.errors import ConfigurationError as ConfigurationError
    from agents.errors import NonFiniteError as NonFiniteError
    from agents.evaluation import evaluate as evaluate
    from agents.keras_agent import KerasAgent as KerasAgent
    from agents.named import Publish as Publish
    from agents.named import reach as reach
    from agents.networks import network as network
    from agents.optimizers import OptimizerSpec as OptimizerSpec
    from agents.pool import Pool as Pool
    from agents.replay import RolloutMemory as RolloutMemory
    from agents.replay import TrajectoryReplay as TrajectoryReplay
    from agents.replay import UniformReplay as UniformReplay
    from agents.shared_objects import Counter as Counter
    from agents.shared_objects import serve_shared as serve_shared
    from agents.shared_objects import shared as shared
    from agents.spec import AgentSpec as AgentSpec
    from agents.spec import make as make
    from agents.trainer import Trainer as Trainer

_HOME = {
    "agents.agent": ("Agent", "UpdateMetrics"),
    "agents.callbacks": ("Callback", "Episode", "LambdaCallback", "Progress", "StopAtReturn"),
    "agents.config": ("AgentConfig", "hyperparameter"),
    "agents.environments": ("EnvironmentSpec",),
    "agents.errors": ("ConfigurationError", "NonFiniteError"),
    "agents.evaluation": ("evaluate",),
    "agents.keras_agent": ("KerasAgent",),
    "agents.named": ("Publish", "reach"),
    "agents.networks": ("network",),
    "agents.optimizers": ("OptimizerSpec",),
    "agents.pool": ("Pool",),
    "agents.replay": ("RolloutMemory", "TrajectoryReplay", "UniformReplay"),
    "agents.shared_objects": ("Counter", "serve_shared", "shared"),
    "agents.spec": ("AgentSpec", "make"),
    "agents.trainer": ("Trainer",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [
    "Agent",
    "AgentConfig",
    "AgentSpec",
    "Callback",
    "ConfigurationError",
    "Counter",
    "EnvironmentSpec",
    "Episode",
    "KerasAgent",
    "LambdaCallback",
    "NonFiniteError",
    "OptimizerSpec",
    "Pool",
    "Progress",
    "Publish",
    "RolloutMemory",
    "StopAtReturn",
    "Trainer",
    "TrajectoryReplay",
    "UniformReplay",
    "UpdateMetrics",
    "evaluate",
    "hyperparameter",
    "make",
    "network",
    "reach",
    "serve_shared",
    "shared",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'agents' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)

from .agent_config import AgentConfig as AgentConfig
from .buffer_config import ReplayConfig as ReplayConfig
from .hyperparameters import Config as Config
from .hyperparameters import Hyperparameter as Hyperparameter
from .hyperparameters import hyperparameter as hyperparameter
from .network_config import NetworkConfig as NetworkConfig
from .optimizers import OptimizerSpec as OptimizerSpec

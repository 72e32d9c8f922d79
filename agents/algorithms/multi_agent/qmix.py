"""QMIX: Rashid et al. 2018, arXiv 1803.11485.

As VDN, with the value of the team mixed from those of the agents by a network that is monotonic in each of them, whose
weights depend on the state. Greedy actions of the agents are then greedy for the team.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from agents.algorithms.multi_agent.vdn import VDN, VDNConfig
from agents.backend.tensorflow import keras
from agents.config.agent_config import hyperparameter
from agents.environments.joint_space import JointView
from agents.networks.several_agents import mixer_network


@dataclass(frozen=True, kw_only=True)
class QMIXConfig(VDNConfig):
    """Hyperparameters of QMIX."""

    mixing_units: int = hyperparameter(32, "Width of the mixing network.", low=1, search=(16, 32, 64))


class QMIX(VDN):
    """QMIX for discrete actions and one common reward. See `VDN`."""

    config_class = QMIXConfig
    config: QMIXConfig
    target_networks: ClassVar[Mapping[str, str]] = {"target": "q", "target_mixer": "mixer"}

    def build(self) -> Mapping[str, keras.Model]:
        networks = dict(super().build())
        space, units = self.space, self.config.mixing_units
        for name in ("mixer", "target_mixer"):
            networks[name] = mixer_network(space.n_agents, space.central_size, units, name=name)
        return networks

    def mixed(self, mixer: str, values: Any, view: JointView) -> Any:
        return self.networks[mixer]([values, view.state])[:, 0]

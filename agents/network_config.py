"""Networks described in a config, for who writes no code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.config import AgentConfig, hyperparameter
from agents.errors import ConfigurationError, unknown_name

_SETTINGS = ("hidden_sizes", "activation", "convolutions")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(AgentConfig):
    """The hyperparameters of agents whose networks are built by `agents.networks`."""

    hidden_sizes: tuple[int, ...] = hyperparameter((64, 64), "Units of the hidden layers of each network.")
    activation: str = hyperparameter("relu", "Keras activation of the hidden layers.", search=("tanh", "relu"))
    convolutions: tuple[tuple[int, ...], ...] | None = hyperparameter(
        None, "For images: [filters, kernel, stride] of each convolution; null: those of Mnih et al. 2015."
    )
    networks: Mapping[str, Mapping[str, Any]] = hyperparameter(
        {}, "Per network name: other `hidden_sizes`, `activation` or `convolutions` than the agent's."
    )

    def __post_init__(self) -> None:
        """Refuses what no network has."""
        super().__post_init__()
        for own in self.networks.values():
            for setting in own:
                if setting not in _SETTINGS:
                    raise unknown_name("setting of a network", setting, _SETTINGS)
        checked = {
            name: {key: self.checked(key, value) for key, value in own.items()} for name, own in self.networks.items()
        }
        object.__setattr__(self, "networks", checked)
        for name in ("", *self.networks):
            for each in self.layers(name)["convolutions"] or ():
                if len(each) != 3 or min(each) < 1:
                    raise ConfigurationError(
                        f"A convolution is [filters, kernel, stride], whole numbers >= 1, got {list(each)}."
                    )

    def layers(self, network: str) -> dict[str, Any]:
        """What `agents.networks.network` is told of the layers of a network."""
        return {name: getattr(self, name) for name in _SETTINGS} | dict(self.networks.get(network, {}))


def check_described(described: Iterable[str], networks: Sequence[str]) -> None:
    """Raises `ConfigurationError` where a network is described that an agent does not have."""
    for name in described:
        if name not in networks:
            raise unknown_name("network", name, networks)

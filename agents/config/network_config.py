"""Hyperparameters of networks, for users who describe a network without code."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar

from gymnasium import spaces

from agents.config.agent_config import AgentConfig, hyperparameter
from agents.environments.images import is_image
from agents.errors import ConfigurationError, unknown_name

USUAL_SIZES = (64, 64)
"""Default units of the hidden layers for vector observations."""

USUAL_SIZES_OF_IMAGES = (512,)
"""Default units of the hidden layers after the convolutions, as in Mnih et al. 2015."""

_SETTINGS = ("hidden_sizes", "activation", "convolutions")

_asked: ContextVar[set[str] | None] = ContextVar("networks whose layers were asked for", default=None)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(AgentConfig):
    """Base class for configs of agents whose networks are built by `agents.networks.builders`."""

    hidden_sizes: tuple[int, ...] | None = hyperparameter(
        None, "Units of the hidden layers of each network; null: 64, 64, and 512 after convolutions."
    )
    activation: str = hyperparameter("relu", "Keras activation of the hidden layers.", search=("tanh", "relu"))
    convolutions: tuple[tuple[int, ...], ...] | None = hyperparameter(
        None, "For images: [filters, kernel, stride] of each convolution; null: those of Mnih et al. 2015."
    )
    networks: Mapping[str, Mapping[str, Any]] = hyperparameter(
        {}, "Per network name: other `hidden_sizes`, `activation` or `convolutions` than the agent's."
    )

    usual_sizes: ClassVar[tuple[int, ...]] = USUAL_SIZES
    """Units of the hidden layers for vector observations, where `hidden_sizes` is null."""

    def __post_init__(self) -> None:
        """Refuse invalid network settings."""
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

    @property
    def memory_units(self) -> int:
        """Return the units of each network's memory, 0 without memory."""
        return 0

    def layers(
        self, network: str, observation_space: spaces.Box | None = None, *, like: str | None = None
    ) -> dict[str, Any]:
        """Return the arguments of `agents.networks.builders.network` that describe the layers of a network.

        Args:
            network: Name of the network.
            observation_space: Input space of the network, from which default sizes follow. Defaults to None, a vector.
            like: Another network, whose settings apply where this one has none. Defaults to None.
        """
        asked = _asked.get()
        if asked is not None:
            asked |= {network, like or network}
        own = self.networks.get(network, self.networks.get(like or network, {}))
        described = {name: getattr(self, name) for name in _SETTINGS} | dict(own)
        if described["hidden_sizes"] is None:
            described["hidden_sizes"] = usual_sizes(observation_space, self.usual_sizes)
        return described


def usual_sizes(observation_space: spaces.Box | None, of_vectors: tuple[int, ...] = USUAL_SIZES) -> tuple[int, ...]:
    """Return the default units of the hidden layers."""
    sees_image = observation_space is not None and is_image(observation_space)
    return USUAL_SIZES_OF_IMAGES if sees_image else of_vectors


@contextmanager
def settings_used(described: Iterable[str]) -> Generator[None]:
    """Refuse settings of networks that are built within the block without asking for them by `NetworkConfig.layers`.

    Args:
        described: Names of networks with settings.

    Raises:
        ConfigurationError: There is no such network, or its layers do not follow from the config.
    """
    asked: set[str] = set()
    before = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(before)
    for name in described:
        if name not in asked:
            raise unknown_name("network with settings", name, asked)

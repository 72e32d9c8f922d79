"""Networks by name, with errors that list the names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.backend.tensorflow import keras
from agents.errors import ConfigurationError, unknown_name


def networks_of(built: Any, owner: str, target_networks: Mapping[str, str]) -> dict[str, keras.Model]:
    """Return the networks that an agent has built.

    Args:
        built: Result of the agent's `build`.
        owner: Name of the agent's class, for errors.
        target_networks: Name of each target network -> name of its online network.

    Raises:
        ConfigurationError: It is not a mapping of Keras models, or lacks a target network or its online network.
    """
    if not isinstance(built, Mapping):
        raise ConfigurationError(
            f"{owner}.build() must return the networks by name, such as {{'policy': network(...)}}, it returned a "
            f"{type(built).__name__}."
        )
    for name, network in built.items():
        if not isinstance(network, keras.Model):
            raise ConfigurationError(
                f"{owner}.build() must return Keras models; {name!r} is a {type(network).__name__}."
            )
    for name in (name for pair in target_networks.items() for name in pair):
        if name not in built:
            raise ConfigurationError(
                f"{owner}.target_networks names {name!r}, which build() does not return; it returns "
                f"{', '.join(map(repr, built))}."
            )
    return dict(built)


def network_of(networks: Mapping[str, Any], name: str) -> Any:
    """Return a network.

    Raises:
        ConfigurationError: There is none of this name; the message lists the names.
    """
    if name not in networks:
        raise unknown_name("network", name, networks)
    return networks[name]

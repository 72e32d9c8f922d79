"""Conversion between an environment's spaces and those that an agent sees."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.environments.images import log_note, note_on
from agents.environments.transforms import action_transform, batch_of_one, observation_transform, parts_of, space_text
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


class Interface:
    """Converter of observations for an agent and of actions for the environment.

    Args:
        observations: The environment's observation space.
        actions: The environment's action space.
        label: Name of the environment in errors.

    Attributes:
        observation_space: Observation space that the agent sees.
        action_space: Action space of the agent.

    Raises:
        ConfigurationError: One of the spaces is of a kind that no agent accepts.
    """

    def __init__(self, observations: gym.Space[Any], actions: gym.Space[Any], label: str) -> None:
        self.observations, self.actions, self.label = observations, actions, label
        self._observe = observation_transform(observations, label)
        self._act = action_transform(actions, label)
        self.observation_space: spaces.Box = self._observe.space
        self.action_space: Any = self._act.space

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments."""
        return Interface, (self.observations, self.actions, self.label)

    def log_notes(self) -> None:
        """Log once how unusual observations are interpreted (for example floats that look like images)."""
        note = note_on(self.observations)
        if note:
            log_note(self.label, note)

    def convert_observation(self, observation: Any) -> tuple[Array, bool]:
        """Return observations as the agent takes them, [N, ...], and whether a single one without batch axis was given.

        Raises:
            ConfigurationError: The value is neither an observation of the environment nor a batch of observations.
        """
        single = self._is_single(self.observations, observation, "")
        batch = batch_of_one(self.observations, observation) if single else observation
        return self._observe(batch), single

    def convert_actions(self, actions: Array) -> Array:
        """Return the agent's actions [N, ...] in the environment's own space."""
        return self._act(actions)

    def invert_actions(self, actions: Any) -> Array:
        """Return actions of the environment's own space [N, ...] as the agent's: the inverse of `convert_actions`.

        Actions beyond a bound by no more than a rounding error are clipped to it.

        Returns:
            [N] int64, [N, D] int64, or float32 [N, ...] within [-1, 1] (with an infinite bound, as they are).

        Raises:
            ConfigurationError: An action is not in the environment's action space; the message gives the first one.
        """
        given, shape = np.asarray(actions), self.actions.shape or ()
        if given.shape[1:] != shape or not np.issubdtype(given.dtype, np.number) | (given.dtype == bool):
            raise ConfigurationError(
                f"{self.label!r} takes actions of shape {('N', *shape)}; got {given.dtype} of shape {given.shape}."
            )
        inverted, valid = self._act.inverse(given)
        if not valid.all():
            first = int(np.argmin(valid))
            raise ConfigurationError(
                f"{self.label!r} takes actions in {space_text(self.actions)}; action {first} is {given[first]}."
            )
        return inverted

    def _is_single(self, space: gym.Space[Any], value: Any, where: str) -> bool:
        if isinstance(space, spaces.Dict | spaces.Tuple):
            kinds = {name: self._part_is_single(part, value, name, where) for name, part in parts_of(space).items()}
            if len(set(kinds.values())) > 1:
                found = ", ".join(f"{name!r} is {'one' if single else 'a batch'}" for name, single in kinds.items())
                raise ConfigurationError(f"The parts of an observation of {self.label!r} do not fit together: {found}.")
            return next(iter(kinds.values()))
        shape, given = space.shape or (), np.shape(value)
        if given == shape:
            return True
        if len(given) == len(shape) + 1 and given[1:] == shape:
            return False
        raise ConfigurationError(
            f"{self.label!r} gives observations of shape {shape}{where}, or a batch of them, {('N', *shape)}; got "
            f"{given}."
        )

    def _part_is_single(self, space: gym.Space[Any], value: Any, name: Any, where: str) -> bool:
        try:
            part = value[name]
        except (KeyError, IndexError, TypeError):
            message = f"An observation of {self.label!r} has the part {name!r}{where}; got {value!r}."
            raise ConfigurationError(message) from None
        return self._is_single(space, part, f" in {name!r}{where}")

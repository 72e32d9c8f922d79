"""Demonstrations of a person at the keyboard, with the player of Gymnasium."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.environments import EnvironmentSpec
from agents.environments.transforms import space_text
from agents.errors import ConfigurationError, check_at_least
from agents.playing.play import PlayedEpisode, has_screen, rendering_of
from agents.playing.record import Recorded, Recording

Keys = Mapping[Any, Any]


def record_human(
    environment: str | Callable[..., Any] | EnvironmentSpec,
    name: str,
    *,
    keys_to_action: Keys | None = None,
    noop: Any = None,
    n_episodes: int | None = None,
    seed: int = 1_000_000,
    max_steps: int | None = None,
    on_episode: Callable[[PlayedEpisode], None] | None = None,
    **options: Any,
) -> Recorded:
    """Record episodes that a person plays at the keyboard, as a dataset of Minari.

    ``agents.record_human("CartPole-v1", "CartPole/human", keys_to_action={"a": 0, "d": 1}, fps=15)``. Escape, or
    closing the window, ends the recording; an episode that is not complete is left out.

    Args:
        environment: The environment: an id, a function that makes one, or a spec. It must draw (``rgb_array``).
        name: Name of the dataset; see `record`.
        keys_to_action: Keys -> the environment's action: a character (``"a"``), several pressed together (``"ad"``), or
            a tuple of characters and of pygame's key codes. Defaults to None: the keys of the environment itself.
        noop: The action while no such key is pressed. Defaults to None: the environment's own, or else zeros.
        n_episodes: Number of complete episodes after which the recording ends, >= 1. Defaults to None: no limit.
        seed: Seed of the environment.
        max_steps: Steps after which an episode is truncated, >= 1. Defaults to None: the environment's limit.
        on_episode: Called with every episode at its end.
        **options: Further arguments of `gymnasium.utils.play.play`: ``fps``, ``zoom``, and ``wait_on_player=True`` for
            environments that wait for each action.

    Returns:
        The dataset and its episodes.

    Raises:
        ConfigurationError: There is no screen; the environment has no keys, does not draw, or has several agents; a
            key's action is not in the action space; a bad name or number; or no episode was complete.
    """
    spec = EnvironmentSpec.of(environment)
    check_at_least(1, n_episodes=n_episodes, max_steps=max_steps)
    if not has_screen():
        raise ConfigurationError(
            "There is no screen here (DISPLAY is not set), and a person plays on a screen: record there, or record an "
            "agent."
        )
    if "rgb_array" not in rendering_of(spec)[0]:
        raise ConfigurationError(f"{spec.label} has no render mode 'rgb_array', with which a person can play it.")
    keys, idle = _keys_of(spec, keys_to_action, noop)
    about = {"algorithm_name": "human", "description": f"A person in {spec.label}, seed {seed}.", "seed": int(seed)}
    with Recording(spec, name, about, max_steps=max_steps) as recording:
        made = recording.environment.make_plain(render_mode="rgb_array")
        turns = _Turns(made, seed, n_episodes, max_steps, on_episode)
        with contextlib.closing(turns):
            _play(turns, keys_to_action=keys, noop=idle, **options)
    if not turns.played:
        raise ConfigurationError("No episode was played to its end, and nothing was recorded: max_steps shortens them.")
    return Recorded(recording.dataset, recording.folder, turns.played)


def _play(environment: gym.Env[Any, Any], **arguments: Any) -> None:
    import pygame

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Matplotlib is missing, which is not needed here
        from gymnasium.utils import play

    try:
        play.play(environment, **arguments)
    except _EnoughError:
        pass
    finally:
        pygame.quit()  # closes the window


class _EnoughError(Exception):
    """All episodes are recorded."""


class _Turns(gym.Wrapper[Any, Any, Any, Any]):
    """Count episodes, seed the first one, and end the game after the last one.

    The player resets an environment twice before the first step, and passes one seed to every reset or none.
    """

    def __init__(
        self,
        environment: gym.Env[Any, Any],
        seed: int,
        n_episodes: int | None,
        max_steps: int | None,
        on_episode: Callable[[PlayedEpisode], None] | None,
    ) -> None:
        super().__init__(environment)
        self._seed, self._n_episodes, self._max_steps, self._on_episode = seed, n_episodes, max_steps, on_episode
        self._return, self._length = 0.0, 0
        self.played: list[PlayedEpisode] = []

    def reset(self, **_: Any) -> Any:
        if self.played and len(self.played) == self._n_episodes:
            raise _EnoughError
        self._return, self._length = 0.0, 0
        return self.env.reset(seed=None if self.played else self._seed)

    def step(self, action: Any) -> Any:
        stepped = _, reward, terminated, truncated, _ = self.env.step(action)
        self._return += float(reward)
        self._length += 1
        if terminated or truncated:
            cut = self._length == self._max_steps and not terminated
            self.played.append(PlayedEpisode(self._return, self._length, cut))
            if self._on_episode is not None:
                self._on_episode(self.played[-1])
        return stepped


def _keys_of(spec: EnvironmentSpec, given: Keys | None, noop: Any) -> tuple[dict[Any, Any], Any]:
    """Return keys -> action, and the action without a key, as values of the action space."""
    made = spec.make_plain()
    try:
        space = made.action_space
        if given is None and made.has_wrapper_attr("get_keys_to_action"):
            given = made.get_wrapper_attr("get_keys_to_action")()
    finally:
        made.close()
    if not given:
        raise ConfigurationError(
            f"{spec.label} has no keys of its own: give keys_to_action, for example {{'a': ..., 'd': ...}} with an "
            f"action of {space_text(space)} for each key."
        )
    keys = {key: _action(space, action, repr(key)) for key, action in given.items()}
    idle = keys.pop((), None)
    if noop is None and idle is not None:
        return keys, idle
    idle = np.zeros(space.shape or (), int) if noop is None else noop
    return keys, _action(space, idle, "noop")


def _action(space: gym.Space[Any], action: Any, key: str) -> Any:
    try:
        value = np.asarray(action).item() if isinstance(space, spaces.Discrete) else np.asarray(action, space.dtype)
    except (TypeError, ValueError):
        value = None
    if value is None or not space.contains(value):
        advice = "" if key != "noop" else " Give noop, the action while no key is pressed."
        raise ConfigurationError(f"The action of {key} is {action!r}, which is not in {space_text(space)}.{advice}")
    return value

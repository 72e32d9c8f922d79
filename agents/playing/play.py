"""Playing: complete episodes of an agent in one environment, on screen or frame by frame."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from agents.collection.collector import Collector
from agents.contract.agent import Agent, require_built
from agents.environments import EnvironmentSpec
from agents.environments.transforms import check_same_spaces
from agents.errors import ConfigurationError, whole_number
from agents.training.evaluation import acting_state_kept, exploring_elsewhere

Frame = np.ndarray[Any, Any]
"""[H, W, 3] uint8."""


class PlayedEpisode(NamedTuple):
    """One episode of `play`."""

    episode_return: float
    length: int
    cut: bool  # whether `max_steps` truncated it


def play(
    agent: Agent,
    environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
    *,
    n_episodes: int = 1,
    max_steps: int | None = None,
    explore: bool = False,
    seed: int = 1_000_000,
    render_mode: str | None = None,
    on_frame: Callable[[Frame], None] | None = None,
    on_episode: Callable[[PlayedEpisode], None] | None = None,
) -> list[PlayedEpisode]:
    """Play episodes with an agent: ``agents.play(agents.load_agent("runs/x"), render_mode="human")``.

    Args:
        agent: The agent. Its state does not change, except for its exploration stream if `explore` is set.
        environment: The environment: an id, a function that makes one, or a spec. Defaults to that of the agent.
        n_episodes: Number of episodes, >= 1. Defaults to 1.
        max_steps: Steps after which an episode is truncated, >= 1. Defaults to None: no limit.
        explore: Whether actions are drawn as in training.
        seed: Seed of the environment; training does not use the default.
        render_mode: Gymnasium's: ``"human"`` draws on the screen. Defaults to None: nothing is drawn; with `on_frame`
            it is ``"rgb_array"``.
        on_frame: Called with every frame, the first and the last of each episode included.
        on_episode: Called with every episode at its end.

    Returns:
        The episodes.

    Raises:
        ConfigurationError: No environment, one without that render mode, or a bad number.
    """
    require_built(agent, "play()")
    spec = agent.environment if environment is None else EnvironmentSpec.of(environment)
    if spec is None:
        raise ConfigurationError("play() needs an environment: the agent was made without one. Pass environment.")
    n_episodes = whole_number(1, "n_episodes", n_episodes) or 1
    max_steps = whole_number(1, "max_steps", max_steps)
    mode = render_mode or (None if on_frame is None else "rgb_array")
    if mode == "human":
        require_screen()
    if mode is not None and mode not in (modes := rendering_of(spec)[0]):
        available = f"it has {', '.join(modes)}" if modes else "its metadata['render_modes'] has none"
        raise ConfigurationError(f"{spec.label} has no render mode {mode!r}: {available}.")

    def make() -> gym.Env[Any, Any]:
        made = spec.make() if mode is None else spec.make(render_mode=mode)
        made = made if max_steps is None else TimeLimit(made, max_steps)
        return made if on_frame is None else _Filmed(made, on_frame)

    make.__name__ = spec.label  # the name in error messages
    played: list[PlayedEpisode] = []
    agent.refresh()
    apart = exploring_elsewhere(agent) if explore else acting_state_kept([agent])
    collector = Collector(EnvironmentSpec(make, vectorization="sync"), 1, [seed])
    try:
        check_same_spaces(spec.label, collector.environments, agent)
        with apart:
            while len(played) < n_episodes:
                collected = collector.step(agent, explore)
                for error in collected.errors.values():
                    raise error
                for ended in collected.ended:
                    cut = ended.length == max_steps and not bool(collected.transition.terminated[0])
                    played.append(PlayedEpisode(ended.episode_return, ended.length, cut))
                    if on_episode is not None:
                        on_episode(played[-1])
    finally:
        collector.close()
    return played


def has_screen() -> bool:
    """Return whether there seems to be a screen to draw on."""
    return sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")))


def require_screen() -> None:
    """Check that there is a screen: without one SDL draws nothing, silently, or ends the process.

    Raises:
        ConfigurationError: There is no screen.
    """
    if not has_screen():
        raise ConfigurationError(
            "There is no screen here (DISPLAY is not set): write a video (--video out.gif) or pictures (--frames DIR); "
            "in Python, take the frames (on_frame)."
        )


def rendering_of(spec: EnvironmentSpec) -> tuple[list[str], float]:
    """Return the render modes of an environment, and its nominal number of frames per second."""
    environment = spec.make()
    try:
        about = environment.metadata
        return list(about.get("render_modes", ())), float(about.get("render_fps") or 30.0)
    finally:
        environment.close()


class _Filmed(gym.Wrapper[Any, Any, Any, Any]):
    """Pass on every frame. The frame of a reset follows at the next step, as the episode may not be played."""

    def __init__(self, environment: gym.Env[Any, Any], on_frame: Callable[[Frame], None]) -> None:
        super().__init__(environment)
        self._on_frame = on_frame
        self._first: Frame | None = None

    def reset(self, **arguments: Any) -> Any:
        begun = self.env.reset(**arguments)
        self._first = self._frame()
        return begun

    def step(self, action: Any) -> Any:
        if self._first is not None:
            self._on_frame(self._first)
            self._first = None
        stepped = self.env.step(action)
        self._on_frame(self._frame())
        return stepped

    def _frame(self) -> Frame:
        frame: Any = self.env.render()
        return np.asarray(frame)

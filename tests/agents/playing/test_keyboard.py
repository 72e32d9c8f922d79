"""Episodes that a person plays: with a stand-in for Gymnasium's player, and with the player itself off screen."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from recordings import Several

import agents
from agents import ConfigurationError, EnvironmentSpec

with warnings.catch_warnings():  # the player warns where Matplotlib, which it draws curves with, has no window system
    warnings.simplefilter("ignore")
    import gymnasium.utils.play

pytestmark = pytest.mark.usefixtures("datasets")

KEYS = {"a": 0, "d": 1}


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


class Player:
    """Stands for Gymnasium's `play`: resets twice, then presses no key and the keys in turns.

    Args:
        n_steps: Steps until the window is closed. Defaults to None: it stays open.
    """

    def __init__(self, n_steps: int | None = None) -> None:
        self.n_steps = n_steps
        self.arguments: dict[str, Any] = {}
        self.observations: list[Any] = []

    def __call__(self, environment: gym.Env[Any, Any], *, keys_to_action: Any, noop: Any, **arguments: Any) -> None:
        self.arguments = {"keys_to_action": keys_to_action, "noop": noop, **arguments}
        actions = [noop, *keys_to_action.values()]
        environment.reset(seed=None)
        steps, over = 0, True
        while steps != self.n_steps:
            if over:
                observation, _ = environment.reset(seed=None)
                self.observations.append(observation)
            observation, _, terminated, truncated, _ = environment.step(actions[steps % len(actions)])
            self.observations.append(observation)
            over = terminated or truncated
            steps += 1


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Player]:
    def make(n_steps: int | None = None) -> Player:
        made = Player(n_steps)
        monkeypatch.setattr(gymnasium.utils.play, "play", made)
        return made

    return make


def test_complete_episodes_are_recorded(player: Any, datasets: Path) -> None:
    playing, received = player(), []
    recorded = agents.record_human(
        "CartPole-v1", "human", keys_to_action=KEYS, n_episodes=3, on_episode=received.append, fps=7
    )
    assert playing.arguments == {"keys_to_action": KEYS, "noop": 0, "fps": 7}
    assert (recorded.dataset, recorded.folder) == ("human-v0", datasets / "human-v0")
    assert recorded.episodes == received
    spec = EnvironmentSpec("CartPole-v1")
    found = agents.load_demonstrations("human", spec.interface(), spec)
    np.testing.assert_array_equal(found.lengths, [each.length for each in recorded.episodes])
    np.testing.assert_array_equal(found.returns, [each.episode_return for each in recorded.episodes])
    assert found.terminated.sum() == 3
    seen = np.stack(playing.observations)
    np.testing.assert_array_equal(found.observations[0], seen[0])
    np.testing.assert_array_equal(found.next_observations[-1], seen[-1])
    assert len(np.unique([found.observations[i] for i in (0, *np.cumsum(found.lengths)[:-1])], axis=0)) == 3


def test_the_first_episode_has_the_seed(player: Any) -> None:
    starts = []
    for seed in (5, 5, 6):
        playing = player()
        agents.record_human("CartPole-v1", "human", keys_to_action=KEYS, n_episodes=1, seed=seed)
        starts.append(playing.observations[0])
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


def test_closing_the_window_leaves_out_the_unfinished_episode(player: Any) -> None:
    import minari

    player(n_steps=8)
    recorded = agents.record_human("CartPole-v1", "human", keys_to_action=KEYS, max_steps=3)
    assert recorded.episodes == [agents.PlayedEpisode(3.0, 3, cut=True)] * 2
    assert minari.load_dataset("human-v0").total_steps == 6
    assert minari.load_dataset("human-v0").storage.metadata["algorithm_name"] == "human"


def test_nothing_is_recorded_without_a_complete_episode(player: Any, datasets: Path) -> None:
    player(n_steps=2)
    with pytest.raises(ConfigurationError, match="No episode was played to its end, and nothing was recorded"):
        agents.record_human("CartPole-v1", "human", keys_to_action=KEYS)
    assert os.listdir(datasets) == []


def test_keys_of_the_environment(player: Any) -> None:
    playing = player()
    agents.record_human("MountainCar-v0", "human", n_episodes=1, max_steps=2)
    assert playing.arguments == {"keys_to_action": {(276,): 0, (275,): 2, (275, 276): 1}, "noop": 1}


class Drawn(Several):
    """An environment that draws nothing but a frame."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's

    def __init__(self, actions: gym.Space[Any], render_mode: str | None = None) -> None:
        super().__init__(spaces.Box(-1, 1, (2,)), actions)
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("space", "keys", "noop", "expected"),
    [
        (spaces.Box(-1, 1, (2,)), {"a": [-1, 0]}, None, [0, 0]),
        (spaces.Box(-1, 1, (2,)), {"a": [-1, 0], (): [0.5, 0]}, None, [0.5, 0]),
        (spaces.Box(-1, 1, (2,)), {"a": [-1, 0], (): [0.5, 0]}, (1, 1), [1, 1]),
        (spaces.MultiDiscrete([2, 3]), {"a": (1, 2)}, None, [0, 0]),
        (spaces.Discrete(2, start=1), {"a": np.int64(2)}, 1, 1),
    ],
)
def test_actions_of_every_kind_of_space(player: Any, space: Any, keys: Any, noop: Any, expected: Any) -> None:
    playing = player()
    spec = EnvironmentSpec(Drawn, {"actions": space})
    agents.record_human(spec, "human", keys_to_action=keys, noop=noop, n_episodes=1)
    np.testing.assert_array_equal(playing.arguments["noop"], expected)
    assert space.contains(playing.arguments["noop"])
    np.testing.assert_array_equal(playing.arguments["keys_to_action"]["a"], keys["a"])
    assert () not in playing.arguments["keys_to_action"]


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ("CartPole-v1", {}, r"CartPole-v1 has no keys of its own: give keys_to_action, .* an action of Discrete\(2\)"),
        ("CartPole-v1", {"keys_to_action": {}}, "CartPole-v1 has no keys of its own"),
        ("CartPole-v1", {"keys_to_action": {"a": 2}}, r"The action of 'a' is 2, which is not in Discrete\(2\)\.$"),
        ("CartPole-v1", {"keys_to_action": {"a": 0.5}}, "The action of 'a' is 0.5"),
        ("CartPole-v1", {"keys_to_action": {"a": "left"}}, "The action of 'a' is 'left'"),
        ("Pendulum-v1", {"keys_to_action": {"a": "left"}}, "The action of 'a' is 'left'"),
        (
            "CartPole-v1",
            {"keys_to_action": KEYS, "noop": 2},
            r"The action of noop is 2, .* Give noop, the action while",
        ),
        (
            lambda: Drawn(spaces.Discrete(2, start=1)),
            {"keys_to_action": {"a": 1}},
            "The action of noop is .* Give noop",
        ),
        ("CartPole-v1", {"n_episodes": 0}, "n_episodes must be >= 1, got 0"),
        ("CartPol-v1", {}, "Did you mean CartPole-v1"),
        (lambda: Several(spaces.Discrete(2), spaces.Discrete(2)), {}, "has no render mode 'rgb_array'"),
    ],
)
def test_invalid_arguments_are_refused(environment: Any, arguments: Any, message: str, datasets: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        agents.record_human(environment, "human", **arguments)
    assert not datasets.exists() or os.listdir(datasets) == []


def test_missing_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="There is no screen here"):
        agents.record_human("CartPole-v1", "human", keys_to_action=KEYS)


class Pressing(CartPoleEnv):
    """Presses the key d for ever, and Escape after its third episode has begun."""

    n_resets = 0

    def reset(self, **given: Any) -> Any:
        type(self).n_resets += 1
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        import pygame

        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=ord("d")))
        if type(self).n_resets > 3:  # the player resets twice before the first step
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE))
        return super().step(action)


@pytest.mark.parametrize("n_episodes", [None, 1])
def test_the_player_of_gymnasium(monkeypatch: pytest.MonkeyPatch, n_episodes: int | None) -> None:
    monkeypatch.setattr(Pressing, "n_resets", 0)
    recorded = agents.record_human(Pressing, "human", keys_to_action=KEYS, n_episodes=n_episodes, fps=1000)
    assert len(recorded.episodes) == (n_episodes or 2)
    found = agents.load_demonstrations("human", EnvironmentSpec("CartPole-v1").interface())
    np.testing.assert_array_equal(found.actions, [0] + [1] * (len(found) - 1))  # pressed after the first step

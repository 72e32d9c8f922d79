"""Recorded episodes are those that the agent plays, as the environment gave them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_PPO
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from recordings import Several

import agents
from agents import ConfigurationError, EnvironmentSpec
from agents.environments.joint_space import JointSpace

pytestmark = pytest.mark.usefixtures("datasets")


@pytest.fixture(scope="module")
def agent() -> Any:
    return agents.make("ppo", "CartPole-v1", **SMALL_PPO)


def test_recorded_episodes_are_those_of_play(agent: Any, datasets: Path) -> None:
    received: list[Any] = []
    recorded = agents.record(agent, "CartPole/expert", n_episodes=3, seed=7, on_episode=received.append)
    assert recorded.episodes == agents.play(agent, n_episodes=3, seed=7)
    assert recorded.episodes == received
    assert (recorded.dataset, recorded.folder) == ("CartPole/expert-v0", datasets / "CartPole/expert-v0")
    found = agents.load_demonstrations(recorded.dataset, agent.interface, agent.environment)
    np.testing.assert_array_equal(found.returns, [each.episode_return for each in recorded.episodes])
    np.testing.assert_array_equal(found.lengths, [each.length for each in recorded.episodes])
    np.testing.assert_array_equal(found.actions, agent.act(found.observations))
    following = np.flatnonzero(~(found.terminated | found.truncated))
    np.testing.assert_array_equal(found.next_observations[following], found.observations[following + 1])


def test_the_environment_of_the_dataset_plays_the_same_episode(agent: Any) -> None:
    import minari

    spec = EnvironmentSpec("CartPole-v1", {"sutton_barto_reward": True})
    dataset = minari.load_dataset(agents.record(agent, "expert", spec, n_episodes=2).dataset)
    about = dataset.storage.metadata
    assert about["algorithm_name"] == "PPO"
    assert about["description"] == "PPO in CartPole-v1, greedy actions, seed 1000000."
    assert (about["seed"], about["explore"]) == (1_000_000, False)
    assert about["agentfinder_version"]
    first, second = dataset.storage.get_episode_metadata([0, 1])
    with dataset.recover_environment() as environment:
        assert environment.spec.kwargs == {"sutton_barto_reward": True}
        episode = dataset[0]
        observation, _ = environment.reset(seed=first["seed"])
        for before, action, reward in zip(episode.observations, episode.actions, episode.rewards, strict=False):
            np.testing.assert_array_equal(observation, before)
            observation, given, *_ = environment.step(action)
            assert given == reward
    assert "seed" not in second  # it continued the generator of the first


def test_actions_are_in_the_space_of_the_environment() -> None:
    import minari

    agent = agents.make("ppo", "Pendulum-v1", **SMALL_PPO)
    found = minari.load_dataset(agents.record(agent, "swing", n_episodes=1, max_steps=30, explore=True).dataset)
    [episode] = found.iterate_episodes()
    assert np.abs(episode.actions).max() > 1  # torques reach 2
    assert found.action_space == spaces.Box(-2, 2, (1,))
    assert found.storage.metadata["description"] == "PPO in Pendulum-v1, actions drawn as in training, seed 1000000."


def test_max_steps_truncates(agent: Any) -> None:
    import minari

    recorded = agents.record(agent, "short", n_episodes=2, max_steps=3)
    assert recorded.episodes == [agents.PlayedEpisode(3.0, 3, cut=True)] * 2
    dataset = minari.load_dataset("short-v0")
    assert dataset.env_spec.max_episode_steps == 3
    for episode in dataset.iterate_episodes():
        np.testing.assert_array_equal(episode.truncations, [False, False, True])
        assert not episode.terminations.any()
        assert len(episode.observations) == 4


class Parts(Several):
    """Observations in parts, in arrays that the next step changes."""

    def __init__(self) -> None:
        numbers = {"position": spaces.Box(-1, 1, (2,)), "steps": spaces.Discrete(9)}
        super().__init__(spaces.Dict(numbers), spaces.MultiDiscrete([2, 3], start=[1, 5]))
        self._position = np.zeros(2, np.float32)

    def _observation(self) -> Any:
        self._position[:] = self._steps / 10
        return {"position": self._position, "steps": np.int64(self._steps)}

    def reset(self, **given: Any) -> Any:
        super().reset(**given)
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        _, *others = super().step(action)
        return self._observation(), *others


def test_observations_in_parts_stay_in_parts() -> None:
    import minari

    agent = agents.make("ppo", EnvironmentSpec(Parts), **SMALL_PPO)
    recorded = agents.record(agent, "parts", n_episodes=2)
    found = minari.load_dataset("parts-v0")
    assert found.observation_space == Parts().observation_space
    assert found.env_spec is None
    [first, _] = found.iterate_episodes()
    np.testing.assert_allclose(first.observations["position"][:, 1], np.arange(6) / 10, atol=1e-6)
    np.testing.assert_array_equal(first.observations["steps"], np.arange(6))
    assert first.actions.min(axis=0).tolist() >= [1, 5]
    loaded = agents.load_demonstrations(recorded.folder, agent.interface, agent.environment)
    np.testing.assert_array_equal(loaded.actions, agent.act(loaded.observations))


def test_images_are_stored_without_loss() -> None:
    import minari

    space = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    spec = EnvironmentSpec(lambda: Several(space, spaces.Discrete(2)))
    agent = agents.make("ppo", spec, convolutions=[[4, 4, 4]], **SMALL_PPO)
    agents.record(agent, "pixels", n_episodes=1, seed=3)
    environment = spec.make()
    [episode] = minari.load_dataset("pixels-v0").iterate_episodes()
    [about] = minari.load_dataset("pixels-v0").storage.get_episode_metadata([0])
    observation, _ = environment.reset(seed=about["seed"])
    np.testing.assert_array_equal(episode.observations[0], observation)


class Falling(CartPoleEnv):
    """Raises an error in the second episode."""

    n_resets = 0

    def reset(self, **given: Any) -> Any:
        type(self).n_resets += 1
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        if type(self).n_resets == 2:
            raise self.error
        return super().step(action)

    error: BaseException = RuntimeError("it falls")


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("error", [RuntimeError("it falls"), KeyboardInterrupt()])
def test_complete_episodes_are_kept_when_recording_ends_early(
    agent: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(Falling, "n_resets", 0)
    monkeypatch.setattr(Falling, "error", error)
    with pytest.raises(type(error)) as caught:
        agents.record(agent, "expert", EnvironmentSpec(Falling), n_episodes=5)
    assert caught.value.__notes__[-1] == "The 1 complete episodes before are the dataset 'expert-v0'."
    assert len(agents.load_demonstrations("expert-v0", agent.interface).lengths) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a b"}, "'a b' is no name of a dataset"),
        ({"name": "expert", "n_episodes": 0}, "n_episodes must be >= 1, got 0"),
        ({"name": "expert", "max_steps": 0}, "max_steps must be >= 1, got 0"),
        ({"name": "expert", "environment": "CartPol-v1"}, "Did you mean CartPole-v1"),
    ],
)
def test_invalid_arguments_are_refused(agent: Any, arguments: dict[str, Any], message: str, datasets: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        agents.record(agent, **arguments)
    assert not datasets.exists() or os.listdir(datasets) == []


def test_missing_package_is_named(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ConfigurationError, match=r'pip install "minari\[hdf5\]" pillow'):
        agents.record(agent, "expert")


class Joint(gym.Env[Any, Any]):
    observation_space = JointSpace(["left", "right"], [2, 2], [3, 3], discrete=True)
    action_space = spaces.MultiDiscrete([3, 3])


def test_several_agents_are_refused(agent: Any) -> None:
    with pytest.raises(ConfigurationError, match="those of a single agent, and 'Joint' has several: left, right"):
        agents.record(agent, "expert", Joint)

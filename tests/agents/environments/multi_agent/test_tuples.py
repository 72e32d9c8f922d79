"""Tests of Gymnasium environments with tuples over agents: rewards of the team, ends of episodes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agents import ConfigurationError, EnvironmentSpec
from agents.environments.multi_agent.joint_env import JointEnv


class Fixed(gym.Env[Any, Any]):
    """Two agents whose steps return always the same."""

    def __init__(self, rewards: Any = (1.0, 2.0), terminated: Any = False, truncated: Any = False) -> None:
        seen = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gym.spaces.Tuple([seen, seen])
        self.action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(2)])
        self.returned = rewards, terminated, truncated

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return (np.zeros(1, np.float32), np.zeros(1, np.float32)), {}

    def step(self, action: Any) -> Any:
        return self.reset()[0], *self.returned, {}


def first_step(**returned: Any) -> tuple[JointEnv, Any]:
    environment = EnvironmentSpec(Fixed, returned).make()
    assert isinstance(environment, JointEnv)
    environment.reset(seed=0)
    return environment, environment.step(np.array([0, 1]))


@pytest.mark.parametrize("reward", [3.0, 3, np.float32(3.0), np.array(3.0)])
def test_one_number_is_the_reward_of_the_team_and_shared_equally(reward: Any):
    environment, (vector, team, *_) = first_step(rewards=reward)
    assert team == 3.0
    np.testing.assert_array_equal(environment.observation_space.view(vector).rewards, [1.5, 1.5])


def test_rewards_by_agent_are_summed():
    environment, (vector, team, *_) = first_step(rewards=np.array([1.0, 2.0]))
    assert team == 3.0
    np.testing.assert_array_equal(environment.observation_space.view(vector).rewards, [1.0, 2.0])


@pytest.mark.parametrize("ended", [False, True, np.bool_(False), np.array(True)])
def test_episode_ends_for_all_agents_at_once(ended: Any):
    assert first_step(terminated=ended)[1][2:4] == (bool(ended), False)
    assert first_step(truncated=ended)[1][2:4] == (False, bool(ended))


@pytest.mark.parametrize("flags", [[False, False], (True, False), np.array([False, False]), {"agent_0": False}])
@pytest.mark.parametrize("what", ["terminated", "truncated"])
def test_flags_of_single_agents_are_refused(what: str, flags: Any):
    """A sequence would be true whatever is in it, and end every episode after its first step."""
    with pytest.raises(ConfigurationError, match=f"must return {what} as one bool for all agents, it returned "):
        first_step(**{what: flags})

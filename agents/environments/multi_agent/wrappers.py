"""Wrappers of environments with several agents: whose return counts, and rewards and ends of a user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.environments.multi_agent.joint_env import JointEnv, RewardDone
from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import loaded

Array = np.ndarray[Any, Any]


class JudgedBy(gym.Wrapper[Array, Array, Array, Array]):
    """Wrapper with the reward of one agent, instead of that of the team, as the reward of the environment.

    Returns of episodes, and therefore studies, then are those of this agent. Algorithms that learn from each agent's
    own reward learn the same as before.

    Args:
        environment: An environment with several agents.
        agent: Name of the agent.

    Raises:
        ConfigurationError: The environment has a single agent, or none of this name.
    """

    def __init__(self, environment: gym.Env[Any, Any], agent: str) -> None:
        super().__init__(environment)
        joint = _joint(environment)
        if agent not in joint.agent_names:
            raise unknown_name("agent", agent, joint.agent_names)
        self._space, self._number = joint.observation_space, joint.agent_names.index(agent)

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Step, with the agent's reward."""
        vector, _, terminated, truncated, info = self.env.step(action)
        return vector, float(self._space.view(vector).rewards[self._number]), terminated, truncated, info


def reward_done_func_ma(environment: gym.Env[Any, Any], function: str | RewardDone) -> gym.Env[Any, Any]:
    """Let a function of the user's decide on each agent's reward and end.

    Args:
        environment: An environment with several agents.
        function: ``function(rewards, dones) -> (rewards, dones)``, with one reward and one bool for each agent of the
            episode, by name; or its place, ``"module:function"`` or ``"file.py:function"``. An agent that is done has
            left; the episode ends when all are. An agent that has left in the environment cannot stay.

    Raises:
        ConfigurationError: The environment has a single agent, or there is no such function.
    """
    found: Callable[..., Any] = loaded(function) if isinstance(function, str) else function
    if not callable(found):
        raise ConfigurationError(f"reward_done_func_ma must be a function of rewards and dones, got {function!r}.")
    _joint(environment).reward_done_func_ma = found
    return environment


def _joint(environment: gym.Env[Any, Any]) -> JointEnv:
    joint = environment.unwrapped
    if not isinstance(joint, JointEnv):
        raise ConfigurationError(f"{environment!r} has a single agent: the wrapper is for environments with several.")
    return joint

"""Recognising environments with several agents, and their conversion to PettingZoo's parallel interface."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.errors import ConfigurationError

Values = Mapping[str, Any]


class ParallelEnvironment(Protocol):
    """The part of PettingZoo's parallel interface that `JointEnv` uses."""

    @property
    def possible_agents(self) -> Sequence[str]: ...

    @property
    def agents(self) -> Sequence[str]: ...

    def observation_space(self, agent: str) -> gym.Space[Any]: ...

    def action_space(self, agent: str) -> gym.Space[Any]: ...

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Values, Values]: ...

    def step(self, actions: Values) -> tuple[Values, Values, Values, Values, Values]: ...

    def close(self) -> None: ...


def as_parallel(made: Any, label: str) -> ParallelEnvironment | None:
    """Return an environment with several agents in PettingZoo's parallel interface; None for one with a single agent.

    Args:
        made: An environment of Gymnasium or of PettingZoo. An AEC environment, in which agents act in turns, is
            converted by PettingZoo: in a turn-based game, the actions of the agents that are not at turn are ignored.
        label: Its name, for messages.

    Raises:
        ConfigurationError: PettingZoo cannot convert the AEC environment.
    """
    if isinstance(made, gym.Env):
        own = [getattr(made, name, None) for name in ("action_space", "observation_space")]
        in_tuples = all(isinstance(each, spaces.Tuple) for each in own)
        return _TupleAgents(made) if in_tuples else None
    if "pettingzoo" not in sys.modules or not hasattr(made, "possible_agents"):
        return None
    from pettingzoo import AECEnv, ParallelEnv

    if isinstance(made, AECEnv):
        made = _converted(made, label)
    return _without_checks(made) if isinstance(made, ParallelEnv) else None


def _converted(made: Any, label: str) -> ParallelEnvironment:
    from pettingzoo.utils import conversions

    together = made.metadata.get("is_parallelizable", False)
    convert: Callable[[Any], Any] = conversions.aec_to_parallel if together else conversions.turn_based_aec_to_parallel
    try:
        converted: ParallelEnvironment = convert(made)
    except Exception as error:
        raise ConfigurationError(
            f"{label!r} is an AEC environment of PettingZoo, which {convert.__name__} cannot convert "
            f"({type(error).__name__}: {error}): give its parallel_env, or a function that returns one."
        ) from error
    return converted


def _without_checks(parallel: Any) -> ParallelEnvironment:
    """Take PettingZoo's checks of order and of actions off a converted AEC environment.

    They hand on every attribute through `__getattr__`, which takes a third of the time of a step of
    ``mpe2.simple_spread_v3``; `JointEnv` keeps the order, and its actions are within their spaces.
    """
    from pettingzoo.utils import wrappers

    checks = (wrappers.OrderEnforcingWrapper, wrappers.AssertOutOfBoundsWrapper)
    while type(getattr(parallel, "aec_env", None)) in checks:
        parallel.aec_env = parallel.aec_env.env
    unchecked: ParallelEnvironment = parallel
    return unchecked


class _TupleAgents:
    """Parallel interface of a Gymnasium environment whose observations and actions are tuples over agents.

    Rewards are a sequence over agents, or one number for the team, of which each agent gets an equal share: the sum of
    their rewards is the reward of the team. An episode ends for all agents at once.
    """

    def __init__(self, environment: gym.Env[Any, Any]) -> None:
        self._environment = environment
        n_agents = len(environment.action_space)  # type: ignore[arg-type]
        self.possible_agents = tuple(f"agent_{i}" for i in range(n_agents))
        self.agents: tuple[str, ...] = ()
        self.metadata, self.render_mode = environment.metadata, environment.render_mode

    def observation_space(self, agent: str) -> gym.Space[Any]:
        found: gym.Space[Any] = self._environment.observation_space[self._number(agent)]  # type: ignore[index]
        return found

    def action_space(self, agent: str) -> gym.Space[Any]:
        found: gym.Space[Any] = self._environment.action_space[self._number(agent)]  # type: ignore[index]
        return found

    def _number(self, agent: str) -> int:
        return self.possible_agents.index(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Values, Values]:
        observations, info = self._environment.reset(seed=seed, options=options)
        self.agents = self.possible_agents
        return self._by_agent(observations), dict.fromkeys(self.agents, info)

    def step(self, actions: Values) -> tuple[Values, Values, Values, Values, Values]:
        together = tuple(actions[agent] for agent in self.possible_agents)
        answer: Any = self._environment.step(together)
        observations, rewards, terminated, truncated, info = answer
        agents, n_agents = self.agents, len(self.possible_agents)
        ended, cut = _flag("terminated", terminated), _flag("truncated", truncated)
        if ended or cut:
            self.agents = ()
        if np.ndim(rewards) == 0 and not isinstance(rewards, Mapping):
            rewards = [float(rewards) / n_agents] * n_agents
        return (
            self._by_agent(observations),
            self._by_agent(rewards),
            dict.fromkeys(agents, ended),
            dict.fromkeys(agents, cut),
            dict.fromkeys(agents, info),
        )

    def _by_agent(self, values: Any) -> Values:
        if len(values) != len(self.possible_agents):
            raise ConfigurationError(
                f"The environment has {len(self.possible_agents)} agents, and gave {len(values)} values: {values!r}."
            )
        return dict(zip(self.possible_agents, values, strict=True))

    def render(self) -> Any:
        return self._environment.render()

    def close(self) -> None:
        self._environment.close()


def _flag(what: str, value: Any) -> bool:
    """Return a flag of the episode; a sequence over agents would be true whatever is in it."""
    if np.ndim(value) or isinstance(value, Mapping):
        raise ConfigurationError(
            f"A Gymnasium environment with tuples of actions must return {what} as one bool for all agents, it "
            f"returned {value!r}: return all(...) of them, or make it a ParallelEnv of PettingZoo, whose agents leave "
            f"one by one."
        )
    return bool(value)

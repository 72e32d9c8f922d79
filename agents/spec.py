"""An agent as data: its class, its hyperparameters and its environment. This is what crosses processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.agent import Agent
from agents.algorithms.registry import agent_class
from agents.config import AgentConfig
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.strategies import StrategySpec


@dataclass(frozen=True)
class AgentSpec:
    """An agent that is not built yet.

    Attributes:
        agent: A name of the registry, a class, ``"module:Class"`` or ``"file.py:Class"``.
        environment: What it is for.
        config: Its hyperparameters, complete.
        state: Weights to start from instead of those that a seed draws: the `get_state` of an agent, or None.
    """

    agent: str | type[Agent]
    environment: EnvironmentSpec
    config: AgentConfig
    state: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        agent: Any,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> AgentSpec:
        """Makes a spec from whatever people have: a name, a class, an agent that is built, or a spec.

        An agent that has been trained, or whose state was set, is started from its own weights; a fresh one is
        taken as a recipe, and every seed draws weights of its own.

        Args:
            agent: Name, class, `Agent` or `AgentSpec`.
            environment: What it is for; may be left out where the agent knows it.
            params: Hyperparameters that differ from the agent's own, by the names of `AgentConfig.from_dict`.

        Raises:
            ConfigurationError: Unknown names, bad values, or no environment.
        """
        if isinstance(agent, AgentSpec):
            there = agent.environment if environment is None else EnvironmentSpec.of(environment)
            return cls(agent.agent, there, agent.config, agent.state).with_params(params or {})
        if isinstance(agent, Agent):
            where = agent.environment if environment is None else EnvironmentSpec.of(environment)
            if where is None:
                raise ConfigurationError("Say which environment the agent is for: it was made without one.")
            state = None if agent.fresh else agent.get_state()
            return cls(type(agent), where, agent.config, state).with_params(params or {})
        if environment is None:
            raise ConfigurationError(f"Say which environment {agent!r} is for, such as environment='CartPole-v1'.")
        config = agent_class(agent).config_class.from_dict(params or {})
        return cls(agent, EnvironmentSpec.of(environment), config)

    @property
    def label(self) -> str:
        """A short name for people and for the study."""
        return self.agent if isinstance(self.agent, str) else self.agent.__name__

    def with_params(self, params: Mapping[str, Any]) -> AgentSpec:
        """The same agent with other hyperparameters."""
        return AgentSpec(self.agent, self.environment, self.config.replace(params), self.state)

    def structure(self) -> tuple[Any, ...]:
        """What two agents must have in common to be members of one population."""
        where = self.environment
        # Classes and functions themselves, not their names: those that a function makes are all called the same.
        return (self.agent, where.id, repr(where.kwargs), where.vectorization, repr(self.config.structure()))

    def build(self, seed: int = 0, strategy: Any = None, spaces: tuple[Any, Any] | None = None) -> Agent:
        """The agent, as `seed` makes it.

        Args:
            seed: The seed.
            strategy: On how many devices it learns; see `agents.strategies.StrategySpec.of`. Defaults to None: one,
                or those of the `tf.distribute` strategy in whose scope it is built.

            spaces: Its observation and action space, where they are known. Defaults to None: an environment is made to
                see.

        Raises:
            ConfigurationError: It cannot take the environment's spaces, or there are not so many devices.
        """
        if strategy is not None:
            return StrategySpec.of(strategy).build(self, seed)
        observation_space, action_space = spaces or self.environment.spaces()
        agent = agent_class(self.agent)(
            observation_space, action_space, self.config, seed=seed, environment=self.environment
        )
        if self.state is not None:
            start_from(agent, self.state)
        return agent


def start_from(agent: Agent, state: Mapping[str, Any]) -> None:
    """Gives a fresh agent the networks of another one, and what belongs to them (normaliser, how far exploration came).

    Its optimizer, counters and generators stay fresh.

    Raises:
        ConfigurationError: They are of another structure.
    """
    own = agent.get_state()
    try:
        agent.set_state({**own, "networks": state["networks"], "extra": state["extra"], "fresh": False})
    except (KeyError, ValueError) as error:
        cause = str(error).partition(" Target variable:")[0]
        raise ConfigurationError(
            f"The {type(agent).__name__} cannot start from the weights that were given, because they were trained with "
            f"other hyperparameters ({cause}): leave those as they were, or start from new weights."
        ) from error


def make(
    agent: str | type[Agent],
    environment: str | Callable[..., Any] | EnvironmentSpec,
    *,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    strategy: Any = None,
    **params: Any,
) -> Agent:
    """Builds an agent: ``agents.make("ppo", "CartPole-v1", seed=0, learning_rate=1e-3)``.

    Args:
        agent: A name (``"dqn"``, ``"ppo"``), a class of your own, ``"module:Class"`` or ``"file.py:Class"``.
        environment: A Gymnasium id, or a function that makes an environment.
        seed: Seed of its weights, exploration and minibatches. Defaults to 0.
        env_kwargs: Arguments for the environment.
        strategy: On how many devices it learns, such as ``"mirrored"``; see `agents.strategies.StrategySpec.of`.
        **params: Hyperparameters; see the agent's `config_class`.

    Raises:
        ConfigurationError: An unknown name, a bad value, or spaces that the agent cannot take.
    """
    spec = AgentSpec.of(agent, EnvironmentSpec.of(environment, env_kwargs), params)
    spec.config.refuse_without_effect(params)
    return spec.build(seed, strategy)

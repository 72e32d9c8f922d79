"""An agent as data: its class, its hyperparameters and its environment. This is what crosses processes.

A training function of the user's own is one too (`FunctionSpec`): it trains whatever it likes in any way, and reports
every episode of its run (`agents.TrainingRun`)::

    def train(run, learning_rate: float = 3e-4, width: int = 64):
        environment = run.environment.make()
        ...
        run.report(episode_return=12.0, length=40)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from agents.config.agent_config import AgentConfig
from agents.config.hyperparameters import Config
from agents.contract.agent import Agent
from agents.contract.function_config import config_of, name_of_function
from agents.contract.registry import agent_class, training_function
from agents.contract.weights import start_from
from agents.distributed.strategies import StrategySpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.errors import ConfigurationError
from agents.short_repr import short


@dataclass(frozen=True, repr=False)
class AgentSpec:
    """An agent that is not built yet.

    Attributes:
        agent: A name of the registry, a class, ``"module:Class"`` or ``"file.py:Class"``; or a training function.
        environment: What it is for.
        config: Its hyperparameters, complete.
        state: Weights to start from instead of those that a seed draws: the `get_state` of an agent, or None.
    """

    agent: str | type[Agent] | Callable[..., Any]
    environment: EnvironmentSpec
    config: Config
    state: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        values = "".join(f", {name}={short(value)}" for name, value in self.config.set_otherwise().items())
        trained = "" if self.state is None else ", from its weights"
        return f"{type(self).__name__}({self.label!r}, {self.environment.label!r}{values}{trained})"

    @classmethod
    def of(
        cls,
        agent: Any,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> AgentSpec:
        """Makes a spec from whatever people have: a name, a class, an agent that is built, a training function, a spec.

        An agent that has been trained, or whose state was set, is started from its own weights; a fresh one is
        taken as a recipe, and every seed draws weights of its own.

        Args:
            agent: Name, class, `Agent`, function (see `FunctionSpec`) or `AgentSpec`.
            environment: What it is for; may be left out where the agent knows it.
            params: Hyperparameters that differ from the agent's own, by the names of `AgentConfig.from_dict`.

        Raises:
            ConfigurationError: Unknown names, bad values, or no environment.
        """
        if isinstance(agent, AgentSpec):
            there = agent.environment if environment is None else EnvironmentSpec.of(environment)
            return replace(agent, environment=there).with_params(params or {})
        if isinstance(agent, Agent):
            where = agent.environment if environment is None else EnvironmentSpec.of(environment)
            if where is None:
                raise ConfigurationError("Say which environment the agent is for: it was made without one.")
            state = None if agent.fresh else agent.get_state()
            return cls(type(agent), where, agent.config, state).with_params(params or {})
        if environment is None:
            raise ConfigurationError(f"Say which environment {agent!r} is for, such as environment='CartPole-v1'.")
        where = EnvironmentSpec.of(environment)
        if training_function(agent) is not None:
            return FunctionSpec.of_function(agent, where, params or {})
        return cls(agent, where, agent_class(agent).config_class.from_dict(params or {}))

    @property
    def label(self) -> str:
        """A short name for people and for the study."""
        return self.agent if isinstance(self.agent, str) else self.agent.__name__

    def with_params(self, params: Mapping[str, Any]) -> AgentSpec:
        """The same agent with other hyperparameters."""
        return replace(self, config=self.config.replace(params))

    @property
    def optimizer(self) -> str:
        """Name of its optimizer, "" where nobody knows."""
        return self.config.optimizer if isinstance(self.config, AgentConfig) else ""

    @property
    def why_alone(self) -> str:
        """Why it cannot be the member of a population, "" where only trying shows whether it can."""
        return ""

    def refuse_functions(self, why: str) -> None:
        """Raises `ConfigurationError` where it is a training function, which says `why` and what to do instead."""

    def check(self, strategy: str = "none") -> None:
        """Builds it once, to see that it can be.

        Args:
            strategy: That with which it will learn.

        Raises:
            ConfigurationError: It cannot take the environment's spaces, or a value.
            Exception: Whatever a user's agent raises.
        """
        self.build().interface.say_notes()

    def structure(self) -> tuple[Any, ...]:
        """What two agents must have in common to be members of one population."""
        return (self.agent, self.environment.identity, self.environment.vectorization, repr(self.config.structure()))

    def build(self, seed: int = 0, strategy: Any = None, interface: Interface | None = None) -> Agent:
        """The agent, as `seed` makes it.

        Args:
            seed: The seed.
            strategy: On how many devices it learns; see `agents.distributed.strategies.StrategySpec.of`. Defaults to
                None: one, or those of the `tf.distribute` strategy in whose scope it is built.
            interface: The environment's spaces, where they are known. Defaults to None: an environment is made to
                see.

        Raises:
            ConfigurationError: It cannot take the environment's spaces, or there are not so many devices.
        """
        if strategy is not None:
            agent: Agent = StrategySpec.of(strategy).build(self, seed)
            return agent
        both = interface or self.environment.interface()
        assert isinstance(self.config, AgentConfig)
        agent = agent_class(self.agent)(
            both.observation_space, both.action_space, self.config, seed=seed, environment=self.environment
        )
        agent.interface = both
        if self.state is not None:
            start_from(agent, self.state)
        return agent


@dataclass(frozen=True, repr=False)
class FunctionSpec(AgentSpec):
    """A training function and its parameters. `agent` is the function, ``"module:name"`` or ``"file.py:name"``."""

    @classmethod
    def of_function(cls, function: Any, environment: EnvironmentSpec, params: Mapping[str, Any]) -> FunctionSpec:
        """The spec of a function, or of a name that stands for one.

        Raises:
            ConfigurationError: It cannot be a training function, or has no parameter of a name.
        """
        found = training_function(function)
        assert found is not None
        return cls(function, environment, config_of(found).from_dict(params))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels as what it was made of: its config's class was made here."""
        return FunctionSpec.of_function, (self.agent, self.environment, self.parameters)

    @property
    def label(self) -> str:
        return self.agent if isinstance(self.agent, str) else name_of_function(self.agent)

    @property
    def parameters(self) -> dict[str, Any]:
        """What the function is called with, beside its run."""
        return {field.name: getattr(self.config, field.name) for field in dataclasses.fields(self.config)}

    @property
    def why_alone(self) -> str:
        return "it is a training function of your own."

    def check(self, strategy: str = "none") -> None:
        """Makes its environment once; the function itself is not called.

        Raises:
            ConfigurationError: There is no such environment, or a strategy was asked for.
        """
        if strategy != "none":
            self.refuse_functions(f"the strategy {strategy} cannot be put on it. Use tf.distribute inside of it.")
        self.environment.make().close()

    def build(self, seed: int = 0, strategy: Any = None, interface: Any = None) -> NoReturn:
        """There is no agent to build.

        Raises:
            ConfigurationError: Says what to do instead.
        """
        self.refuse_functions(
            "there is no agent to build. Call it with an agents.TrainingRun, or search its parameters with tune."
        )

    def call(self, run: Any) -> None:
        """Runs it to its end."""
        function = training_function(self.agent)
        assert function is not None
        function(run, **self.parameters)

    def refuse_functions(self, why: str) -> NoReturn:
        raise ConfigurationError(
            f"{self.label} is a training function, which makes and trains its agent by itself: {why}"
        )


def config_class(agent: Any) -> type[Config]:
    """The class of the hyperparameters of an agent or of a training function.

    Args:
        agent: A name, a class or a function; see `AgentSpec.agent`.

    Raises:
        ConfigurationError: There is no such agent, or it is none.
    """
    function = training_function(agent)
    if function is None:
        return agent_class(agent).config_class
    return config_of(function)


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
        strategy: On how many devices it learns, such as ``"mirrored"``; see
            `agents.distributed.strategies.StrategySpec.of`.
        **params: Hyperparameters; see the agent's `config_class`.

    Raises:
        ConfigurationError: An unknown name, a bad value, or spaces that the agent cannot take.
    """
    spec = AgentSpec.of(agent, EnvironmentSpec.of(environment, env_kwargs), params)
    spec.config.refuse_without_effect(params)
    built = spec.build(seed, strategy)
    built.interface.say_notes()
    return built

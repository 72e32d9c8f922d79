"""An agent as data: class, hyperparameters and environment. Specifications are what crosses processes.

A user's training function is a specification too (`FunctionSpec`): it trains any model in any way, and reports every
episode of its run (`agents.TrainingRun`)::

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
from agents.contract.registry import SB3_PREFIX, agent_class, training_function
from agents.contract.weights import start_from
from agents.distributed.strategies import StrategySpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.errors import ConfigurationError
from agents.short_repr import short


@dataclass(frozen=True, repr=False)
class AgentSpec:
    """The specification of an agent that is not built yet.

    Attributes:
        agent: A name of the registry, a class, ``"module:Class"`` or ``"file.py:Class"``; or a training function.
        environment: The environment to train in.
        config: All hyperparameters.
        state: Initial weights instead of those of a seed: the `get_state` of an agent, or None.
    """

    agent: str | type[Agent] | Callable[..., Any]
    environment: EnvironmentSpec
    config: Config
    state: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        values = "".join(f", {name}={short(value)}" for name, value in self.config.non_default_values().items())
        trained = "" if self.state is None else ", from its weights"
        return f"{type(self).__name__}({self.label!r}, {self.environment.label!r}{values}{trained})"

    @classmethod
    def of(
        cls,
        agent: Any,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> AgentSpec:
        """Return the specification of a name, a class, a built agent, a training function or another specification.

        A trained agent, or one whose state was set, contributes its weights; a fresh agent contributes its class and
        config, and every seed draws new weights.

        Args:
            agent: Name, class, `Agent`, function (see `FunctionSpec`) or `AgentSpec`.
            environment: The environment to train in; may be left out if the agent has one.
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
        """A short name for tables and for the study."""
        return self.agent if isinstance(self.agent, str) else self.agent.__name__

    def with_params(self, params: Mapping[str, Any]) -> AgentSpec:
        """Return the same agent with other hyperparameters."""
        return replace(self, config=self.config.replace(params))

    def with_common_rate(self) -> AgentSpec:
        """Return the agent without learning rates of single optimizers, which would override the common one."""
        own = self.config.optimizers if isinstance(self.config, AgentConfig) else {}
        without = {name: {k: v for k, v in override.items() if k != "learning_rate"} for name, override in own.items()}
        return self.with_params({"optimizers": without}) if own else self

    @property
    def optimizer(self) -> str:
        """The name of the optimizer, "" if unknown."""
        return self.config.optimizer if isinstance(self.config, AgentConfig) else ""

    @property
    def is_own_function(self) -> bool:
        """Return whether it is a function of the user, which makes environments and reports episodes in its own way."""
        return False

    @property
    def why_alone(self) -> str:
        """The reason why the agent cannot be a member of a population, "" if only trying can show one."""
        return ""

    def refuse_functions(self, reason: str) -> None:
        """Raise `ConfigurationError` for a training function; the message gives `reason` and what to do instead."""

    def check(self, strategy: str = "none") -> None:
        """Build the agent once, as a check.

        Args:
            strategy: The strategy with which the agent will learn.

        Raises:
            ConfigurationError: The agent cannot take the environment's spaces, or a value.
            Exception: Any error of a user's agent.
        """
        self._refuse_strategy(StrategySpec.of(strategy))
        self.build().interface.log_notes()

    def _refuse_strategy(self, strategy: StrategySpec) -> None:
        """Raise `ConfigurationError` for a strategy of TensorFlow and an agent of another library."""
        if not (strategy.is_none or agent_class(self.agent).takes_strategies):
            raise ConfigurationError(
                f"The strategy {strategy.name} is one of TensorFlow, and {self.label} is no agents.KerasAgent: leave "
                f"the strategy out."
            )

    def structure(self) -> tuple[Any, ...]:
        """Return what agents must have in common to be members of one population."""
        return (self.agent, self.environment.identity, self.environment.vectorization, repr(self.config.structure()))

    def build(self, seed: int = 0, strategy: Any = None, interface: Interface | None = None) -> Agent:
        """Build the agent of a seed.

        Args:
            seed: The seed.
            strategy: The devices on which it learns; see `agents.distributed.strategies.StrategySpec.of`. Defaults to
                None: one device, or those of the `tf.distribute` strategy in whose scope it is built.
            interface: The environment's spaces, if known. Defaults to None: an environment is made to read them.

        Raises:
            ConfigurationError: The agent cannot take the environment's spaces, or there are not enough devices.
        """
        if strategy is not None:
            devices = StrategySpec.of(strategy)
            self._refuse_strategy(devices)
            agent: Agent = devices.build(self, seed)
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
        """Return the specification of a function, or of a name that stands for one.

        Raises:
            ConfigurationError: It cannot be a training function, or lacks a parameter that `params` names.
        """
        found = training_function(function)
        assert found is not None
        named = name_of_function(found) if _is_of_library(function) else function  # as the library spells it
        return cls(named, environment, config_of(found).from_dict(params))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function and its parameters: the class of the config was made in this process."""
        return FunctionSpec.of_function, (self.agent, self.environment, self.parameters)

    @property
    def label(self) -> str:
        return self.agent if isinstance(self.agent, str) else name_of_function(self.agent)

    @property
    def parameters(self) -> dict[str, Any]:
        """The keyword arguments of the function, besides its run."""
        return {field.name: getattr(self.config, field.name) for field in dataclasses.fields(self.config)}

    @property
    def is_own_function(self) -> bool:
        return not _is_of_library(self.agent)

    @property
    def why_alone(self) -> str:
        return "it is a training function, with a loop of its own."

    def check(self, strategy: str = "none") -> None:
        """Make the environment once; the function itself is not called. One of a library builds its model.

        Raises:
            ConfigurationError: There is no such environment, or a strategy was requested.
        """
        if strategy != "none":
            self.refuse_functions(f"the strategy {strategy} cannot be put on it. Use tf.distribute inside of it.")
        self.environment.make().close()
        check = getattr(training_function(self.agent), "check", None)
        if check is not None:
            check(self.environment, self.parameters)

    def build(self, seed: int = 0, strategy: Any = None, interface: Any = None) -> NoReturn:
        """Raise an error: a training function has no agent to build.

        Raises:
            ConfigurationError: Always; the message says what to do instead.
        """
        self.refuse_functions(
            "there is no agent to build. Call it with an agents.TrainingRun, or search its parameters with tune."
        )

    def call(self, run: Any) -> None:
        """Call the function with its run and its parameters."""
        function = training_function(self.agent)
        assert function is not None
        function(run, **self.parameters)

    def refuse_functions(self, reason: str) -> NoReturn:
        raise ConfigurationError(f"{self.label} is a training function, which makes and trains its own agent: {reason}")


def _is_of_library(function: Any) -> bool:
    """Return whether a training function is an algorithm of another library, by its name."""
    return isinstance(function, str) and function.lower().startswith(SB3_PREFIX)


def config_class(agent: Any) -> type[Config]:
    """Return the class of the hyperparameters of an agent or of a training function.

    Args:
        agent: A name, a class or a function; see `AgentSpec.agent`.

    Raises:
        ConfigurationError: There is no such agent, or the value is not an agent.
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
    """Build an agent: ``agents.make("ppo", "CartPole-v1", seed=0, learning_rate=1e-3)``.

    Args:
        agent: A name (``"dqn"``, ``"ppo"``), a class of your own, ``"module:Class"`` or ``"file.py:Class"``.
        environment: A Gymnasium id, or a function that makes an environment.
        seed: Seed of its weights, exploration and minibatches. Defaults to 0.
        env_kwargs: Arguments for the environment.
        strategy: The devices on which it learns, such as ``"mirrored"``; see
            `agents.distributed.strategies.StrategySpec.of`.
        **params: Hyperparameters; see the agent's `config_class`.

    Raises:
        ConfigurationError: An unknown name, a bad value, or spaces that the agent cannot take.
    """
    spec = AgentSpec.of(agent, EnvironmentSpec.of(environment, env_kwargs), params)
    spec.config.refuse_without_effect(params)
    built = spec.build(seed, strategy)
    built.interface.log_notes()
    return built

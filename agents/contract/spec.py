"""An agent as data: its class, its hyperparameters and its environment. This is what crosses processes.

A training function of the user's own is one too, as far as that goes: see `agents.contract.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.callbacks.callback import Callback
from agents.config.agent_config import AgentConfig
from agents.config.hyperparameters import Config
from agents.contract.agent import Agent
from agents.contract.registry import agent_class, training_function
from agents.distributed.strategies import StrategySpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.errors import ConfigurationError
from agents.short_repr import short

if TYPE_CHECKING:
    from agents.training.function_trainer import OwnTraining


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
            agent: Name, class, `Agent`, function (see `agents.contract.functions`) or `AgentSpec`.
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
            from agents.contract.functions import FunctionSpec

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

    def learner(self, seed: int, strategy: Any = None) -> Agent | OwnTraining:
        """What a run of it trains; see `build`."""
        return self.build(seed, strategy)

    def check_callbacks(self, callbacks: Iterable[Callback]) -> None:
        """Raises `ConfigurationError` where one would not hear what it listens to."""

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
            return StrategySpec.of(strategy).build(self, seed)
        both = interface or self.environment.interface()
        assert isinstance(self.config, AgentConfig)
        agent = agent_class(self.agent)(
            both.observation_space, both.action_space, self.config, seed=seed, environment=self.environment
        )
        agent.interface = both
        if self.state is not None:
            start_from(agent, self.state)
        return agent


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
    from agents.contract.functions import config_of

    return config_of(function)


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
        why = _difference(state.get("networks", {}), own.get("networks", {})) or str(error)
        raise ConfigurationError(
            f"The {type(agent).__name__} cannot start from the weights that were given, because they were trained with "
            f"another algorithm, environment or other hyperparameters ({why}): take these, or start from new weights."
        ) from error


def _difference(theirs: Mapping[str, Sequence[Any]], ours: Mapping[str, Sequence[Any]]) -> str:
    """In what networks differ that were kept from those that are to have their weights; empty where in nothing.

    Agents that are not of Keras networks may have none to compare.
    """
    if theirs and ours and sorted(theirs) != sorted(ours):
        return f"they are of the networks {', '.join(sorted(theirs))}; this agent has {', '.join(sorted(ours))}"
    for name in sorted({*theirs} & {*ours}):
        shapes = [[list(np.shape(array)) for array in arrays] for arrays in (theirs[name], ours[name])]
        if shapes[0] != shapes[1]:
            return f"their network {name} has weights of the shapes {shapes[0]}, this agent's has {shapes[1]}"
    return ""


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

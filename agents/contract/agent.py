"""What an agent is to the rest: it acts, and it learns from data. It is not a loop.

An agent opens no environment, counts no episodes and writes no file. The `Trainer` brings it together with
environments and a memory; finders build agents from an `AgentSpec`, never from another live agent's parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.buffers import Batches, Buffer
from agents.config.agent_config import AgentConfig
from agents.config.optimizers import OptimizerSpec
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.environments.spec import AgentActions
from agents.environments.transforms import space_text, takers_of
from agents.errors import ConfigurationError, NonFiniteError
from agents.renamed import keep_old_names
from agents.short_repr import short_repr

Array = np.ndarray[Any, Any]
ActionSpace = AgentActions


class UpdateMetrics(NamedTuple):
    """What the gradient steps of one update gave. Values are of those steps, not running means.

    Arrays are [K] for an agent, [P, K] for a population.
    """

    losses: dict[str, Array]  # optimizer name -> loss of each gradient step
    metrics: dict[str, Array]  # anything else that the agent's loss named
    member: int = 0  # whose they are
    priorities: Array | None = None  # [K, B] or [P, K, B]: what the memory is told of the rows, where the loss says so

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def loss(self) -> Any:
        """Mean over the gradient steps of the losses of all optimizers together: a number, or [P]."""
        means = [values[..., 0] if values.shape[-1] == 1 else values.mean(axis=-1) for values in self.losses.values()]
        total = sum(means[1:], means[0])
        return float(total) if np.ndim(total) == 0 else total

    @property
    def finite(self) -> Any:
        """Whether every loss is a number: a truth value, or [P]."""
        each = [np.isfinite(values).all(axis=-1) for values in self.losses.values()]
        finite = np.logical_and.reduce(each)
        return bool(finite) if np.ndim(finite) == 0 else finite

    def why_not_finite(self, env_steps: int, gradient_steps: int) -> NonFiniteError:
        """What to tell of losses that are no numbers, after so many steps of a run, those of this update counted."""
        losses = {name: values[~np.isfinite(values)] for name, values in self.losses.items()}
        told = ", ".join(f"{name}: {values[0]}" for name, values in losses.items() if len(values))
        n_made = len(next(iter(self.losses.values())))
        at_first = any(not np.isfinite(values[0]) for values in self.losses.values())
        if at_first and gradient_steps == n_made:  # no rate has had any effect on the weights yet
            return NonFiniteError(
                f"The loss was {told} at the very first gradient step, after {env_steps:,} environment steps: the loss "
                f"itself gives that, at any learning rate. Look at what it computes, and at its data."
            )
        return NonFiniteError(
            f"The loss became {told} after {env_steps:,} environment steps ({gradient_steps:,} gradient steps): the "
            f"learning rate is probably too high."
        )

    def of(self, position: int, member: int = 0) -> UpdateMetrics:
        """What concerns one member of a population; of an agent alone, all."""
        if next(iter(self.losses.values())).ndim == 1:
            return self
        losses = {name: values[position] for name, values in self.losses.items()}
        metrics = {name: values[position] for name, values in self.metrics.items()}
        return UpdateMetrics(losses, metrics, member, None if self.priorities is None else self.priorities[position])


_RENAMED = {
    "prepare": "preprocess_batch",
    "whole": "preprocess_minibatch",
    "opening": "pre_update",
    "turns": "optimizer_steps",
    "make_memory": "make_buffer",
    "new_memory": "new_buffer",
    "keep": "select",
}
"""Old name of a method -> its name now."""


class Agent(ABC):
    """An agent, whatever library its networks are written in.

    Args:
        observation_space: What it sees; see `agents.environments` for the kinds.
        action_space: `Discrete` or `MultiDiscrete` from 0, or a `Box` within [-1, 1] (or without bounds).
        config: Its hyperparameters, an instance of `config_class`.
        seed: Seed of its weights, its exploration and the order of its minibatches.
        environment: What it was made for, kept so that finders need not be told again. It is not opened.
    """

    config_class: ClassVar[type[AgentConfig]] = AgentConfig
    members_fail_alone: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_old_names(cls, _RENAMED)

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: ActionSpace,
        config: AgentConfig | None = None,
        *,
        seed: int = 0,
        environment: EnvironmentSpec | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.config = config if config is not None else self.config_class()
        if not isinstance(self.config, self.config_class):
            raise ConfigurationError(
                f"{type(self).__name__} takes a {self.config_class.__name__}, not {type(config).__name__}."
            )
        self.seed = seed
        self.environment = environment
        self.rng = seeding.generator(seed, "exploration")
        self.env_steps = 0
        self.gradient_steps = 0
        self.fresh = True  # as its seed made it: never updated, and no state from elsewhere
        self._interface: Interface | None = None
        self._speaks_to = environment  # whose spaces `interface` has

    @abstractmethod
    def act(self, observations: Array, explore: bool = False) -> Array:
        """Chooses an action for each observation; both are as the agent sees them (see `predict` for others).

        Args:
            observations: [N, ...] of `observation_space`.
            explore: Whether actions are drawn as in training. Defaults to False, as everywhere: the action that is
                thought best. Training asks for exploration itself.

        Returns:
            [N] int64 for discrete actions, [N, D] int64 for several discrete ones, [N, D] float32 for continuous ones.
        """

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Chooses what to do in a plain Gymnasium loop: ``env.step(agent.predict(observation))``.

        Takes and gives what the environment speaks, whatever the agent sees of it (`Dict`, one-hot, images of either
        order, scaled actions): it is what `agents.play` does in every step.

        Args:
            observation: An observation of the environment, with the wrappers it was trained with; or a batch of them,
                [N, ...] (in each of its parts).
            deterministic: Whether it is the action that is thought best. Defaults to True; False draws it as in
                training. Noise that remembers goes on from call to call then, apart from that of training.

        Returns:
            The action, ready for `env.step`; of a batch [N, ...].

        Raises:
            ConfigurationError: It is no observation of the environment.
        """
        observations, single = self.interface.seen(observation)
        actions = self.act(observations, explore=False) if deterministic else self.explored(observations)
        taken = self.interface.taken(actions)
        return taken[0] if single else taken

    def explored(self, observations: Array) -> Array:
        """Draws actions as in training, for episodes that are no part of it; see `act`."""
        return self.act(observations, explore=True)

    @property
    def interface(self) -> Interface:
        """Both sides of the environment's spaces; of an agent without an environment, its own spaces."""
        if self._interface is None:
            where = self._speaks_to
            own = Interface(self.observation_space, self.action_space, type(self).__name__)
            self._interface = own if where is None else where.interface()
        return self._interface

    @interface.setter
    def interface(self, interface: Interface) -> None:
        self._interface = interface

    def speak_to(self, environment: EnvironmentSpec) -> None:
        """Let `predict` take observations and give actions of the environment that the agent is trained in.

        Args:
            environment: The environment. It is made, to see its spaces, when they are needed and it is another one than
                the agent was made for.
        """
        if self._speaks_to is None or environment.identity != self._speaks_to.identity:
            self._speaks_to, self._interface = environment, None

    def refused_actions(self, takes: str) -> ConfigurationError:
        """Returns the error for an environment whose actions this agent does not take: names those that do.

        Args:
            takes: What it takes, such as ``"discrete actions"``.
        """
        space = self.interface.actions
        return ConfigurationError(
            f"{type(self).__name__} takes {takes}, and {self.interface.label!r} has {space_text(space)}; "
            f"{takers_of(space)} take these."
        )

    @abstractmethod
    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> Buffer:
        """The memory that this agent learns from, empty."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed, as the trainer wants it."""
        return (self.seed,)

    def new_buffer(self, n_envs: int, seeds: Sequence[int]) -> Buffer:
        """The memory of a run with this seed."""
        return self.make_buffer(n_envs, seeding.generator(seeds[0], "memory"))

    def select(self, positions: Sequence[int]) -> None:  # noqa: B027 - there is nobody to leave
        """An agent alone stays."""

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Adds what the loss needs to the data of an update (advantages, say), before it is cut into minibatches."""
        return data

    @abstractmethod
    def update(self, batches: Batches) -> UpdateMetrics:
        """Makes one gradient step a minibatch."""

    @property
    @abstractmethod
    def optimizers(self) -> Mapping[str, Any]:
        """The live optimizers by name."""

    def refresh(self) -> None:  # noqa: B027 - most agents keep no copies
        """Is told that its networks may have been changed by somebody else (weights loaded from a file, say).

        Training and evaluation begin with this; call it before `act` where you have changed weights yourself.
        """

    def advance(self, env_steps: int) -> None:
        """Is told that `env_steps` more steps were made in the environments; schedules go on."""
        self.env_steps += env_steps

    def restart(self, environments: Array | None) -> None:  # noqa: B027 - most agents remember nothing of an episode
        """Is told in which copies new episodes begin, where it explores: [N] bool; None: all, however many."""

    def acting_state(self) -> list[Array]:
        """What acting needs of what learning changes (weights, normalisers), for copies that act in other processes.

        Arrays whose number, shapes and types never change. Needed for a pool only.

        Raises:
            ConfigurationError: The agent does not say.
        """
        raise ConfigurationError(
            f"{type(self).__name__} cannot act in other processes: it has no acting_state and set_acting_state."
        )

    def set_acting_state(self, state: Sequence[Array]) -> None:
        """Acts from now on as the agent whose `acting_state` this is. Exploration goes on by itself."""
        raise NotImplementedError

    def check_poolable(self) -> None:  # noqa: B027 - most agents have nothing against it
        """Raises `ConfigurationError` where copies of it that act in several processes would explore otherwise."""

    def optimizer_spec(self, name: str = "default") -> OptimizerSpec:
        """The specification of the optimizer `name`, from the config and its overrides."""
        return self.config.optimizer_spec(name)

    @abstractmethod
    def get_learning_rate(self, optimizer: str = "default") -> float:
        """The learning rate that is in force."""

    @abstractmethod
    def set_learning_rate(self, learning_rate: float, optimizer: str | None = None) -> None:
        """Sets the learning rate of one optimizer, or of all."""

    @abstractmethod
    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        """Changes a live hyperparameter while the agent trains. `position` is for populations."""

    @abstractmethod
    def reset(self, seed: int, values: Mapping[str, Any] | None = None) -> None:
        """Makes the agent what building it with `seed` (and other live values) would give, keeping compiled code."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Everything that changes while it trains, as arrays and plain values: weights, optimizer slots and rates,
        target networks, normalisers, counters, live numbers and random generators."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on exactly where `get_state` was called."""


keep_old_names(Agent, _RENAMED)

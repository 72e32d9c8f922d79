"""Base class for agents: an agent acts, and learns from data. It has no training loop.

An agent opens no environment, counts no episodes and writes no file. The `Trainer` connects it with environments and a
buffer; finders build agents from an `AgentSpec`, never from parts of another agent.
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
from agents.environments.joint_space import JointSpace
from agents.environments.spec import AgentActions
from agents.environments.transforms import space_text, takers_of
from agents.errors import ConfigurationError, NonFiniteError, with_cause
from agents.renamed import keep_old_names
from agents.short_repr import short_repr

Array = np.ndarray[Any, Any]
ActionSpace = AgentActions

HELD_OUT_LOSS = "held_out_loss"
"""Name, in the metrics of an update, of the loss on data that is not learned from."""


class UpdateMetrics(NamedTuple):
    """Results of the gradient steps of one update: values of the individual steps, not running means.

    Arrays are [K] for a single agent, [P, K] for a population.
    """

    losses: dict[str, Array]  # optimizer name -> loss of each gradient step
    metrics: dict[str, Array]  # all other values of the agent's loss
    member: int = 0  # the member of a population
    priorities: Array | None = None  # [K, B] or [P, K, B]: new priorities of the rows, if the loss gives any

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def loss(self) -> Any:
        """The mean over the gradient steps of the summed losses of all optimizers: a number, or [P].

        For an agent that holds out demonstrations it is the mean loss on these.
        """
        if HELD_OUT_LOSS in self.metrics:
            held_out = self.metrics[HELD_OUT_LOSS].mean(axis=-1)
            return float(held_out) if np.ndim(held_out) == 0 else held_out
        means = [values[..., 0] if values.shape[-1] == 1 else values.mean(axis=-1) for values in self.losses.values()]
        total = sum(means[1:], means[0])
        return float(total) if np.ndim(total) == 0 else total

    @property
    def finite(self) -> Any:
        """Return whether all losses are finite: a bool, or [P]."""
        each = [np.isfinite(values).all(axis=-1) for values in self.losses.values()]
        finite = np.logical_and.reduce(each)
        return bool(finite) if np.ndim(finite) == 0 else finite

    def non_finite_error(self, env_steps: int, gradient_steps: int) -> NonFiniteError:
        """Return the error for losses that are not finite, after so many steps of the run, this update included."""
        losses = {name: values[~np.isfinite(values)] for name, values in self.losses.items()}
        first = ", ".join(f"{name}: {values[0]}" for name, values in losses.items() if len(values))
        n_made = len(next(iter(self.losses.values())))
        at_first = any(not np.isfinite(values[0]) for values in self.losses.values())
        if at_first and gradient_steps == n_made:  # no learning rate has affected the weights yet
            message = (
                f"The loss was {first} at the very first gradient step, after {env_steps:,} environment steps: the "
                f"loss itself gives that, at any learning rate. Look at its computation and at its data."
            )
            return with_cause(NonFiniteError(message), "code")
        return NonFiniteError(
            f"The loss became {first} after {env_steps:,} environment steps ({gradient_steps:,} gradient steps): the "
            f"learning rate is probably too high."
        )

    def of(self, position: int, member: int = 0) -> UpdateMetrics:
        """Return the results of one member of a population; of a single agent, all results."""
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
    "speak_to": "set_environment",
    "refused_actions": "unsupported_actions",
    "explored": "sample_actions",
    "tell_gradient_norms": "record_gradient_norms",
}
"""Old name of a method -> new name."""


class Agent(ABC):
    """Base class for agents, independent of the library of the networks.

    Args:
        observation_space: The space of observations; see `agents.environments` for the kinds.
        action_space: `Discrete` or `MultiDiscrete` from 0, or a `Box` within [-1, 1] (or without bounds).
        config: The hyperparameters, an instance of `config_class`. Defaults to None: those of `config_class()`.
        seed: Seed of the weights, the exploration and the order of minibatches. Defaults to 0.
        environment: The environment that the agent is made for, so that finders need no further argument. It is not
            opened. Defaults to None.

    Raises:
        ConfigurationError: A space or the config is of another class, or the agent cannot take the spaces.
    """

    config_class: ClassVar[type[AgentConfig]] = AgentConfig
    members_fail_alone: ClassVar[bool] = False
    takes_strategies: ClassVar[bool] = False  # of `tf.distribute`
    judged_greedily: ClassVar[bool] = False  # by studies without a metric: exploration hides what it has learned

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
        keep_old_names(type(self), _RENAMED)
        for name, space in (("observation_space", observation_space), ("action_space", action_space)):
            if not isinstance(space, spaces.Space):
                raise ConfigurationError(
                    f"{type(self).__name__}(observation_space, action_space, config) takes spaces, got {space!r} as "
                    f"{name}: agents.make({type(self).__name__}, 'CartPole-v1') makes the agent of an environment."
                )
        self.observation_space = observation_space
        self.action_space = action_space
        self.config = config if config is not None else self.config_class()
        if not isinstance(self.config, self.config_class):
            raise ConfigurationError(
                f"{type(self).__name__} takes a {self.config_class.__name__}, not {type(config).__name__}."
            )
        self.seed = seeding.as_seed(seed)
        self.environment = environment
        self.rng = seeding.generator(seed, "exploration")
        self.env_steps = 0
        self.gradient_steps = 0
        self.fresh = True  # as built from its seed: never updated, no state set
        self.memory: Array | None = None
        self._predicted: Array | None = None  # memory of `predict`
        self._interface: Interface | None = None
        self._interface_environment = environment  # the environment whose spaces `interface` has

    @abstractmethod
    def act(self, observations: Array, explore: bool = False) -> Array:
        """Choose an action for each observation, in the agent's spaces (`predict` takes those of the environment).

        Args:
            observations: [N, ...] of `observation_space`.
            explore: Whether actions are drawn as in training. Defaults to False: the greedy action. Training passes
                True.

        Returns:
            [N] int64 for discrete actions, [N, D] int64 for several discrete actions, [N, D] float32 for continuous
            actions.

        Agents with memory (`memory_size`) take rows [N, F + M], observations followed by the memory of each
        environment, and leave the new memories [N, M] in `memory`.
        """

    @property
    def memory_size(self) -> int:
        """Numbers that the agent remembers of the episode in each environment, M. 0: nothing."""
        return 0

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Choose an action in a plain Gymnasium loop: ``env.step(agent.predict(observation))``.

        Observations and actions are in the environment's own spaces, whatever the agent's spaces are (`Dict`, one-hot,
        images of either order, scaled actions). `agents.play` calls this method at every step.

        Args:
            observation: An observation of the environment, with the wrappers of the training; or a batch of
                observations, [N, ...] (in each of its parts). An agent with memory (``gru_units``) remembers earlier
                calls; call `forget` when an episode begins.
            deterministic: Whether the greedy action is chosen. Defaults to True; False draws the action as in training.
                Correlated noise then continues from call to call, separate from the noise of training.

        Returns:
            The action, ready for `env.step`; of a batch [N, ...].

        Raises:
            ConfigurationError: The value is not an observation of the environment.
        """
        observations, single = self.interface.convert_observation(observation)
        if self.memory_size:
            observations = self._with_memory(observations)
        actions = self.act(observations, explore=False) if deterministic else self.sample_actions(observations)
        if self.memory_size:
            self._predicted = self.memory
        taken = self.interface.convert_actions(actions)
        return taken[0] if single else taken

    def _with_memory(self, observations: Array) -> Array:
        """Return observations with the memories of the previous call of `predict`, zero for another number of rows."""
        memory = self._predicted
        if memory is None or len(memory) != len(observations):
            memory = np.zeros((len(observations), self.memory_size), np.float32)
        return np.concatenate([observations, memory], axis=1)

    def forget(self) -> None:
        """Begin a new episode with `predict`, for agents with memory; others remember nothing."""
        self._predicted = None

    def sample_actions(self, observations: Array) -> Array:
        """Draw actions as in training, for episodes outside of it; see `act`."""
        return self.act(observations, explore=True)

    @property
    def interface(self) -> Interface:
        """The spaces of the environment and of the agent; without an environment, the agent's own spaces."""
        if self._interface is None:
            where = self._interface_environment
            own = Interface(self.observation_space, self.action_space, type(self).__name__)
            self._interface = own if where is None else where.interface()
        return self._interface

    @interface.setter
    def interface(self, interface: Interface) -> None:
        self._interface = interface

    def set_environment(self, environment: EnvironmentSpec) -> None:
        """Set the environment whose observations `predict` takes and whose actions it returns.

        Args:
            environment: The environment of the training. An instance is made when its spaces are needed, if it differs
                from the environment that the agent was made for.
        """
        if self._interface_environment is None or environment.identity != self._interface_environment.identity:
            self._interface_environment, self._interface = environment, None

    def unsupported_actions(self, takes: str) -> ConfigurationError:
        """Return the error for an environment with actions of another kind; it names agents that take that kind.

        Args:
            takes: The kind of actions that this agent takes, such as ``"discrete actions"``.
        """
        space = self.interface.actions
        return ConfigurationError(
            f"{type(self).__name__} takes {takes}, and {self.interface.label!r} has {space_text(space)}; "
            f"{takers_of(space, several_agents=isinstance(self.observation_space, JointSpace))} take these."
        )

    @abstractmethod
    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> Buffer:
        """Return an empty buffer of the kind that this agent learns from."""

    @classmethod
    def check_optimizer(cls, spec: OptimizerSpec) -> None:
        """Raise `ConfigurationError` for an optimizer that agents of this class cannot have."""
        spec.build()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed as a tuple, for the trainer."""
        return (self.seed,)

    def new_buffer(self, n_envs: int, seeds: Sequence[int]) -> Buffer:
        """Return the empty buffer of a run with these seeds.

        Raises:
            ConfigurationError: `make_buffer` returned something else.
        """
        buffer = self.make_buffer(n_envs, seeding.generator(seeds[0], "memory"))
        if not isinstance(buffer, Buffer):
            raise ConfigurationError(
                f"{type(self).__name__}.make_buffer() must return a buffer, such as agents.RolloutBuffer or "
                f"agents.UniformReplay, it returned {buffer!r}."
            )
        return buffer

    def select(self, positions: Sequence[int]) -> None:  # noqa: B027 - a single agent has no members
        """Select members; a single agent cannot leave a population."""

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add inputs of the loss (advantages, for example) to the data of an update, before it is split."""
        return data

    @abstractmethod
    def update(self, batches: Batches) -> UpdateMetrics:
        """Make one gradient step per minibatch."""

    @property
    @abstractmethod
    def optimizers(self) -> Mapping[str, Any]:
        """The optimizers by name."""

    def refresh(self) -> None:  # noqa: B027 - most agents keep no copies
        """Refresh copies of weights after a change from outside (weights loaded from a file, for example).

        Training and evaluation call this first; call it before `act` after you have changed weights yourself.
        """

    def restart_optimizers(self) -> None:  # noqa: B027 - most optimizers do not depend on weights
        """Set the optimizers to the states of new ones for the present weights."""

    def advance(self, env_steps: int) -> None:
        """Count `env_steps` further environment steps and advance schedules."""
        self.env_steps += env_steps

    def restart(self, environments: Array | None) -> None:  # noqa: B027 - most agents have no state of an episode
        """Reset what belongs to single episodes (noise, sums of rewards), in environments where new ones begin.

        Args:
            environments: [N] bool; or None for all, however many.
        """

    def acting_state(self) -> list[Array]:
        """Return the mutable state of acting (weights, normalizers), for copies of the agent in collector processes.

        Number, shapes and dtypes of the arrays never change. Needed for a pool only.

        Raises:
            ConfigurationError: The agent does not implement it.
        """
        raise ConfigurationError(
            f"{type(self).__name__} cannot act in other processes: it has no acting_state and set_acting_state."
        )

    def set_acting_state(self, state: Sequence[Array]) -> None:
        """Set the state of `acting_state`. The state of exploration does not change."""
        raise NotImplementedError

    def check_poolable(self) -> None:  # noqa: B027 - most agents can
        """Raise `ConfigurationError` if copies of the agent in several processes would explore differently."""

    def optimizer_spec(self, name: str = "default") -> OptimizerSpec:
        """Return the specification of the optimizer `name`, from the config and its overrides."""
        return self.config.optimizer_spec(name)

    @abstractmethod
    def get_learning_rate(self, optimizer: str = "default") -> float:
        """Return the current learning rate."""

    @abstractmethod
    def set_learning_rate(self, learning_rate: float, optimizer: str | None = None) -> None:
        """Set the learning rate of one optimizer, or of all; the reward networks of GAIL and AIRL keep theirs then."""

    @abstractmethod
    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        """Change a mutable hyperparameter during training. `position` is for populations."""

    @abstractmethod
    def reset(self, seed: int, values: Mapping[str, Any] | None = None) -> None:
        """Reset the agent to its state after building with `seed` (and other mutable values), keeping compiled code."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return all state that training changes, as arrays and plain values: weights, optimizer slots, learning rates,
        target networks, normalizers, counters, mutable hyperparameters and random generators."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; training then continues exactly."""


keep_old_names(Agent, _RENAMED)


def require_built(agent: Any, what: str) -> None:
    """Refuse a name or a class in the place of an agent.

    Args:
        agent: The value.
        what: What takes an agent, for the message.

    Raises:
        ConfigurationError: It is not a built agent.
    """
    if isinstance(agent, type) or not hasattr(agent, "act"):
        name = agent.__name__ if isinstance(agent, type) else repr(agent)
        raise ConfigurationError(
            f"{what} takes a built agent, got {agent!r}: agents.make({name}, 'CartPole-v1') is one."
        )

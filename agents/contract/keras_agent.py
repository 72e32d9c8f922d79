"""Base class for agents with Keras networks: a subclass defines the networks, the acting and the loss.

A subclass implements `build`, `act`, `make_buffer` and `loss` (or `optimizer_steps`); a complete agent takes about 30
lines (`examples/your_own_agent.py`). The base class implements compilation, optimizers, target networks, seeds, resets
and the saving of state.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.backend.tensorflow import keras, tf
from agents.backend.threads import share_threads_between_operations
from agents.backend.variables import assign_all, digest_of, one_name, values_of
from agents.buffers import Batches
from agents.config.agent_config import AgentConfig
from agents.config.network_config import settings_used
from agents.config.optimizers import variables_of
from agents.contract.agent import ActionSpace, UpdateMetrics
from agents.contract.mutable_agent import MutableAgent
from agents.contract.restoring import is_restoring
from agents.distributed.replicas import DistributedSteps
from agents.distributed.team import Team, Update
from agents.environments import EnvironmentSpec
from agents.environments.images import is_image
from agents.errors import ConfigurationError, unknown_name
from agents.networks.by_name import network_of, networks_of
from agents.networks.forwards import Forwards
from agents.networks.inference import is_dense
from agents.updates.bound_optimizer import BoundOptimizer
from agents.updates.compiled import CompiledUpdate, should_use_xla
from agents.updates.gradient_steps import PRIORITIES, GradientSteps, Learnable, OptimizerStep
from agents.updates.mutable import Live, guarded

Array = np.ndarray[Any, Any]


class KerasAgent(MutableAgent):
    """Base class for agents with Keras networks. See `Agent` for the arguments.

    Class attributes:
        target_networks: Target network name -> name of its online network. The config of such an agent has `tau` (share
            of the online network in an update of the targets) and `target_update_interval` (gradient steps between).
    """

    takes_strategies: ClassVar[bool] = True
    _bound: Mapping[str, BoundOptimizer]
    target_networks: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: ActionSpace,
        config: AgentConfig | None = None,
        *,
        seed: int = 0,
        environment: EnvironmentSpec | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, seed=seed, environment=environment)
        if self.target_networks and not (
            "tau" in self.config.live_values() and hasattr(self.config, "target_update_interval")
        ):
            raise ConfigurationError(
                f"{type(self).__name__} has target networks, and {type(self.config).__name__} lacks tau (live=True) or "
                f"target_update_interval: make it a subclass of agents.OffPolicyConfig, which has both, and set it as "
                f"the agent's config_class (examples/your_own_dqn.py)."
            )
        if self.target_networks and "target_update_interval" in self.config.live_values():
            raise ConfigurationError(
                f"target_update_interval is declared live in {type(self.config).__name__}, but it is a constant of the "
                f"compiled update: leave out live=True."
            )
        if not is_image(self.observation_space):
            share_threads_between_operations()
        self.strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
        self.live = Live(self.config.live_values())
        self.networks = self._build_networks(seed)
        self._gradient_steps = keras.Variable(0, dtype="int64", trainable=False, name="gradient_steps")
        self._variables = self._optimized_variables(self.networks)
        self._n_weights = sum(math.prod(each.shape) for own in self._variables.values() for each in own)
        self._bound = self._bound_optimizers()
        self._optimizers = {name: bound.optimizer for name, bound in self._bound.items()}
        self.forwards = Forwards(self.networks, list(self.target_networks))
        self._update: Update | None = None
        self._resting_update: Update | None = None  # of `losses_after_steps`; within that block the usual one
        self.team: Team | None = None
        self._gradient_norms = self._losses_after = False
        self._initial_digest = self._weights_digest()
        self.start()

    def __deepcopy__(self, memo: dict[int, Any]) -> KerasAgent:
        """Raise `ConfigurationError`: the compiled update of a copy would train the weights of this agent."""
        raise ConfigurationError(
            f"An agent ({type(self).__name__}) cannot be copied: make another one by agents.make, or load it from a "
            "checkpoint by agents.load_agent."
        )

    def __copy__(self) -> Self:
        """Return an agent with the same networks, to make a member of a population or other networks from."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise `ConfigurationError`: an unpickled agent would not train its weights."""
        raise ConfigurationError(
            f"An agent ({type(self).__name__}) cannot be pickled: save a checkpoint of its trainer, and "
            "load it by agents.load_agent; or pass an AgentSpec to another process, which makes an agent of its own."
        )

    @property
    def rowwise(self) -> bool:
        """Return whether a population may act and preprocess batches for all its members in one call.

        `act` and `preprocess_batch` must treat every row independently, draw from `self.rng` with rows first, read
        `hyperparameters` (not `config`), and keep no state that differs between members. Mark overrides that do so
        with `row_by_row`; others are called for one member after another, which is always correct.
        """
        return False

    @abstractmethod
    def build(self) -> Mapping[str, keras.Model]:
        """Build the networks, by name. Target networks are built here too; they start equal to their online networks.

        `start` makes all other parts of an agent.
        """

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the losses of one minibatch; traced into a compiled function.

        XLA compiles the function where that pays (`jit_compile`). XLA leaves out checks such as those of
        ``tf.debugging``.

        Args:
            batch: Name -> tensor [B, ...]: columns of the buffer and of `preprocess_batch`.

        Returns:
            A scalar for every optimizer (``"default"`` for a single one), and any scalars to record; also
            ``"priorities"`` [B], for a prioritized buffer.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method loss(batch), or optimizer_steps().")

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        """Return the optimizer steps of a gradient step, in order; each optimizer is in exactly one.

        Defaults to one step of all optimizers, on `loss`. Override it for an actor that learns from the critic after
        the critic's step, for example, or only at every second gradient step.
        """
        return [OptimizerStep(list(self.optimizers), self.loss)]

    def pre_update(self) -> Callable[[dict[str, Any]], Mapping[str, Any]] | None:
        """Return a function of all rows of an update that runs before its gradient steps. Defaults to none.

        It is for updates without an optimizer, such as the step of a policy within a trust region. It is traced into
        the compiled update, as losses are, and assigns the variables that it changes.

        Returns:
            All rows of the update, after `preprocess_minibatch` -> scalars to record, by name; or None.
        """
        return None

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Transform all rows of a minibatch together (scaling by their mean, for example); traced before the loss.

        With a strategy, each replica computes the loss of some of the rows only. A loss that is a mean of per-row
        values is then unchanged; any other computation over several rows belongs here.

        Args:
            batch: As in `loss`.
        """
        return batch

    def set_initial_weights(self, networks: Mapping[str, keras.Model]) -> None:
        """Change the weights of new networks that the seed has drawn. Defaults to no change.

        Called when the agent is built and at each reset, before target networks become equal to their online networks.
        An agent that is built for a state (`agents.contract.restoring`) has no initial weights.
        """

    def optimized_networks(self) -> Mapping[str, Sequence[str]]:
        """Return optimizer name -> names of its networks. Defaults to one optimizer for all but the target networks."""
        return {"default": [name for name in self.networks if name not in self.target_networks]}

    # Acting ---------------------------------------------------------------------------------------------------

    def infer(self, name: str, observations: Array, noise: Array | None = None) -> Array:
        """Return a network's outputs for observations [N, ...] as NumPy, by its fastest exact way."""
        return self.forwards(name, observations, noise)

    def acting_state(self) -> list[Array]:
        return [*self.forwards.get_state(), *self.acting_numbers()]

    def set_acting_state(self, state: Sequence[Array]) -> None:
        self.forwards.set_state(self.set_acting_numbers(state))

    # Learning -------------------------------------------------------------------------------------------------

    def update(self, batches: Batches) -> UpdateMetrics:
        if self._update is None:
            self._update = self._compile_update()
        values, watched = self._update(batches)
        self.fresh = False
        self.gradient_steps += batches.indices.shape[-2]
        self.forwards.refresh(watched)
        return self.metrics_of(values)

    def metrics_of(self, values: dict[str, Array]) -> UpdateMetrics:
        """Split the values of a loss into losses, metrics and priorities."""
        losses = {name: values.pop(name) for name in self.optimizers}
        priorities = values.pop(PRIORITIES, None)
        return UpdateMetrics(losses, values, priorities=priorities)

    def _compile_update(self) -> Update:
        watched = self.forwards.watched()
        if self.team is not None:
            return self.team.update_of(self, watched)
        parts = self.learnable()
        steps = GradientSteps(parts) if self.strategy is None else DistributedSteps(parts, self.strategy)
        state = self.state_variables() if self.strategy is None else None
        return CompiledUpdate(steps, watched, self.should_use_xla, state=state, **self.compilation())

    def record_gradient_norms(self) -> None:
        """Record each optimizer's ``gradient_norm/NAME`` and ``clipped_gradient_norm/NAME`` as metrics of updates."""
        if not self._gradient_norms:
            self._gradient_norms, self._update, self._resting_update = True, None, None

    @contextmanager
    def losses_after_steps(self) -> Iterator[None]:
        """Record each optimizer's loss after its step, on the same minibatch, as metrics ``loss_after/NAME``.

        This takes one more forward pass per gradient step, and a separate compilation. With a strategy nothing is
        recorded.
        """
        if self.strategy is not None or self.team is not None:
            yield
            return
        self._losses_after, self._update, self._resting_update = True, self._resting_update, self._update
        try:
            yield
        finally:
            self._losses_after, self._update, self._resting_update = False, self._resting_update, self._update

    def number(self, name: str) -> Any:
        value = super().number(name)
        # As in a population, so that a member computes exactly what it would compute alone.
        return np.float32(value) if isinstance(value, float) else value

    def learnable(self) -> Learnable:
        """Return the parts of the agent that a compiled update needs."""
        config, opening = cast("Any", self.config), guarded(self, self.pre_update)()
        return Learnable(
            optimizer_steps=[
                replace(step, loss=guarded(self, step.loss), after=step.after and guarded(self, step.after))
                for step in guarded(self, self.optimizer_steps)()
            ],
            optimizers=self._bound,
            targets=[
                pair
                for target, online in self.target_networks.items()
                # `weights` has no seeds of random layers such as Dropout, which are integers.
                for pair in zip(self.networks[target].weights, self.networks[online].weights, strict=True)
            ],
            tau=self.live.tau if self.target_networks else None,
            target_update_interval=config.target_update_interval if self.target_networks else 1,
            gradient_steps=self._gradient_steps,
            max_grad_norm=self.live.max_grad_norm if "max_grad_norm" in config.live_values() else config.max_grad_norm,
            preprocess_minibatch=guarded(self, self.preprocess_minibatch),
            pre_update=None if opening is None else guarded(self, opening),
            gradient_norms=self._gradient_norms,
            losses_after=self._losses_after,
            layer_states=[each for network in self.networks.values() for each in network.non_trainable_variables],
        )

    def should_use_xla(self, n_rows: int) -> bool:
        """Return whether XLA pays for single gradient steps of so many rows; for minibatches, as rollouts differ."""
        is_minibatch = n_rows == getattr(self.config, "batch_size", None)
        return is_minibatch and should_use_xla(self.gradient_steps, n_rows, self._n_weights)

    def compilation(self) -> dict[str, bool]:
        """Return how the update is compiled: `jit_compile` and `strict`."""
        wanted = self.config.jit_compile
        if self.strategy is not None:  # XLA cannot compile it
            if wanted:
                raise ConfigurationError("jit_compile is true, but XLA compiles nothing with a strategy: leave it out.")
            return {"jit_compile": False, "strict": False}
        trained = [network for name, network in self.networks.items() if name not in self.target_networks]
        return {"jit_compile": is_dense(trained) if wanted is None else wanted, "strict": wanted is True}

    def state_variables(self) -> list[Any]:
        """Return all variables that training changes, each once."""
        variables = [variable for network in self.networks.values() for variable in network.variables]
        variables += [variable for bound in self._bound.values() for variable in variables_of(bound.optimizer)]
        variables += [variable for bound in self._bound.values() for variable in bound.numbers.variables]
        variables += [*self.live.variables, self._gradient_steps]
        return list({id(variable): variable for variable in variables}.values())

    def refresh(self) -> None:
        self.forwards.refresh()

    # Building, resetting, saving ------------------------------------------------------------------------------

    @one_name()
    def _build_networks(self, seed: int) -> dict[str, keras.Model]:
        with seeding.seeded_initializers(seed), settings_used(getattr(self.config, "networks", {})):
            networks = networks_of(self.build(), type(self).__name__, self.target_networks)
        for network in networks.values():
            if not network.built:
                network.build((None, *self.observation_space.shape))
        if not is_restoring():
            self.set_initial_weights(networks)
        for target, online in self.target_networks.items():
            assign_all(networks[target].variables, values_of(networks[online].variables))
            networks[target].trainable = False
        return networks

    def _optimized_variables(self, networks: Mapping[str, keras.Model]) -> dict[str, list[Any]]:
        found = {}
        for name, trained in self.optimized_networks().items():
            variables = [v for network in trained for v in network_of(networks, network).trainable_variables]
            found[name] = list({id(v): v for v in variables}.values())  # layers may be shared
        return found

    def _bound_optimizers(self) -> dict[str, BoundOptimizer]:
        for name in self.config.optimizers:
            if name not in self._variables:
                raise unknown_name(
                    f"optimizer of {type(self).__name__}", name, {*self._variables, *self.config.separate_rates}
                )
        specs = {name: self.optimizer_spec(name) for name in self._variables}
        for spec in () if is_restoring() else specs.values():  # what exists can still be played and resumed
            spec.refuse_without_effect()
        return {
            name: BoundOptimizer(specs[name], weights, as_vector=self.strategy is None)
            for name, weights in self._variables.items()
        }

    def reset(self, seed: int, values: Mapping[str, Any] | None = None) -> None:
        config = self.config.replace(values or {})
        self._require_same_structure(config, "be reset")
        self.seed, self.config = seed, config
        # `build` may keep networks in attributes; the agent must keep the networks that are compiled. The new ones are
        # plain networks, whatever the strategy: only their values are used.
        fresh = copy.copy(self)._build_networks(seed)
        weights = self._optimized_variables(fresh)
        for name, network in self.networks.items():
            assign_all(network.variables, values_of(fresh[name].variables))
        for name, bound in self._bound.items():
            bound.reset(self.optimizer_spec(name), weights[name])
        self._restart_counters(seed)
        self.renumber(config)
        self.fresh, self._initial_digest = True, self._weights_digest()

    def _weights_digest(self) -> int:
        return digest_of(values_of([weight for network in self.networks.values() for weight in network.weights]))

    def network_values(self) -> dict[str, list[Array]]:
        return {name: values_of(network.variables) for name, network in self.networks.items()}

    def assign_networks(self, values: Mapping[str, Sequence[Array]]) -> None:
        for name, network in self.networks.items():
            assign_all(network.variables, values[name])

    def count_gradient_steps(self, n: int) -> None:
        super().count_gradient_steps(n)
        self._gradient_steps.assign(n)

    @one_name()
    def restart_optimizers(self) -> None:
        """Set the optimizers to the states of new ones for the present weights.

        The states of some (schedule-free AdamW) contain the weights that they began with.
        """
        for name, bound in self._bound.items():
            weights = [keras.Variable(keras.ops.convert_to_numpy(weight)) for weight in bound.weights]
            bound.reset(self.optimizer_spec(name), weights)

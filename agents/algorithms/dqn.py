"""Deep Q-learning: Mnih et al. 2015 ("Human-level control through deep reinforcement learning").

Options add its extensions: double Q-learning (van Hasselt et al. 2015, arXiv 1509.06461), the dueling network (Wang et
al. 2015, arXiv 1511.06581), n-step targets, prioritized replay (Schaul et al. 2015, arXiv 1511.05952), noisy networks
(Fortunato et al. 2017, arXiv 1706.10295) and distributions of returns (Bellemare et al. 2017, arXiv 1707.06887). All of
them together are `agents.algorithms.rainbow`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.algorithms.off_policy import OffPolicyAgent, OffPolicyConfig
from agents.backend.tensorflow import keras, ops
from agents.buffers import SequenceReplay, UniformReplay
from agents.config.agent_config import explores, hyperparameter
from agents.config.memory_config import LONGEST, MemoryConfig
from agents.errors import ConfigurationError
from agents.exploration import AdaptiveEpsilonGreedy, Greedy, Policy, greedy, make_policy
from agents.networks.action_values import ActionValues, ScalarValues
from agents.networks.builders import body, gather_actions, network, noisy_network
from agents.networks.categorical_values import CategoricalValues
from agents.networks.dueling import Dueling, dueling_head, split_hidden
from agents.networks.memory import recurrent_network, recurrent_of, require_vectors, split_memory, steps_after
from agents.networks.noisy import NoisyDense, draw_noise

Array = np.ndarray[Any, Any]

MARGIN = 0.8
"""Margin of the expert's action over all others in cloning (Hester et al. 2018)."""

_PASSES = 3
"""Forward passes in the loss: of the online network, of the target network, and of the choice of double DQN."""


def has_atoms(config: Any) -> bool:
    """Return whether the network outputs probabilities of returns."""
    return bool(config.n_atoms > 1)


def _follows_epsilon(config: Any) -> bool:
    return config.explore and config.policy is None and not config.noisy


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig, MemoryConfig):
    """Hyperparameters of DQN."""

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        1e-3, "Step size of the optimizer.", above=0.0, live=True, search=(1e-5, 1e-1), log=True
    )
    target_update_interval: int = hyperparameter(
        250, "Gradient steps between updates of the target network.", low=1, search=(10, 1000), log=True
    )
    exploration_initial_eps: float = hyperparameter(
        1.0, "Initial probability of a random action.", low=0.0, high=1.0, acting=True, when=_follows_epsilon
    )
    exploration_final_eps: float = hyperparameter(
        0.05,
        "The same at the end.",
        **{"low": 0.0, "high": 1.0, "acting": True, "search": (0.01, 0.2), "when": _follows_epsilon},
    )
    exploration_steps: int = hyperparameter(
        10_000,
        "Environment steps from the initial to the final probability.",
        **{"low": 1, "acting": True, "search": (1000, 50_000), "log": True, "when": _follows_epsilon},
    )
    policy: str | None = hyperparameter(
        None,
        "Another exploration policy by name (see agents.exploration); null: the epsilon schedule, or the noise of a "
        "noisy network alone.",
        acting=True,
        when=explores,
    )
    policy_kwargs: Mapping[str, Any] = hyperparameter({}, "Arguments of that policy.", acting=True)
    double: bool = hyperparameter(False, "Double Q-learning: the online network chooses the next action.")
    dueling: bool = hyperparameter(False, "Separate last hidden layers for state value and advantages.")
    noisy: bool = hyperparameter(False, "Explore by noise of learned size on the weights.")
    noisy_sigma: float = hyperparameter(
        0.5,
        "Initial size of the noise, times the root of a layer's inputs.",
        **{"above": 0.0, "search": (0.1, 1.0), "log": True, "when": lambda config: config.noisy},
    )
    n_atoms: int = hyperparameter(
        1,
        "Atoms of the distribution of returns of each action (C51); 1: expected values only.",
        low=1,
    )
    burn_in: int = hyperparameter(
        0,
        "With gru_units: first steps of a sequence, which only bring the memory up to date (R2D2).",
        **{"low": 0, "when": lambda config: config.gru_units is not None, "added": True},
    )
    v_min: float = hyperparameter(-10.0, "Smallest atom: a discounted return.", live=True, when=has_atoms)
    v_max: float = hyperparameter(10.0, "Largest atom; larger returns count as this one.", live=True, when=has_atoms)
    max_grad_norm: float | None = hyperparameter(
        10.0, "Largest global norm of gradients; null: no clipping.", above=0.0, live=True
    )

    def __post_init__(self) -> None:
        """Refuse contradictory values."""
        super().__post_init__()
        if self.policy is None and self.policy_kwargs:
            raise ConfigurationError(f"policy_kwargs {dict(self.policy_kwargs)!r} need a policy: name one.")
        if self.policy is None and self.exploration_final_eps > self.exploration_initial_eps:
            raise ConfigurationError(
                f"exploration_final_eps must be at most exploration_initial_eps = {self.exploration_initial_eps:g}, "
                f"got {self.exploration_final_eps:g}."
            )
        self._check_memory()
        if self.v_max <= self.v_min:
            raise ConfigurationError(f"v_max must be more than v_min = {self.v_min:g}, got {self.v_max:g}.")

    def _check_memory(self) -> None:
        if self.gru_units is None:
            if self.burn_in:
                raise ConfigurationError(f"burn_in={self.burn_in} needs gru_units: set it, or leave this out.")
            return
        for name, usual in (("replay", "uniform"), ("n_step", 1), ("noisy", False), ("dueling", False), ("n_atoms", 1)):
            if getattr(self, name) != usual:
                raise ConfigurationError(
                    f"Networks with memory learn from sequences of a uniform replay, one step at a time, with ordinary "
                    f"last layers: {name} must be {usual!r}, got {getattr(self, name)!r}."
                )

    @property
    def replayed_steps(self) -> int:
        """Return the steps of sequences in the replay buffer, burn-in included."""
        return self.burn_in + (self.sequence_length or LONGEST)


@functools.cache
def _values_of(n_atoms: int) -> ActionValues:
    return CategoricalValues(n_atoms) if n_atoms > 1 else ScalarValues()


class DQN(OffPolicyAgent):
    """Deep Q-learning (Mnih et al. 2015) for discrete actions; options add double, dueling, noisy and C51.

    ``agents.make("dqn", "CartPole-v1", double=True)`` makes one; its hyperparameters are those of `DQNConfig`. See
    `Agent` for the arguments.

    Raises:
        ConfigurationError: The actions are not discrete.
    """

    config_class = DQNConfig
    config: DQNConfig
    target_networks: ClassVar[Mapping[str, str]] = {"target": "q"}
    policy_network: ClassVar[str] = "q"
    """The network that `cloning_loss` trains."""
    n_noise = 0
    """Number of noise values of one forward pass of a row."""

    @property
    def rowwise(self) -> bool:
        return self.policy.rowwise

    def build(self) -> Mapping[str, keras.Model]:
        if not isinstance(self.action_space, spaces.Discrete):
            raise self.unsupported_actions("discrete actions")
        online, target = self._network("q"), self._network("target")
        self.n_noise = getattr(online, "n_noise", 0)
        return {"q": online, "target": target}

    @cached_property
    def memory_size(self) -> int:
        return self.config.memory_units

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> UniformReplay:
        config = self.config
        if not config.memory_units:
            return super().make_buffer(n_envs, rng)
        return SequenceReplay(
            length=config.replayed_steps, burn_in=config.burn_in, batch_size=config.batch_size,
            buffer_size=config.buffer_size, n_envs=n_envs, rng=rng, learning_starts=config.learning_starts,
            train_freq=config.train_freq, gradient_steps=config.gradient_steps, gamma=config.gamma,
        )  # fmt: skip

    @property
    def values(self) -> ActionValues:
        """Return the reading and the loss of the networks' outputs."""
        return _values_of(self.config.n_atoms)

    def _network(self, name: str) -> keras.Sequential:
        config, n_actions = self.config, int(cast("spaces.Discrete", self.action_space).n)
        layers = config.layers("q", self.observation_space)
        n_outputs, behind = self.values.n_outputs, list(self.values.layers())
        if config.dueling:
            layers["hidden_sizes"], own_size = split_hidden(layers["hidden_sizes"])
            layers["head"] = dueling_head(own_size, n_actions, n_outputs, layers["activation"], self._dense)
            behind.append(Dueling())
        if config.memory_units:
            require_vectors(self.observation_space, self.interface.label)
            hidden = body(self.observation_space, **layers)
            last = keras.layers.Dense(n_actions)
            return recurrent_network(self.observation_space.shape[0], hidden, config.memory_units, [last], name=name)
        shared: dict[str, Any] = {"outputs": n_actions * n_outputs, "behind": behind, "name": name, **layers}
        if config.noisy:
            return noisy_network(self.observation_space, sigma=config.noisy_sigma, **shared)
        return network(self.observation_space, **shared)

    def _dense(self, units: int, activation: str | None = None) -> list[keras.layers.Layer]:
        if not self.config.noisy:
            return [keras.layers.Dense(units, activation=activation)]
        noisy = NoisyDense(units, self.config.noisy_sigma)
        return [noisy, keras.layers.Activation(activation)] if activation else [noisy]

    def start(self) -> None:
        super().start()
        self.policy = self._make_policy()

    def _make_policy(self) -> Policy:
        config = self.config
        if config.policy is not None:
            return make_policy(config.policy, **config.policy_kwargs)
        if config.noisy:
            return Greedy()
        return AdaptiveEpsilonGreedy(
            config.exploration_initial_eps, config.exploration_final_eps, n_steps=config.exploration_steps
        )

    def act(self, observations: Array, explore: bool = False) -> Array:
        outputs = self._noisy_outputs(observations) if explore and self.config.noisy else self.infer("q", observations)
        if self.memory_size:
            outputs, self.memory = np.split(outputs, [-self.memory_size], axis=1)
        values = self.values.expected(outputs, self.number)  # [N, A]
        return self.policy.select(values, self.rng) if explore else greedy(values)

    def _noisy_outputs(self, observations: Array) -> Array:
        """Return the outputs of the noisy network; the noise is not drawn if the network of a member has diverged."""
        with seeding.restored_on_error(self.rng):
            return self.infer("q", observations, draw_noise(self.rng, len(observations), self.n_noise))

    def check_poolable(self) -> None:
        if not self.policy.rowwise:
            raise ConfigurationError(
                f"{type(self.policy).__name__} has state, and each process of a pool would have its own: choose "
                f"another policy, or train without a pool."
            )

    def advance(self, env_steps: int) -> None:
        super().advance(env_steps)
        self.policy.step(env_steps)

    # Noise ----------------------------------------------------------------------------------------------------

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add the noise of the networks in the loss.

        It is drawn here because TensorFlow's generators give other numbers when XLA compiles them. As in the paper, all
        rows of a minibatch share the same noise, so each row carries its share of it.
        """
        if self.memory_size:
            return split_memory(data, self.memory_size)
        if not self.config.noisy:
            return data
        share = -(-_PASSES * self.n_noise // self.config.batch_size)
        return {**data, "noise": draw_noise(self.rng, len(data["rewards"]), share)}

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        if not self.config.noisy:
            return batch
        together = ops.reshape(batch["noise"], (1, -1))  # the shares of all rows, for every row
        return {**batch, "noise": together * ops.ones_like(batch["rewards"])[:, None]}

    def noise_of_passes(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the networks' arguments in the loss: independent noise [1, n_noise] for each of three passes."""
        if not self.config.noisy:
            return [{}] * _PASSES
        n, noise = self.n_noise, batch["noise"][:1]
        return [{"noise": noise[:, k * n : (k + 1) * n]} for k in range(_PASSES)]

    # Learning -------------------------------------------------------------------------------------------------

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        if self.memory_size:
            return self._loss_of_sequences(batch)
        online, target, choosing = self.noise_of_passes(batch)
        outputs = self.networks["q"](batch["observations"], training=True, **online)  # [B, A] or [B, A, Z]
        successors = self.networks["target"](batch["next_observations"], **target)
        chooser = self.networks["q"](batch["next_observations"], **choosing) if self.config.double else successors
        rows = self.values.learn(
            gather_actions(outputs, batch["actions"]),
            self.values.of_best(successors, chooser),
            batch["rewards"],
            self.discounts(batch),
            lambda name: getattr(self.hyperparameters, name),
        )
        return {
            "default": self.mean(batch, rows.losses),
            "q_mean": ops.mean(rows.values),
            "td_error": ops.mean(rows.errors),
            **rows.metrics,
            **self.priorities(rows.priorities),
        }

    def _loss_of_sequences(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        """Return the loss of all steps of sequences after the burn-in, as if each was a row of its own."""

        def values_of(network: str) -> tuple[Any, Any]:
            layer = recurrent_of(self.networks[network])
            return layer.values_and_successors(batch, self.config.burn_in)  # [B * L, A] each

        outputs, following = values_of("q")
        _, successors = values_of("target")
        chooser = ops.stop_gradient(following) if self.config.double else successors
        columns = steps_after(batch, self.config.burn_in)
        rows = self.values.learn(
            gather_actions(outputs, columns["actions"]),
            self.values.of_best(successors, chooser),
            columns["rewards"],
            self.hyperparameters.gamma * (1.0 - ops.cast(columns["terminated"], "float32")),
            lambda name: getattr(self.hyperparameters, name),
        )
        return {
            "default": ops.mean(rows.losses),
            "q_mean": ops.mean(rows.values),
            "td_error": ops.mean(rows.errors),
            **rows.metrics,
        }

    def cloning_loss(self, batch: dict[str, Any], training: bool = True) -> Any:
        """Return the mean margin loss of a minibatch's actions: Hester et al. 2018, arXiv 1704.03732.

        The value of the expert's action is to exceed all others by `MARGIN`.
        """
        outputs = self.networks["q"](batch["observations"], training=training)
        values = self.values.values(outputs, lambda name: getattr(self.hyperparameters, name))  # [B, A]
        chosen = ops.one_hot(batch["actions"], values.shape[1])
        best = ops.max(values + MARGIN * (1.0 - chosen), axis=1)
        return ops.mean(best - ops.sum(values * chosen, axis=1))

    def running_state(self) -> dict[str, Any]:
        return {"policy": self.policy.get_state()}

    def set_running_state(self, state: Mapping[str, Any]) -> None:
        self.policy.set_state(state["policy"])

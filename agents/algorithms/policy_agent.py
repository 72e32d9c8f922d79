"""Base class for agents whose network `actor` outputs a distribution over actions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from agents.backend.tensorflow import keras, ops
from agents.contract.keras_agent import KerasAgent
from agents.environments.images import is_image
from agents.networks.builders import body, headed
from agents.networks.distributions import Categorical, DiagonalGaussian, GaussianHead, MultiCategorical
from agents.updates.normalization import RewardScaler, RunningNormalizer

Array = np.ndarray[Any, Any]

LEAST_LOG_STD = -2.0
"""Least logarithm of the standard deviations of continuous actions that cloning aims at."""


class PolicyAgent(KerasAgent):
    """Base class for agents with a network `actor`, for discrete, multi-discrete and continuous actions. See `Agent`.

    Its config is a `NetworkConfig` with a field `normalize_observations`.
    """

    config: Any
    policy_network: ClassVar[str] = "actor"
    """The network that `cloning_loss` trains."""

    @property
    def rowwise(self) -> bool:
        return not self._scales()  # their statistics differ between members

    def start(self) -> None:
        super().start()
        self.distribution = _distribution_over(self.action_space)
        wanted = self.config.normalize_observations and not is_image(self.observation_space)
        self.normalizer = RunningNormalizer(self.observation_space.shape) if wanted else None

    @property
    def policy_outputs(self) -> tuple[int, keras.layers.Layer | None]:
        """The number of outputs of the actor, and the last layer that has them; None for a dense one."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return int(space.n), None
        if isinstance(space, spaces.MultiDiscrete):
            return int(space.nvec.sum()), None
        outputs = math.prod(space.shape)
        return outputs, GaussianHead(outputs)

    def layers_of(self, name: str) -> list[keras.layers.Layer]:
        """Return new hidden layers of a network, as the config describes them."""
        space = self.observation_space
        return body(space, orthogonal=True, **self.config.layers(name, space))

    def actor_of(self, layers: Sequence[keras.layers.Layer]) -> keras.Model:
        """Return the actor with these hidden layers."""
        outputs, head = self.policy_outputs
        return headed(self.observation_space, layers, outputs, output_scale=0.01, head=head, name="actor")

    # Acting ---------------------------------------------------------------------------------------------------

    def act(self, observations: Array, explore: bool = False) -> Array:
        return self.drawn(self.policy_parameters(observations), explore)

    def policy_parameters(self, observations: Array) -> Array:
        """Return the parameters of the distributions: [R, A], [R, sum(A)] or [R, 2 D]."""
        return self.infer("actor", self._normalized(observations))

    def drawn(self, parameters: Array, explore: bool) -> Array:
        """Return actions [R, ...] drawn from the distributions, or with `explore=False` their modes."""
        chosen = self.distribution.sample(parameters, self.rng) if explore else self.distribution.mode(parameters)
        actions: Array = chosen
        return (
            actions if isinstance(self.action_space, spaces.Discrete) else actions.reshape(-1, *self.action_space.shape)
        )

    def _normalized(self, rows: Array) -> Array:
        """Return rows [..., F] of observations, normalized if they are to be."""
        return rows if self.normalizer is None else self.normalizer(rows)

    def log_probabilities(self, observations: Array, actions: Array) -> Array:
        """Return the log-probabilities [R] of actions [R, ...] under the policy, for observations [R, ...]."""
        log_probs: Array = self.distribution.log_prob_numpy(self.policy_parameters(observations), self._flat(actions))
        return log_probs

    def _flat(self, actions: Array) -> Array:
        """Return actions [R, ...] as the distributions take them: [R], or [R, D]."""
        return actions if isinstance(self.action_space, spaces.Discrete) else actions.reshape(len(actions), -1)

    def cloning_loss(self, batch: dict[str, Any], training: bool = True) -> Any:
        """Return the mean negative log-probability of a minibatch's actions under the policy.

        Standard deviations that are smaller than `exp(LEAST_LOG_STD)` count as that, and are not made smaller: those of
        an expert without noise would fall for ever, and an agent that starts as a clone has to explore.
        """
        parameters = self.networks["actor"](batch["observations"], training=training)
        if self.distribution is DiagonalGaussian:
            mean, log_std = ops.split(parameters, 2, axis=1)
            parameters = ops.concatenate([mean, ops.maximum(log_std, LEAST_LOG_STD)], axis=1)
        flat = () if isinstance(self.action_space, spaces.Discrete) else (math.prod(self.action_space.shape),)
        actions = ops.reshape(batch["actions"], (-1, *flat))
        return -ops.mean(self.distribution.log_prob(parameters, actions))

    # State ----------------------------------------------------------------------------------------------------

    def acting_state(self) -> list[Array]:
        return [*super().acting_state(), *(self.normalizer.arrays() if self.normalizer else [])]

    def set_acting_state(self, state: Sequence[Array]) -> None:
        if self.normalizer is not None:
            *state, mean, variance, count = state
            self.normalizer.set_state({"mean": mean, "variance": variance, "count": count})
        super().set_acting_state(state)

    def extra_state(self) -> dict[str, Any]:
        return {**super().extra_state(), **{name: part.get_state() for name, part in self._scales().items()}}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        for name, part in self._scales().items():
            part.set_state(state[name])

    def _scales(self) -> dict[str, RunningNormalizer | RewardScaler]:
        """Return the scalers, if any: here that of observations."""
        return {} if self.normalizer is None else {"normalizer": self.normalizer}


def _distribution_over(space: Any) -> Any:
    """Return the distribution over the actions of a space, in the agent's form."""
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(space.nvec.tolist())
    return Categorical if isinstance(space, spaces.Discrete) else DiagonalGaussian

"""Agents that start from a clone of the expert: their policy is trained on demonstrations before its first step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from agents import seeding
from agents.algorithms.imitation.demonstration_buffer import DemonstrationBuffer
from agents.algorithms.imitation.expert import ExpertAgent, ExpertConfig
from agents.backend.tensorflow import keras
from agents.backend.variables import assign_all, values_of
from agents.config.agent_config import hyperparameter
from agents.errors import ConfigurationError
from agents.updates.gradient_steps import OptimizerStep

_CALL = 50
"""Gradient steps of one compiled call."""


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(ExpertConfig):
    """Base class for hyperparameters of cloning before training. It comes last among the bases of an agent's config."""

    pretrain_steps: int = hyperparameter(
        2_000, "Gradient steps of cloning before training.", low=1, search=(100, 10_000), log=True
    )
    pretrain_learning_rate: float = hyperparameter(1e-3, "Step size of Adam while cloning.", above=0.0)
    pretrain_batch_size: int = hyperparameter(64, "Rows of a minibatch while cloning.", low=1)

    def __post_init__(self) -> None:
        """Refuse what cannot be cloned."""
        super().__post_init__()
        if getattr(self, "gru_units", None) is not None:
            raise ConfigurationError("Networks with memory cannot be cloned: leave out gru_units.")


class Pretrained(ExpertAgent):
    """The part of an agent that clones the expert before training. See `Agent` for the arguments.

    It comes first among the bases of an agent's class. Every seed makes its own clone, from its own initial weights.

    Raises:
        ConfigurationError: The algorithm has no policy that can be cloned, or demonstrations do not fit.
    """

    title, about = "BC", "that starts from a clone of the expert"
    config_part = PretrainedConfig
    defaults: ClassVar[Mapping[str, Any]] = {"exploration_initial_eps": 0.05}
    """Defaults that the algorithm's config gets: random actions would throw the clone away."""

    def set_initial_weights(self, networks: Mapping[str, keras.Model]) -> None:
        super().set_initial_weights(networks)
        cloner, config = self._cloner, self._cloning_config()
        if cloner.seed != self.seed or cloner.config != config or not cloner.fresh:
            cloner.reset(self.seed, config.to_dict())
        cloner.clone()
        for name, network in networks.items():
            assign_all(network.variables, values_of(cloner.networks[name].variables))

    @cached_property
    def _cloner(self) -> Any:
        """An agent of the same networks whose updates clone the expert; it stays compiled for further seeds."""
        made = _cloner_class(type(self))(
            self.observation_space,
            self.action_space,
            self._cloning_config(),
            seed=self.seed,
            environment=self.environment,
        )
        made.interface = self.interface
        return made

    def _cloning_config(self) -> Any:
        """Return the agent's config with the optimizer of cloning. Others of its numbers matter too (clipping)."""
        own = {"optimizer": "adam", "optimizer_kwargs": {}, "optimizers": {}}
        return replace(self.config, learning_rate=self.config.pretrain_learning_rate, **own)

    def start(self) -> None:
        super().start()
        self.scale_as_expert(self.demonstrations.observations)

    @property
    def warming_up(self) -> bool:
        """False: the clone acts from the first step on."""
        return False


class Cloner(Pretrained):
    """The part of an agent that only clones the expert. It comes before the class of an agent that starts so."""

    policy_network: str
    cloning_loss: Callable[[dict[str, Any]], Any]

    def set_initial_weights(self, networks: Mapping[str, keras.Model]) -> None:
        super(Pretrained, self).set_initial_weights(networks)

    def optimized_networks(self) -> Mapping[str, Sequence[str]]:
        return {"default": [self.policy_network]}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        return [OptimizerStep(["default"], lambda batch: {"default": self.cloning_loss(batch)})]

    def pre_update(self) -> None:
        return None

    def preprocess_minibatch(self, batch: dict[str, Any]) -> dict[str, Any]:
        return batch

    def clone(self) -> None:
        """Make all gradient steps of cloning."""
        config, expert = self.config, self.demonstrations
        normalizer = getattr(self, "normalizer", None)
        columns = {"observations": expert.observations, "actions": expert.actions}
        rng = seeding.generator(self.seed, "cloning")
        whole, rest = divmod(config.pretrain_steps, _CALL)
        for n_steps in [_CALL] * whole + [rest] * bool(rest):
            buffer = DemonstrationBuffer(
                columns, n_steps=1, gradient_steps=n_steps, batch_size=config.pretrain_batch_size, rng=rng
            )
            data = buffer.sample()
            if normalizer is not None:
                data["observations"] = normalizer(data["observations"])
            self.update(buffer.batches(data))


@functools.cache
def _cloner_class(agent_class: type[Pretrained]) -> type[Any]:
    if not hasattr(agent_class, "cloning_loss"):
        raise ConfigurationError(
            f"{agent_class.__name__.removeprefix(Pretrained.title)} cannot start from a clone of the expert: it has no "
            f"cloning_loss. PPO, A2C, TRPO, SAC, TD3, DDPG, DQN and Rainbow have one."
        )
    return type(f"{agent_class.__name__}Cloner", (Cloner, agent_class), {"__module__": __name__})

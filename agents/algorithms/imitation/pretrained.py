"""Agents that start from a clone of the expert: their policy is trained on demonstrations before its first step.

A clone alone is soon lost where values are learned too: critics that know nothing yet lead the policy away from it. So
the loss of cloning stays part of the policy's loss (Hester et al. 2018, arXiv 1704.03732), in proportion to the values
that the policy maximises (Fujimoto and Gu 2021, arXiv 2106.06860).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from agents import seeding
from agents.algorithms.imitation.demonstration_buffer import DemonstrationBuffer
from agents.algorithms.imitation.expert import ExpertAgent, ExpertConfig, columns_of
from agents.backend.tensorflow import keras, ops
from agents.backend.variables import assign_all, values_of
from agents.config.agent_config import AgentConfig, hyperparameter
from agents.config.buffer_config import ReplayConfig
from agents.contract.rows import row_by_row
from agents.errors import ConfigurationError
from agents.updates.gradient_steps import OptimizerStep

Array = np.ndarray[Any, Any]

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
    cloning_coef: float | None = hyperparameter(
        None,
        "Weight of cloning in training, times the mean absolute value if the policy maximises values; null: none.",
        **{"above": 0.0, "live": True, "search": (0.1, 10.0), "log": True},
    )
    cloning_steps: int | None = hyperparameter(
        None,
        "Gradient steps in which that weight falls to 0; null: it stays.",
        **{"low": 1, "search": (1_000, 100_000), "log": True, "when": lambda config: config.cloning_coef is not None},
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be cloned."""
        super().__post_init__()
        if self.cloning_steps is not None and self.cloning_coef is None:
            raise ConfigurationError("cloning_steps is of a weight that is none: set cloning_coef, or leave it out.")
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
    ranges: ClassVar[Mapping[str, tuple[Any, ...]]] = {"exploration_final_eps": (0.01, 0.05)}  # up to the initial one

    policy_network: str

    @staticmethod
    def defaults(config_class: type[AgentConfig]) -> Mapping[str, Any]:
        """Return the other defaults that a config class gets with the part.

        Random actions would throw the clone away, and so would values that are learned from a replay.
        """
        off_policy = issubclass(config_class, ReplayConfig)
        held = {"cloning_coef": 1.0, "initial_ent_coef": 0.1} if off_policy else {}
        return {"exploration_initial_eps": 0.05, **held}

    def build(self) -> Mapping[str, keras.Model]:
        missing = [name for name in ("cloning_loss", "policy_network") if not hasattr(self, name)]
        if missing:
            raise ConfigurationError(
                f"{type(self).__name__.removeprefix(self.title)} cannot start from a clone of the expert: it has no "
                f"{' and no '.join(missing)}. PPO, A2C, TRPO, SAC, TD3, DDPG, DQN and Rainbow have one."
            )
        made: Mapping[str, keras.Model] = super().build()  # type: ignore[safe-super] # of the algorithm, the next base
        return made

    def set_initial_weights(self, networks: Mapping[str, keras.Model]) -> None:
        super().set_initial_weights(networks)
        cloner, config = self._cloner, self._cloning_config()
        if cloner.seed != self.seed or cloner.config != config or not cloner.fresh:
            cloner.reset(self.seed, config.to_dict())
        cloner.clone()
        for name, network in networks.items():
            assign_all(network.variables, values_of(cloner.networks[name].variables))

    # In training ----------------------------------------------------------------------------------------------

    @row_by_row
    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        """Add as many steps of the expert, if cloning is part of the loss."""
        columns = super().preprocess_batch(data)
        if "cloning_coef" not in self.live:
            return columns
        rows = self.rows_of_expert(data["rewards"].shape)  # [T, N] of a rollout, [M] of replayed steps
        return {**columns, **self.steps_of_expert("cloned", rows)}

    def optimizer_steps(self) -> Sequence[OptimizerStep]:
        steps = super().optimizer_steps()
        if "cloning_coef" not in self.live:
            return steps
        return [self._with_cloning(step) if self._owner in step.optimizers else step for step in steps]

    def _with_cloning(self, step: OptimizerStep) -> OptimizerStep:
        owner = self._owner

        def loss(batch: dict[str, Any]) -> Mapping[str, Any]:
            losses, cloning = step.loss(batch), self.cloning_loss(columns_of("cloned", batch))
            share = self._share_left()
            weight = self.hyperparameters.cloning_coef * share
            if hasattr(self, "cloning_scale"):
                weight = weight * self.cloning_scale(batch)
            # A temperature would rise without end for a policy that is held where its entropy is too small.
            paused = {name: (1.0 - share) * losses[name] for name in getattr(self, "adapting", ()) if name in losses}
            return {**losses, **paused, owner: losses[owner] + weight * cloning, "cloning_loss": cloning}

        return replace(step, loss=loss)

    def _share_left(self) -> Any:
        """Return the share of the weight of cloning that is left at this gradient step."""
        if self.config.cloning_steps is None:
            return 1.0
        made = ops.cast(self._gradient_steps.value, "float32")
        return ops.maximum(1.0 - made / self.config.cloning_steps, 0.0)

    # Before training ------------------------------------------------------------------------------------------

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
        """Return the agent's config with the optimizer of cloning, whose gradients are not clipped."""
        own: dict[str, Any] = {"optimizer": "adam", "optimizer_kwargs": {}, "optimizers": {}, "max_grad_norm": None}
        return replace(self.config, learning_rate=self.config.pretrain_learning_rate, **own)

    def start(self) -> None:
        super().start()
        trained = self.optimized_networks().items()
        self._owner = next((name for name, networks in trained if self.policy_network in networks), "")
        """Name of the optimizer of the policy; empty if it has none."""
        if "cloning_coef" in self.live and not self._owner:
            raise ConfigurationError(
                "The policy of this agent has no optimizer, so that cloning cannot be part of its loss: leave out "
                "cloning_coef."
            )
        self.scale_as_expert()

    @property
    def warming_up(self) -> bool:
        """False: the clone acts from the first step on."""
        return False


class Cloner(Pretrained):
    """The part of an agent that only clones the expert. It comes before the class of an agent that starts so."""

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
        n = self.n_learned
        columns = {"observations": expert.observations[:n], "actions": expert.actions[:n]}
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
    return type(f"{agent_class.__name__}Cloner", (Cloner, agent_class), {"__module__": __name__})

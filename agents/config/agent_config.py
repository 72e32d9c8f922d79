"""Hyperparameters that all agents have, those of optimizers included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from agents.config.hyperparameters import Config, hyperparameter
from agents.config.optimizers import OptimizerSpec, rate_in
from agents.errors import ConfigurationError

__all__ = ["MOST_COPIES", "AgentConfig", "hyperparameter"]

MOST_COPIES = 100_000
"""Maximum number of environment copies that one process steps."""


def explores(config: Any) -> bool:
    """Return whether an agent explores in training."""
    return bool(config.explore)


@dataclass(frozen=True, kw_only=True)
class AgentConfig(Config):
    """Base class for configs of Keras agents: the common hyperparameters. Algorithms add their own in a subclass.

    An agent with several optimizers (such as the actor's and the critic's) uses `learning_rate`, `optimizer` and
    `optimizer_kwargs` for all of them; `optimizers` overrides any of the three for one of them by name.
    """

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        3e-4,
        "Step size of the optimizer; or a serialised Keras schedule over the optimizer's steps.",
        above=0.0,
        live=True,
        search=(1e-5, 1e-1),
        log=True,
    )
    optimizer: str = hyperparameter(
        "adam",
        "Keras optimizer by name, optionally with arguments in parentheses: sgd(momentum=0.9).",
        search=("adam", "adamw", "rmsprop", "sgd"),
    )
    optimizer_kwargs: Mapping[str, Any] = hyperparameter({}, "Further arguments of the optimizer, as Keras names them.")
    optimizers: Mapping[str, Mapping[str, Any]] = hyperparameter(
        {},
        "Per optimizer name: another optimizer (`adamw`, or a Keras one), or other `learning_rate`, `optimizer` or "
        "optimizer arguments than the agent's.",
    )
    max_grad_norm: float | None = hyperparameter(
        None, "Largest global norm of gradients; null: no clipping.", above=0.0, live=True
    )
    separate_rates: ClassVar[tuple[str, ...]] = ()
    """Names of the optimizers that a list of learning rates sets, in this order."""

    n_envs: int = hyperparameter(1, "Number of environment copies stepped together.", low=1, high=MOST_COPIES)
    explore: bool = hyperparameter(True, "Explore in training; false: always the greedy action.")
    jit_compile: bool | None = hyperparameter(
        None,
        "Compile updates with XLA; null: if all networks are dense, for updates of several gradient steps, and for "
        "small minibatches of single steps from the 10,000th on.",
    )

    def __post_init__(self) -> None:
        """Check every field's type and declared range, and split the arguments off the optimizer's label."""
        object.__setattr__(self, "optimizers", _overrides(self.optimizers))
        super().__post_init__()
        spec = OptimizerSpec.of(self.optimizer)
        default = next(field.default for field in fields(self) if field.name == "learning_rate")
        rate = rate_in(self.optimizer)
        if rate is not None and self.learning_rate == default:  # one that was given comes first
            object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "optimizer", spec.name)
        object.__setattr__(self, "optimizer_kwargs", {**spec.arguments, **self.optimizer_kwargs})
        if "learning_rate" in self.optimizer_kwargs:
            raise ConfigurationError(
                "optimizer_kwargs must not hold the learning_rate: set the field learning_rate instead."
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a config from plain values, such as those read from JSON or TOML.

        Args:
            values: Field name to value. A dotted name sets an optimizer's argument: ``optimizer.momentum`` for
                all optimizers, ``actor.learning_rate`` for the one that is named ``actor``. A list of learning rates
                has one entry per network with its own optimizer (for PPO the actor's and the critic's).
                ``one_minus_gamma`` sets gamma.

        Raises:
            ConfigurationError: A field does not exist, has the wrong type, or is out of range.
        """
        plain: dict[str, Any] = {}
        kwargs = cls.checked("optimizer_kwargs", values.get("optimizer_kwargs", {}))
        overrides = cls.checked("optimizers", _overrides(values.get("optimizers", {})))
        optimizer_kwargs: dict[str, Any] = dict(kwargs)
        optimizers: dict[str, dict[str, Any]] = {owner: dict(override) for owner, override in overrides.items()}
        complements = cls.complements()
        # Complements come last and take precedence.
        values = dict(sorted(values.items(), key=lambda item: item[0] in complements))
        for owner, rate in cls._rates_of(values).items():
            optimizers.setdefault(owner, {})["learning_rate"] = rate
        for name, value in values.items():
            owner, dot, argument = name.partition(".")
            if name == "optimizer.learning_rate":
                plain["learning_rate"] = value
            elif dot and owner == "optimizer":
                optimizer_kwargs[argument] = value
            elif dot:
                optimizers.setdefault(owner, {})[argument] = value
            else:
                plain.update(cls.field_of(name, value))
        if "optimizer" in plain:
            spec = OptimizerSpec.of(plain["optimizer"])
            plain["optimizer"] = spec.name
            optimizer_kwargs = {**spec.arguments, **optimizer_kwargs}
            if (rate := rate_in(values["optimizer"])) is not None:
                plain.setdefault("learning_rate", rate)
        return cls(**plain | {"optimizer_kwargs": optimizer_kwargs, "optimizers": optimizers})

    @classmethod
    def _rates_of(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return a list of learning rates as rates by optimizer name; the first is also the rate of the agent."""
        rates, names = values.get("learning_rate"), cls.separate_rates
        if not isinstance(rates, list | tuple):
            return {}
        if len(rates) != len(names):
            expected = (
                f"it has {len(names)} networks with optimizers of their own ({', '.join(names)})" if names else ""
            )
            raise ConfigurationError(
                f"{len(rates)} learning rates for {cls.__name__.removesuffix('Config')}: "
                f"{expected or 'it takes one'}, got {list(rates)}."
            )
        values["learning_rate"] = rates[0]
        return dict(zip(names, rates, strict=True))

    def replace(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values, by the same names that `from_dict` takes.

        Another optimizer does not inherit the arguments of the previous one.
        """
        own = self.to_dict()
        if "optimizer" in values:
            own.pop("optimizer")
            own.pop("optimizer_kwargs")
            if rate_in(values["optimizer"]) is not None:
                own.pop("learning_rate")
        return type(self).from_dict(own | dict(values))

    def value_of(self, name: str) -> Any:
        """Return the value of a hyperparameter, see `Config.value_of`; the optimizer as its label."""
        owner, _, argument = name.rpartition(".")
        if name != "optimizer" and not owner:
            return super().value_of(name)
        optimizer = self.optimizer_spec(owner if owner not in ("", "optimizer") else "default")
        return (
            {**optimizer.arguments, "learning_rate": optimizer.learning_rate}.get(argument)
            if owner
            else optimizer.label
        )

    def structure(self) -> dict[str, Any]:
        """Return the values that determine the built agent: no mutable hyperparameters that are set, no acting values.

        Two configs of equal structure can share one built and compiled agent.
        """
        spec = self.optimizer_spec()
        free = {*self.live_values(), *self.acting_values()} | {"learning_rate", "optimizer_kwargs"}
        fixed = {name: value for name, value in self.to_dict().items() if name not in free}
        own = {name: self.optimizer_spec(name).structure() for name in self.optimizers}
        return fixed | {
            "optimizer": spec.structure(),
            "optimizers": {name: structure for name, structure in own.items() if structure != spec.structure()},
        }

    def follows_learning_rate(self, optimizer: str) -> bool:
        """Return whether a change of `learning_rate` while an agent trains changes that of an optimizer."""
        return True

    def optimizer_spec(self, name: str = "default") -> OptimizerSpec:
        """Return the specification of the optimizer `name`, with its overrides in `optimizers`."""
        override = dict(self.optimizers.get(name, {}))
        rate = override.pop("learning_rate", self.learning_rate)
        own = OptimizerSpec.of(override.pop("optimizer", self.optimizer))
        # Another optimizer does not inherit the arguments of the agent's optimizer.
        inherited = self.optimizer_kwargs if own.name == self.optimizer else {}
        return OptimizerSpec(name=own.name, learning_rate=rate, arguments={**inherited, **own.arguments, **override})


def _overrides(optimizers: Any) -> Any:
    """Return `optimizers` with arguments by name in place of names, objects and serialised optimizers."""
    if not isinstance(optimizers, Mapping):
        return optimizers  # of the wrong type, reported by the type check
    return {owner: _override(owner, optimizer) for owner, optimizer in optimizers.items()}


def _override(owner: str, optimizer: Any) -> Any:
    by_argument = isinstance(optimizer, Mapping) and "class_name" not in optimizer
    named = optimizer.get("optimizer") if by_argument else optimizer
    if by_argument and (named is None or "learning_rate" in optimizer):
        return optimizer
    try:
        rate = rate_in(named)
        own = {} if rate is None else {"learning_rate": rate}
        if by_argument:
            return {**optimizer, **own}
        spec = OptimizerSpec.of(named)
    except ConfigurationError as error:
        raise ConfigurationError(f"optimizers, {owner}: {error}") from None
    return {"optimizer": spec.name, **own, **spec.arguments}

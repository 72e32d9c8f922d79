"""Hyperparameters of an agent: a frozen dataclass whose fields say all there is to know about them.

A hyperparameter is described once, where its field is declared with `hyperparameter(...)`: its meaning, its
range, how it is usually searched, and whether it is *live*. The command line, the search spaces and the error
messages take all of that from here.

A **live** hyperparameter is a number that can change while an agent exists, without building its networks or
tracing its update again: a discount, a clip range, an entropy weight. `KerasAgent` keeps those in variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pydantic

from agents.errors import ConfigurationError, unknown_name
from agents.optimizers import OptimizerSpec

_METADATA = "hyperparameter"


@dataclass(frozen=True, kw_only=True)
class Hyperparameter:
    """What is known about one field of a config.

    Attributes:
        help: One sentence for people, with the unit where there is one.
        low: Smallest allowed value (inclusive), or None.
        high: Largest allowed value (inclusive), or None.
        above: The value must be greater than this, or None.
        live: Whether the value may change without rebuilding the agent.
        search: The range that a search takes when it is told none, `(low, high)`, or the choices.
        log: Whether a search should treat the range on a logarithmic scale.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    live: bool = False
    search: tuple[Any, ...] | None = None
    log: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raises `ConfigurationError` when a number is outside the allowed range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        rules = []
        if self.above is not None:
            rules.append((value > self.above, f"> {self.above:g}"))
        if self.low is not None:
            rules.append((value >= self.low, f">= {self.low:g}"))
        if self.high is not None:
            rules.append((value <= self.high, f"<= {self.high:g}"))
        if not all(holds for holds, _ in rules):
            raise ConfigurationError(f"{name} must be {' and '.join(text for _, text in rules)}, got {value!r}.")


def hyperparameter(default: Any, help: str, **about: Any) -> Any:  # noqa: A002 - the field's own word
    """A dataclass field for a hyperparameter.

    Args:
        default: The default value. Mappings are copied for each instance.
        help: One sentence for people.
        **about: Further fields of `Hyperparameter`.
    """
    metadata = {_METADATA: Hyperparameter(help=help, **about)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """The hyperparameters that every Keras agent has. Algorithms add theirs in a subclass.

    An agent with several optimizers (an actor's and a critic's, say) uses `learning_rate`, `optimizer` and
    `optimizer_kwargs` for all of them; `optimizers` overrides any of the three for one of them by name.
    """

    learning_rate: float | Mapping[str, Any] = hyperparameter(
        3e-4,
        "Step size of the optimizer; or a serialised Keras schedule over gradient steps.",
        above=0.0,
        live=True,
        search=(1e-5, 1e-1),
        log=True,
    )
    optimizer: str = hyperparameter(
        "adam",
        "Keras optimizer by name, with arguments in parentheses where wanted: sgd(momentum=0.9).",
        search=("adam", "adamw", "rmsprop", "sgd"),
    )
    optimizer_kwargs: Mapping[str, Any] = hyperparameter({}, "Further arguments of the optimizer, as Keras names them.")
    optimizers: Mapping[str, Mapping[str, Any]] = hyperparameter(
        {}, "Per optimizer name: other `learning_rate`, `optimizer` or optimizer arguments than the agent's."
    )
    max_grad_norm: float | None = hyperparameter(
        None, "Gradients are scaled down to this global norm; null switches it off.", above=0.0
    )
    n_envs: int = hyperparameter(1, "Copies of the environment that are stepped together.", low=1)
    jit_compile: bool | None = hyperparameter(
        None, "Compile the update with XLA; null decides by the networks (dense ones are compiled)."
    )

    def __post_init__(self) -> None:
        """Checks every field against its declared range."""
        for name, about in self.describe().items():
            about.check(name, getattr(self, name))
        for name, override in self.optimizers.items():
            if not isinstance(override, Mapping):
                raise ConfigurationError(f"optimizers[{name!r}] must be a mapping, got {override!r}.")

    @classmethod
    def describe(cls) -> dict[str, Hyperparameter]:
        """Every field that was declared with `hyperparameter`, by name."""
        return {f.name: f.metadata[_METADATA] for f in dataclasses.fields(cls) if _METADATA in f.metadata}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds a config from plain values, such as those read from JSON or TOML.

        Args:
            values: Field name to value. A dotted name sets an optimizer's argument: ``optimizer.momentum`` for
                all optimizers, ``actor.learning_rate`` for the one that is named ``actor``.

        Raises:
            ConfigurationError: A field does not exist, has the wrong type, or is out of range.
        """
        plain: dict[str, Any] = {}
        names = {f.name for f in dataclasses.fields(cls)}
        optimizer_kwargs: dict[str, Any] = dict(values.get("optimizer_kwargs", {}))
        optimizers: dict[str, dict[str, Any]] = {k: dict(v) for k, v in dict(values.get("optimizers", {})).items()}
        for name, value in values.items():
            owner, dot, argument = name.partition(".")
            if dot and owner == "optimizer":
                optimizer_kwargs[argument] = value
            elif dot:
                optimizers.setdefault(owner, {})[argument] = value
            elif name not in names:
                raise unknown_name(f"hyperparameter of {cls.__name__}", name, names)
            else:
                plain[name] = value
        if "optimizer" in plain:
            spec = OptimizerSpec.of(plain["optimizer"])
            plain["optimizer"] = spec.name
            optimizer_kwargs = {**spec.arguments, **optimizer_kwargs}
            if not isinstance(values["optimizer"], str):
                plain.setdefault("learning_rate", spec.learning_rate)
        plain |= {"optimizer_kwargs": optimizer_kwargs, "optimizers": optimizers}
        try:
            return pydantic.TypeAdapter(cls).validate_python(plain)
        except pydantic.ValidationError as error:
            problems = [
                f"{'.'.join(map(str, e['loc'])) or cls.__name__}: {e['msg']}, got {e['input']!r}"
                for e in error.errors(include_url=False)
                if not isinstance(e.get("ctx", {}).get("error"), ConfigurationError)
            ]
            own = [str(e["ctx"]["error"]) for e in error.errors() if "error" in e.get("ctx", {})]
            raise ConfigurationError("; ".join(own or problems)) from error

    def replace(self, values: Mapping[str, Any]) -> Self:
        """A copy with other values, by the same names that `from_dict` takes.

        Another optimizer does not inherit the arguments of the one before it.
        """
        own = self.to_dict()
        if "optimizer" in values:
            own.pop("optimizer")
            own.pop("optimizer_kwargs")
            if not isinstance(values["optimizer"], str):
                own.pop("learning_rate")
        return type(self).from_dict(own | dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `from_dict` gives an equal config back."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in values.items()}

    def live_values(self) -> dict[str, float]:
        """The live numbers but for the learning rate, which lives in the optimizers."""
        live = {name: getattr(self, name) for name, about in self.describe().items() if about.live}
        live.pop("learning_rate", None)
        return {name: float(value) for name, value in live.items() if value is not None}

    def structure(self) -> dict[str, Any]:
        """What an agent is built from: every field but the live numbers that are set.

        Two configs of equal structure can share one built and compiled agent.
        """
        live = set(self.live_values())
        if not isinstance(self.learning_rate, Mapping):
            live.add("learning_rate")
        fixed = {name: value for name, value in self.to_dict().items() if name not in live}
        fixed["optimizers"] = {
            name: {key: value for key, value in override.items() if key != "learning_rate" or isinstance(value, dict)}
            for name, override in fixed["optimizers"].items()
        }
        return fixed


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value

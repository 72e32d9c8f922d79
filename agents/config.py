"""Hyperparameters of an agent: a frozen dataclass whose fields say all there is to know about them.

A hyperparameter is described once, where its field is declared with `hyperparameter(...)`: its meaning, its
range, how it is usually searched, and whether it is *live*. The command line, the search spaces and the error
messages take all of that from here.

A **live** hyperparameter is a number that can change while an agent exists, without building its networks or
tracing its update again: a discount, a clip range, an entropy weight. `KerasAgent` keeps those in variables.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
import pydantic

from agents.errors import ConfigurationError, unknown_name
from agents.optimizers import OptimizerSpec

_METADATA = "hyperparameter"

_DIGITS = 12
"""Of 1 less a complement: 1 - (1 - 0.99) shall be 0.99."""

COMPLEMENT = "one_minus_"
"""What the name of a hyperparameter begins with where 1 less its value is told."""


@dataclass(frozen=True, kw_only=True)
class Hyperparameter:
    """What is known about one field of a config.

    Attributes:
        help: One sentence for people, with the unit where there is one.
        low: Smallest allowed value (inclusive), or None.
        high: Largest allowed value (inclusive), or None.
        above: The value must be greater than this, or None.
        live: Whether the value may change without rebuilding the agent.
        acting: Whether it only says how the agent acts; such a value may change with a reset, and may differ between
            the members of a population.
        search: The range that a search takes when it is told none, `(low, high)`, or the choices.
        log: Whether a search should treat the range on a logarithmic scale.
        complement: Whether it can be told as 1 less its value, too, under the name ``one_minus_`` and its own: for a
            discount, whose distance from 1 is what matters, on a logarithmic scale.
        when: config -> whether this one counts in it; otherwise it is not searched, and is no live number. Defaults to
            None: always.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    live: bool = False
    acting: bool = False
    search: tuple[Any, ...] | None = None
    log: bool = False
    complement: bool = False
    when: Callable[[Any], bool] | None = None

    def check(self, name: str, value: Any) -> None:
        """Raises `ConfigurationError` when a number is not finite or outside the allowed range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        rules = [] if math.isfinite(value) else [(False, "finite")]
        if self.above is not None:
            rules.append((value > self.above, f"> {self.above:g}"))
        if self.low is not None:
            rules.append((value >= self.low, f">= {self.low:g}"))
        if self.high is not None:
            rules.append((value <= self.high, f"<= {self.high:g}"))
        if not all(holds for holds, _ in rules):
            raise ConfigurationError(f"{name} must be {' and '.join(text for _, text in rules)}, got {value!r}.")


def hyperparameter(default: Any, help: str, **about: Any) -> Any:
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
        None, "Gradients are scaled down to this global norm; null switches it off.", above=0.0, live=True
    )
    separate_rates: ClassVar[tuple[str, ...]] = ()
    """Names of optimizers that a list of learning rates is for, in this order."""

    n_envs: int = hyperparameter(1, "Copies of the environment that are stepped together.", low=1)
    explore: bool = hyperparameter(True, "Explore in training; false: always the action that is thought best.")
    jit_compile: bool | None = hyperparameter(
        None, "Compile updates with XLA; null: those of several gradient steps, where all networks are dense."
    )

    def __post_init__(self) -> None:
        """Checks every field's type and declared range, and takes the arguments out of the optimizer's label."""
        for name, adapter in _adapters(type(self)).items():
            object.__setattr__(self, name, adapter.check(name, getattr(self, name)))
        for name, about in self.describe().items():
            about.check(name, getattr(self, name))
        spec = OptimizerSpec.of(self.optimizer)
        object.__setattr__(self, "optimizer", spec.name)
        object.__setattr__(self, "optimizer_kwargs", {**spec.arguments, **self.optimizer_kwargs})
        if "learning_rate" in self.optimizer_kwargs:
            raise ConfigurationError("optimizer_kwargs must not hold the learning_rate: it is a field of its own.")

    @classmethod
    def describe(cls) -> dict[str, Hyperparameter]:
        """Every field that was declared with `hyperparameter`, by name."""
        return {f.name: f.metadata[_METADATA] for f in dataclasses.fields(cls) if _METADATA in f.metadata}

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A value in the type of a field.

        Raises:
            ConfigurationError: It is of another one.
        """
        return _adapters(cls)[name].check(name, value)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds a config from plain values, such as those read from JSON or TOML.

        Args:
            values: Field name to value. A dotted name sets an optimizer's argument: ``optimizer.momentum`` for
                all optimizers, ``actor.learning_rate`` for the one that is named ``actor``. A list of learning rates
                has one for each network with an optimizer of its own (for PPO the actor's and the critic's).
                ``one_minus_gamma`` sets gamma.

        Raises:
            ConfigurationError: A field does not exist, has the wrong type, or is out of range.
        """
        plain: dict[str, Any] = {}
        names = {f.name for f in dataclasses.fields(cls)}
        adapters = _adapters(cls)
        kwargs = adapters["optimizer_kwargs"].check("optimizer_kwargs", values.get("optimizer_kwargs", {}))
        overrides = adapters["optimizers"].check("optimizers", values.get("optimizers", {}))
        optimizer_kwargs: dict[str, Any] = dict(kwargs)
        optimizers: dict[str, dict[str, Any]] = {owner: dict(override) for owner, override in overrides.items()}
        complements = cls.complements()
        values = dict(sorted(values.items(), key=lambda item: item[0] in complements))  # these last: they count
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
            elif name in complements:
                plain[complements[name]] = round(1.0 - adapters[complements[name]].check(name, value), _DIGITS)
            elif name not in names:
                agent = cls.__name__.removesuffix("Config").lower().replace("agent", "the agent")
                raise unknown_name(f"hyperparameter of {agent}", name, names)
            else:
                plain[name] = value
        if "optimizer" in plain:
            spec = OptimizerSpec.of(plain["optimizer"])
            plain["optimizer"] = spec.name
            optimizer_kwargs = {**spec.arguments, **optimizer_kwargs}
            if _tells_rate(values["optimizer"]):
                plain.setdefault("learning_rate", spec.learning_rate)
        return cls(**plain | {"optimizer_kwargs": optimizer_kwargs, "optimizers": optimizers})

    @classmethod
    def complements(cls) -> dict[str, str]:
        """Names under which 1 less the value can be told -> the hyperparameters that they set."""
        return {COMPLEMENT + name: name for name, about in cls.describe().items() if about.complement}

    @classmethod
    def _rates_of(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Learning rates by the names of optimizers, where a list of them is given; the first stays as that of all."""
        rates, names = values.get("learning_rate"), cls.separate_rates
        if not isinstance(rates, list | tuple):
            return {}
        if len(rates) != len(names):
            told = f"it has {len(names)} networks with optimizers of their own ({', '.join(names)})" if names else ""
            raise ConfigurationError(
                f"{len(rates)} learning rates for {cls.__name__.removesuffix('Config')}: "
                f"{told or 'it takes one'}, got {list(rates)}."
            )
        values["learning_rate"] = rates[0]
        return dict(zip(names, rates, strict=True))

    def replace(self, values: Mapping[str, Any]) -> Self:
        """A copy with other values, by the same names that `from_dict` takes.

        Another optimizer does not inherit the arguments of the one before it.
        """
        own = self.to_dict()
        if "optimizer" in values:
            own.pop("optimizer")
            own.pop("optimizer_kwargs")
            if _tells_rate(values["optimizer"]):
                own.pop("learning_rate")
        return type(self).from_dict(own | dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `from_dict` gives an equal config back."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in values.items()}

    def that_count(self) -> dict[str, Hyperparameter]:
        """Those of `describe` that have an effect beside the others' values."""
        return {name: about for name, about in self.describe().items() if about.when is None or about.when(self)}

    def refuse_without_effect(self, given: Iterable[str]) -> None:
        """Refuses settings that change nothing beside the others.

        Not for the trials of a search: where one searches whether a part is on, and the part's settings, these count in
        some of them only.

        Args:
            given: Names of what was said, as `from_dict` takes them.

        Raises:
            ConfigurationError: One of them has no effect; tells what it is for.
        """
        told, counting = self.describe(), self.that_count()
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        for name in given:
            if name in told and name not in counting and getattr(self, name) != usual[name]:
                raise ConfigurationError(
                    f"{name} has no effect beside the other settings. What it is for: {told[name].help} Leave it out, "
                    f"or set what it belongs to."
                )

    def live_values(self) -> dict[str, float]:
        """The live numbers but for the learning rate, which lives in the optimizers."""
        live = {name: getattr(self, name) for name, about in self.that_count().items() if about.live}
        live.pop("learning_rate", None)
        return {name: float(value) for name, value in live.items() if value is not None}

    def acting_values(self) -> dict[str, Any]:
        """The fields that only say how the agent acts."""
        return {name: getattr(self, name) for name, about in self.describe().items() if about.acting}

    def structure(self) -> dict[str, Any]:
        """What an agent is built from: every field but the live numbers that are set, optimizers' too, and how it acts.

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

    def optimizer_spec(self, name: str = "default") -> OptimizerSpec:
        """The specification of the optimizer `name`, with what `optimizers` says of it."""
        override = dict(self.optimizers.get(name, {}))
        rate = override.pop("learning_rate", self.learning_rate)
        own = OptimizerSpec.of(override.pop("optimizer", self.optimizer))
        # Another optimizer does not inherit the arguments that were meant for the agent's.
        inherited = self.optimizer_kwargs if own.name == self.optimizer else {}
        return OptimizerSpec(name=own.name, learning_rate=rate, arguments={**inherited, **own.arguments, **override})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _tells_rate(optimizer: Any) -> bool:
    """Whether an optimizer as people write it says a learning rate of its own: an object does, a bare name does not."""
    return not isinstance(optimizer, str) or "learning_rate" in optimizer


class _Adapter:
    """Checks values of one field's type, and brings them into it (a list into a tuple, 1 into 1.0)."""

    def __init__(self, kind: Any) -> None:
        self._adapter = pydantic.TypeAdapter(kind, config=_config_for(kind))
        self._allowed = _words(kind)
        self._takes_bool = "true or false" in self._allowed or kind is Any

    def check(self, name: str, value: Any) -> Any:
        """The value in the field's type; raises `ConfigurationError` when it is of another one."""
        try:
            if isinstance(value, bool | np.bool_) and not self._takes_bool:
                raise ValueError("a truth value is not a number")
            return self._adapter.validate_python(value)
        except ValueError as error:
            raise ConfigurationError(f"{name} must be {self._allowed}, got {value!r}.") from error


_adapters_of: WeakKeyDictionary[type[AgentConfig], dict[str, _Adapter]] = WeakKeyDictionary()


def _adapters(cls: type[AgentConfig]) -> dict[str, _Adapter]:
    """Field name -> its adapter; building them costs a millisecond, so it is done once a class."""
    if cls not in _adapters_of:
        try:
            hints = get_type_hints(cls)
        except NameError:
            # A class that was pickled by value in another process's script: its names are not known here, and its
            # values were checked there.
            hints = {}
        _adapters_of[cls] = {f.name: _Adapter(hints.get(f.name, Any)) for f in dataclasses.fields(cls)}
    return _adapters_of[cls]


def _config_for(kind: Any) -> pydantic.ConfigDict | None:
    """Lets a user's config have fields of any class; pydantic takes no configuration for models and dataclasses."""
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, pydantic.BaseModel)):
        return None
    return pydantic.ConfigDict(arbitrary_types_allowed=True)


_WORDS: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
    types.NoneType: "null",
    Mapping: "a table",
    dict: "a table",
}


def _words(kind: Any) -> str:
    """What a type is called in an error message."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(part) for part in get_args(kind))
    if origin in (tuple, list):
        return f"a list of {_words(get_args(kind)[0]).removeprefix('a ')}s"
    if (origin or kind) in (Mapping, dict) and any(get_origin(part) is Mapping for part in get_args(kind)):
        return "a table of tables"
    return _WORDS.get(origin or kind, getattr(kind, "__name__", str(kind)))

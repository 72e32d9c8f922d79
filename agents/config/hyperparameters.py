"""What is known about hyperparameters, and frozen dataclasses of them.

A hyperparameter is described once, where its field is declared with `hyperparameter(...)`: its meaning, its
range, how it is usually searched, and whether it is *live*. The command line, the search spaces and the error
messages take all of that from here.

A **live** hyperparameter is a number that can change while an agent exists, without building its networks or
tracing its update again: a discount, a clip range, an entropy weight. `KerasAgent` keeps those in variables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
import pydantic

from agents.errors import ConfigurationError, unknown_name

METADATA = "hyperparameter"
"""Where the metadata of a field has it."""

LARGEST = 2**63 - 1
"""The largest whole number that a value may be."""

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
        """Raise `ConfigurationError` when a number is not finite or outside the allowed range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if isinstance(value, int) and abs(value) > LARGEST:  # what no array and no database holds
            raise ConfigurationError(f"{name} must be a whole number of at most {LARGEST}, got {value!r}.")
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
    """Return a dataclass field for a hyperparameter.

    Args:
        default: The default value. Mappings are copied for each instance.
        help: One sentence for people.
        **about: Further fields of `Hyperparameter`.
    """
    metadata = {METADATA: Hyperparameter(help=help, **about)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Hyperparameters as fields of a frozen dataclass, checked when it is made. Subclasses declare them."""

    def __post_init__(self) -> None:
        """Check every field's type and declared range."""
        for name, adapter in _adapters(type(self)).items():
            object.__setattr__(self, name, adapter.check(name, getattr(self, name)))
        for name, about in self.describe().items():
            about.check(name, getattr(self, name))

    @classmethod
    def describe(cls) -> dict[str, Hyperparameter]:
        """Every field that was declared with `hyperparameter`, by name."""
        return {f.name: f.metadata[METADATA] for f in dataclasses.fields(cls) if METADATA in f.metadata}

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """Return a value in the type of a field.

        Raises:
            ConfigurationError: It is of another one.
        """
        return _adapters(cls)[name].check(name, value)

    @classmethod
    def owner(cls) -> str:
        """Whose hyperparameters they are, in messages."""
        return cls.__name__.removesuffix("Config").lower().replace("agent", "the agent")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a config from plain values, such as those read from JSON or TOML.

        Args:
            values: Field name to value. ``one_minus_gamma`` sets gamma.

        Raises:
            ConfigurationError: A field does not exist, has the wrong type, or is out of range.
        """
        complements = cls.complements()
        fields: dict[str, Any] = {}
        for name, value in sorted(values.items(), key=lambda item: item[0] in complements):  # these last: they count
            fields.update(cls.field_of(name, value))
        return cls(**fields)

    @classmethod
    def field_of(cls, name: str, value: Any) -> dict[str, Any]:
        """Return the field that is set by a name, a complement's too, and its value.

        Raises:
            ConfigurationError: There is no such field, or a complement is of a wrong type.
        """
        complements = cls.complements()
        if name in complements:
            return {complements[name]: round(1.0 - _adapters(cls)[complements[name]].check(name, value), _DIGITS)}
        names = {f.name for f in dataclasses.fields(cls)}
        if name not in names:
            raise unknown_name(f"hyperparameter of {cls.owner()}", name, names)
        return {name: value}

    @classmethod
    def complements(cls) -> dict[str, str]:
        """Names under which 1 less the value can be told -> the hyperparameters that they set."""
        return {COMPLEMENT + name: name for name, about in cls.describe().items() if about.complement}

    def value_of(self, name: str) -> Any:
        """Return the value of a hyperparameter, by any name that `from_dict` takes; None where it is not set."""
        complements = self.complements()
        return round(1.0 - getattr(self, complements[name]), _DIGITS) if name in complements else getattr(self, name)

    def replace(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values, by the same names that `from_dict` takes."""
        return type(self).from_dict(self.to_dict() | dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `from_dict` gives an equal config back."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: plain(value) for name, value in values.items()}

    def set_otherwise(self) -> dict[str, Any]:
        """Return the fields that differ from a config of defaults; all fields where defaults are incomplete."""
        own, usual = self.to_dict(), {}
        with contextlib.suppress(TypeError, ConfigurationError):  # a field without a default
            usual = type(self)().to_dict()
        return {name: value for name, value in own.items() if name not in usual or usual[name] != value}

    def that_count(self) -> dict[str, Hyperparameter]:
        """Those of `describe` that have an effect beside the others' values."""
        return {name: about for name, about in self.describe().items() if about.when is None or about.when(self)}

    def refuse_without_effect(self, given: Iterable[str]) -> None:
        """Refuse settings that change nothing beside the others.

        Not for the trials of a search: where one searches whether a part is on, and the part's settings, these count in
        some of them only.

        Args:
            given: Names of what was said, as `from_dict` takes them.

        Raises:
            ConfigurationError: One of them has no effect; tells what it is for.
        """
        told, counting = self.describe(), self.that_count()
        for name in given:
            if name in told and name not in counting and getattr(self, name) != _default(type(self), name):
                raise ConfigurationError(
                    f"{name} has no effect beside the other settings. What it is for: {told[name].help} Leave it out, "
                    f"or set what it belongs to."
                )

    def live_values(self) -> dict[str, float]:
        """Return the live numbers but for the learning rate, which lives in the optimizers."""
        live = {name: getattr(self, name) for name, about in self.that_count().items() if about.live}
        live.pop("learning_rate", None)
        return {name: float(value) for name, value in live.items() if value is not None}

    def acting_values(self) -> dict[str, Any]:
        """Return the fields that only say how the agent acts."""
        return {name: getattr(self, name) for name, about in self.describe().items() if about.acting}

    def structure(self) -> dict[str, Any]:
        """Every field but the live numbers that are set, and how it acts."""
        free = {*self.live_values(), *self.acting_values(), "learning_rate"}
        return {name: value for name, value in self.to_dict().items() if name not in free}


def plain(value: Any) -> Any:
    """Return a value ready for JSON: tuples as lists, mappings as dicts."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def _default(config_class: type[Config], name: str) -> Any:
    """What a field has that nobody set."""
    field = next(each for each in dataclasses.fields(config_class) if each.name == name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


class _Adapter:
    """Checks values of one field's type, and brings them into it (a list into a tuple, 1 into 1.0)."""

    def __init__(self, kind: Any) -> None:
        self._adapter = pydantic.TypeAdapter(kind, config=_config_for(kind))
        self._allowed = _words(kind)
        self._takes_bool = "true or false" in self._allowed or kind is Any

    def check(self, name: str, value: Any) -> Any:
        """Return the value in the field's type; raises `ConfigurationError` when it is of another one."""
        try:
            if isinstance(value, bool | np.bool_) and not self._takes_bool:
                raise ValueError("a truth value is not a number")
            return self._adapter.validate_python(value)
        except ValueError as error:
            raise ConfigurationError(f"{name} must be {self._allowed}, got {value!r}.") from error


_adapters_of: WeakKeyDictionary[type[Config], dict[str, _Adapter]] = WeakKeyDictionary()


def _adapters(cls: type[Config]) -> dict[str, _Adapter]:
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
    """Let a user's config have fields of any class; pydantic takes no configuration for models and dataclasses."""
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

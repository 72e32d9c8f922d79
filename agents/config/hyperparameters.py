"""Descriptions of hyperparameters, and frozen dataclasses of hyperparameters.

A hyperparameter is described once, where its field is declared with `hyperparameter(...)`: its meaning, its
range, its default search range, and whether it is *mutable*. The command line, the search spaces and the error messages
use this description.

A **mutable** hyperparameter (`live=True`) is a number that can change while an agent exists, without building its
networks or tracing its update again: a discount, a clip range, an entropy weight. `KerasAgent` stores these numbers in
variables.
"""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
import pydantic

from agents.errors import ConfigurationError, unknown_name
from agents.renamed import keep_old_names

METADATA = "hyperparameter"
"""Key of the description in the metadata of a field."""

LARGEST = 2**63 - 1
"""Largest allowed whole number."""

_DIGITS = 12
"""Decimals to which 1 minus a complement is rounded: 1 - (1 - 0.99) shall be 0.99."""

COMPLEMENT = "one_minus_"
"""Prefix of the name of a hyperparameter that is set as 1 minus its value."""

# "No default" is compared by identity: where config classes are pickled by value, it must not become a copy.
copyreg.pickle(type(dataclasses.MISSING), lambda missing: "MISSING")


@dataclass(frozen=True, kw_only=True)
class Hyperparameter:
    """Description of one field of a config.

    Attributes:
        help: One sentence for users, with the unit where there is one.
        low: Smallest allowed value (inclusive), or None.
        high: Largest allowed value (inclusive), or None.
        above: The value must be greater than this, or None.
        live: Whether the value may change without rebuilding the agent.
        acting: Whether it only affects how the agent acts; such a value may change with a reset, and may differ between
            the members of a population.
        search: The default range of a search, `(low, high)`, or the choices.
        log: Whether a search should treat the range on a logarithmic scale.
        complement: Whether it can also be set as 1 minus its value, under its name with the prefix ``one_minus_``: for
            a discount, whose distance from 1 matters on a logarithmic scale.
        when: config -> whether the hyperparameter has an effect in this config; otherwise it is not searched, and is
            not mutable. Defaults to None: always.
        added: Whether earlier versions lack it, and did what its default does: it then does not distinguish a config
            of theirs.
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
    added: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raise `ConfigurationError` when a number is not finite or outside the allowed range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if isinstance(value, int) and abs(value) > LARGEST:  # too large for arrays and databases
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
        help: One sentence for users.
        **about: Further fields of `Hyperparameter`.
    """
    metadata = {METADATA: Hyperparameter(help=help, **about)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def other_defaults(
    defaults: Mapping[str, Any], *config_classes: type[Config], ranges: Mapping[str, tuple[Any, ...]] | None = None
) -> dict[str, Any]:
    """Return attributes for a subclass of config classes: fields with other defaults. Unknown names are left out.

    Args:
        defaults: Field -> default.
        *config_classes: The classes.
        ranges: Field -> the range that searches take by default, where it is another one too.
    """
    about = {name: {"search": searched} for name, searched in (ranges or {}).items()}
    own = {each.name: each for own in config_classes for each in fields(own) if each.name in {*defaults, *about}}
    redefined = {
        name: field(
            default=defaults.get(name, each.default),
            metadata={METADATA: replace(each.metadata[METADATA], **about.get(name, {}))},
        )
        for name, each in own.items()
    }
    return {"__annotations__": {name: each.type for name, each in own.items()}, **redefined}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base class for hyperparameters as fields of a frozen dataclass, checked at construction.

    Subclasses declare the fields.
    """

    def __post_init__(self) -> None:
        """Check every field's type and declared range."""
        _require_dataclass(type(self))
        for name, adapter in _adapters(type(self)).items():
            object.__setattr__(self, name, adapter.check(name, getattr(self, name)))
        for name, about in self.describe().items():
            about.check(name, getattr(self, name))

    @classmethod
    def describe(cls) -> dict[str, Hyperparameter]:
        """Return the descriptions of all fields declared with `hyperparameter`, by name."""
        return {f.name: f.metadata[METADATA] for f in dataclasses.fields(cls) if METADATA in f.metadata}

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """Return a value converted to the type of a field.

        Raises:
            ConfigurationError: The value is of another type.
        """
        return _adapters(cls)[name].check(name, value)

    @classmethod
    def owner(cls) -> str:
        """Return the name of the algorithm that the hyperparameters belong to, for messages."""
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
        """Return the field that a name sets, complements included, and its value.

        Raises:
            ConfigurationError: There is no such field, or a complement is of a wrong type.
        """
        complements = cls.complements()
        if name in complements:
            return {complements[name]: round(1.0 - _adapters(cls)[complements[name]].check(name, value), _DIGITS)}
        names = {f.name for f in dataclasses.fields(cls)}
        if name not in names:
            _require_dataclass(cls)
            raise cls.unknown_hyperparameter(cls.owner(), name, names)
        return {name: value}

    @classmethod
    def unknown_hyperparameter(cls, owner: str, name: str, known: Iterable[str]) -> ConfigurationError:
        """Return the error for a name that is no hyperparameter of an owner."""
        return unknown_name(f"hyperparameter of {owner}", name, known)

    @classmethod
    def complements(cls) -> dict[str, str]:
        """Return the names that set 1 minus a value -> the hyperparameters that they set."""
        return {COMPLEMENT + name: name for name, about in cls.describe().items() if about.complement}

    @classmethod
    def refuse_duplicates(cls, given: Collection[str]) -> None:
        """Raise `ConfigurationError` if a hyperparameter and its complement were both given."""
        for complement, name in cls.complements().items():
            if complement in given and name in given:
                raise ConfigurationError(f"{name} and {complement} set the same hyperparameter: give one of the two.")

    def value_of(self, name: str) -> Any:
        """Return the value of a hyperparameter by any name that `from_dict` accepts; None where it is not set."""
        complements = self.complements()
        return round(1.0 - getattr(self, complements[name]), _DIGITS) if name in complements else getattr(self, name)

    def replace(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values, by the names that `from_dict` accepts."""
        return type(self).from_dict(self.to_dict() | dict(values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; `from_dict` restores an equal config."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: plain(value) for name, value in values.items()}

    def identifying_values(self) -> dict[str, Any]:
        """Return the values of `to_dict` that tell configs apart, also those of earlier versions (see `added`)."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        added = {name for name, about in self.describe().items() if about.added}
        return {name: value for name, value in self.to_dict().items() if name not in added or value != defaults[name]}

    def non_default_values(self) -> dict[str, Any]:
        """Return the fields that differ from a config of defaults; all fields where defaults are incomplete."""
        own, usual = self.to_dict(), {}
        with contextlib.suppress(TypeError, ConfigurationError):  # a field without a default
            usual = type(self)().to_dict()
        return {name: value for name, value in own.items() if name not in usual or usual[name] != value}

    def effective_hyperparameters(self) -> dict[str, Hyperparameter]:
        """Return the hyperparameters of `describe` that have an effect with the values of the others."""
        return {name: about for name, about in self.describe().items() if about.when is None or about.when(self)}

    def refuse_without_effect(self, given: Iterable[str]) -> None:
        """Refuse settings that have no effect with the values of the others.

        Not for the trials of a search: a search over switching a part on, and over its settings, has trials in which
        the settings have no effect.

        Args:
            given: Names that were set, as `from_dict` accepts them.

        Raises:
            ConfigurationError: A setting has no effect; the message explains its purpose. Or a hyperparameter was given
                twice.
        """
        given = list(given)
        self.refuse_duplicates(given)
        described, counting = self.describe(), self.effective_hyperparameters()
        for name in given:
            if name in described and name not in counting and getattr(self, name) != _default(type(self), name):
                raise ConfigurationError(
                    f"{name} has no effect beside the other settings. Its purpose: {described[name].help} "
                    f"Remove it, or set the option that it belongs to."
                )

    def live_values(self) -> dict[str, float]:
        """Return the mutable hyperparameters except for the learning rate, which the optimizers hold."""
        live = {name: getattr(self, name) for name, about in self.effective_hyperparameters().items() if about.live}
        live.pop("learning_rate", None)
        return {name: float(value) for name, value in live.items() if value is not None}

    def acting_values(self) -> dict[str, Any]:
        """Return the fields that only affect how the agent acts."""
        return {name: getattr(self, name) for name, about in self.describe().items() if about.acting}

    def structure(self) -> dict[str, Any]:
        """Return all fields except mutable hyperparameters that are set, and acting values."""
        free = {*self.live_values(), *self.acting_values(), "learning_rate"}
        return {name: value for name, value in self.to_dict().items() if name not in free}


keep_old_names(Config, {"set_otherwise": "non_default_values", "that_count": "effective_hyperparameters"})


def _require_dataclass(cls: type[Config]) -> None:
    """Refuse a class whose hyperparameters are no fields, because `dataclass` is missing above it."""
    declared = [name for name, value in vars(cls).items() if isinstance(value, dataclasses.Field)]
    if declared:
        raise ConfigurationError(
            f"{cls.__name__} declares {', '.join(declared)} and is not a dataclass: write "
            f"@dataclass(frozen=True, kw_only=True) above it."
        )


def plain(value: Any) -> Any:
    """Return a value ready for JSON: tuples as lists, mappings as dicts."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def _default(config_class: type[Config], name: str) -> Any:
    """Return the default value of a field."""
    field = next(each for each in dataclasses.fields(config_class) if each.name == name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


class _Adapter:
    """Validator of one field's type, which also converts values (a list to a tuple, 1 to 1.0)."""

    def __init__(self, kind: Any) -> None:
        self._adapter = pydantic.TypeAdapter(kind, config=_config_for(kind))
        self._allowed = _words(kind)
        self._takes_bool = "true or false" in self._allowed or kind is Any

    def check(self, name: str, value: Any) -> Any:
        """Return the value in the field's type; raise `ConfigurationError` for a value of another type."""
        try:
            if isinstance(value, bool | np.bool_) and not self._takes_bool:
                raise ValueError("a truth value is not a number")
            return self._adapter.validate_python(value)
        except ValueError as error:
            raise ConfigurationError(f"{name} must be {self._allowed}, got {value!r}{self._hint(value)}.") from error

    def _hint(self, value: Any) -> str:
        """Return how to write a single value of a list, as end of a message; "" for other mistakes."""
        if value is None or isinstance(value, list | tuple | Mapping | str):
            return ""
        try:
            self._adapter.validate_python([value])
        except ValueError:
            return ""
        return f": write [{value}], and several values to choose from as [{value}],[...]"


_adapters_of: WeakKeyDictionary[type[Config], dict[str, _Adapter]] = WeakKeyDictionary()


def _adapters(cls: type[Config]) -> dict[str, _Adapter]:
    """Return the validators of all fields; cached per class, as building them takes a millisecond."""
    if cls not in _adapters_of:
        try:
            hints = get_type_hints(cls)
        except NameError:
            # A class that was pickled by value from another process's script: its type names are unknown here, and
            # its values were checked there.
            hints = {}
        _adapters_of[cls] = {f.name: _Adapter(hints.get(f.name, Any)) for f in dataclasses.fields(cls)}
    return _adapters_of[cls]


def _config_for(kind: Any) -> pydantic.ConfigDict | None:
    """Allow fields of any class in a user's config; pydantic takes no configuration for models and dataclasses."""
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
    """Return the name of a type for error messages."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(part) for part in get_args(kind))
    if origin in (tuple, list):
        return f"a list of {_words(get_args(kind)[0]).removeprefix('a ')}s"
    if (origin or kind) in (Mapping, dict) and any(get_origin(part) is Mapping for part in get_args(kind)):
        return "a table of tables"
    return _WORDS.get(origin or kind, getattr(kind, "__name__", str(kind)))

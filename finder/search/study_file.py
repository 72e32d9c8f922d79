"""A study from a file, checked against the agents and the environment that it names: all its mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.errors import StudyError
from studies.spec.spaces import Choice, Fixed, Json, parse_space
from studies.spec.spec import StudySpec
from studies.spec.spec_file import Location, Mistake, model_of, read_file

if TYPE_CHECKING:
    from agents.config.hyperparameters import Config


def read_study(path: str | Path) -> StudySpec:
    """Read a study from a TOML file.

    Raises:
        StudyError: The file cannot be read, or something in it is wrong: every mistake with its line, also those that
            only the agents and the environment know of.
    """
    file = read_file(path)
    spec, found = model_of(file, StudySpec)
    found += _mistakes_of_names(file.data)
    if spec is None or found:
        raise file.error(found)
    return spec


def _mistakes_of_names(data: Mapping[str, Any]) -> list[Mistake]:
    """What the agents and the environment say to a study, as far as it can be read at all."""
    from agents.callbacks.callback import find_maker
    from agents.contract.spec import config_class
    from agents.errors import ConfigurationError

    found: list[Mistake] = []
    configs: dict[str, type[Config]] = {}
    labels = _as_list(data.get("agents"))
    for label in labels:
        try:
            configs[label] = config_class(label)
        except ConfigurationError as error:
            found.append((("agents",), str(error)))
    for place in _as_list(data.get("callbacks")):
        try:
            find_maker(place)
        except ConfigurationError as error:
            found.append((("callbacks",), str(error)))
    found += _mistakes_of_places(data)
    if len(configs) == len(labels):
        for location, name, values in _settings(data):
            owner = location[1] if location[0] == "agent_params" else None
            suitable = [config for label, config in configs.items() if owner in (None, label)]
            told = _mistake(suitable, name, values)
            if told:
                found.append((location, told))
    return found


def _mistakes_of_places(data: Mapping[str, Any]) -> list[Mistake]:
    """What is wrong with the strategy, the environment and its wrappers."""
    from agents.distributed.strategies import StrategySpec
    from agents.environments import EnvironmentSpec
    from agents.environments.wrappers import checked_wrappers
    from agents.errors import ConfigurationError

    named: list[tuple[str, Callable[[Any], Any], Any]] = [
        ("strategy", StrategySpec.of, data.get("strategy")),
        ("env", EnvironmentSpec.of, data.get("env")),
    ]
    named += [("wrappers", checked_wrappers, wrapper) for wrapper in _as_list(data.get("wrappers"))]
    found: list[Mistake] = []
    for key, check, text in named:
        try:
            if isinstance(text, str):
                check(text)
        except ConfigurationError as error:
            found.append(((key,), str(error)))
    return found


def _as_list(named: Any) -> list[str]:
    """What one text or a list of them names."""
    return [named] if isinstance(named, str) else list(map(str, named)) if isinstance(named, list) else []


def _mistake(configs: list[type[Config]], name: str, values: list[Json]) -> str:
    """Why no agent takes a hyperparameter or a value of it, "" where one does."""
    from agents.errors import ConfigurationError

    if not values and "." not in name and not any(name in config.describe() for config in configs):
        values = [None]  # a name can be wrong where its space cannot be read
    for value in values:
        errors = []
        for config in configs:
            try:
                config.from_dict({name: value})
            except ConfigurationError as error:
                errors.append(str(error))
        if errors and len(errors) == len(configs):
            told = min(errors, key=lambda error: error.startswith("Unknown"))  # of an agent that knows the name
            return told + (" A range is written low:high." if isinstance(value, str) and "must be" in told else "")
    return ""


def _settings(data: Mapping[str, Any]) -> Iterator[tuple[Location, str, list[Json]]]:
    """Every hyperparameter in a file: where it is written, its name, and values of it to try."""
    for name, value in _table(data.get("params")):
        yield ("params", name), name, _values(value)
    for name, value in _table(data.get("fixed")):
        yield ("fixed", name), name, [value]
    for label, table in _table(data.get("agent_params")):
        for name, value in _table(table):
            yield ("agent_params", label, name), name, [value]
    rows = data.get("trials")
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        for name, value in _table(row):
            yield ("trials", index, name), name, [value]


def _table(value: Any) -> list[tuple[str, Any]]:
    """Return the entries of a table; `agent` is no hyperparameter."""
    return [(name, each) for name, each in value.items() if name != "agent"] if isinstance(value, Mapping) else []


def _values(written: Any) -> list[Json]:
    """Return the ends or choices of a space; none of one that cannot be read, which is a mistake that others tell."""
    try:
        space = parse_space(written)
    except StudyError:
        return []
    if isinstance(space, Choice):
        return list(space.values)
    return [space.value] if isinstance(space, Fixed) else [space.low, space.high]

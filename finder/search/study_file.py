"""Reads a study from a file, and checks it against its agents and environment; all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.errors import StudyError
from studies.spaces.space_notation import parse_space
from studies.spaces.spaces import Json, extremes
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec
from studies.spec.spec_file import Location, Mistake, model_of, read_file

if TYPE_CHECKING:
    from agents.config.hyperparameters import Config


def read_study(path: str | Path) -> StudySpec:
    """Read a study from a TOML file.

    Raises:
        StudyError: The file cannot be read or has mistakes; the message lists every mistake with its line, including
            hyperparameters that the agents do not accept.
    """
    file = read_file(path)
    spec, found = model_of(file, StudySpec)
    found += _mistakes_of_names(file.data)
    if "warm_start" in file.data:
        found.append(
            (
                ("warm_start",),
                "trials of another study are read when a search begins: take warm_start out, and run the file with "
                "--warm-start STUDY.",
            )
        )
    if file.data.get("trials"):
        unused = "{}: the trials of this study are planned, so that nothing is drawn; leave it out."
        found += [((name,), unused.format(name)) for name in ("sampler", "sampler_kwargs") if name in file.data]
    if spec is None or found:
        raise file.error(found)
    if is_population_based(spec.pruner) and "seeds" not in file.data:
        return spec.model_copy(update={"seeds": (0,)})  # as `finder.tune`
    return spec


def _mistakes_of_names(data: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes that the agents and the environment report, for the parts of a file that can be read."""
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
            mistake = _mistake(suitable, name, values)
            if mistake:
                found.append((location, mistake))
    return found


def _mistakes_of_places(data: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes in the strategy, the environment and its wrappers."""
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
    """Return a string or a list of strings as a list."""
    return [named] if isinstance(named, str) else list(map(str, named)) if isinstance(named, list) else []


def _mistake(configs: list[type[Config]], name: str, values: list[Json]) -> str:
    """Return why no agent accepts a hyperparameter or a value of it; "" if one does."""
    from agents.errors import ConfigurationError

    if not values and "." not in name and not any(name in config.describe() for config in configs):
        values = [None]  # the name may be wrong too if the space cannot be read
    for value in values:
        errors = []
        for config in configs:
            try:
                config.from_dict({name: value})
            except ConfigurationError as error:
                errors.append(str(error))
        if errors and len(errors) == len(configs):
            message = min(
                errors, key=lambda error: error.startswith("Unknown")
            )  # prefer the error of an agent that has the hyperparameter
            return message + (
                " A range is written low:high." if isinstance(value, str) and "must be" in message else ""
            )
    return ""


def _settings(data: Mapping[str, Any]) -> Iterator[tuple[Location, str, list[Json]]]:
    """Yield every hyperparameter in a file: its location, its name, and values to check."""
    for name, value in _table(data.get("params")):
        yield ("params", name), name, _values(value)
    for name, value in _table(data.get("fixed")):
        yield ("fixed", name), name, [value]
    for label, table in _table(data.get("agent_params")):
        for name, value in _table(table):
            yield ("agent_params", label, name), name, [value]
    for key in ("trials", "first"):
        rows = data.get(key)
        for index, row in enumerate(rows if isinstance(rows, list) else []):
            for name, value in _table(row):
                yield (key, index, name), name, [value]


def _table(value: Any) -> list[tuple[str, Any]]:
    """Return the entries of a table without `agent`, which is not a hyperparameter."""
    return [(name, each) for name, each in value.items() if name != "agent"] if isinstance(value, Mapping) else []


def _values(written: Any) -> list[Json]:
    """Return the ends or choices of a space; none if it cannot be read, which is reported elsewhere."""
    try:
        return extremes(parse_space(written))
    except StudyError:
        return []

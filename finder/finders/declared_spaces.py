"""Search spaces of an agent's hyperparameters: those that are given, in their types, and those that it declares."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from agents.config.hyperparameters import Config
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError
from studies.errors import StudyError
from studies.spaces.numbers import complement, is_number
from studies.spaces.space_notation import conditional, parse_space, split_conditions
from studies.spaces.spaces import Fixed, Space
from studies.words import exact_text


def parse_spaces(agent: AgentSpec, params: Mapping[str, Any]) -> dict[str, Space]:
    """Parse search spaces; scales and default ranges are those that the hyperparameters declare.

    Raises:
        ConfigurationError: The agent does not have a hyperparameter, or the hyperparameter declares no range.
        StudyError: A space cannot be parsed.
    """
    known, complements = type(agent.config).describe(), type(agent.config).complements()
    spaces = {}
    for name, given in params.items():
        # `@agent=ppo` is a condition alone: the range is the declared one.
        text, when = split_conditions(given) if isinstance(given, str) else ("", {})
        value = None if when and not text else given
        plain = name.rpartition(".")[2] if name.endswith(".learning_rate") else complements.get(name, name)
        if "." not in name and plain not in known:
            raise type(agent.config).unknown_hyperparameter(agent.label, name, {**known, **complements})
        about = known.get(plain)
        log = name in complements or (about.log if about else None)
        if value is None:
            if about is None or about.search is None:
                with_range = (
                    f" With a range of their own: {', '.join(_searchable(known))}." if _searchable(known) else ""
                )
                raise ConfigurationError(
                    f"The hyperparameter {name!r} has no search range of its own: give one, such as {name}=low:high."
                    f"{with_range}"
                )
            value = declared_range(about.search)
            if name in complements:
                value = {"low": complement(value["high"]), "high": complement(value["low"])}
        try:
            space = parse_space(value, log=log or None, integer=_takes_integers(type(agent.config), plain))
        except StudyError as error:
            raise StudyError(f"{name}: {error}") from error
        has_range = about is not None and isinstance(declared_range(about.search or ()), dict)
        if has_range and isinstance(space, Fixed) and isinstance(space.value, str) and ":" in space.value:
            raise StudyError(f"{name}={space.value}: the ends of a range must be numbers, such as {name}=0.1:0.9.")
        spaces[name] = space if value is given else conditional(space, when)
    return spaces


def notes_on_pairs(agent: AgentSpec, params: Mapping[str, Any]) -> list[str]:
    """Return a note on each pair of numbers that was given for a hyperparameter with a range: two values, no range."""
    known, complements = type(agent.config).describe(), type(agent.config).complements()
    notes = []
    for name, given in params.items():
        about = known.get(complements.get(name, name))
        has_range = about is not None and isinstance(declared_range(about.search or ()), dict)
        if not (has_range and isinstance(given, list | tuple) and len(given) == 2 and all(map(is_number, given))):
            continue
        if given[0] != given[1]:
            low, high = map(exact_text, sorted(given))
            notes.append(f"{name} is tried at two values, {low} and {high}; a range is written '{low}:{high}'")
    return notes


def _takes_integers(config: type[Config], name: str) -> bool | None:
    """Return whether a hyperparameter takes whole numbers alone; None if its type does not say."""
    if name not in config.describe():
        return None
    try:
        if isinstance(config.checked(name, 1), float):
            return False
    except ConfigurationError:
        return None
    try:
        config.checked(name, 1.5)
    except ConfigurationError:
        return True
    return None


def default_space(agent: AgentSpec, fixed: Container[str] = (), *, only_live: bool = False) -> dict[str, None]:
    """Return the hyperparameters of an agent with a declared range, as complements (such as 1 - gamma) if possible.

    Args:
        agent: The agent.
        fixed: Names of hyperparameters that are not searched.
        only_live: Whether to leave out what cannot change while the agent trains. Defaults to False.
    """
    known = agent.config.effective_hyperparameters()
    if only_live:
        known = {name: about for name, about in known.items() if about.live and is_real_range(about.search)}
    complement_of = {name: complement for complement, name in type(agent.config).complements().items()}
    names = {name: complement_of.get(name, name) for name in _searchable(known)}
    return {other: None for name, other in names.items() if name not in fixed and other not in fixed}


def declared_range(search: tuple[Any, ...]) -> Any:
    """Return a declared range: two numbers are its ends, anything else is a list of choices."""
    if len(search) == 2 and all(map(is_number, search)):
        return {"low": search[0], "high": search[1]}
    return list(search)


def is_real_range(search: tuple[Any, ...] | None) -> bool:
    """Return whether a declared range is one of real numbers."""
    declared = None if search is None else declared_range(search)
    return isinstance(declared, dict) and any(isinstance(end, float) for end in declared.values())


def _searchable(known: Mapping[str, Any]) -> list[str]:
    return [name for name, about in known.items() if about.search is not None]

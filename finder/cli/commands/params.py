"""The command that lists agents and their hyperparameters: `params`."""

from __future__ import annotations

import ast
import dataclasses
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from finder.cli.options.parameters import Json
from finder.progress.console import print_commands, print_json, results, table
from finder.progress.text_layout import DOT, HangingIndent
from studies.spaces.numbers import is_number
from studies.words import param_text

if TYPE_CHECKING:
    from agents.config.hyperparameters import Config, Hyperparameter


def params(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="A name, module:Class, file.py:Class, or sb3:PPO. Without one, the agents are listed.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the hyperparameters of an agent: their defaults, and the ranges that finder tune searches."""
    if agent is None:
        return _list_agents(json)
    from agents.contract.registry import training_function

    config = _config_class(agent)
    described, defaults = config.describe(), _defaults(config)
    if json:
        print_json([_to_json(name, about, defaults[name]) for name, about in described.items()])
        return 0
    out, width = results(), max(map(len, described), default=0)
    for name, about in described.items():
        notes = [f"searched: {_range_text(name, about)}"] if about.search else []
        notes += ["mutable"] if about.live else []
        out.print(
            HangingIndent(Text(f"{name:<{width}}  ", "bold"), Text(DOT.join([_text(name, defaults[name]), *notes])))
        )
        out.print(HangingIndent(Text(" " * (width + 2)), Text(about.help, "dim")))
    is_function = training_function(agent) is not None
    trains = (f"finder train {agent} --env ENV --set NAME=VALUE", "trains with another value")
    print_commands(
        "To search them" if is_function else "To set and to search them",
        [
            *([] if is_function else [trains]),
            (f"finder tune {agent} --env ENV", "searches those with a range or choices in this list"),
            (f"finder tune {agent} --env ENV --param NAME=LOW:HIGH", "searches what you name"),
        ],
    )
    return 0


def _list_agents(json: bool) -> int:
    """List the agents without importing them, and thereby TensorFlow."""
    from agents.contract.registry import ALGORITHMS

    rows = {name: _first_sentence(path) for name, path in ALGORITHMS.items()}
    if json:
        print_json([{"name": name, "description": text} for name, text in rows.items()])
        return 0
    listed = table("agent", "algorithm")
    for name, text in rows.items():
        listed.add_row(Text(name, "bold"), text)
    results().print(listed)
    others = "Also sb3:PPO and its siblings of Stable-Baselines3, and your own: module:Class, file.py:Class."
    results().print(HangingIndent(Text(""), Text(others, "dim")))
    print_commands("Then", [("finder params ppo", "lists the hyperparameters of an agent")])
    return 0


def _first_sentence(path: str) -> str:
    """Return the first sentence of the docstring of a class, which is not imported."""
    module, _, name = path.partition(":")
    found = find_spec(module.rpartition(".")[0])
    assert found is not None
    assert found.submodule_search_locations is not None
    file = Path(found.submodule_search_locations[0]) / f"{module.rpartition('.')[2]}.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    own = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return (ast.get_docstring(own) or "").split("\n")[0].split(". See ")[0].rstrip(".") + "."


def _config_class(agent: str) -> type[Config]:
    from agents.contract.function_config import config_of
    from agents.contract.registry import agent_class, training_function

    function = training_function(agent)
    return agent_class(agent).config_class if function is None else config_of(function)


def _defaults(config: type[Config]) -> dict[str, Any]:
    """Return the default of each hyperparameter; None for one of a function that has none."""
    found: dict[str, Any] = {}
    for each in dataclasses.fields(config):
        if not isinstance(each.default_factory, dataclasses._MISSING_TYPE):
            found[each.name] = each.default_factory()
        else:
            found[each.name] = None if each.default is dataclasses.MISSING else each.default
    return found


def _to_json(name: str, about: Hyperparameter, default: Any) -> dict[str, Any]:
    return {
        "name": name,
        "default": default,
        "search": about.search,
        "log": about.log,
        "complement": about.complement,
        "low": about.low,
        "high": about.high,
        "above": about.above,
        "mutable": about.live,
        "help": about.help,
    }


def _text(name: str, value: Any) -> str:
    """Return a value as it is given on the command line."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else param_text(name, value)


def _range_text(name: str, about: Hyperparameter) -> str:
    values = about.search or ()
    if len(values) != 2 or not all(map(is_number, values)):
        return ", ".join(_text(name, value) for value in values)
    axis = " (log of 1 less its value)" if about.complement else " (log)" if about.log else ""
    return f"{_text(name, values[0])} to {_text(name, values[1])}{axis}"

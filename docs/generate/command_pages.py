"""One page per command, from the declarations of the commands themselves (`finder.cli.app`)."""

from __future__ import annotations

import re
from typing import Any

import typer

from finder.cli.app import app

FOLDER = "commands"


def _group() -> Any:
    return typer.main.get_command(app)


def _commands() -> dict[str, Any]:
    return {name: command for name, command in _group().commands.items() if not command.hidden}


def navigation() -> list[Any]:
    """Return the entries of the navigation."""
    return [f"{FOLDER}/index.md", *({f"finder {name}": f"{FOLDER}/{name}.md"} for name in _commands())]


def pages() -> dict[str, str]:
    """Return path and text of each page."""
    commands = _commands()
    made = {f"{FOLDER}/{name}.md": _command_page(name, command) for name, command in commands.items()}
    return {f"{FOLDER}/index.md": _index(commands), **made}


def _index(commands: dict[str, Any]) -> str:
    lines = ["# Command line", "", _prose(_group().help), ""]
    panel = None
    for name, command in commands.items():
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            lines += ["", f"## {panel}", "", "| command | |", "|---|---|"]
        lines.append(f"| [`finder {name}`]({name}.md) | {_cell(command.help.splitlines()[0])} |")
    lines += [
        "",
        "## Output and exit codes",
        "",
        "Results go to standard output, everything else to standard error. The exit code is 0 when there is an answer, "
        "1 when there is none or failures stopped the study, 2 for a mistake in the arguments, and 130 after Ctrl-C.",
    ]
    return "\n".join(lines) + "\n"


def _command_page(name: str, command: Any) -> str:
    usage = " ".join(command.collect_usage_pieces(typer.Context(command)))
    lines = [f"# finder {name}", "", "```text", f"finder {name} {usage}", "```", "", _prose(command.help), ""]
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        default = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panels.setdefault(parameter.rich_help_panel or default, []).append(parameter)
    for panel, parameters in panels.items():
        lines += [f"## {panel}", "", "| name | value | |", "|---|---|---|"]
        lines += [_row(parameter) for parameter in parameters] + [""]
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names, value = f"`{parameter.metavar or parameter.name.upper()}`", "`text`"
    else:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        value = "" if parameter.is_flag else f"`{_value(parameter)}`"
    notes = _cell(parameter.help or "")
    if parameter.required:
        notes += " **Required.**"
    if parameter.envvar:
        notes += f" Environment variable: `{parameter.envvar}`."
    return f"| {names} | {value.replace('|', chr(92) + '|')} | {notes.strip()} |"


def _value(parameter: Any) -> str:
    value = parameter.metavar or re.sub(r"[<>]", "", parameter.display_type(typer.Context(_group())))
    if parameter.min is not None:
        value += f" ≥ {parameter.min:g}"
    if parameter.max is not None:
        value += f", ≤ {parameter.max:g}" if parameter.min is not None else f" ≤ {parameter.max:g}"
    return value.replace(" range", "")


def _prose(text: str | None) -> str:
    """Return a command's help as Markdown: an example becomes a block, Rich's markup emphasis."""
    shown = re.sub(r"\[(?:bold|b)\](.*?)\[/(?:bold|b)?\]", r"**\1**", text or "")
    return re.sub(r"^Examples?: (.*)$", r"Example:\n\n```text\n\1\n```", shown, flags=re.M)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("*", r"\*").replace("_", r"\_").replace("<", "&lt;")

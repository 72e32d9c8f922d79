"""What would make a pick safe, in the words of the interface that began the study: flags, keys of a file, arguments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from studies.analysis.remedies import remedy_text
from studies.storage.commands import storage_flag
from studies.study.origin import read_origin
from studies.words import rate_text

if TYPE_CHECKING:
    from studies.analysis.conclusion import Conclusion
    from studies.analysis.remedies import Remedy
    from studies.study.origin import StudyOrigin
    from studies.study.study import OpenStudy

_FLAGS = {
    "seeds": "--seeds",
    "study_name": "--study-name",
    "env_steps": "--env-steps",
    "episodes": "--episodes",
    "rates": "--rates",
    "learning_rates": "--rates",
    "optimizers": "--optimizer",
    "confirm": "--confirm",
    "confirm_seeds": "--confirm-seeds",
    "space": "--param",
}
"""Option of a remedy -> its flag."""

_REPLACES = {
    "rates": ("--rates", "--start-lr", "--end-lr", "--n-rates"),
    "learning_rates": ("--rates", "--n-rates"),
    "optimizers": ("--optimizer", "--vary"),
}
"""Option -> flags that it replaces, where that is more than its own."""

_KEYS = {"study_name": "name"}
"""Option -> its key in a file, where that is called otherwise."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What would make a pick safe.

    Attributes:
        text: What to do, in the words of the interface that began the study.
        purpose: What that does, a few words.
        command: The command to enter; "" where the study was begun from Python.
        before: What to write into its file before; "" for nothing.
    """

    text: str
    purpose: str
    command: str = ""
    before: str = ""


def advice(study: OpenStudy, found: Conclusion) -> list[Advice]:
    """Return what would make the pick of a study safe, in the words of the interface that began it."""
    begun = read_origin(study)
    return [advice_of(begun, study.storage.label, remedy) for remedy in found.remedies]


def advice_of(begun: StudyOrigin | None, storage: str, remedy: Remedy) -> Advice:
    """Return a remedy in the words of an interface.

    Args:
        begun: How the study was begun; None where that is not known.
        storage: The label of its storage.
        remedy: What would help.
    """
    if begun is None:
        return Advice(remedy_text(remedy), remedy.purpose)
    if begun.by == "python":
        return Advice(call_text(remedy), remedy.purpose)
    place = "" if storage == "memory" else storage_flag(storage)
    if begun.by == "command":
        command = f"finder {shlex.join(changed_words(begun.words, remedy))}{place}"
        return Advice(command, remedy.purpose, command)
    named = any(name == "study_name" for name, _ in remedy.changes)
    words = without_flags(begun.words, ("--study-name",)) if named else begun.words
    keys = ", ".join(file_keys(remedy))
    command, before = f"finder {shlex.join(words)}{place}", f"{keys} in {begun.words[1]}" if keys else ""
    return Advice(f"{before}, then {command}" if before else command, remedy.purpose, command, before)


def call_text(remedy: Remedy) -> str:
    """Return a remedy as the arguments of the call: `the same call with seeds=6, study_name='s-6-seeds'`."""
    if not remedy.changes:
        return "the same call again"
    given = []
    for name, value in remedy.changes:
        if name == "space":
            given += [f"{own!r}: {range_!r} in params" for own, range_ in value]
        else:
            given.append(f"{name}={list(value) if isinstance(value, tuple) else value!r}")
    return f"the same call with {', '.join(given)}"


def file_keys(remedy: Remedy) -> list[str]:
    """Return a remedy as keys of a study's file, such as `seeds = 6` and `name = "s-6-seeds"`."""
    changes = dict(remedy.changes)
    spaces = changes.pop("space", ())
    rows = _rows(changes.pop("rates", changes.pop("learning_rates", ())), changes.pop("optimizers", ()))
    return [
        *([f"trials = {rows}"] if rows else []),
        *(f"params.{json.dumps(own) if '.' in own else own} = {json.dumps(space)}" for own, space in spaces),
        *(f"{_KEYS.get(name, name)} = {json.dumps(value)}" for name, value in changes.items()),
    ]


def _rows(rates: Sequence[float], optimizers: Sequence[str]) -> str:
    """Return the plan of trials that further rates are in a file, "" without any."""
    optimizer = "".join(f"optimizer = {json.dumps(name)}, " for name in optimizers)
    rows = ", ".join(f"{{ {optimizer}learning_rate = {rate_text(rate)} }}" for rate in rates)
    return f"[{rows}]" if rows else ""


def changed_words(words: Sequence[str], remedy: Remedy) -> list[str]:
    """Return the words of a command with a remedy's options in the place of its own."""
    kept = list(words)
    added: list[str] = []
    for name, value in remedy.changes:
        if name == "space":
            for own, space in value:
                kept = _without_param(kept, own)
                added += [_FLAGS[name], f"{own}={space}"]
            continue
        kept = without_flags(kept, _REPLACES.get(name, (_FLAGS[name],)))
        added += [_FLAGS[name], _flag_text(value)]
    return [*kept, *added]


def _flag_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(each if isinstance(each, str) else rate_text(each) for each in value)
    return str(value)


def without_flags(words: Sequence[str], flags: Sequence[str], *, switches: Sequence[str] = ()) -> list[str]:
    """Return the words of a command without these flags and their values, and without these switches."""
    kept, value_follows = [], False
    for word in words:
        if value_follows:
            value_follows = False
        elif word in flags:
            value_follows = True
        elif word.partition("=")[0] not in flags and word not in switches:
            kept.append(word)
    return kept


def _without_param(words: Sequence[str], name: str) -> list[str]:
    """Return the words without the flags that say how a hyperparameter is searched."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        given = [word]
        if word in ("--param", "-p"):
            given.append(next(rest, ""))
        elif not word.startswith(("--param=", "-p")):
            kept.append(word)
            continue
        space = given[-1].removeprefix("--param=").removeprefix("-p")
        if space.partition("=")[0] != name:
            kept += given
    return kept

"""Advice on how to make a pick safe, as flags, keys of a file or arguments, like the study was started."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    "n_trials": "--n-trials",
    "minutes": "--minutes",
    "total_env_steps": "--total-env-steps",
    "rates": "--rates",
    "learning_rates": "--rates",
    "optimizers": "--optimizer",
    "confirm": "--confirm",
    "confirm_seeds": "--confirm-seeds",
    "confirm_env_steps": "--confirm-env-steps",
    "space": "--param",
}
"""Option of a remedy -> its flag."""

_REPLACES = {
    "rates": ("--rates", "--start-lr", "--end-lr", "--n-rates"),
    "learning_rates": ("--rates", "--n-rates"),
    "optimizers": ("--optimizer", "--vary"),
}
"""Option -> the flags that it replaces, if they are more than its own."""

_KEYS = {"study_name": "name"}
"""Option -> its key in a file, if that differs."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A step that would make a pick safe.

    Attributes:
        text: The step as a command, keys of a file or arguments of a call.
        purpose: Its purpose in a few words.
        command: The command to enter; "" if the study was started from Python.
        before: The changes of the file before the command; "" for none.
    """

    text: str
    purpose: str
    command: str = ""
    before: str = ""


def advice(study: OpenStudy, found: Conclusion) -> list[Advice]:
    """Return the steps that would make the pick of a study safe, in terms of the interface that started it.

    There are none for a study in memory, which no other call can continue.
    """
    if study.storage.url == "memory":
        return []
    origin = read_origin(study)
    return [advice_of(origin, study.storage.label, remedy) for remedy in found.remedies]


def advice_of(origin: StudyOrigin | None, storage: str, remedy: Remedy) -> Advice:
    """Return a remedy in terms of the interface that started the study.

    Args:
        origin: How the study was started; None if unknown.
        storage: The label of its storage.
        remedy: The remedy.
    """
    if origin is None:
        from studies.analysis.remedies import remedy_text

        return Advice(remedy_text(remedy), remedy.purpose)
    if origin.by == "python":
        return Advice(call_text(remedy), remedy.purpose)
    place = "" if storage == "memory" else storage_flag(storage)
    if origin.by == "command":
        command = f"finder {shlex.join(changed_words(origin.words, remedy))}{place}"
        return Advice(command, remedy.purpose, command)
    place = "" if storage == "memory" else f" --storage {shlex.quote(storage)}"  # the file may name another one
    named = any(name == "study_name" for name, _ in remedy.changes)
    words = without_flags(origin.words, ("--study-name",)) if named else origin.words
    flags = {word.partition("=")[0] for word in words}  # flags go before the keys of the file
    by_flag = tuple(change for change in remedy.changes if _FLAGS[change[0]] in flags)
    words = changed_words(words, replace(remedy, changes=by_flag))
    by_key = tuple(change for change in remedy.changes if change not in by_flag)
    keys = ", ".join(file_keys(replace(remedy, changes=by_key)))
    command, before = f"finder {shlex.join(words)}{place}", f"{keys} in {origin.words[1]}" if keys else ""
    return Advice(f"{before}, then {command}" if before else command, remedy.purpose, command, before)


def call_text(remedy: Remedy) -> str:
    """Return a remedy as the arguments of the call: `the same call with seeds=6, study_name='s-6-seeds'`."""
    if not remedy.changes:
        return "the same call again"
    given, of = [], ""
    for name, value in remedy.changes:
        if name == "space":
            given += [f"{own!r}: {range_!r} in params" for own, range_ in value]
        elif name == "optimizers":
            of = f", of an OptFinder(..., {list(value)})"
        else:
            given.append(f"{name}={list(value) if isinstance(value, tuple) else value!r}")
    without = ", without n_rates" if "learning_rates" in dict(remedy.changes) else ""
    return f"the same call with {', '.join(given)}{without}{of}"


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
    """Return further rates as the plan of trials in a file; "" without rates."""
    optimizer = "".join(f"optimizer = {json.dumps(name)}, " for name in optimizers)
    rows = ", ".join(f"{{ {optimizer}learning_rate = {rate_text(rate)} }}" for rate in rates)
    return f"[{rows}]" if rows else ""


def changed_words(words: Sequence[str], remedy: Remedy) -> list[str]:
    """Return the words of a command with the options of a remedy in place of its own."""
    kept = list(words)
    added: list[str] = []
    for name, value in remedy.changes:
        if name == "space":
            for own, space in value:
                kept = _without_param(kept, own)
                added += [_FLAGS[name], f"{own}={space}"]
            continue
        switches = ("--extend",) if _FLAGS[name] == "--rates" else ()
        kept = without_flags(kept, _REPLACES.get(name, (_FLAGS[name],)), switches=switches)
        added += [_FLAGS[name], _flag_text(value)]
    return [*kept, *added]


def _flag_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(each if isinstance(each, str) else rate_text(each) for each in value)
    return str(value)


def without_flags(words: Sequence[str], flags: Sequence[str], *, switches: Sequence[str] = ()) -> list[str]:
    """Return the words of a command without some flags and their values, and without some switches."""
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
    """Return the words without the flags that search a hyperparameter."""
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
        if re.split("[=@]", space)[0] != name:
            kept += given
    return kept

"""Advice on how to make a pick safe, as flags, keys of a file or arguments, like the study was started."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from finder.results.flags import flag_of, split_flags, without_flags
from studies.storage.commands import storage_flag
from studies.study.origin import read_origin
from studies.words import rate_text

if TYPE_CHECKING:
    from studies.analysis.conclusion import Conclusion
    from studies.analysis.remedies import Remedy
    from studies.study.origin import Interface, StudyOrigin
    from studies.study.study import OpenStudy

_RATE_FLAGS = ("--rates", "--start-lr", "--end-lr", "--n-rates")
_OPTIMIZER_FLAGS = ("--optimizer", "--vary")
_REPLACES = {"rates": _RATE_FLAGS, "learning_rates": _RATE_FLAGS, "optimizers": _OPTIMIZER_FLAGS}
"""Option -> the flags that it replaces, if they are more than its own."""

_PLAN_FLAGS, _PLAN_SWITCHES = (*_RATE_FLAGS, *_OPTIMIZER_FLAGS), ("--extend", "--no-extend")
"""Flags of a search that plan its trials."""

_FIELDS = {"study_name": "name"}
"""Option -> field of a study, if that has another name."""


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
    origin, rows = read_origin(study), study.spec.trials
    if origin is None or not origin.is_partial:
        return [advice_of(origin, study.storage.label, remedy) for remedy in found.remedies]
    origin = replace(origin, words=_with_plan_of(origin))
    return [
        advice_of(origin, study.storage.label, each if each.joins else with_plan(each, origin.by, rows))
        for each in found.remedies
    ]


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
    if origin.by == "run_file":
        return Advice(run_file_text(remedy), remedy.purpose)
    place = "" if storage == "memory" else storage_flag(storage)
    if origin.by == "command":
        command = f"finder {shlex.join(changed_words(origin.words, remedy))}{place}"
        return Advice(command, remedy.purpose, command)
    place = "" if storage == "memory" else f" --storage {shlex.quote(storage)}"  # the file may name another one
    flags = {word.partition("=")[0] for word in origin.words}  # which override the keys of the file
    by_flag = tuple(change for change in remedy.changes if flag_of(change[0]) in flags)
    words = changed_words(origin.words, replace(remedy, changes=by_flag))
    by_key = tuple(change for change in remedy.changes if change not in by_flag)
    keys = ", ".join(file_keys(replace(remedy, changes=by_key)))
    command, before = f"finder {shlex.join(words)}{place}", f"{keys} in {origin.words[1]}" if keys else ""
    return Advice(f"{before}, then {command}" if before else command, remedy.purpose, command, before)


def _with_plan_of(origin: StudyOrigin) -> tuple[str, ...]:
    """Return the words of a call that added trials, with the flags of the one that began their plan."""
    if not origin.plan_words:
        return origin.words
    others, _ = split_flags(origin.words, _PLAN_FLAGS, switches=_PLAN_SWITCHES)
    _, own = split_flags(origin.plan_words, _PLAN_FLAGS, switches=_PLAN_SWITCHES)
    return (*others, *own)


def with_plan(remedy: Remedy, by: Interface, rows: Sequence[Mapping[str, Any]]) -> Remedy:
    """Return a remedy in another study with all trials that are planned in this one, which several calls have planned.

    Where the interface has no arguments for them, the purpose says that some are missing.

    Args:
        remedy: The remedy.
        by: The interface that started the study.
        rows: The planned trials.
    """
    plan = (("trials", tuple(rows)),) if by in ("file", "run_file") else _plan_of(by, rows)
    if plan is None:
        return replace(remedy, purpose=f"{remedy.purpose}, without some of its trials, which other calls have planned")
    return replace(remedy, changes=(*plan, *remedy.changes))


def _plan_of(by: Interface, rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, Any], ...] | None:
    """Return planned trials as arguments of a finder, None if it has none for them.

    A finder plans learning rates of one name, of one optimizer or several. A command has the same rates for all.
    """
    tried = [{name: value for name, value in row.items() if name != "optimizer"} for row in rows]
    is_of_finder = all(len(own) < 2 and all(isinstance(n, int | float) for n in own.values()) for own in tried)
    if by == "python" and not is_of_finder:  # of a spec, which has them as they are
        return (("trials", tuple(rows)),)
    name, *others = {name for own in tried for name in own}
    if others or not is_of_finder or not all(tried) or name.rpartition(".")[2] != "learning_rate":
        return None
    rates: dict[str, list[float]] = {}
    for row in rows:
        rates.setdefault(row.get("optimizer", ""), []).append(row[name])
    if any(" #" in optimizer for optimizer in rates):  # one of several objects of a name
        return None
    common, *own = (tuple(sorted(set(each))) for each in rates.values())
    if list(rates) == [""]:
        return (("rates", common),)
    is_same = all(each == common for each in own)
    if by == "command" and not is_same:
        return None
    return (("optimizers", tuple(rates)), ("learning_rates", common if is_same else rates))


def call_text(remedy: Remedy) -> str:
    """Return a remedy as the arguments of the call: `the same call with seeds=6, study_name='s-6-seeds'`."""
    changes = dict(remedy.changes)
    optimizers, spaces = changes.pop("optimizers", ()), changes.pop("space", ())
    of = f", of an OptFinder(..., {list(optimizers)})" if optimizers else ""
    without = ", without n_rates" if "learning_rates" in changes else ""
    if "rates" in changes:
        without = ", without start_lr, end_lr and n_rates"
    return f"{_same_call(changes, spaces)}{without}{of}"


def run_file_text(remedy: Remedy) -> str:
    """Return a remedy as the arguments of `run_file`: `the same call with seeds=6, name='s-6-seeds'`."""
    return _same_call(*_fields_of(remedy))


def _same_call(given: Mapping[str, Any], spaces: Sequence[tuple[str, str]]) -> str:
    words = [f"{name!r}: {space!r} in params" for name, space in spaces]
    words += [f"{name}={list(value) if isinstance(value, tuple) else value!r}" for name, value in given.items()]
    return f"the same call with {', '.join(words)}" if words else "the same call again"


def file_keys(remedy: Remedy) -> list[str]:
    """Return a remedy as keys of a study's file, such as `seeds = 6` and `name = "s-6-seeds"`."""
    fields, spaces = _fields_of(remedy)
    rows = fields.pop("trials", ())
    return [
        *([f"trials = [{', '.join(map(_row_text, rows))}]"] if rows else []),
        *(f"params.{_key(own)} = {json.dumps(space)}" for own, space in spaces),
        *(f"{name} = {json.dumps(value)}" for name, value in fields.items()),
    ]


def _fields_of(remedy: Remedy) -> tuple[dict[str, Any], Sequence[tuple[str, str]]]:
    """Return the fields of a study that a remedy sets, and the search spaces that it changes."""
    changes = dict(remedy.changes)
    spaces = changes.pop("space", ())
    rates, optimizers = changes.pop("rates", changes.pop("learning_rates", ())), changes.pop("optimizers", ())
    own = [{"optimizer": name} for name in optimizers] or [{}]
    if rates:
        changes["trials"] = tuple({**each, "learning_rate": rate} for each in own for rate in rates)
    return {_FIELDS.get(name, name): value for name, value in changes.items()}, spaces


def _row_text(row: Mapping[str, Any]) -> str:
    """Return a planned trial as a table of a file."""
    texts = {name: rate_text(value) if isinstance(value, float) else json.dumps(value) for name, value in row.items()}
    return f"{{ {', '.join(f'{_key(name)} = {text}' for name, text in texts.items())} }}"


def _key(name: str) -> str:
    """Return the name of a hyperparameter as a key of a file."""
    return json.dumps(name) if "." in name else name


def changed_words(words: Sequence[str], remedy: Remedy) -> list[str]:
    """Return the words of a command with the options of a remedy in place of its own."""
    kept = list(words)
    added: list[str] = []
    for name, value in remedy.changes:
        flag = flag_of(name)
        if name == "space":
            for own, space in value:
                kept = _without_param(kept, own)
                added += [flag, f"{own}={space}"]
            continue
        switches = ("--extend",) if flag == "--rates" else ()
        kept = without_flags(kept, _REPLACES.get(name, (flag,)), switches=switches)
        texts = value if name == "optimizers" else [_flag_text(value)]
        added += [word for text in texts for word in (flag, text)]
    return [*kept, *added]


def _flag_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(dict.fromkeys(each if isinstance(each, str) else rate_text(each) for each in value))
    return str(value)


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

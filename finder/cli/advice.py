"""Print the doubts about a pick, and the commands that would make it safe."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from finder.cli.console import say_note, storage_flag
from studies.words import rate_text

if TYPE_CHECKING:
    from studies.conclusion import Conclusion
    from studies.pick import Pick
    from studies.remedies import Remedy
    from studies.study import OpenStudy

COMMAND_ATTR = "finder_command"
"""Study attribute: the words of the command that began the search, without where the study is kept."""

_SEARCHES = ("lr", "opt", "agents", "tune")
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

_NOT_ITS_OWN = ("--storage",)
_SWITCHES = ("--json", "--quiet", "-q")


def remember_command(study: OpenStudy, words: Sequence[str]) -> None:
    """Keeps in a study with which command it was begun, so that later commands can say what would make it safe.

    That command asks for all of the study, where a later one may only have added some rates. A storage's URL may have a
    password in it, so it is left out.
    """
    known = COMMAND_ATTR in study.study.user_attrs
    if known or study.storage.url == "memory" or not words or words[0] not in _SEARCHES:
        return
    kept = [word for word in _without(words, _NOT_ITS_OWN) if word not in _SWITCHES]
    study.study.set_user_attr(COMMAND_ATTR, kept)


def say_doubts(study: OpenStudy, pick: Pick, *, concluded: bool = False) -> None:
    """Prints the reasons to be careful as notes.

    Args:
        study: The study.
        pick: Its pick.
        concluded: Whether the conclusion is printed already, with the weightiest reason. Defaults to `False`.
    """
    from studies.conclusion import conclusion
    from studies.confirmation import verdict
    from studies.reports.answer import which_matters

    if study.spec.kind == "range-test":
        return
    found = conclusion(study)
    for reason in found.reasons[1 if concluded else 0 :]:
        say_note(f"{reason.text}.")
    if matters := which_matters(verdict(study).tuning, study.spec.search_space()):
        say_note(matters[:1].lower() + matters[1:])
    if not_corrected := _no_correction(study, pick):
        say_note(not_corrected)


def safer_commands(study: OpenStudy, found: Conclusion) -> list[tuple[str, str]]:
    """Returns the commands that would make a pick safe, each with its purpose; none where they are not known."""
    if study.storage.url == "memory":
        return []
    words = study.study.user_attrs.get(COMMAND_ATTR)
    if not words:
        return []
    place = storage_flag(study.storage.label)
    return [(f"finder {shlex.join(changed_words(words, remedy))}{place}", remedy.purpose) for remedy in found.remedies]


def say_remedies(study: OpenStudy, found: Conclusion) -> None:
    """Prints what would make a pick safe where the command that searched is not known."""
    from studies.remedies import remedy_text

    if study.storage.url == "memory" or study.study.user_attrs.get(COMMAND_ATTR):
        return
    for remedy in found.remedies:
        flags = shlex.join(changed_words((), remedy)) + storage_flag(study.storage.label)
        on_command_line = study.spec.kind in _SEARCHES and remedy.changes
        what = f"the same search with {flags}" if on_command_line else remedy_text(remedy)
        say_note(f"to settle it: {what} ({remedy.purpose}).")


def changed_words(words: Sequence[str], remedy: Remedy) -> list[str]:
    """Returns the words of a command with a remedy's options in the place of its own."""
    kept = list(words)
    added: list[str] = []
    for name, value in remedy.changes:
        if name == "space":
            for own, space in value:
                kept = _without_param(kept, own)
                added += [_FLAGS[name], f"{own}={space}"]
            continue
        kept = _without(kept, _REPLACES.get(name, (_FLAGS[name],)))
        added += [_FLAGS[name], _flag_text(value)]
    return [*kept, *added]


def _flag_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(each if isinstance(each, str) else rate_text(each) for each in value)
    return str(value)


def _no_correction(study: OpenStudy, pick: Pick) -> str:
    """The study has a horizon that its pick was not corrected for."""
    horizon = study.spec.horizon
    if horizon in (None, study.spec.env_steps) or pick.rate is not None:
        return ""
    return (
        f"the pick is that of runs of {study.spec.env_steps:,} environment steps, not of {horizon:,}: only one "
        "learning rate that is searched alone can be corrected for a longer run."
    )


def _without(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Returns the words without these flags and their values."""
    kept, value_follows = [], False
    for word in words:
        if value_follows:
            value_follows = False
        elif word in flags:
            value_follows = True
        elif word.partition("=")[0] not in flags:
            kept.append(word)
    return kept


def _without_param(words: Sequence[str], name: str) -> list[str]:
    """Returns the words without the flags that say how a hyperparameter is searched."""
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

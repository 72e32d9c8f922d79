"""What a careful person should know before they use a pick, and the commands that would make it surer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from finder.cli.console import say_note, storage_flag
from studies.words import counted, the_best

if TYPE_CHECKING:
    from studies.pick import Pick
    from studies.study import OpenStudy

_RATE_FLAGS = ("--rates", "--start-lr", "--end-lr", "--n-rates")
_SEARCHES = ("lr", "opt", "agents", "tune")


class Doubt(NamedTuple):
    """A reason to be careful.

    Attributes:
        text: The reason.
        flags: What to add to the search's command to know better, () where nothing can be added.
        instead_of: Flags that these ones replace.
        purpose: What they do.
    """

    text: str
    flags: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()
    purpose: str = ""


def doubts(study: OpenStudy, pick: Pick) -> list[Doubt]:
    """Returns the reasons to be careful: trials that are left, a pick at the edge, a tie, a single seed."""
    from studies.confirmation import verdict
    from studies.reports.answer import how_sure, which_matters

    if study.spec.kind == "range-test":
        return []
    found = [unfinished(study), _edge(study, pick), _no_correction(study, pick)]
    judged = verdict(study)
    if pick.tied:
        tie = how_sure(judged.ranked, study.direction, pick.trial)
        found.append(Doubt(tie[:1].lower() + tie[1:]))
    if matters := which_matters(judged.tuning, study.spec.search_space()):
        found.append(Doubt(matters[:1].lower() + matters[1:]))
    if len(study.spec.seeds) == 1:
        name = f"{study.name}-3-seeds"
        flags = ("--seeds", "3", "--study-name", name)
        text = "each trial was chosen by one seed, which says nothing about luck."
        found.append(Doubt(text, flags, ("--seeds", "--study-name"), "three seeds"))
    return [doubt for doubt in found if doubt is not None]


def unfinished(study: OpenStudy) -> Doubt | None:
    """Returns the doubt about a study of which trials are left or still run."""
    from studies.standing import standing

    now = standing(study)
    if now.complete:
        return None
    if now.n_unconfirmed and now.n_ended >= now.n_total:
        best = f"{the_best(now.n_unconfirmed)} {'is' if now.n_unconfirmed == 1 else 'are'}"
        return Doubt(f"{best} not confirmed on further seeds yet: this may change. The same search again does it.")
    running = f", {now.n_running} running" if now.n_running else ""
    return Doubt(f"{now.n_ended} of {counted(now.n_total, 'trial')} done{running}: this may change.")


def say_doubts(study: OpenStudy, pick: Pick, words: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """Prints the reasons to be careful as notes.

    Args:
        study: The study.
        pick: Its pick.
        words: The words of the command that searched, where they are known.

    Returns:
        Commands that would make the pick surer, each with its purpose: none where the words are not known, and the
        notes name the flags instead.
    """
    commands = []
    for doubt in doubts(study, pick):
        if not doubt.flags or study.storage.url == "memory":
            say_note(doubt.text)
        elif words is not None and words[0] in _SEARCHES:
            say_note(doubt.text)
            every = [*_without(words, doubt.instead_of), *doubt.flags]
            commands.append((f"finder {shlex.join(every)}", doubt.purpose))
        elif words is None and study.spec.kind in _SEARCHES:
            flags = shlex.join(doubt.flags) + storage_flag(study.storage.label)
            say_note(f"{doubt.text} The same search with {flags} tells more.")
        else:
            say_note(doubt.text)
    return commands


def _edge(study: OpenStudy, pick: Pick) -> Doubt | None:
    """The best rate is the first or last one that was tried. Further rates join the study."""
    from studies.words import rate_text

    if study.spec.kind != "lr" or len(pick.params) != 1:
        return None
    [(name, rate)] = pick.params.items()
    tried = sorted({study.params(trial)[name] for trial in study.trials() if name in trial.params})
    if len(tried) <= 2 or rate not in (tried[0], tried[-1]):
        return None
    side, neighbour = ("smallest", tried[1]) if rate == tried[0] else ("largest", tried[-2])
    step = min(max(rate / neighbour, 0.1), 10.0)  # however far apart they were: a decade at most
    beyond = [rate * step**n for n in (1, 2)]
    rates = ",".join(rate_text(each) for each in sorted(beyond))
    text = f"rates beyond the {side} one, {rate_text(rate)}, were not tried, and one of them may be the best."
    return Doubt(text, ("--rates", rates), _RATE_FLAGS, "two rates beyond; they join the study")


def _no_correction(study: OpenStudy, pick: Pick) -> Doubt | None:
    """The study has a horizon that its pick was not corrected for."""
    horizon = study.spec.horizon
    if horizon in (None, study.spec.env_steps) or pick.rate is not None:
        return None
    return Doubt(
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

"""Prints the doubts about a pick, and the commands that would make it safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from finder.progress.console import print_note
from finder.results.advice import advice

if TYPE_CHECKING:
    from studies.analysis.conclusion import Conclusion
    from studies.analysis.recommendation import Recommendation
    from studies.study.study import OpenStudy


def print_doubts(study: OpenStudy, pick: Recommendation, *, concluded: bool = False) -> None:
    """Print the doubts about a pick as notes.

    Args:
        study: The study.
        pick: Its pick.
        concluded: Whether the conclusion with the main reason is printed already. Defaults to False.
    """
    from studies.analysis.conclusion import conclusion
    from studies.reports.explanation import choice_sentence, schedules_sentence

    if study.spec.kind == "range-test":
        return
    found = conclusion(study)
    weightiest = () if concluded or not found.reasons else (f"{found.status}: {found.certainty}",)
    for text in (*weightiest, *(reason.text for reason in found.reasons[1:])):
        print_note(f"{text}.")
    for sentence in filter(None, (schedules_sentence(study), choice_sentence(study))):
        print_note(sentence[:1].lower() + sentence[1:])
    if not_corrected := _no_correction(study, pick):
        print_note(not_corrected)


def safer_commands(study: OpenStudy, found: Conclusion) -> list[tuple[str, str]]:
    """Return the commands that would make a pick safe, with their purposes; none for a study from Python."""
    return [
        (each.command, f"with {each.before}: {each.purpose}" if each.before else each.purpose)
        for each in advice(study, found)
        if each.command
    ]


def print_remedies(study: OpenStudy, found: Conclusion) -> None:
    """Print the steps that would make a pick safe, unless they are commands."""
    for each in advice(study, found):
        if not each.command:
            print_note(f"to settle it: {each.text} ({each.purpose}).")


def _no_correction(study: OpenStudy, pick: Recommendation) -> str:
    """Return a note if the pick was not corrected for the horizon of the study."""
    horizon = study.spec.horizon
    if horizon in (None, pick.value_env_steps) or pick.rate is not None:
        return ""
    return (
        f"the pick is that of runs of {pick.value_env_steps:,} environment steps, not of {horizon:,}: only one "
        "learning rate that is searched alone can be corrected for a longer run."
    )

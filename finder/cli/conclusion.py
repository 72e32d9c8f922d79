"""Prints the result of a search, as text and as JSON, and the next commands."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.text import Text

from finder.cli.advice import print_doubts, print_remedies, safer_commands
from finder.progress.console import (
    errors,
    print_commands,
    print_error,
    print_json,
    print_note,
    results,
)
from finder.progress.search_progress import headline
from finder.results.flags import OUTPUT_SWITCHES, flag_of, without_flags
from studies.defaults import DEFAULT_STORAGE
from studies.redaction import redacted
from studies.storage.commands import storage_flag
from studies.words import counted, is_named_object, object_name

if TYPE_CHECKING:
    from finder.cli.options.parameters import Output, SearchOptions
    from finder.range_test.range_test import RangeTestResult
    from studies.analysis.conclusion import Conclusion
    from studies.analysis.recommendation import Recommendation
    from studies.judging.pareto_front import ParetoFront
    from studies.study.study import OpenStudy

_STATES = ("complete", "pruned", "failed")


def conclude(study: OpenStudy, stopped: str | None, output: Output) -> int:
    """Print the conclusion of a search, the states of its trials, and the next commands.

    Args:
        study: The study, open.
        stopped: Reason of an early stop, or None.
        output: Output options.

    Returns:
        The exit code: 1 if the study was stopped or has no pick.
    """
    from finder.cli.front import print_front
    from studies.analysis.conclusion import conclusion, pick_json
    from studies.analysis.recommendation import pick_or_none
    from studies.analysis.status import study_status
    from studies.judging.missing_pick import why_no_pick
    from studies.judging.pareto_front import pareto_front

    pick, counts, reason, found = pick_or_none(study), count_states(study), why_no_pick(study), conclusion(study)
    front = pareto_front(study) if study.spec.metrics else None
    has_front = front is not None and bool(counts["complete"])
    if output.json:
        print_json(
            {
                "study": study.name,
                "storage": study.storage.label,
                **found.to_json(),
                **({} if front is None else front.to_json()),
                "pick": None if pick is None else pick_json(study, pick),
                "why_no_pick": reason or None,
                "complete": study_status(study).complete,
                "trials": {state: counts[state] for state in _STATES},
                "stopped": stopped,
            }
        )
    elif pick is not None:
        print_conclusion(found)
    elif front is not None and has_front:
        print_front(study, front)
    see = _resume_hint(study, counts, was_stopped=stopped is not None)
    if not output.quiet:
        _print_counts(study, counts)
        if pick is not None:
            print_next(study, pick, found)
        elif front is not None and has_front:
            print_commands("Next", front_commands(study, front))
    if stopped is not None:
        head, _, rest = stopped.partition("\n")
        last = headline(rest)
        print_error(f"the study was stopped: {head}{f' … {last}' if last else ''}", see)
    elif counts["complete"] == 0:
        print_error(f"no trial was completed, so there is no pick ({_counts_text(study, counts)}).", see)
    elif pick is None and not study.spec.metrics:
        print_error(f"there is no pick: {reason}")
    return 0 if (pick is not None or has_front) and stopped is None else 1


def count_states(study: OpenStudy) -> Counter[str]:
    """Return the number of trials in each state; interrupted trials do not count as failed."""
    from studies.spec.attributes import state_word

    return Counter(map(state_word, study.trials()))


def _failed_text(study: OpenStudy) -> str:
    """Return the kinds of the failures of a study, in parentheses; "" if there are only errors, or none."""
    from studies.spec.attributes import failure_kind
    from studies.words import failures_text

    text = failures_text(kind for trial in study.trials() if (kind := failure_kind(trial)) is not None)
    return f" ({text})" if text else ""


def print_conclusion(found: Conclusion) -> None:
    """Print the lines of a conclusion: the pick, its value, its gain, and whether it is safe."""
    styles = {
        "safe": "bold green",
        "tie": "bold yellow",
        "not safe": "bold red",
        "front": "bold",
        "no pick": "bold red",
    }
    results().print(Text(found.pick, "bold green" if found.safe else "bold"))
    for line in filter(None, (found.value, found.gain)):
        results().print(Text(line))
    results().print(Text.assemble((found.status, styles[found.status]), f": {found.certainty}"))


def print_next(study: OpenStudy, pick: Recommendation, found: Conclusion, *, shown: str = "") -> None:
    """Print the doubts about a pick, and the next commands.

    If the pick is not safe, these commands would make it safe; the long run is left out.

    Args:
        study: The study.
        pick: Its pick.
        found: Its conclusion, which is printed already.
        shown: The present command, which is left out. Defaults to ``""``.
    """
    print_doubts(study, pick, concluded=True)
    if not found.safe:
        print_remedies(study, found)
    commands = next_commands(study, pick, found)
    print_commands("Next", [each for each in commands if not shown or not each[0].startswith(f"finder {shown} ")])


_OF_MEMORY = [("give --storage finder.db", "keeps the study, for reports and the dashboard")]
"""The next step after a study in memory only."""


def next_commands(study: OpenStudy, pick: Recommendation, found: Conclusion) -> list[tuple[str, str]]:
    """Return the next commands for a study, with their purposes."""
    if study.storage.url == "memory":
        return _OF_MEMORY
    name, flag = shlex.quote(study.name), storage_flag(study.storage.label)
    by = f" --metric {shlex.quote(study.objective)}" if study.objective else ""
    chosen = f" --trial {pick.trial}" if study.objective else ""
    train = []
    if not pick.own_training and (found.status in ("safe", "tie") or chosen):
        train = [(f"{_train_command(study, pick)}{chosen}{flag}", "the long run, with the pick")]
    return [
        *train,
        *safer_commands(study, found),
        (f"finder best {name}{by}{flag}", "how to use it in Python; --json for scripts"),
        (f"finder report {name}{flag}", "curves, ranking and failures in one HTML file"),
        (f"finder dashboard{flag}", "every trial, in the browser"),
    ]


def _train_command(study: OpenStudy, pick: Recommendation) -> str:
    """Return the command of the long run, with places to fill in for what was given in Python."""
    *prefixes, name = pick.agent.split("-")  # `gail-Mine`
    own = [] if pick.is_agent_named else ["".join(f"{each}-" for each in prefixes) + f"FILE.py:{name}"]
    words = ["finder train", *own, f"--from {shlex.quote(study.name)}"]
    if is_named_object(pick.env):
        words.append(f"--env FILE.py:{object_name(pick.env)}")
    if any(map(_is_of_script, study.spec.callbacks)):  # then all of them have to be named
        places = (re.sub("^__main__:", "FILE.py:", place) for place in study.spec.callbacks)
        words += [f"--callback {shlex.quote(place)}" for place in places]
    if pick.name_in_study in study.spec.agent_weights:
        words.append("--start-from CHECKPOINT")
    return " ".join(words)


def _is_of_script(place: str) -> bool:
    """Return whether a callback is of the script that was run, which other programs cannot import."""
    return place.startswith("__main__:")


def front_commands(study: OpenStudy, front: ParetoFront) -> list[tuple[str, str]]:
    """Return the next commands for a study with several objectives."""
    if study.storage.url == "memory":
        return _OF_MEMORY
    from studies.analysis.recommendation import best

    name, flag = shlex.quote(study.name), storage_flag(study.storage.label)
    number = str(front.front[0].number) if len(front.front) == 1 else "N"
    train = []
    if front.front and not (picked := best(study, front.front[0].number)).own_training:
        command = f"{_train_command(study, picked)} --trial {number}{flag}"
        train = [(command, "the long run, with a trial of the front")]
    return [
        *train,
        (f"finder best {name} --metric {shlex.quote(study.spec.metrics[0])}{flag}", "the pick by one objective"),
        (f"finder report {name}{flag}", "the front, curves and failures in one HTML file"),
        (f"finder dashboard{flag}", "every trial, in the browser"),
    ]


def conclude_range_test(result: RangeTestResult, name: str | None, options: SearchOptions) -> int:
    """Print the suggestion of a range test.

    Args:
        result: The result.
        name: Name of its study, None if it was not recorded.
        options: The options of the command.

    Returns:
        The exit code: 1 if there is no suggestion.
    """
    from studies.storage.storage_url import parse_storage_url
    from studies.words import rate_text

    storage = parse_storage_url(options.storage or DEFAULT_STORAGE).label
    rates, curve = result.curve()
    suggestion = result.suggestion
    if options.json:
        print_json(
            {
                "study": name,
                "storage": storage if name else None,
                "parameter": result.parameter,
                "suggestion": suggestion.rate,
                "low": result.low if math.isfinite(result.low) else None,
                "high": result.high if math.isfinite(result.high) else None,
                "seeds": list(result.seeds),
                "rule": suggestion.rule,
                "reason": suggestion.reason,
                "ended": result.reason,
                "curve": {"learning_rate": rates, "value": curve},
            }
        )
    elif suggestion.rate is not None:
        text = Text.assemble(
            (f"{result.parameter} {rate_text(suggestion.rate)}", "bold green"), f"   {suggestion.reason}"
        )
        results().print(text)
        if math.isfinite(result.low):
            between = f"between {rate_text(result.low)} and {rate_text(result.high)} (95%)"
            results().print(Text(f"the {counted(len(result.seeds), 'run')} place it {between}", "dim"))
    if not options.quiet:
        errors().print(Text(f"{len(rates)} points; the test ended: {result.reason}", "dim"))
    if suggestion.rate is None:
        print_error(f"the range test suggests no learning rate: {suggestion.reason}")
        if not options.quiet:
            print_commands("Train every rate by itself", [(_grid_command(options), "")])
        return 1
    if not options.quiet:
        print_note("a range test shows where learning is fast, not which rate ends best: confirm it with a grid.")
        around = f"--start-lr {rate_text(suggestion.rate / 10)} --end-lr {rate_text(suggestion.rate * 10)} --n-rates 5"
        commands = [(_grid_command(options, around), "")]
        if name is not None:
            commands.append((f"finder report {shlex.quote(name)}{storage_flag(storage)}", "its curve"))
        print_commands("Next", commands)
    return 0


def _grid_command(options: SearchOptions, rates: str = "") -> str:
    """Return the command of a grid for the agent of a range test, with all else that was given.

    Args:
        options: The options of the range test.
        rates: The flags of the rates. Defaults to ``""``.
    """
    kept = without_flags(options.output.words, _OF_RANGE_TEST, switches=("--range-test", *OUTPUT_SWITCHES))
    return f"finder {shlex.join(map(redacted, kept))} {rates}".rstrip()


_OF_RANGE_TEST = (
    "--start-lr", "--end-lr", "--n-rates", "--metric", "--env-steps", "--episodes", "--seeds", "--study-name",
)  # fmt: skip
"""Flags that say how long a range test is and what it follows; those of a grid are others."""


def _print_counts(study: OpenStudy, counts: Counter[str]) -> None:
    n_trials = sum(counts[state] for state in _STATES)
    where = "in memory only" if study.storage.url == "memory" else f"in {study.storage.label} as {study.name}"
    errors().print(Text(f"{counted(n_trials, 'trial')}: {_counts_text(study, counts)} · {where}", "dim"))


def _resume_hint(study: OpenStudy, counts: Counter[str], *, was_stopped: bool) -> str:
    """Return how to see the trials and the reasons of failures, and how to resume the study."""
    from studies.analysis.status import retryable, study_status

    if study.storage.url == "memory":
        return ""
    see = f"See finder show {shlex.quote(study.name)}{storage_flag(study.storage.label)}"
    if study.spec.has_limit and not was_stopped and not counts["failed"]:  # its budget was spent
        flag = flag_of(study.spec.limit_field)
        return f"{see}\nRun it again with --study-name {shlex.quote(study.name)} and more {flag} to resume its trials."
    if retryable(study.spec, study.trials()):
        again = "run it again to retry failed trials"
    else:
        again = "run it again with more --n-trials" if study_status(study).complete else "run it again to resume it"
    return f"{see}\nWhen the cause is fixed, {again}."


def _counts_text(study: OpenStudy, counts: Counter[str]) -> str:
    shown: list[Any] = [f"{counts[state]} {state}" for state in _STATES]
    shown[-1] += _failed_text(study)
    shown += [f"{counts[state]} {state}" for state in ("paused", "interrupted") if counts[state]]
    return ", ".join(shown)

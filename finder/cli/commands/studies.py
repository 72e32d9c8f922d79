"""The commands for existing studies, without TensorFlow: `studies`, `best`, `report`, `dashboard` and `delete`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from agents.errors import ConfigurationError
from finder.cli.conclusion import front_commands, print_conclusion, print_next
from finder.cli.options import values
from finder.cli.options.parameters import Json, Storage, StudyName
from finder.cli.options.server_options import Host, Insecure, NewToken, TlsCert, TlsKey, page_commands, print_access
from finder.progress.console import errors, print_commands, print_error, print_json, print_note, results, table
from studies.defaults import DEFAULT_STORAGE
from studies.redaction import redacted
from studies.storage.commands import storage_flag
from studies.words import counted

if TYPE_CHECKING:
    from studies.analysis.listing import StudySummary
    from studies.study.study import OpenStudy

WIDE = 100
"""Width below which the list of studies leaves out the start times."""


def studies(storage: Storage = None, json: Json = False) -> int:
    """List the studies of a storage."""
    from dataclasses import asdict

    from studies.analysis.listing import list_studies
    from studies.storage.storage_url import parse_storage_url
    from studies.words import number_text

    summaries = list_studies(storage or DEFAULT_STORAGE)
    if json:
        rows: list[dict[str, Any]] = [asdict(summary) for summary in summaries]
        print_json([{**row, "started": row["started"] and row["started"].isoformat()} for row in rows])
        return 0
    where = storage or DEFAULT_STORAGE
    if not summaries and where == "memory":
        errors().print("A study in memory ends with its process: give the file or the database of another storage.")
        return 0
    if not summaries:
        begin = f"finder lr ppo --env CartPole-v1{storage_flag(parse_storage_url(where).label)}"
        errors().print(f"No studies yet in {redacted(where)}. Begin with: {begin}", soft_wrap=True)
        return 0
    out = results()
    best_in_search = ("best in search", "started") if out.width >= WIDE else ("best in\nsearch",)
    columns = ("study", "agent", "environment", "trials", "pruned", "failed", *best_in_search)
    listed = table(*columns, numbers=("trials", best_in_search[0]))
    for summary in summaries:
        row = (
            Text(summary.name, "bold"),
            ", ".join(summary.agents),
            summary.env,
            _trials_text(summary),
            str(summary.n_pruned or ""),
            Text(str(summary.n_failed or ""), "red"),
            "" if summary.best_value is None else number_text(summary.best_value),
            "" if summary.started is None else f"{summary.started:%Y-%m-%d %H:%M}",
        )
        listed.add_row(*row[: len(columns)])
    out.print(listed)
    for summary in summaries:
        if summary.unreadable:
            print_note(summary.unreadable)
    return 0


def _trials_text(summary: StudySummary) -> str:
    """Return how many trials have ended, of how many, and how many are running, paused and confirmed right now."""
    running = f" +{summary.n_running}" if summary.n_running else ""
    paused = f", {summary.n_paused} paused" if summary.n_paused else ""
    confirming = f", {summary.n_confirming} confirming" if summary.n_confirming else ""
    return f"{summary.n_ended}/{summary.n_trials}{running}{paused}{confirming}"


def best(
    study: StudyName,
    storage: Storage = None,
    json: Json = False,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="Of a study with several objectives: the pick by this one. Otherwise its Pareto front is printed.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Print the pick of a study and how to use it."""
    from optuna.trial import TrialState

    from studies.analysis.conclusion import conclusion, pick_json
    from studies.analysis.python_code import python_lines
    from studies.analysis.recommendation import pick_or_none
    from studies.judging.missing_pick import why_no_pick
    from studies.study.study import load_study

    with load_study(study, storage or DEFAULT_STORAGE) as whole:
        opened = whole if metric is None else whole.by_objective(metric)
        if whole.spec.kind == "range-test":
            return _show_range_test(whole, json)
        if opened.spec.metrics and opened.trials(TrialState.COMPLETE):
            return _show_front(opened, json)
        pick = pick_or_none(opened)
        if pick is None:
            see = f"See finder show {shlex.quote(study)}{storage_flag(opened.storage.label)}"
            print_error(f"the study {study!r} has no pick: {why_no_pick(opened)}", see)
            return 1
        if json:
            print_json(pick_json(opened, pick))
            return 0
        found = conclusion(opened)
        print_conclusion(found)
        results().print("\n" + python_lines(opened, pick), soft_wrap=True)
        print_next(opened, pick, found, shown="best")
    return 0


def _show_front(study: OpenStudy, json: bool) -> int:
    from finder.cli.front import print_front
    from studies.analysis.status import study_status
    from studies.judging.pareto_front import pareto_front

    front = pareto_front(study)
    if json:
        print_json({"study": study.name, **front.to_json(), "complete": study_status(study).complete})
        return 0
    print_front(study, front)
    print_commands("Next", front_commands(study, front))
    return 0


def delete(
    study: StudyName,
    storage: Storage = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Delete a study with its trials and episodes. This cannot be undone."""
    from studies.recording.opening import delete_study
    from studies.storage.storage import open_storage
    from studies.study.study import require_study

    with open_storage(storage or DEFAULT_STORAGE, create=False) as opened:
        if not yes:
            n_trials = len(opened.optuna.get_all_trials(require_study(opened, study), deepcopy=False))
            question = f"Remove the study {study} with its {counted(n_trials, 'trial')} from {opened.label}?"
            if not sys.stdin.isatty():
                raise ConfigurationError(f"{question} The deletion cannot be confirmed without a terminal: give --yes.")
            if not typer.confirm(question, err=True):
                errors().print("Nothing was removed.")
                return 1
        n_removed = delete_study(study, opened)
        errors().print(f"Removed {study} ({counted(n_removed, 'trial')}) from {opened.label}.")
    return 0


def report(
    study: StudyName,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where (default finder-report-STUDY.html)."),
    ] = None,
    storage: Storage = None,
) -> int:
    """Write the report of a study as one HTML file, and print its path."""
    if output is not None:
        values.refuse_other_than_html(output)
    from studies.reports import write_report
    from studies.study.study import load_study

    with load_study(study, storage or DEFAULT_STORAGE) as opened:
        path = write_report(opened, output or Path(f"finder-report-{values.file_name_of(study)}.html"))
    results().print(str(path), soft_wrap=True)
    return 0


def dashboard(
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8080,
    storage: Storage = None,
    *,
    new_token: NewToken = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    insecure: Insecure = False,
) -> int:
    """Serve optuna-dashboard with Finder's figures, and print its address, until Ctrl-C."""
    from agents.shared_objects.addresses import reachable
    from studies.servers.dashboard import serve
    from studies.storage.access import Access

    access = Access.of(host, new_token=new_token, insecure=insecure, certificate=tls_cert, key=tls_key)

    def print_ready(bound: str) -> None:
        address = bound.replace(f"//{host}:", f"//{reachable(host)}:", 1)
        results().print(address, soft_wrap=True)
        print_access(access, host)
        if access.is_new:
            print_commands("Then", page_commands(access, address))
        errors().print("Ctrl-C ends it.", style="dim")

    def print_drawing() -> None:
        errors().print("Drawing the figures of the studies ...", style="dim")

    serve(storage or DEFAULT_STORAGE, host, port, print_ready, access, on_bound=print_drawing)
    return 0


def _report_hint(study: OpenStudy) -> str:
    return f"See finder report {shlex.quote(study.name)}{storage_flag(study.storage.label)}"


def _show_range_test(study: OpenStudy, json: bool) -> int:
    from studies.judging.missing_pick import rate_suggestions
    from studies.words import params_text

    found = rate_suggestions(study)
    suggested: dict[str, Any] = found[-1][1] if found else {}
    if json:
        name, rate = next(iter(suggested.items()), ("learning_rate", None))
        print_json({"study": study.name, "kind": "range-test", "parameter": name, "learning_rate": rate})
    elif suggested:
        results().print(Text(params_text(suggested), "bold green"))
    if not suggested:
        print_error(f"the range test {study.name!r} suggests no learning rate.", _report_hint(study))
    return 0 if suggested else 1

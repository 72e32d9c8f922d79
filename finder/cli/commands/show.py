"""The command `show`: the trials of a study, or one of them in full."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from finder.cli.advice import print_doubts
from finder.cli.options.parameters import Json, Storage, StudyName
from finder.progress.console import errors, print_json, print_note, results, table
from finder.progress.search_progress import headline
from studies.defaults import DEFAULT_STORAGE
from studies.storage.commands import storage_flag
from studies.words import plural

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from studies.study.study import OpenStudy

_STYLES = {"COMPLETE": "green", "PRUNED": "yellow", "FAIL": "red", "RUNNING": "cyan", "WAITING": "dim"}


def show(
    study: StudyName,
    trial: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="One trial in full: configuration and traceback.")
    ] = None,
    storage: Storage = None,
    json: Json = False,
) -> int:
    """Show the trials of a study: parameters, states, values and reasons."""
    from studies.errors import StudyError
    from studies.study.study import load_study

    with load_study(study, storage or DEFAULT_STORAGE) as opened:
        trials = opened.all_trials()
        if trial is not None:
            if not 0 <= trial < len(trials):
                raise StudyError(f"the study {study!r} has no trial {trial}: it has {len(trials)}, from 0.")
            _show_trial(opened, trials[trial], json)
        elif json:
            print_json({"study": opened.spec.to_json_dict(), "trials": [_as_json(opened, each) for each in trials]})
        else:
            _show_study(opened, trials)
    return 0


def _show_study(study: OpenStudy, trials: list[FrozenTrial]) -> None:
    from studies.analysis.recommendation import pick_or_none
    from studies.analysis.schedules import shown_params
    from studies.analysis.status import abandoned_trials
    from studies.queue.trial_endings import short_reason
    from studies.spec.attributes import CONFIRMS_ATTR, is_confirmation
    from studies.spec.objectives import names_of
    from studies.study.execution import execution_text
    from studies.study.schedules import divergences_of, lineages_of
    from studies.words import param_text, settings_of, spread_text

    spec, pick = study.spec, pick_or_none(study)
    out = results()
    out.print(
        Text.assemble(
            (study.name, "bold"),
            f"   {' and '.join(spec.agents)} on {spec.env}, {plural('seed', len(spec.seeds))} "
            f"{', '.join(map(str, spec.seeds))}; {spec.budget_text} each",
        )
    )
    if not trials:
        out.print("No trial has started yet.")
        return
    lineages, diverged = lineages_of(study), divergences_of(study)
    params_of = {
        each.number: shown_params(study.params(each), lineages.get(each.user_attrs.get(CONFIRMS_ATTR, each.number)))
        if lineages
        else settings_of(study.params(each))
        for each in trials
    }
    if spec.kind == "range-test":
        suggestions = {each.number: each.user_attrs.get("range_test", {}).get("suggestion") for each in trials}
        params_of = {number: {"suggested learning_rate": rate or "none"} for number, rate in suggestions.items()}
    names = list(dict.fromkeys(name for params in params_of.values() for name in params))
    metrics, abandoned = names_of(spec), abandoned_trials(study)
    rows = []
    for each in trials:
        params, attrs, state = params_of[each.number], each.user_attrs, each.state.name
        picked = pick is not None and each.number == pick.trial and spec.kind != "range-test"
        confirms = f"confirms #{attrs[CONFIRMS_ATTR]}" if is_confirmation(each) else ""
        step, newest = _last_report(each) or (None, None)
        known = newest if each.value is None else each.value
        value = "" if known is None else spread_text(known, _spread(each))
        steps, seconds = attrs.get("env_steps", step), attrs.get("wall_seconds")
        rows.append(
            _Row(
                str(each.number),
                {name: param_text(name, value) for name, value in params.items()},
                [
                    Text(value + (" ←" if picked else ""), "bold green" if picked else ""),
                    *(_value_of(each, name) for name in metrics[1:]),
                ],
                Text("interrupted" if each.number in abandoned else _state_word(each), _STYLES[state]),
                "" if steps is None else f"{steps:,}",
                "" if seconds is None else f"{seconds:.1f}",
                _reason(each) or confirms or _divergences(diverged.get(each.number, ())),
            )
        )
    heads = [f"mean {name}" for name in metrics] if spec.kind == "range-test" else metrics
    out.print(_table(rows, names, heads, out.width))
    if abandoned:
        print_note("the process of interrupted trials has ended: the command that began the study resumes them.")
    for reason in dict.fromkeys(found for each in trials if (found := short_reason(each))):
        errors().print(Text(f"Pruned: {reason}.", "dim"))
    executions = Counter(execution_text(each.user_attrs.get("configuration", {})) for each in trials)
    del executions[""]
    for execution, n in executions.most_common(1):
        others = f" ({n} of {len(trials)} trials; of each with --trial NUMBER)" if len(executions) > 1 else ""
        errors().print(Text(f"Run as: {execution}{others}", "dim"), soft_wrap=True)
    if pick is not None:
        print_doubts(study, pick)
    failed = next((each.number for each in trials if each.user_attrs.get("traceback")), None)
    if failed is not None:
        flag = storage_flag(study.storage.label)
        errors().print(Text(f"A failure in full: finder show {shlex.quote(study.name)} --trial {failed}{flag}", "dim"))


class _Row(NamedTuple):
    """A trial in the table."""

    number: str
    params: dict[str, str]
    values: list[str | Text]
    state: Text
    steps: str
    seconds: str
    reason: str


def _table(rows: list[_Row], names: Sequence[str], metrics: Sequence[str], width: int) -> Table:
    """Return the table of trials; on a narrow terminal the parameters share a column, and what explains is kept."""
    numbers = ("#", *metrics, "steps", "seconds")
    listed = table("#", *names, *metrics, "state", "steps", "seconds", "reason", numbers=numbers)
    for row in rows:
        own = (row.params.get(name, "") for name in names)
        listed.add_row(row.number, *own, *row.values, row.state, row.steps, row.seconds, row.reason)
    if _width_of(listed) <= width:
        return listed
    listed = table("#", "parameters", *metrics, "state", "steps", "reason", numbers=numbers)
    for row in rows:
        params = "\n".join(f"{name} {text}" for name, text in row.params.items())
        listed.add_row(row.number, params, *row.values, row.state, row.steps, row.reason)
    return listed


def _width_of(listed: Table) -> int:
    console = Console(width=10_000)
    return Measurement.get(console, console.options, listed).maximum


def _value_of(trial: FrozenTrial, metric: str) -> str:
    """Return the value of a trial for one of several objectives, with its spread; "" if it has none."""
    from studies.study.study import by_objective
    from studies.words import spread_text

    own = by_objective(trial, metric)
    return "" if own.value is None or own is trial else spread_text(own.value, _spread(own))


def _show_trial(study: OpenStudy, trial: FrozenTrial, json: bool) -> None:
    from studies.study.execution import execution_text

    data = _as_json(study, trial)
    if json:
        print_json(data)
        return
    out, traceback = results(), data.pop("traceback")
    out.print_json(data=data)
    if execution := execution_text(data["configuration"]):
        errors().print(Text(f"Run as: {execution}", "dim"), soft_wrap=True)
    if traceback:
        out.print(Text(f"\n{traceback.rstrip()}", "red"), soft_wrap=True)


def _as_json(study: OpenStudy, trial: FrozenTrial) -> dict[str, Any]:
    from studies.spec.attributes import CONFIRMS_ATTR, failure_kind, state_word

    attrs = trial.user_attrs
    return {
        "number": trial.number,
        "state": state_word(trial),
        "params": study.params(trial),
        "value": trial.value,
        **({} if (last := _last_report(trial)) is None else {"last_report": {"env_steps": last[0], "value": last[1]}}),
        "seed_values": attrs.get("seed_values", {}),
        **({"objectives": attrs["objectives"]} if "objectives" in attrs else {}),
        "env_steps": attrs.get("env_steps"),
        "wall_seconds": attrs.get("wall_seconds"),
        "custom_metrics": attrs.get("custom_metrics", {}),
        "failure": failure_kind(trial),
        "confirms": attrs.get(CONFIRMS_ATTR),
        "reason": attrs.get("reason", ""),
        "configuration": attrs.get("configuration", {}),
        "traceback": attrs.get("traceback", ""),
    }


def _last_report(trial: FrozenTrial) -> tuple[int, float] | None:
    """Return the environment steps and the value of the last report of a trial that has not ended; None without one."""
    step = trial.last_step
    if trial.state.is_finished() or step is None or math.isnan(value := trial.intermediate_values[step]):
        return None
    return step, value


def _state_word(trial: FrozenTrial) -> str:
    """Return the state of a trial; of a failed one the kind of its failure."""
    from studies.spec.attributes import failure_kind, state_word
    from studies.words import failure_word

    kind = failure_kind(trial)
    return state_word(trial) if kind is None else failure_word(kind)


def _reason(trial: FrozenTrial) -> str:
    """Return the reason of a failed trial; the reason of pruned trials is printed once below."""
    return headline(trial.user_attrs.get("reason", "")) if trial.state.name == "FAIL" else ""


def _divergences(steps: Sequence[int]) -> str:
    """Return the steps at which a member of a population copied another one because it had diverged."""
    return f"diverged before {', '.join(f'{step:,}' for step in steps)}" if steps else ""


def _spread(trial: FrozenTrial) -> float:
    from studies.spec.attributes import seed_values
    from studies.statistics.values import spread_of_seeds

    return spread_of_seeds(list(seed_values(trial).values()))

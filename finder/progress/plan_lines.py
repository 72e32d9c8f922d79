"""The description of a search before its first trial, as lines for a terminal: study, plan, space, earlier progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from finder.progress.text_layout import HangingIndent
from studies.words import are, counted, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from studies.study.study import OpenStudy


def plan_lines(study: OpenStudy, where_run: str, n_before: int, n_left: int, n_again: int = 0) -> list[RenderableType]:
    """Return the description of a search: its study, trials, seeds, budget, and earlier progress."""
    from studies.analysis.status import study_status
    from studies.spaces.configurations import is_whole_space
    from studies.spaces.space_notation import spaces_text
    from studies.spec.attributes import is_interrupted

    spec = study.spec
    runs = f"{counted(len(spec.seeds), 'seed')} ({', '.join(map(str, spec.seeds))})"
    where = "memory only" if study.storage.url == "memory" else study.storage.label
    of_all = f" of the {n_grid} of its grid" if (n_grid := len(spec.grid())) > spec.n_trials else ""
    if not spec.plan() and is_whole_space(spec.search_space(), spec.n_trials):
        of_all = " (the whole space)"
    plan = f"{counted(spec.n_trials, 'trial')}{of_all} × {runs} × {spec.budget_text}{_confirmation_text(study)}"
    how = f"{' and '.join(spec.agents)} on {spec.env}, {_means(study, where_run)}"
    lines: list[RenderableType] = [
        Text.assemble(("Study ", "dim"), (study.name, "bold"), (f" in {where}", "dim")),
        HangingIndent(Text("Plan  ", "dim"), Text(plan)),
        HangingIndent(Text("      "), Text(how, "dim")),
        *([] if spec.trials else [HangingIndent(Text("Space ", "dim"), Text(spaces_text(spec.search_space()), "dim"))]),
        *(Text(note) for note in study.notes),
    ]
    now = study_status(study)
    if n_left == 0 and now.complete:
        lines.append(Text("All trials have ended; this is the result."))
    elif n_left == 0 and now.n_paused and not now.n_running:
        lines.append(Text(f"No trials are left to start; {counted(now.n_paused, 'paused trial')} will end."))
    elif n_left == 0 and not now.all_ended:
        lines.append(Text(f"No trials are left to start; other processes run {counted(now.n_running, 'trial')}."))
    elif n_left == 0:
        lines.append(Text("All trials are done; the best are still to be confirmed."))
    elif n_before:
        lines.append(
            Text(
                f"Resuming: {counted(n_before, 'trial')} {are(n_before)} done, "
                f"{f'{now.n_paused} {are(now.n_paused)} paused, ' if now.n_paused else ''}{n_left} left."
            )
        )
    elif n_resumed := sum(map(is_interrupted, study.trials())):
        were = "was interrupted and continues" if n_resumed == 1 else "were interrupted and continue"
        lines.append(Text(f"Resuming: {counted(n_resumed, 'trial')} {were}."))
    elif now.n_paused:
        lines.append(Text(f"Resuming: {counted(now.n_paused, 'trial')} {are(now.n_paused)} paused, {n_left} left."))
    if n_again:
        lines.append(Text(f"Retrying {counted(n_again, 'failed trial')}."))
    return lines


def _confirmation_text(study: OpenStudy) -> str:
    """Return the description of the confirmation."""
    from studies.judging.search_history import finalists_text

    spec = study.spec
    if not (again := finalists_text(spec)):
        return ""
    return f", then {again} again on {counted(spec.confirm_seeds, 'further seed')}{longer_text(study)}"


def longer_text(study: OpenStudy) -> str:
    """Return the environment steps of the runs that confirm, if these are longer; empty otherwise."""
    return f" × {study.spec.confirm_budget:,} environment steps" if study.spec.confirms_longer else ""


def _means(study: OpenStudy, where_run: str) -> str:
    """Return by what the trials are judged, proposed, stopped and run."""
    from studies.spec.objectives import names_of

    spec = study.spec
    names = names_of(spec)
    metric = "" if spec.kind == "range-test" else f"{plural('metric', len(names))} {' and '.join(names)}, "
    sampler = "" if spec.plan() else f"sampler {spec.sampler} (seed {spec.seed}), "
    return f"{metric}{sampler}scheduler {spec.pruner}, {where_run}"

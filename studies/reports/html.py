"""HTML report in one self-contained file, suitable for mail, archives and phones."""

from __future__ import annotations

import html
import json
import math
from os import PathLike
from pathlib import Path

from studies.analysis.conclusion import conclusion, pick_json
from studies.analysis.python_code import python_lines
from studies.analysis.recommendation import Recommendation, pick_or_none
from studies.figures.figures import study_figures
from studies.figures.ranking import Ranking, best_and_pick, ranking
from studies.figures.trials import TrialRow, states_data
from studies.judging.pareto_front import pareto_front
from studies.judging.ranking import Ranked
from studies.reports.explanation import best_command, explain, question_text
from studies.reports.page import page_html, write_page
from studies.spec.fields import Direction
from studies.statistics.intervals import probability_of_improvement
from studies.study.study import OpenStudy, check_open
from studies.words import (
    counted,
    failure_word,
    interval_text,
    number_text,
    params_text,
    spread_text,
)

_TABLE_ROWS = 10


def write_report(study: OpenStudy, path: str | PathLike[str]) -> Path:
    """Write the report of a study: the conclusion, the figures, the ranking, the failures and the configuration.

    The file contains Plotly (about 5 MB) and makes no connection. Text from the study is escaped.

    Args:
        study: The study; it may still be running.
        path: Path of the file; an existing one is replaced atomically.

    Returns:
        Absolute path of the file.

    Raises:
        StudyError: If the file cannot be written, or the study is not open.
    """
    check_open(study)
    return write_page(report_html(study), path, "report")


def report_html(study: OpenStudy) -> str:
    """Return the report as text; see `write_report`."""
    pick = pick_or_none(study)
    figures, facts = study_figures(study), ranking(study)
    sections = [
        f"<h1>{_text(study.name)}</h1>",
        f'<p class="sub">{_text(question_text(study.spec))}</p>',
        _conclusion(study),
        f'<p class="detail">{_text(explain(study))}</p>',
        *(f'<div class="figure"><div id="{_text(name)}"></div></div>' for name in figures),
        _front_table(study),
        _confirmation_table(study, facts),
        _ranking_table(study, facts),
        _failure_table(states_data(study).of("FAIL")),
        _use(study, pick),
        f"<footer>Made by Finder from {_text(study.storage.label)}.</footer>",
    ]
    return page_html(f"{study.name} · Finder report", [section for section in sections if section], figures)


def _text(value: object) -> str:
    return html.escape(str(value))


def _conclusion(study: OpenStudy) -> str:
    """Return the lines of the conclusion."""
    found = conclusion(study)
    value = "".join(f"<p>{_text(line)}</p>" for line in (found.value, found.gain) if line)
    kind = found.status.replace(" ", "-")
    return (
        f'<div class="answer {kind}"><p><strong>{_text(found.pick)}</strong></p>{value}'
        f'<p><strong class="status">{_text(found.status)}</strong>: {_text(found.certainty)}.</p>'
        f"{''.join(f'<p>{_text(sentence)}</p>' for sentence in found.remedy_sentences)}</div>"
    )


def _front_table(study: OpenStudy) -> str:
    """Return the table of a Pareto front, and of the trials that cannot be told apart from it; "" for one metric."""
    if not study.spec.metrics:
        return ""
    data = pareto_front(study)
    rows = "".join(
        f"<tr{' class=pick' * trial.on_front}><td>{'front' if trial.on_front else 'maybe'}</td>"
        f'<td class="number">#{trial.number}</td><td>{_text(params_text(dict(trial.params)))}</td>'
        + "".join(
            f'<td class="number">{_text(spread_text(each.value, each.spread))}</td>'
            f'<td class="number">{_text(interval_text(each.low, each.high))}</td>'
            for each in trial.values
        )
        + f'<td class="number">{trial.values[0].n_seeds}</td></tr>'
        for trial in (*data.front, *data.undecided)
    )
    heads = "".join(f"<th>{_text(text)} ± spread</th><th>95% interval</th>" for text in data.texts)
    return (
        '<h2>Pareto front</h2><div class="scroll"><table><tr><th></th><th>trial</th><th>parameters</th>'
        f"{heads}<th>seeds</th></tr>{rows}</table></div>"
    )


def _ranking_table(study: OpenStudy, facts: Ranking) -> str:
    alone = facts.verdict.finalists_alone  # they have a table of their own
    entries = facts.verdict.tuning if alone else facts.verdict.ranked
    if not entries or study.spec.kind == "range-test":
        return ""
    pick = None if facts.pick is None else next((each for each in entries if each.number == facts.pick.number), None)
    compares = any(not math.isnan(entry.low) for entry in entries)  # not with one seed each
    shown = best_and_pick(entries, _TABLE_ROWS, lambda entry: entry is pick)
    rows = "".join(
        f'<tr{" class=pick" * (entry is pick)}><td class="number">{place}</td>'
        f'<td class="number">#{entry.number}</td>'
        f"<td>{_params(study, entry)}</td>"
        f'<td class="number">{_text(spread_text(entry.value, entry.spread))}</td>'
        f"{_comparison(entry, pick, study.direction) if compares else ''}"
        f'<td class="number">{entry.n_seeds}</td></tr>'
        for place, entry in shown
    )
    n_best, n_complete = min(_TABLE_ROWS, len(entries)), len(facts.verdict.tuning)
    title = "Complete trials" if n_best == n_complete else f"The best {n_best} of {n_complete} complete trials"
    title += " in the search" if alone else ""
    title += " and the pick" if len(shown) > n_best else ""
    title += f", {study.spec.budget_text}" if facts.verdict.confirms_apart else ""
    return (
        f'<h2>{title}</h2><div class="scroll"><table><tr><th>place</th><th>trial</th><th>parameters</th>'
        f"<th>{_text(study.spec.metric_text)}{' ± spread' if compares else ''}</th>"
        f"{_COMPARISON_HEAD if compares else ''}<th>seeds</th></tr>{rows}</table></div>"
    )


_COMPARISON_HEAD = (
    '<th>95% interval</th><th title="how probable it is that its expected value is the best of all">is the best</th>'
    '<th title="how often a run of this one is better than a run of the pick">beats the pick</th>'
)


def _comparison(entry: Ranked, pick: Ranked | None, direction: Direction) -> str:
    """Return the cells that compare a trial with the others."""
    cells = (interval_text(entry.low, entry.high), _best_probability(entry), _win_probability(entry, pick, direction))
    return "".join(f'<td class="number">{_text(cell)}</td>' for cell in cells)


def _params(study: OpenStudy, entry: Ranked) -> str:
    """Return the parameters of a trial, and whether they are those of the baseline."""
    text = _text(params_text(dict(entry.params)))
    return f"{text} <em>(baseline)</em>" if entry.params == study.spec.baseline else text


def _best_probability(entry: Ranked) -> str:
    """Return the probability that a trial is the best; "" with one seed each."""
    return "" if math.isnan(entry.low) else f"{entry.probability_best:.0%}"


def _win_probability(entry: Ranked, pick: Ranked | None, direction: Direction) -> str:
    """Return the probability that a run of this trial beats one of the recommended trial.

    It is "" for the recommended trial, or with one seed each.
    """
    if pick is None or entry is pick or not (entry.seed_values and pick.seed_values) or math.isnan(entry.low):
        return ""
    one, other = (entry, pick) if direction == "maximize" else (pick, entry)
    return f"{probability_of_improvement(one.seed_values, other.seed_values):.0%}"


def _confirmation_table(study: OpenStudy, facts: Ranking) -> str:
    found, apart = facts.verdict.confirmed, facts.verdict.confirms_apart
    pick = None if facts.pick is None else facts.pick.number
    if not found:
        return ""
    rows = "".join(
        f'<tr{" class=pick" * (each.number == pick)}><td class="number">#{each.number}</td>'
        f"<td>{_params(study, each.tuning)}</td>"
        f'<td class="number">{_text(spread_text(each.tuning.value, each.tuning.spread))}</td>'
        f'<td class="number">{_text(spread_text(each.held_out.value, each.held_out.spread))}</td>'
        f'<td class="number">{_text(interval_text(each.held_out.low, each.held_out.high))}</td>'
        + ("" if apart else f'<td class="number">{_text(number_text(each.bias))}</td>')
        + "</tr>"
        for each in found
    )
    seeds = counted(study.spec.confirm_seeds, "further seed")
    seeds += f", {facts.verdict.confirm_env_steps:,} environment steps each" if apart else ""
    bias_head = "" if apart else f'<th title="{_OPTIMISM}">optimism</th>'
    return (
        f'<h2>The best, run again on {seeds}</h2><div class="scroll"><table><tr><th>trial</th><th>parameters</th>'
        f"<th>in the search</th><th>on further seeds</th><th>95% interval</th>"
        f"{bias_head}</tr>{rows}</table></div>"
    )


_OPTIMISM = "by how much the value in the search is better than that on further seeds; negative if it is worse"


def _failure_table(failed: list[TrialRow]) -> str:
    if not failed:
        return ""
    rows = "".join(
        f'<tr><td class="number">#{row.number}</td><td>{_text(params_text(row.params))}</td>'
        f"<td>{_text(failure_word(row.failure))}</td><td>{_text(row.reason)}"
        + (f"<details><summary>traceback</summary><pre>{_text(row.traceback)}</pre></details>" if row.traceback else "")
        + "</td></tr>"
        for row in failed
    )
    return (
        '<h2>What failed and why</h2><div class="scroll"><table><tr><th>trial</th><th>parameters</th>'
        f"<th>kind</th><th>reason</th></tr>{rows}</table></div>"
    )


def _use(study: OpenStudy, pick: Recommendation | None) -> str:
    if pick is None:
        return ""
    use = f"<h2>How to use it</h2><pre>{_text(python_lines(study, pick))}</pre>"
    data = pick_json(study, pick)  # as on the command line
    if study.spec.kind != "range-test" and study.storage.url != "memory":
        use += (
            "<p>The same on the command line; with <code>--json</code> everything that is needed to run it again:</p>"
            f"<pre>{_text(best_command(study))}</pre>"
        )
    printed = json.dumps(data, indent=2, ensure_ascii=False)
    return f"{use}<details><summary>the pick as JSON</summary><pre>{_text(printed)}</pre></details>"

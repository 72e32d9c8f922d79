"""The progress display of a search on stderr: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agents.training.line_interval import seconds_between_lines
from finder.progress.best import Best
from finder.progress.console import can_redraw, display, errors
from finder.progress.guarded_live import GuardedLive
from finder.progress.plan_lines import longer_text, plan_lines
from finder.progress.running_trial import RunningTrial
from finder.progress.text_layout import DOT, HangingIndent, join_parts, truncate_words
from finder.progress.tracker import Tracker, spread_of
from studies.spaces.rates import is_learning_rate
from studies.words import counted, failure_word, params_text, plural, rate_text, spread_text

if TYPE_CHECKING:
    from finder.executors.executor import Executor
    from finder.trials.trial import Outcome, TrialSpec
    from studies.database.records import EpisodeRecord
    from studies.study.study import OpenStudy

_ROWS = 16
"""Largest number of running trials with a row each."""

_NARROW = 100
"""Width below which the bar is short and steps are left out."""

_BAR = 24
"""Width of the bar; half on a narrow terminal."""

_LEAST = 20
"""Least width of the parameters of a trial."""

_LINES = 8
"""Largest number of lines of the reason of a failed trial."""

_FEW = 4
"""Largest number of trials that plain lines list one by one."""

_MARKS = {
    "complete": ("✓", "green"),
    "pruned": ("◦", "yellow"),
    "paused": ("‖", "dim"),
    "failed": ("✗", "red"),
    "interrupted": ("·", "dim"),
}


class Progress(Tracker):
    """Base class for displays, and itself the silent display of `--quiet`. A context manager around the search."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def measuring_begins(self) -> None:
        """Show nothing."""

    def budget_chosen(self, text: str) -> None:
        """Show nothing."""

    def budget_spent(self, text: str) -> None:
        """Show nothing."""


class PlainProgress(Progress):
    """Prints a line when a trial starts or ends, and every few seconds in between.

    Args:
        console: Console of the lines. Defaults to stderr.
        clock: Returns the time in seconds.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.console = console or errors()
        self._printed_at = clock()
        self._lines_between = True  # whether to print lines about running trials
        self._failed_first: dict[str, int] = {}  # reason that was printed in full -> trial

    def study_opened(self, study: OpenStudy, n_left: int, executor: Executor) -> None:
        super().study_opened(study, n_left, executor)
        for line in plan_lines(study, executor.description, self.n_before, n_left, self.n_again):
            self.console.print(line)
        for note in executor.notes if n_left else ():
            self.console.print(HangingIndent(Text("Note  "), Text(note)))
        if self.best is not None and n_left:
            self.console.print(best_line(self.best))

    def measuring_begins(self) -> None:
        self.console.print(Text("Measuring the speed of the search ...", "dim"))

    def budget_chosen(self, text: str) -> None:
        self.console.print(HangingIndent(Text("Budget ", "dim"), Text(text)))

    def budget_spent(self, text: str) -> None:
        self.console.print(HangingIndent(Text("Note  ", "yellow"), Text(text)))

    def plan_grows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        super().plan_grows(rows)
        self.console.print(Text.assemble(("Extending ", "bold"), extension_text(rows)))

    def trials_added(self, n_trials: int) -> None:
        super().trials_added(n_trials)
        in_steps = self.study is not None and self.study.spec.minutes is None
        left = "environment steps are left" if in_steps else "there is time"
        self.console.print(Text.assemble(("Adding ", "bold"), f"{counted(n_trials, 'trial')}, for which {left}"))

    def confirmation_begins(self, n_finalists: int) -> None:
        super().confirmation_begins(n_finalists)
        if self.study is not None:
            from studies.judging.confirmation import confirmed_seeds
            from studies.judging.search_history import held_out_seeds
            from studies.study.study import reloaded

            now = reloaded(self.study)  # its budget may have changed their seeds and steps
            seeds = held_out_seeds(now.spec)
            known = set().union(*confirmed_seeds(now).values())
            more = [seed for seed in seeds if seed not in known]
            which = f"{counted(len(seeds), 'further seed')} ({', '.join(map(str, seeds))})"
            if 0 < len(more) < len(seeds):  # there was budget for them when the others had ended
                which = f"{len(more)} more {plural('seed', len(more))} ({', '.join(map(str, more))})"
            text = f"{counted(n_finalists, 'finalist')} on {which}"
            self.console.print(Text.assemble(("Confirming ", "bold"), text, longer_text(now)))

    def _line_is_due(self) -> bool:
        """Return whether a line about running trials is due; it counts as printed then."""
        since = self._clock() - self._printed_at
        if not self._lines_between or since < seconds_between_lines(self.elapsed):
            return False
        self._printed_at = self._clock()
        return True

    def others_run(self, n_trials: int) -> None:
        super().others_run(n_trials)
        if self._line_is_due():
            self.console.print(Text("  " + DOT.join(self.summary())))

    def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
        super().trial_started(trial, params)
        if self._lines_between and self.n_places <= _FEW:
            self.console.print(
                Text.assemble(
                    ("▸ ", "dim"), f"#{trial.number} ", _params(self.running[trial.number].params), " started"
                )
            )

    def trial_episodes(self, number: int, records: Sequence[EpisodeRecord]) -> None:
        super().trial_episodes(number, records)
        if self._line_is_due():
            self.console.print(Text("  " + DOT.join([*running_texts(list(self.running.values())), *self.summary()])))

    def trial_ended(self, number: int, outcome: Outcome) -> None:
        trial, before = self.running.get(number), self.best
        super().trial_ended(number, outcome)
        if outcome.state == "paused" and not self._lines_between:
            return  # it will go on, or end; the status counts it
        shorten, width = not self._lines_between, self.console.width  # shortened where a person watches
        line = end_line(number, trial, outcome, width, shorten=shorten)
        reason = headline(outcome.reason) if outcome.state == "failed" else ""
        if reason in line.plain:
            self.console.print(line)
        elif (first := self._failed_first.setdefault(reason, number)) != number:
            self.console.print(end_line(number, trial, outcome, width, shorten=shorten, like=first))
        else:
            self.console.print(line)
            self.console.print(HangingIndent(Text("    "), Text(truncate_words(reason, _LINES * (width - 4)), "red")))
        if self._lines_between and self.best is not None and self.best is not before:
            self.console.print(best_line(self.best))
        self._printed_at = self._clock()

    def summary(self) -> list[str]:
        """Return the parts of the status that are known: phase, trials, speed and time."""
        parts = [self.phase] if self.phase else []
        if self.study is not None:
            ended, n_total = self.counts
            parts.append(f"{ended}/{counted(n_total, 'trial')}")
        if self.n_paused:
            parts.append(f"{self.n_paused} paused")
        if self.n_elsewhere:
            parts.append(f"waiting for {self.n_elsewhere} in other processes")
        if self.steps_per_second >= 1:
            parts.append(f"{self.steps_per_second:,.0f} steps/s")
        parts.append(f"{seconds_text(self.elapsed)} so far")
        left, most = self.seconds_left, self.seconds_to_limit
        if left is not None and most is not None and left > most:
            parts.append(f"at most {seconds_text(most)} left (time limit)")
        elif left is not None:
            parts.append(f"about {seconds_text(left)} left")
        return parts


class LiveProgress(PlainProgress):
    """The live display of a terminal: ended trials are lines, and running trials are redrawn below.

    If a redraw fails, plain lines follow.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._lines_between = False
        self._starting = Spinner("dots", Text(self.phase, style="dim"))
        self._live = GuardedLive(self._draw, self.console, self._fall_back_to_lines)

    def measuring_begins(self) -> None:
        self._starting.update(text=Text("measuring the speed of the search", style="dim"))

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def _fall_back_to_lines(self, error: Exception) -> None:
        self._lines_between = True
        self.console.print(failure_note(error))

    def _draw(self) -> RenderableType:
        if self.study is None:
            return self._starting
        width = self.console.width
        bar = ProgressBar(total=1.0, completed=self.share, width=_BAR if width >= _NARROW else _BAR // 2)
        beside = Table.grid(padding=(0, 2))
        beside.add_row(bar, Text("\n".join(join_parts(self.summary(), width - (bar.width or 0) - 2)), no_wrap=True))
        parts: list[RenderableType] = [beside, *self._rows(width)]
        if self.best is not None:
            parts.append(HangingIndent(Text("  "), best_line(self.best)))
        return Group(*parts)

    def _rows(self, width: int) -> list[Text]:
        """Return a line for each running trial, or one for all if there are many."""
        running = list(self.running.values())
        if len(running) > _ROWS:
            return [Text("  " + line, no_wrap=True) for line in join_parts(running_texts(running), width - 2)]
        narrow = width < _NARROW
        cells = [(f"#{trial.number}", _params(trial.params), *_trial_words(trial, narrow)) for trial in running]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        room = max(_LEAST, width - 2 - sum(widths) + widths[1] - 2 * (len(widths) - 1)) if cells else 0
        shown = [(number, truncate_words(params, room, ", "), *words) for number, params, *words in cells]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        rows = []
        for row in shown:
            line = "  ".join(text.ljust(size) for text, size in zip(row, widths, strict=True))
            rows.append(Text(f"  {line.rstrip()}"))
        return rows


def extension_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the message about rates beyond the range, of one optimizer or of several."""
    [name] = {name for row in rows for name in row if is_learning_rate(name)}
    rates: dict[str, list[float]] = {}
    for row in rows:
        others = {key: value for key, value in row.items() if key != name}
        rates.setdefault(params_text(others) if others else "", []).append(float(row[name]))
    by_kind = [f"{', '.join(map(rate_text, sorted(own)))}{f' ({kind})' if kind else ''}" for kind, own in rates.items()]
    return f"the best rate is at the edge of the range: {'; '.join(by_kind)} too"


def failure_note(error: Exception) -> HangingIndent:
    """Return the message that plain lines replace a live display."""
    message = f"the live display failed ({type(error).__name__}: {error}); plain lines follow."
    return HangingIndent(Text("Note  "), Text(message))


def make_progress(quiet: bool) -> Progress:
    """Return the display for stderr: a terminal or another stream."""
    if quiet:
        return Progress()
    console = errors()
    return LiveProgress(display()) if can_redraw(console) else PlainProgress(console)


def end_line(
    number: int,
    trial: RunningTrial | None,
    outcome: Outcome,
    width: int,
    *,
    shorten: bool = False,
    like: int | None = None,
) -> Text:
    """Return the outcome of a trial as text that begins with its value, or the reason of its failure where that fits.

    Args:
        number: Number of the trial.
        trial: The trial; None if it is unknown.
        outcome: Its outcome.
        width: Width of a line.
        shorten: Whether its parameters are truncated, so that the text is one line. Defaults to False.
        like: Number of an earlier trial that failed for the same reason, which does not fit. Defaults to None.
    """
    mark, style = _MARKS[outcome.state]
    confirms = f" confirms #{trial.confirms}" if trial is not None and trial.confirms is not None else ""
    params = _params(trial.params if trial else {})
    took = f"  {seconds_text(outcome.wall_seconds)}" if outcome.wall_seconds else ""
    line = Text.assemble((f"{mark} ", style), f"#{number}{confirms}  ")
    if outcome.state == "complete" and outcome.value is not None:
        line.append(_value(outcome.value, spread_of(outcome)), "bold")
    elif outcome.state in ("pruned", "paused"):
        at = f" at {_value(outcome.value)}" if outcome.value is not None else ""
        line.append(f"{outcome.state}{at} after {counted(outcome.env_steps, 'step')}", style)
    elif outcome.state == "failed":
        word, reason = failure_word(outcome.failure), headline(outcome.reason)
        beside = line.cell_len + len(took) + len("  ") + min(len(params), _LEAST)
        same = "" if like is None else f" as #{like}"
        fits = reason and beside + cell_len(f"{word}: {reason}") <= width
        line.append(f"{word}: {reason}" if fits else f"{word}{same}", style)
    else:
        line.append("interrupted", "dim")
    line.append(f"{took}  ", "dim")
    return line.append(truncate_words(params, max(1, width - line.cell_len), ", ") if shorten else params)


def best_line(best: Best) -> Text:
    """Return the best trial so far, in one line."""
    value = (_value(best.value, best.spread), "bold green")
    metric = f"{best.metric} " if best.metric else ""
    return Text.assemble(
        (f"best {metric}so far ", "dim"), value, (" with ", "dim"), _params(best.params), (f" (#{best.number})", "dim")
    )


def running_texts(trials: Sequence[RunningTrial]) -> list[str]:
    """Return the progress and latest values of the running trials, one by one or of all together."""
    if len(trials) <= _FEW:
        return [f"#{trial.number} {trial_text(trial)}" for trial in trials]
    first, unit = trials[0], "step" if trials[0].by_steps else "episode"
    done = sum(trial.mean_done for trial in trials) // len(trials)
    latest = [trial.latest for trial in trials if trial.latest is not None]
    values = f", {first.latest_word} {_value(min(latest))} to {_value(max(latest))}" if latest else ""
    return [f"{counted(len(trials), 'trial')} at {done:,} of {counted(first.budget, unit)}{values}"]


def trial_text(trial: RunningTrial) -> str:
    """Return the progress and latest value of a running trial."""
    return ", ".join(word for word in _trial_words(trial) if word)


def headline(reason: str) -> str:
    """Return the informative line of a reason; the first line of TensorFlow is only "in user code:"."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()] or [""]
    return lines[-1] if lines[0].endswith(":") else lines[0]


def _trial_words(trial: RunningTrial, narrow: bool = False) -> tuple[str, str]:
    unit = "step" if trial.by_steps else "episode"
    so_far = f"{trial.share:.0%}" if narrow else f"{trial.mean_done:,} of {counted(trial.budget, unit)}"
    return so_far, f"{trial.latest_word} {_value(trial.latest)}" if trial.latest is not None else ""


def _params(params: Mapping[str, Any]) -> str:
    return params_text(dict(params))


def _value(value: float, spread: float = float("nan")) -> str:
    return spread_text(value, spread)


def seconds_text(seconds: float) -> str:
    """Return a duration such as `12 s`, `1:05 min` or `2:30 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"

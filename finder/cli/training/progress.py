"""The progress display of a long run on stderr: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agents.callbacks.callback import Callback
from agents.training.line_interval import next_line
from agents.training.progress_line import rates_text
from agents.training.records import Evaluation
from finder.progress.console import can_redraw, display, errors
from finder.progress.guarded_live import GuardedLive
from finder.progress.search_progress import failure_note, seconds_text
from finder.progress.text_layout import DOT, HangingIndent, join_parts
from studies.words import counted, number_text, spread_text

if TYPE_CHECKING:
    from agents.training.run import Run
    from agents.training.trainer import Trainer
    from finder.long_run.run_folder import RunSettings

_SPEED_SECONDS = 60.0
"""Seconds of the speed from which the remaining time is estimated."""

_SPEED_FROM = 0.5
"""Seconds of training below which no speed is shown: steps without an update take milliseconds."""

_BAR = 16


class PlainTraining(Callback):
    """Prints a line every few seconds, and for each evaluation. A context manager around the training.

    Args:
        settings: Settings of the run, for its budget.
        console: Console of the lines. Defaults to stderr.
        every_seconds: Seconds between lines. Defaults to None: two at first, later up to ten.
    """

    last = True

    def __init__(
        self, settings: RunSettings, console: Console | None = None, every_seconds: float | None = None
    ) -> None:
        self.phase = "starting"
        self._settings = settings
        self._console = console or errors()
        self._every_seconds = every_seconds
        self._began = time.monotonic()
        self._next = 0.0
        self._compiled = False
        self._marks: deque[tuple[float, float, int]] = deque()  # seconds, share of the budget, steps

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def on_train_begin(self, trainer: Trainer) -> None:
        self._begin("", trainer)

    def on_update_begin(self, trainer: Trainer) -> None:
        if not self._compiled:
            self._compiled = True
            self._begin("compiling", trainer)

    def on_evaluation_begin(self, trainer: Trainer) -> None:
        self._begin("evaluating", trainer)

    def on_evaluation_end(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self._console.print(HangingIndent(Text("  "), Text(evaluation_text(evaluation))))

    def on_step_end(self, trainer: Trainer) -> None:
        if self.phase:
            if self.phase == "compiling":
                self._marks.clear()  # evaluations do not count for the speed
            self._begin("", trainer)
        elif time.monotonic() >= self._next:
            self._update(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        self._note_speed(trainer)
        self._console.print(Text("\n".join(join_parts(self.parts(trainer, ended=True), self._console.width))))

    def parts(self, trainer: Trainer, *, ended: bool = False) -> list[str]:
        """Return the parts of the status that are known: phase, progress, speed and return."""
        history = trainer.history
        steps = f"{trainer.env_steps:,}"
        budget = self._settings.env_steps
        parts = [self.phase] if self.phase and not ended else []
        parts.append(f"{steps} of {budget:,} steps" if budget is not None else counted(trainer.env_steps, "step"))
        parts.append(counted(len(history.returns), "episode"))
        if history.returns:
            mean = number_text(history.mean_return(history.n_recent(trainer.env_steps)))
            parts.append(f"return {mean} (best {number_text(max(history.returns))})")
        if speed := self._steps_per_second():
            parts.append(f"{speed:,.0f} steps/s")
        parts += [rates] if (rates := rates_text(trainer)) else []
        parts.append(seconds_text(trainer.wall_seconds))
        left = None if ended else self._seconds_left()
        return parts if left is None else [*parts, f"about {seconds_text(left)} left"]

    def _begin(self, phase: str, trainer: Trainer) -> None:
        self.phase = phase
        self._next = next_line(self._began, self._every_seconds)
        self._note_speed(trainer)
        self._show(trainer)

    def _update(self, trainer: Trainer) -> None:
        self._next = next_line(self._began, self._every_seconds)
        self._note_speed(trainer)
        self._show(trainer)
        if not self._shows_itself:
            self._console.print(Text("  " + DOT.join(self.parts(trainer))))

    _shows_itself = False
    """True if another display draws the state that `_show` records."""

    def _show(self, trainer: Trainer) -> None:
        if self.phase == "compiling" and not self._shows_itself:
            self._console.print(Text("  compiling the first update"))

    def _note_speed(self, trainer: Trainer) -> None:
        now = trainer.wall_seconds
        self._marks.append((now, self._share(trainer.run), trainer.env_steps))
        while len(self._marks) > 2 and self._marks[1][0] < now - _SPEED_SECONDS:
            self._marks.popleft()

    def _steps_per_second(self) -> float | None:
        if not self._marks:
            return None
        (began, _, first), (now, _, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - began) if now - began >= _SPEED_FROM and last > first else None

    def _seconds_left(self) -> float | None:
        """Estimate the remaining seconds from the latest speed; None without progress."""
        if self.phase == "compiling" or not self._marks:
            return None
        (began, first, _), (now, last, _) = self._marks[0], self._marks[-1]
        return (1 - last) * (now - began) / (last - first) if now > began and last > first else None

    def _share(self, run: Run) -> float:
        """Return the used share of the budget."""
        steps, episodes = self._settings.env_steps, self._settings.episodes
        done = [0.0]
        if steps is not None:
            done.append(run.env_steps / steps)
        if episodes is not None:
            done.append(len(run.history.returns) / episodes)
        return min(1.0, max(done))


class LiveTraining(PlainTraining):
    """A live display on a terminal, which starts before the import of TensorFlow; plain lines follow if it fails."""

    def __init__(self, settings: RunSettings, console: Console | None = None) -> None:
        super().__init__(settings, console or display(), every_seconds=0.25)
        self._shown: tuple[float, list[str]] | None = None
        self._spinner = Spinner("dots", Text("starting", style="dim"))
        self._shows_itself = True
        self._live = GuardedLive(self._draw, self._console, self._fall_back_to_lines)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def on_train_begin(self, trainer: Trainer) -> None:
        self._live.start()
        super().on_train_begin(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        self._live.stop()
        super().on_train_end(trainer)

    def _show(self, trainer: Trainer) -> None:
        """Record the state to draw, because the drawing thread must not access the trainer."""
        self._shown = self._share(trainer.run), self.parts(trainer)

    def _draw(self) -> RenderableType:
        if self._shown is None:
            return self._spinner
        share, parts = self._shown
        beside = Table.grid(padding=(0, 2))
        lines = join_parts(parts, self._console.width - _BAR - 2)
        beside.add_row(ProgressBar(total=1.0, completed=share, width=_BAR), Text("\n".join(lines), no_wrap=True))
        if not self.phase:
            return beside
        self._spinner.update(text=Text(self.phase, style="dim"))
        return Group(beside, self._spinner)

    def _fall_back_to_lines(self, error: Exception) -> None:
        self._shows_itself, self._every_seconds = False, None
        self._console.print(failure_note(error))


def evaluation_text(evaluation: Evaluation) -> str:
    """Return the result of an evaluation as one line."""
    value = spread_text(evaluation.mean_return, evaluation.std_return)
    text = f"evaluation after {counted(evaluation.env_steps, 'step')}: return {value}"
    text += f" over {counted(evaluation.n_episodes, 'episode')}"
    if evaluation.n_cut:
        every = evaluation.n_cut == evaluation.n_episodes
        text += f", {'all' if every else evaluation.n_cut} of them cut off before their end"
    return f"{text}, the best so far" if evaluation.is_best else text


def training_progress(settings: RunSettings, quiet: bool) -> PlainTraining | None:
    """Return the display of a run: none, a live display, or plain lines.

    Args:
        settings: Settings of the run.
        quiet: Whether to show nothing.
    """
    if quiet:
        return None
    console = errors()
    return LiveTraining(settings) if can_redraw(console) else PlainTraining(settings)

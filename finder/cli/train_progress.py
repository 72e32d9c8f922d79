"""Showing a training while it runs: one live line on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.callbacks import Progress
from finder.cli.console import errors

if TYPE_CHECKING:
    from agents.trainer import Trainer
    from finder.run_folder import RunSettings


class LiveTraining(Progress):
    """Redraws one line on a terminal; the last one stays.

    Args:
        settings: The run's, for how much of it is done.
        console: The terminal. Defaults to stderr.
    """

    def __init__(self, settings: RunSettings, console: Console | None = None) -> None:
        super().__init__(every_seconds=0.25)
        self._settings = settings
        self._console = console or errors()
        self._shown: RenderableType = Text("")
        self._live = Live(
            get_renderable=lambda: self._shown, console=self._console, refresh_per_second=4, transient=True
        )

    def on_train_begin(self, trainer: Trainer) -> None:
        super().on_train_begin(trainer)
        self.show(trainer)
        self._live.start()

    def on_train_end(self, trainer: Trainer) -> None:
        self._live.stop()
        self._console.print(Text(self.line(trainer).strip()))

    def show(self, trainer: Trainer) -> None:
        """Makes what is drawn. It is drawn by another thread, which must not look at what learns meanwhile."""
        row = Table.grid(padding=(0, 2))
        line = " ".join(self.line(trainer).split())
        row.add_row(ProgressBar(total=1.0, completed=self._share(trainer), width=16), line)
        self._shown = row

    def _share(self, trainer: Trainer) -> float:
        """How much of the budget is used."""
        steps, episodes = self._settings.env_steps, self._settings.episodes
        done = [0.0]
        if steps is not None:
            done.append(trainer.env_steps / steps)
        if episodes is not None:
            done.append(len(trainer.history.returns) / episodes)
        return min(1.0, max(done))


def training_progress(settings: RunSettings, quiet: bool) -> list[Progress]:
    """Returns who shows a training: nobody, a live line, or plain lines.

    Args:
        settings: The run's.
        quiet: Whether nothing is shown.
    """
    if quiet:
        return []
    return [LiveTraining(settings) if errors().is_terminal else Progress()]

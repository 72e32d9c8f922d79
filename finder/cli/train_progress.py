"""Showing a training while it runs: one live line on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType
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
    """

    def __init__(self, settings: RunSettings) -> None:
        super().__init__()
        self._settings = settings
        self._trainer: Trainer | None = None
        self._live = Live(get_renderable=self._draw, console=errors(), refresh_per_second=4, transient=True)

    def on_train_begin(self, trainer: Trainer) -> None:
        super().on_train_begin(trainer)
        self._trainer = trainer
        self._live.start()

    def on_step_end(self, trainer: Trainer) -> None:
        pass  # it is redrawn by the clock

    def on_train_end(self, trainer: Trainer) -> None:
        self._live.stop()
        errors().print(Text(self.line(trainer).strip()))

    def _draw(self) -> RenderableType:
        if self._trainer is None:
            return Text("")
        row = Table.grid(padding=(0, 2))
        row.add_row(ProgressBar(total=1.0, completed=self._share(self._trainer), width=16), self._line(self._trainer))
        return row

    def _line(self, trainer: Trainer) -> Text:
        return Text(" ".join(self.line(trainer).split()))

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

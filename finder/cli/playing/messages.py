"""The messages of `finder play`: progress, episodes and their mean."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from rich.spinner import Spinner
from rich.text import Text

from finder.progress.console import can_redraw, display, errors, print_commands, print_note, results
from finder.progress.guarded_live import GuardedLive
from studies.words import counted, interval_text, number_text

if TYPE_CHECKING:
    from pathlib import Path

    from agents.environments import EnvironmentSpec
    from agents.playing.play import PlayedEpisode

_LISTED = 20
"""Largest number of episodes with a line each."""

_LINE_SECONDS = 5.0


def can_be_shown(environment: EnvironmentSpec, render_modes: Sequence[str]) -> bool:
    """Return whether an environment can be drawn on a screen; print a note if it cannot."""
    if "human" in render_modes:
        return True
    print_note(f"{environment.label} is not shown, as it has no render mode 'human'.")
    return False


class Summary(NamedTuple):
    """A summary of several episodes.

    Attributes:
        mean_return: Mean return.
        low: Lower end of the 95% interval of the mean.
        high: Upper end of the interval.
    """

    mean_return: float
    low: float
    high: float


def summary_of(played: Sequence[PlayedEpisode], time_limit: int | None) -> Summary:
    """Return the mean return of episodes with its interval from Student's distribution, within the limits of returns.

    Args:
        played: At least two episodes.
        time_limit: Step limit of episodes, or None.
    """
    from scipy import stats

    from studies.statistics.bounds import ReturnExtremes, bounds_of

    returns = [episode.episode_return for episode in played]
    n, mean = len(returns), math.fsum(returns) / len(returns)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in returns) / (n - 1))
    half = float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)
    a_step = [episode.episode_return / episode.length for episode in played]
    seen = ReturnExtremes(min(returns), max(returns), 0, 0, min(a_step), max(a_step))
    bounds = bounds_of(seen, time_limit)
    return Summary(mean, max(mean - half, bounds.least), min(mean + half, bounds.most))


def print_episodes(played: Sequence[PlayedEpisode], time_limit: int | None) -> None:
    """Print the return of each of a few episodes, and the summary."""
    for number, episode in enumerate(played, 1):
        ended = "   cut off" if episode.cut else ""
        text = f"episode {number}   return {number_text(episode.episode_return)}   {counted(episode.length, 'step')}"
        if len(played) <= _LISTED:
            results().print(text + ended)
    if len(played) > 1:
        mean, low, high = summary_of(played, time_limit)
        line = Text.assemble((f"mean return {number_text(mean)}", "bold green"))
        line.append(f"   95% interval {interval_text(low, high)}   {counted(len(played), 'episode')}")
        if n_cut := sum(episode.cut for episode in played):
            line.append(f", {n_cut} of them cut off")
        results().print(line)


class PlayingProgress:
    """Shows the number of played episodes. A context manager that is called with each episode.

    Args:
        n_episodes: Total number of episodes.
    """

    def __init__(self, n_episodes: int) -> None:
        self.played: list[PlayedEpisode] = []
        self.n_episodes = n_episodes
        self._console = errors()
        self._printed_at = time.monotonic()
        self._spinner = Spinner("dots")
        self._live = GuardedLive(self._draw, display(), lambda error: None) if can_redraw(self._console) else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, episode: PlayedEpisode) -> None:
        """Add an episode."""
        self.played.append(episode)
        silent = self._live is not None and not self._live.failed
        if not silent and time.monotonic() - self._printed_at >= _LINE_SECONDS:
            self._printed_at = time.monotonic()
            self._console.print(Text(f"  {self._text()}"))

    def _text(self) -> str:
        played = list(self.played)  # a copy, because the display reads from another thread
        if not played:
            return "starting"
        mean = math.fsum(episode.episode_return for episode in played) / len(played)
        return f"{len(played)} of {counted(self.n_episodes, 'episode')}, mean return {number_text(mean)}"

    def _draw(self) -> Spinner:
        self._spinner.update(text=Text(self._text(), style="dim"))
        return self._spinner


def print_video_command(checkpoint: Path, flags: Mapping[str, bool], *valued: tuple[str, int | str | None]) -> None:
    """Print the command that writes a video of a checkpoint, with the options of the present command.

    Args:
        checkpoint: The checkpoint, or its folder.
        flags: Flags, and whether each is set.
        *valued: Options with their values; None is left out.
    """
    words = [name for name, is_set in flags.items() if is_set]
    words += [word for name, value in valued if value is not None for word in (name, str(value))]
    print_commands("To see it", [(f"finder play {shlex.join([str(checkpoint), *words])} --video out.gif", "")])

"""Files that `finder play` writes: a video, pictures, and a dataset of demonstrations."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from agents.errors import ConfigurationError
from finder.progress.console import environment_flags, errors, print_commands
from studies.words import counted

if TYPE_CHECKING:
    from agents.contract.agent import Agent
    from agents.environments import EnvironmentSpec
    from agents.playing.record import Recording


@dataclass
class Outputs:
    """The files of one call of `finder play`.

    Attributes:
        video: File of the video, or None.
        frames: Folder of the pictures, or None.
        record: Name of the dataset, or None.
        recording: The dataset, once playing has begun.
    """

    video: Path | None
    frames: Path | None
    record: str | None
    recording: Recording | None = field(default=None, init=False)

    @property
    def draws(self) -> bool:
        """True if frames are drawn for a file."""
        return self.video is not None or self.frames is not None

    @property
    def any(self) -> bool:
        """True if anything is written to a file; nothing is then drawn on the screen."""
        return self.draws or self.record is not None

    def check(self, headless: bool) -> None:
        """Check the options, before anything long begins.

        Args:
            headless: Whether nothing shall be drawn.

        Raises:
            ConfigurationError: Something shall be drawn, or the dataset cannot be written.
        """
        if headless and self.draws:
            raise ConfigurationError("--headless draws nothing: leave it out, --video and --frames need no screen.")
        if self.record is not None:
            from agents.demonstrations.writing import check_new_dataset

            check_new_dataset(self.record)

    def play(self, agent: Agent, environment: EnvironmentSpec, options: dict[str, Any]) -> None:
        """Play episodes and write them.

        Args:
            agent: The agent.
            environment: The environment.
            options: Further arguments of `agents.play`.
        """
        from agents.playing.play import play, rendering_of
        from agents.playing.record import Recording, about_agent
        from agents.playing.video import Pictures, VideoFile

        with ExitStack() as stack:
            targets: list[Any] = []
            if self.record is not None:
                about = about_agent(agent, environment, explore=options["explore"], seed=options["seed"])
                self.recording = Recording(environment, self.record, about, max_steps=options["max_steps"])
                environment = stack.enter_context(self.recording).environment
            if self.frames is not None:
                targets.append(stack.enter_context(Pictures(self.frames)))
            if self.video is not None:  # last, so that an existing file is kept if another check fails
                targets.append(stack.enter_context(VideoFile(self.video, rendering_of(environment)[1])))
            if not targets:
                play(agent, environment, **options)
                return

            def add(frame: Any) -> None:
                for target in targets:
                    target.add(frame)

            play(agent, environment, on_frame=add, **options)

    def as_json(self) -> dict[str, Any]:
        """Return the entries of ``--json``."""
        if self.recording is None:
            return {}
        return {"dataset": self.recording.dataset, "dataset_folder": str(self.recording.folder)}

    def print_recorded(self) -> None:
        """Print where episodes were recorded, also after Ctrl-C or an error."""
        if self.recording is None:
            return
        dataset, n_episodes, n_steps = self.recording.dataset, self.recording.n_episodes, self.recording.n_steps
        if not dataset:
            errors().print(Text("no episode was complete: no dataset was written", "yellow"))
            return
        counts = f"{counted(n_episodes, 'episode')} ({counted(n_steps, 'step')})"
        text = f"{counts} written to the dataset {dataset} in {self.recording.folder}"
        errors().print(Text(text, "dim"), soft_wrap=True)

    def print_files(self) -> None:
        """Print the files of frames."""
        for written in (self.video, self.frames):
            if written is not None:
                errors().print(Text(f"written to {written}", "dim"), soft_wrap=True)

    def print_next(self, agent: Agent, environment: EnvironmentSpec) -> None:
        """Print a command that learns from the dataset, where there is one: rewards are learned from vectors."""
        if self.recording is None or not isinstance(environment.id, str) or len(agent.observation_space.shape) != 1:
            return
        command = f"finder lr ppo {environment_flags(environment)} --expert {shlex.quote(self.recording.dataset)}"
        print_commands("Next", [(command, "the learning rate of an agent that learns from these episodes")])

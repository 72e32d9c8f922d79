"""The command `play`: episodes of a trained agent, on screen, as a video or as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from agents.errors import ConfigurationError
from finder.cli import values
from finder.cli.console import errors, print_json, results, say_error
from finder.cli.foreign import foreign_output_on_stderr
from finder.cli.parameters import Json
from studies.words import counted, number_text

if TYPE_CHECKING:
    from agents.playing import PlayedEpisode


def play(  # noqa: PLR0917 - a command's flags
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of a run, whose newest checkpoint plays; or a checkpoint's file.",
            show_default=False,
        ),
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes.")] = 1,
    video: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a video instead: a .gif or an .mp4.", show_default=False),
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every frame as a PNG into this folder.", show_default=False),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Cut episodes off after so many steps.", show_default=False)
    ] = None,
    explore: Annotated[bool, typer.Option("--explore", help="Draw actions as in training.")] = False,
    best: Annotated[bool, typer.Option("--best", help="Of a folder, take the best checkpoint.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the environment.")] = 1_000_000,
    env_kwargs: Annotated[
        str | None, typer.Option(metavar="JSON", help="Other arguments of the environment.", show_default=False)
    ] = None,
    json: Json = False,
) -> int:
    """Play episodes with a trained agent: on screen, or with --video or --frames without one."""
    from agents.playing import require_screen

    arguments = values.json_object(env_kwargs, "--env-kwargs")
    if video is None and frames is None:
        require_screen()
    from agents.checkpoint_file import find, header_of, load_agent

    path = find(checkpoint, best=best)
    header = header_of(path)
    errors().print(
        Text.assemble(
            ("Playing ", "bold"),
            f"{header.algorithm} on {header.environment}, trained for {header.env_steps:,} environment steps · {path}",
        ),
        soft_wrap=True,
    )
    from agents.silence import import_tensorflow

    import_tensorflow()
    played: list[PlayedEpisode] = []
    try:
        with foreign_output_on_stderr():
            agent = load_agent(path)
            assert agent.environment is not None  # every checkpoint says where its agent learned
            where = agent.environment if env_kwargs is None else replace(agent.environment, kwargs=arguments)
            shown = {"n_episodes": episodes, "max_steps": max_steps, "explore": explore, "seed": seed}
            _play(agent, where, video, frames, {**shown, "on_episode": played.append})
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever an environment or its screen raises
        say_error(f"{header.environment} cannot be played: {type(error).__name__}: {error}")
        return 1
    finally:
        if not json:
            _print(played)
    if json:
        print_json({"checkpoint": str(path), "episodes": [episode._asdict() for episode in played]})
    for written in (video, frames):
        if written is not None:
            errors().print(Text(f"written to {written}", "dim"), soft_wrap=True)
    return 0


def _play(agent: Any, where: Any, video: Path | None, frames: Path | None, shown: dict[str, Any]) -> None:
    from agents.playing import play, rendering_of
    from agents.video import Pictures, VideoFile

    with ExitStack() as stack:
        targets: list[Any] = []
        if frames is not None:
            targets.append(stack.enter_context(Pictures(frames)))
        if video is not None:  # last: what is there stays as it is where something else is wrong
            targets.append(stack.enter_context(VideoFile(video, rendering_of(where)[1])))
        if not targets:
            play(agent, where, render_mode="human", **shown)
            return

        def add(frame: Any) -> None:
            for target in targets:
                target.add(frame)

        play(agent, where, on_frame=add, **shown)


def _print(played: Sequence[PlayedEpisode]) -> None:
    for number, episode in enumerate(played, 1):
        ended = "   cut off" if episode.cut else ""
        told = f"episode {number}   return {number_text(episode.episode_return)}   {counted(episode.length, 'step')}"
        results().print(told + ended)
    if len(played) > 1:
        mean = sum(episode.episode_return for episode in played) / len(played)
        results().print(Text.assemble((f"mean return {number_text(mean)}", "bold green")))

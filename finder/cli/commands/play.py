"""The command `play`: episodes of a trained agent, on screen, as a video, as images, as a dataset, or as returns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from agents.errors import ConfigurationError
from finder.cli.options import values
from finder.cli.options.parameters import Json
from finder.cli.options.step_numbers import steps_option
from finder.cli.options.trust_options import AllowModule, Trust
from finder.cli.playing.messages import (
    PlayingProgress,
    can_be_shown,
    print_episodes,
    print_video_command,
    summary_of,
)
from finder.cli.playing.outputs import Outputs
from finder.cli.stdout_guard import redirect_stdout_to_stderr
from finder.progress.console import errors, print_error, print_json

if TYPE_CHECKING:
    from agents.state_files.header import CheckpointHeader

_SEED = 1_000_000
"""Default of --seed: that of evaluations, which no training uses."""


def play(  # noqa: PLR0917 - a command's flags
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of a run, whose newest checkpoint plays; or a checkpoint's file.",
            show_default=False,
        ),
    ],
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes (default: 1, with --record 10).", show_default=False)
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a video instead: a .gif or an .mp4.", show_default=False),
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every frame as a PNG into this folder.", show_default=False),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Record the episodes instead, as a dataset of demonstrations (Minari), which gets the next free "
            "version: NAME-v0.",
            show_default=False,
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        steps_option(
            "Truncate episodes after so many steps (default: the environment's time limit; without one ten times "
            "the mean episode of training, at least 1,000).",
        ),
    ] = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="Show nothing and print returns, as happens without a screen.")
    ] = False,
    explore: Annotated[bool, typer.Option("--explore", help="Draw actions as in training.")] = False,
    best: Annotated[bool, typer.Option("--best", help="Of a folder, take the best checkpoint.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the environment.")] = _SEED,
    env_kwargs: Annotated[
        str | None, typer.Option(metavar="JSON", help="Other arguments of the environment.", show_default=False)
    ] = None,
    trust: Trust = False,
    allow_module: AllowModule = None,
    json: Json = False,
) -> int:
    """Play episodes with a trained agent: on screen, with --video, --frames or --record, or for their returns only.

    With several episodes the mean return and its 95% interval are printed.
    """
    from agents.playing.play import has_screen, rendering_of

    arguments = values.json_object(env_kwargs, "--env-kwargs")
    outputs = Outputs(video, frames, record)
    outputs.check(headless)
    on_screen = not outputs.any and not headless and has_screen()
    if not on_screen:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # SDL fails without a screen
    from agents.checkpoints.file import load_agent
    from agents.state_files.header import find, header_of

    path = find(checkpoint, best=best)
    header = header_of(path)
    _print_begin(header, path)
    from agents.backend.silence import import_tensorflow
    from agents.environments.time_limits import limit_without_one, time_limit

    limit = None
    playing = PlayingProgress(episodes or (1 if record is None else 10))
    try:
        with redirect_stdout_to_stderr(), playing:
            import_tensorflow()
            agent = load_agent(path, trust=trust, allow_modules=allow_module or ())
            assert agent.environment is not None  # checkpoints have the environment
            where = agent.environment if env_kwargs is None else replace(agent.environment, kwargs=arguments)
            limit, modes = time_limit(where), rendering_of(where)[0]
            on_screen = on_screen and can_be_shown(where, modes)
            most = max_steps or (limit_without_one([_mean_length(header)]) if limit is None else None)
            limit = min(limit, most) if limit is not None and most is not None else limit  # bounds the possible returns
            shown: dict[str, Any] = {
                "n_episodes": playing.n_episodes,
                "max_steps": most,
                "explore": explore,
                "seed": seed,
                "on_episode": playing,
                "render_mode": "human" if on_screen else None,
            }
            outputs.play(agent, where, shown)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever an environment or its screen raises
        print_error(f"{header.environment} cannot be played: {type(error).__name__}: {error}")
        return 1
    finally:
        if not json:
            print_episodes(playing.played, limit)
        outputs.print_recorded()
    if json:
        together = summary_of(playing.played, limit)._asdict() if len(playing.played) > 1 else {}
        played = {"episodes": [each._asdict() for each in playing.played], **together}
        print_json({"checkpoint": str(path), **played, **outputs.as_json()})
    outputs.print_files()
    if not json:
        outputs.print_next(agent, where)
    if "rgb_array" in modes and not outputs.any and not on_screen and not json:
        print_video_command(
            checkpoint,
            {"--best": best, "--explore": explore, "--trust": trust},
            ("--env-kwargs", env_kwargs),
            ("--max-steps", max_steps),
            ("--seed", None if seed == _SEED else seed),
            *(("--allow-module", each) for each in allow_module or ()),
        )
    return 0


def _mean_length(header: CheckpointHeader) -> float:
    """Return the mean length of the episodes of a training; 0 if none has ended."""
    return header.env_steps / header.episodes if header.episodes else 0.0


def _print_begin(header: CheckpointHeader, path: Path) -> None:
    trained = f"{header.algorithm} on {header.environment}, trained for {header.env_steps:,} environment steps · {path}"
    errors().print(Text.assemble(("Playing ", "bold"), trained), soft_wrap=True)

"""The messages of `finder train`: the run, its result, and how to resume."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from rich.text import Text

from finder.cli.stdout_guard import redirect_stdout_to_stderr
from finder.progress.console import errors, print_commands, print_json, print_note, results
from finder.progress.search_progress import seconds_text
from studies.spaces.rate_schedules import end_text, schedules_in
from studies.words import counted, number_text, rate_text, spread_text

if TYPE_CHECKING:
    from agents.state_files.header import CheckpointHeader
    from finder.cli.options.parameters import Output
    from finder.long_run.long_run import RunResult
    from finder.long_run.run_folder import RunFolder, RunSettings
    from studies.analysis.recommendation import Recommendation


def print_begin(folder: RunFolder) -> None:
    """Print the agent, the budget and the folder of a run."""
    settings = folder.settings
    agent = settings.agent.rpartition(":")[2]
    errors().print(
        Text.assemble(
            ("Training ", "bold"),
            f"{agent} on {settings.env}, seed {settings.seed}, {budget_text(settings)} · in {folder.path}",
        )
    )


def print_ending_schedules(settings: RunSettings) -> None:
    """Print a note on each learning-rate schedule that ends before the run does."""
    from agents.config.work import gradient_steps_in

    config = settings.agent_spec().config
    n_steps = None if settings.env_steps is None else gradient_steps_in(config, settings.env_steps)
    for name, schedule in schedules_in(settings.config).items():
        if text := end_text(schedule, n_steps):
            print_note(f"{f'{name}: ' if name else ''}the schedule {text}.")


def print_resumed(header: CheckpointHeader, why_new_episodes: str) -> None:
    """Print from where a run resumes, and why it starts new episodes if it does."""
    errors().print(
        Text.assemble(
            ("Resuming ", "bold"),
            f"after {header.env_steps:,} environment steps and {counted(header.episodes, 'episode')}",
        )
    )
    if why_new_episodes:
        print_note(f"{why_new_episodes} Everything else is restored.")


def print_pick(pick: Recommendation, settings: RunSettings, *, chosen: bool = False) -> None:
    """Print the pick that is trained, or the trial that was chosen, and the doubts about its learning rate."""
    errors().print(Text.assemble(("The trial " if chosen else "The pick ", "bold"), repr(pick)))
    if settings.schedule:
        at = ", ".join(f"{changed_at:,}" for changed_at, _ in settings.schedule)
        errors().print(Text(f"The schedule changes at {at} environment steps of this run", "dim"))
    rate = pick.rate
    if rate is not None and rate.corrected and rate.horizon is not None:
        text = f"learning rate {rate_text(rate.suggested)}, corrected for {rate.horizon:,} environment steps"
        errors().print(Text(text, "dim"))
    if rate is not None and rate.why_unsafe:
        print_note(f"no safe suggestion of a learning rate: {rate.why_unsafe}")
    horizon, steps = None if rate is None else rate.horizon, settings.env_steps
    if horizon is not None and steps is not None and steps > horizon:
        print_note(f"the study's pick is for {horizon:,} environment steps, and this run has {steps:,}.")


def budget_text(settings: RunSettings) -> str:
    """Return the limits of a run as text."""
    parts = []
    if settings.env_steps is not None:
        parts.append(counted(settings.env_steps, "environment step"))
    if settings.episodes is not None:
        parts.append(counted(settings.episodes, "episode"))
    if settings.target_reward is not None:
        parts.append(f"a mean return of {number_text(settings.target_reward)}")
    return " or ".join(parts)


def conclude(folder: RunFolder, result: RunResult, output: Output) -> None:
    """Print the result of a run, and the next commands."""
    if output.json:
        print_json({"folder": str(folder.path), **result._asdict()})
    else:
        mean = "no episode has ended" if result.mean_return is None else f"return {number_text(result.mean_return)}"
        results().print(
            Text.assemble(
                (mean, "bold green"),
                ""
                if result.best_return is None
                else f"   mean of the last {counted(_mean_episodes(result), 'episode')}",
                _evaluated_text(result),
                f"   {result.env_steps:,} steps, {counted(result.episodes, 'episode')}   {folder.path}",
            ),
            soft_wrap=True,
        )
    if not output.quiet:
        if result.mean_return is None and (advice := _no_episode_advice(folder.settings, result.env_steps)):
            print_note(f"no episode has ended. {advice}")

        for name, own in result.custom_metrics.items():
            span = f"{number_text(own['min'])} to {number_text(own['max'])}"
            errors().print(Text(f"{name} {number_text(own['mean'])}   {span}", "dim"), soft_wrap=True)
        errors().print(Text(f"{result.reason} · {seconds_text(result.wall_seconds)} of training", "dim"))
        plot = f"finder plot {shlex.quote(str(folder.path))}"
        print_commands("Next", [_playing(folder), (plot, "returns and losses, in one HTML file")])


def _mean_episodes(result: RunResult) -> int:
    return result.mean_episodes or min(100, result.episodes)  # results of earlier versions have no number


def _evaluated_text(result: RunResult) -> str:
    """Return the last evaluation as part of the headline; "" without evaluations."""
    last = result.evaluation
    if last is None:
        return ""
    spread = math.nan if last["std_return"] is None else last["std_return"]
    at = "" if last["env_steps"] == result.env_steps else f" after {last['env_steps']:,} steps"
    return f"   evaluated {spread_text(last['mean_return'], spread)}{at}"


def _playing(folder: RunFolder) -> tuple[str, str]:
    """Return the command that plays, with its purpose, by what the environment can draw."""
    from agents.environments import EnvironmentSpec
    from agents.playing.play import has_screen, rendering_of

    command = f"finder play {shlex.quote(str(folder.path))}"
    try:
        with redirect_stdout_to_stderr():
            modes = rendering_of(EnvironmentSpec.of_described(folder.settings))[0]
    except Exception:  # noqa: BLE001 - whatever code of the user raises: the run has ended well
        modes = []
    if "human" in modes and has_screen():
        return command, "watch it" + ("; --video out.gif writes it" if "rgb_array" in modes else "")
    if "rgb_array" in modes:
        return f"{command} --video out.gif", "see it"
    return f"{command} --episodes 10", "returns without exploration"


def _no_episode_advice(settings: RunSettings, env_steps: int) -> str:
    from agents.environments import EnvironmentSpec
    from agents.environments.time_limits import no_episode_advice

    with redirect_stdout_to_stderr():
        n_copies = int(settings.config.get("n_envs", 1))
        return no_episode_advice(EnvironmentSpec.of_described(settings), n_copies, env_steps)


def print_stopped(folder: RunFolder, result: RunResult) -> None:
    """Print what is saved of an interrupted run, and how to resume it."""
    settings = folder.settings
    total = "" if settings.env_steps is None else f" of {settings.env_steps:,}"
    kept = f"saved in {result.checkpoint}" if result.checkpoint else "nothing is saved"
    errors().print(
        Text.assemble(("Stopped ", "bold"), f"after {result.env_steps:,}{total} environment steps; {kept}."),
        soft_wrap=True,
    )
    if settings.weights_only:
        print_note(
            "its checkpoints hold weights only (--weights-only): it cannot be resumed, but others can start from it."
        )
    else:
        print_commands("Resume:", [(f"finder train --resume {shlex.quote(str(folder.path))}", "")])

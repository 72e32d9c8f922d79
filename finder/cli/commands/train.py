"""The command `train`: starts and resumes the long run of an agent or of the pick of a study."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from agents.errors import ConfigurationError
from finder.cli.options import values
from finder.cli.options.expert_options import Expert, Pretrain, Reward, from_expert
from finder.cli.options.parameters import (
    ENVIRONMENT,
    EnvKwargs,
    Json,
    MaxEpisodeSteps,
    NumThreads,
    Output,
    Quiet,
    Storage,
    Wrappers,
)
from finder.cli.options.step_numbers import steps_option
from finder.cli.options.trust_options import AllowModule, Trust
from finder.cli.stdout_guard import redirect_stdout_to_stderr
from finder.cli.training.run import resume_run, run
from finder.cli.training.settings import (
    environment_settings,
    settings_of_agent,
    settings_of_pick,
    weights_of,
    with_absolute_path,
)
from finder.progress.console import print_note
from finder.results.flags import flag_of
from studies.defaults import DEFAULT_STORAGE

_WHAT, _BUDGET, _FILES, _DURING = "What is trained", "Budget", "Files", "During training"
_WITH_RESUME = {
    "context", "resume", "env_steps", "episodes", "target_reward", "hang_seconds", "trust", "allow_module", "json",
    "quiet", "num_threads",
}  # fmt: skip
"""Flags that are allowed with `--resume`."""


def train(
    context: typer.Context,
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="A name (dqn, ppo, sac, ...), module:Class or file.py:Class; left out with --resume, and given with "
            "--from only if the agent of the study was defined in a script.",
            show_default=False,
        ),
    ] = None,
    *,
    env: Annotated[str | None, ENVIRONMENT] = None,
    env_kwargs: EnvKwargs = None,
    wrapper: Wrappers = None,
    max_episode_steps: MaxEpisodeSteps = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a hyperparameter, such as learning_rate=3e-4. May be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    set_deprecated: Annotated[list[str] | None, typer.Option("-p", metavar="NAME=VALUE", hidden=True)] = None,
    expert: Expert = None,
    reward: Reward = None,
    pretrain: Pretrain = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="STUDY",
            help="Train the pick of this study, exactly.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    trial: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="With --from: a complete trial of the study, such as one of its Pareto front, in place of the pick.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    storage: Storage = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Resume the run in this folder; a larger budget may be given.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Start from the weights in a checkpoint, or in the newest one of a folder.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    callback: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A callback: module:Class or file.py:Class. May be repeated.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.", rich_help_panel=_WHAT)] = 0,
    vectorization: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How environments are stepped: auto, native, envpool, sync, async, ray or ray-subproc.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Distribution strategy: none, one-device, mirrored (two replicas), mirrored:4, multi-worker-mirrored "
            "or parameter-server.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    hang_seconds: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="S",
            help="Time limit of an environment step and of an update; 0 for none.",
            rich_help_panel=_DURING,
        ),
    ] = 600.0,
    pool: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes that step the environments.", show_default=False, rich_help_panel=_WHAT
        ),
    ] = None,
    num_threads: NumThreads = None,
    env_steps: Annotated[
        int | None,
        steps_option(
            "Environment steps of the whole run (default 1,000,000, or the horizon of the study).",
            "--env-steps",
            "--steps",
            "--max-steps",
            panel=_BUDGET,
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes.", show_default=False, rich_help_panel=_BUDGET)
    ] = None,
    target_reward: Annotated[
        float | None,
        typer.Option(
            help="End when the mean return of the last 100 episodes reaches this.",
            show_default=False,
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the run (default runs/AGENT-ENV-seedN).",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL",
            help="Interval of checkpoints: 10000 (environment steps), 50episodes or 60s (default 60s).",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None,
    keep: Annotated[
        int,
        typer.Option(min=1, help="Number of newest checkpoints to keep, besides the best one.", rich_help_panel=_FILES),
    ] = 3,
    best_only: Annotated[
        bool, typer.Option("--best-only", help="Write a checkpoint only when it is the best.", rich_help_panel=_FILES)
    ] = False,
    weights_only: Annotated[
        bool,
        typer.Option(
            "--weights-only", help="Checkpoints hold weights only; the run cannot be resumed.", rich_help_panel=_FILES
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write a log for TensorBoard.", rich_help_panel=_FILES)
    ] = False,
    evaluate_every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL",
            help="Evaluate without exploration: every 10000 (environment steps), 50episodes or 60s.",
            show_default=False,
            rich_help_panel=_DURING,
        ),
    ] = None,
    evaluate_episodes: Annotated[
        int, typer.Option(min=1, help="Episodes of an evaluation.", rich_help_panel=_DURING)
    ] = 10,
    eval_max_steps: Annotated[
        int | None,
        steps_option(
            "Truncate episodes of evaluations after so many steps (default: the environment's time limit; "
            "without one, ten times the longest episode of training, at least 1,000).",
            panel=_DURING,
        ),
    ] = None,
    plateau: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="CHECKS",
            help="Lower the learning rate after so many checks without improvement. A check is an evaluation or, "
            "without evaluations, the mean return of 100 further episodes.",
            show_default=False,
            rich_help_panel=_DURING,
        ),
    ] = None,
    plateau_factor: Annotated[
        float, typer.Option(help="Factor of the learning rate at a plateau.", rich_help_panel=_DURING)
    ] = 0.9,
    min_learning_rate: Annotated[
        float, typer.Option(help="Lower limit of the learning rate at plateaus.", rich_help_panel=_DURING)
    ] = 0.0,
    early_stop: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="CHECKS",
            help="Stop after so many checks without improvement.",
            show_default=False,
            rich_help_panel=_DURING,
        ),
    ] = None,
    patience_from: Annotated[
        int,
        typer.Option(min=0, metavar="STEP", help="Environment steps before the first check.", rich_help_panel=_DURING),
    ] = 0,
    trust: Trust = False,
    allow_module: AllowModule = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train an agent, or the pick of a study, in a folder from which the run can be resumed."""
    output = Output(context.obj, json, quiet)
    if set_deprecated:
        print_note("-p of finder train is deprecated and will be removed in the next version: use --set.")
        set_ = [*(set_ or ()), *set_deprecated]
    given = {name for name in context.params if values.is_given(context, name)}
    budget = {"env_steps": env_steps, "episodes": episodes, "target_reward": target_reward}
    if resume is not None:
        _refuse(given - _WITH_RESUME, "a run resumes with its settings, and only its budget can be changed")
        more = {name: value for name, value in budget.items() if value is not None}
        hangs = hang_seconds if "hang_seconds" in given else None
        return resume_run(resume, more, output, hang_seconds=hangs, trust=trust, allow_modules=allow_module or ())
    _refuse_without_effect(given)
    kept = {
        "seed": seed, "evaluate_every": _interval(evaluate_every, "--evaluate-every"),
        "evaluate_episodes": evaluate_episodes, "eval_max_steps": eval_max_steps, "keep": keep,
        "best_only": best_only, "weights_only": weights_only,
        "checkpoint_every": _interval(checkpoint_every, "--checkpoint-every"), "plateau": plateau,
        "plateau_factor": plateau_factor, "min_learning_rate": min_learning_rate, "early_stop": early_stop,
        "patience_from": patience_from, "tensorboard": tensorboard, "pool": pool,
        "hang_seconds": hang_seconds,
    }  # fmt: skip
    state = None if start_from is None else weights_of(start_from, trust=trust)
    from agents.environments import EnvironmentSpec

    with ExitStack() as until:
        with redirect_stdout_to_stderr():  # of modules and environments of the user
            if from_ is not None:
                set_by_pick = {
                    "env_kwargs", "wrapper", "max_episode_steps", "set_", "set_deprecated", "expert", "reward",
                    "pretrain", "vectorization", "strategy",
                }  # fmt: skip
                _refuse(given & set_by_pick, "--from trains the study's pick as it is")
                chosen = {**budget, **kept, "callbacks": callback}
                settings = settings_of_pick(
                    from_, storage or DEFAULT_STORAGE, agent, state, chosen,
                    allow_modules=allow_module or (), until=until, quiet=quiet, trial=trial, env=env,
                )  # fmt: skip
            else:
                if agent is None or env is None:
                    raise ConfigurationError(
                        "Nothing to train is given: AGENT --env ID, --from STUDY, or --resume DIR."
                    )
                arguments = values.json_object(env_kwargs, "--env-kwargs")
                place = EnvironmentSpec.of(env, arguments)
                place = replace(place, wrappers=wrapper or (), max_episode_steps=max_episode_steps)
                where = {**environment_settings(place), "vectorization": vectorization or "auto"}
                where |= {"callbacks": tuple(map(with_absolute_path, callback or ())), "strategy": strategy or "none"}
                learner, learned = from_expert(agent, expert, reward, pretrain)
                params = {**learned, **values.settings(set_)}
                settings = settings_of_agent(learner, place, params, {**where, **budget, **kept})
            from finder.long_run.long_run import check_settings
            from finder.long_run.run_folder import RunFolder, free_folder

            check_settings(settings)
        new = RunFolder.new(folder or free_folder(settings), settings, output.words)
        return run(new, state, output, resumes=False)


def _interval(text: str | None, flag: str) -> str | None:
    from agents.callbacks.intervals import Every

    if text is None:
        return None
    try:
        return str(Every.of(text))
    except ConfigurationError as error:
        raise ConfigurationError(f"{flag}: {error}") from None


def _refuse(flags: set[str], reason: str) -> None:
    if flags:
        names = ", ".join("AGENT" if name == "agent" else _flag(name) for name in sorted(flags))
        raise ConfigurationError(f"{names}: {reason}. Leave {'it' if len(flags) == 1 else 'them'} out.")


def _refuse_without_effect(given: set[str]) -> None:
    """Refuse flags without effect, because the flags that they modify were not given."""
    needs = {
        "storage": {"from_"}, "trial": {"from_"},
        "evaluate_episodes": {"evaluate_every"}, "eval_max_steps": {"evaluate_every"},
        "plateau_factor": {"plateau"}, "trust": {"start_from"}, "allow_module": {"from_"},
        "min_learning_rate": {"plateau"}, "patience_from": {"plateau", "early_stop"},
    }  # fmt: skip
    for name, others in needs.items():
        if name in given and not others & given:
            raise ConfigurationError(f"{_flag(name)} has no effect without {' or '.join(map(_flag, sorted(others)))}.")
    if {"best_only", "evaluate_every", "checkpoint_every"} <= given:
        raise ConfigurationError(
            "--best-only writes the best checkpoints after evaluations: leave --checkpoint-every out."
        )


def _flag(name: str) -> str:
    return "-p" if name == "set_deprecated" else flag_of(name.rstrip("_"))

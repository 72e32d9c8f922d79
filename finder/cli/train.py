"""The command `train`: the long run, of an agent or of a study's pick, and how it goes on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agents.errors import ConfigurationError
from finder.cli import values
from finder.cli.advice import say_doubts
from finder.cli.console import say_error, storage_flag
from finder.cli.parameters import Json, Output, Quiet, Storage
from finder.cli.train_words import say_pick
from finder.cli.training import go_on, run
from studies.defaults import DEFAULT_STORAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from finder.run_folder import RunSettings

DEFAULT_STEPS = 1_000_000
"""Environment steps of a run that was given no limit."""

_WHAT, _BUDGET, _KEPT, _MEANWHILE = "What is trained", "Budget", "What is kept", "Meanwhile"
_OWN = ("policy", "noise", "goal_function")
"""Hyperparameters that may name something of the user's."""

_GOING_ON = {"context", "resume", "env_steps", "episodes", "target_reward", "json", "quiet"}
"""What can be said to a run that goes on."""


def train(
    context: typer.Context,
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="A name (dqn, ppo, sac, ...), module:Class or file.py:Class; left out with --from and --resume.",
            show_default=False,
        ),
    ] = None,
    *,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Gymnasium environment, such as CartPole-v1; module:ID imports the module first.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    env_kwargs: Annotated[
        str | None, typer.Option(metavar="JSON", help="Arguments of the environment.", rich_help_panel=_WHAT)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-p",
            metavar="NAME=VALUE",
            help="A hyperparameter, such as learning_rate=3e-4. May be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
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
    storage: Storage = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with the run in this folder; a larger budget may be given.",
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
            metavar="PLACE",
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
            help="On how many devices it learns: none, one-device, mirrored (two replicas), mirrored:4, "
            "multi-worker-mirrored or parameter-server.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    pool: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes that step its environments.", show_default=False, rich_help_panel=_WHAT
        ),
    ] = None,
    env_steps: Annotated[
        int | None,
        typer.Option(
            "--env-steps",
            "--steps",
            min=1,
            help="Environment steps (default 1,000,000, or the horizon of the study).",
            show_default=False,
            rich_help_panel=_BUDGET,
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
            rich_help_panel=_KEPT,
        ),
    ] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL",
            help="Interval of checkpoints: 10000 (environment steps), 50episodes or 60s (default 60s).",
            show_default=False,
            rich_help_panel=_KEPT,
        ),
    ] = None,
    keep: Annotated[
        int, typer.Option(min=1, help="Newest checkpoints that stay, beside the best one.", rich_help_panel=_KEPT)
    ] = 3,
    best_only: Annotated[
        bool, typer.Option("--best-only", help="Write a checkpoint only when it is the best.", rich_help_panel=_KEPT)
    ] = False,
    weights_only: Annotated[
        bool,
        typer.Option(
            "--weights-only", help="Checkpoints hold weights only; the run cannot go on.", rich_help_panel=_KEPT
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write a log for TensorBoard.", rich_help_panel=_KEPT)
    ] = False,
    evaluate_every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL",
            help="Evaluate without exploration: every 10000 (environment steps), 50episodes or 60s.",
            show_default=False,
            rich_help_panel=_MEANWHILE,
        ),
    ] = None,
    evaluate_episodes: Annotated[
        int, typer.Option(min=1, help="Episodes of an evaluation.", rich_help_panel=_MEANWHILE)
    ] = 10,
    plateau: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LOOKS",
            help="Lower the learning rate after so many looks without improvement: at each evaluation, or without "
            "these each 100 episodes.",
            show_default=False,
            rich_help_panel=_MEANWHILE,
        ),
    ] = None,
    plateau_factor: Annotated[
        float, typer.Option(help="What the learning rate is multiplied by then.", rich_help_panel=_MEANWHILE)
    ] = 0.9,
    min_learning_rate: Annotated[
        float, typer.Option(help="What it does not fall below.", rich_help_panel=_MEANWHILE)
    ] = 0.0,
    early_stop: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LOOKS",
            help="Stop after so many looks without improvement.",
            show_default=False,
            rich_help_panel=_MEANWHILE,
        ),
    ] = None,
    patience_from: Annotated[
        int, typer.Option(min=0, metavar="STEP", help="Do not look before this step.", rich_help_panel=_MEANWHILE)
    ] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train an agent, or the pick of a study, in a folder of its own, where it goes on after whatever ends it."""
    output = Output(context.obj, json, quiet)
    given = {name for name in context.params if _is_given(context, name)}
    budget = {"env_steps": env_steps, "episodes": episodes, "target_reward": target_reward}
    if resume is not None:
        _refuse(given - _GOING_ON, "the run goes on with what it was begun with, but for its budget")
        return go_on(resume, {name: value for name, value in budget.items() if value is not None}, output)
    _refuse_without_effect(given)
    kept = {
        "seed": seed, "evaluate_every": _interval(evaluate_every, "--evaluate-every"),
        "evaluate_episodes": evaluate_episodes, "keep": keep, "best_only": best_only, "weights_only": weights_only,
        "checkpoint_every": _interval(checkpoint_every, "--checkpoint-every"), "plateau": plateau,
        "plateau_factor": plateau_factor, "min_learning_rate": min_learning_rate, "early_stop": early_stop,
        "patience_from": patience_from, "tensorboard": tensorboard, "pool": pool,
    }  # fmt: skip
    state = None if start_from is None else _weights(start_from)
    if from_ is not None:
        as_it_is = {"env", "env_kwargs", "set_", "vectorization", "strategy"}
        _refuse(given & as_it_is, "--from trains the study's pick as it is")
        chosen = {**budget, **kept, "callbacks": callback}
        settings = _of_pick(from_, storage or DEFAULT_STORAGE, agent, state, chosen, quiet=quiet)
    else:
        if agent is None or env is None:
            raise ConfigurationError("Say what to train: AGENT --env ID, --from STUDY, or --resume DIR.")
        arguments = values.json_object(env_kwargs, "--env-kwargs")
        where = {"env": env, "env_kwargs": arguments, "vectorization": vectorization or "auto"}
        where |= {"callbacks": tuple(map(_findable, callback or ())), "strategy": strategy or "none"}
        settings = _of_agent(agent, values.settings(set_), {**where, **budget, **kept})
    from finder.long_run import check_settings
    from finder.run_folder import RunFolder, free_folder

    check_settings(settings)
    new = RunFolder.new(folder or free_folder(settings), settings, output.words)
    return run(new, state, output, goes_on=False)


def _of_agent(agent: str, params: Mapping[str, Any], chosen: Mapping[str, Any]) -> RunSettings:
    """The settings of a run of an agent that is named."""
    from agents.environments import EnvironmentSpec
    from agents.spec import AgentSpec
    from finder.run_folder import RunSettings

    where = EnvironmentSpec.of(chosen["env"], chosen["env_kwargs"])
    spec = AgentSpec.of(agent, where, params)
    spec.config.refuse_without_effect(params)
    config = {name: _findable(value) if name in _OWN else value for name, value in spec.config.to_dict().items()}
    return RunSettings(agent=_findable(agent), config=config, **_with_limit(chosen, DEFAULT_STEPS))


def _of_pick(
    study: str, storage: str, agent: str | None, weights: Any, chosen: Mapping[str, Any], *, quiet: bool
) -> RunSettings:
    """The settings of a run of a study's pick; says which it is, and how sure the study was."""
    from finder.picked import picked_agent, picked_callbacks
    from finder.run_folder import RunSettings
    from studies.pick import best, why_no_pick
    from studies.study import load_study

    with load_study(storage, study) as opened:
        why = why_no_pick(opened)
        if why:
            see = f"See finder show {shlex.quote(study)}{storage_flag(opened.storage.label)}"
            say_error(f"the study {study!r} has no pick to train: {why}", see)
            raise typer.Exit(1)
        pick = best(opened)
        spec = picked_agent(opened, pick, agent, weights)
        callbacks = tuple(map(_findable, picked_callbacks(opened, chosen["callbacks"])))
        settings = RunSettings(
            agent=_findable(agent or pick.agent),
            config=spec.config.to_dict(),
            env=pick.env,
            env_kwargs=dict(pick.env_kwargs),
            vectorization=spec.environment.vectorization,
            strategy=opened.spec.strategy,
            study={"name": opened.name, "storage": opened.storage.label, "trial": pick.trial},
            **_with_limit({**chosen, "callbacks": callbacks}, opened.spec.horizon or DEFAULT_STEPS),
        )
        if not quiet:
            say_pick(pick, settings)
            say_doubts(opened, pick)
    return settings


def _with_limit(chosen: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """What was chosen, with a limit where none was."""
    limits = ("env_steps", "episodes")
    return {**chosen} if any(chosen[name] for name in limits) else {**chosen, "env_steps": steps}


def _findable(place: Any) -> Any:
    """Something of the user's that is found from other directories too: of a file, its whole path."""
    if not isinstance(place, str):
        return place
    file, colon, name = place.rpartition(":")
    return f"{Path(file).resolve()}{colon}{name}" if file.endswith(".py") else place


def _weights(place: Path) -> Mapping[str, Any]:
    from agents.checkpoint_file import load_weights
    from agents.silence import import_tensorflow

    import_tensorflow()
    return load_weights(place)


def _interval(text: str | None, flag: str) -> str | None:
    from agents.intervals import Every

    if text is None:
        return None
    try:
        return str(Every.of(text))
    except ConfigurationError as error:
        raise ConfigurationError(f"{flag}: {error}") from None


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP", "ENVIRONMENT")


def _refuse(flags: set[str], why: str) -> None:
    if flags:
        told = ", ".join("AGENT" if name == "agent" else _flag(name) for name in sorted(flags))
        raise ConfigurationError(f"{told}: {why}. Leave {'it' if len(flags) == 1 else 'them'} out.")


def _refuse_without_effect(given: set[str]) -> None:
    """Refuses flags that only say more of others that were not given."""
    needs = {
        "storage": {"from_"}, "evaluate_episodes": {"evaluate_every"}, "plateau_factor": {"plateau"},
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
    return {"set_": "--set", "from_": "--from"}.get(name, f"--{name.replace('_', '-')}")

"""The settings of a run of a named agent, or of the pick of a study."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from finder.cli.advice import print_doubts
from finder.cli.training.messages import print_pick
from finder.progress.console import print_error, print_note
from studies.spaces.rate_schedules import stretch_text
from studies.storage.commands import storage_flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from agents.environments import EnvironmentSpec
    from finder.long_run.run_folder import RunSettings

DEFAULT_STEPS = 1_000_000
"""Default budget of a run in environment steps."""

_FILE_IN_ARGUMENT = re.compile(r'(=\s*"?)([^:=,"]+\.py)(?=:)')
"""A file in the arguments of a wrapper, such as `function=rules.py:rule`."""

_OWN = ("policy", "noise", "goal_function")
"""Hyperparameters that may name code of the user."""


def settings_of_agent(
    agent: str, environment: EnvironmentSpec, params: Mapping[str, Any], chosen: Mapping[str, Any]
) -> RunSettings:
    """Return the settings of a run of a named agent."""
    from agents.contract.spec import AgentSpec
    from finder.long_run.run_folder import RunSettings

    spec = AgentSpec.of(agent, environment, params)
    spec.config.refuse_without_effect(params)
    config = {
        name: with_absolute_path(value) if name in _OWN else value for name, value in spec.config.to_dict().items()
    }
    return RunSettings(agent=with_absolute_path(agent), config=config, **_with_limit(chosen, DEFAULT_STEPS))


def settings_of_pick(
    study: str,
    storage: str,
    agent: str | None,
    weights: Any,
    chosen: Mapping[str, Any],
    *,
    allow_modules: Sequence[str],
    until: ExitStack,
    quiet: bool,
    trial: int | None = None,
    env: str | None = None,
) -> RunSettings:
    """Return the settings of a run of the pick of a study; print the pick and the doubts about it.

    Args:
        study: The study.
        storage: Its storage.
        agent: Place of the agent, or None for the one of the study.
        weights: Initial weights, or None.
        chosen: Settings from the flags.
        allow_modules: Modules that a study of other users may name.
        until: Stack that restricts modules until it is closed.
        quiet: Whether to print nothing.
        trial: Number of a complete trial in place of the pick. Defaults to None.
        env: Place of the environment, or None for the one of the study.
    """
    from agents.trust.allowed_modules import places_in
    from finder.long_run.recommendation import agent_of_pick, recommended_callbacks, schedule_of_run
    from finder.long_run.run_folder import RunSettings
    from finder.search.trusted_code import trusted_code_only
    from studies.analysis.recommendation import best
    from studies.judging.missing_pick import why_no_pick
    from studies.spec.metrics import metric_of
    from studies.spec.objectives import names_of
    from studies.study.study import load_study

    with load_study(study, storage) as opened:
        own = places_in(agent or "", env or "", list(chosen["callbacks"] or ()))
        until.enter_context(trusted_code_only(opened, [*allow_modules, *own]))
        reason = why_no_pick(opened) if trial is None else ""
        if reason:
            see = f"See finder show {shlex.quote(study)}{storage_flag(opened.storage.label)}"
            print_error(f"the study {study!r} has no pick to train: {reason}", see)
            raise typer.Exit(2 if opened.spec.metrics else 1)
        pick = best(opened, trial)
        budget = _with_limit(chosen, opened.spec.horizon or DEFAULT_STEPS)
        spec = agent_of_pick(opened, pick, agent, weights, env, env_steps=budget["env_steps"])
        callbacks = tuple(map(with_absolute_path, recommended_callbacks(opened, chosen["callbacks"])))
        limited = {**budget, "callbacks": callbacks}
        named = tuple(name for name in (metric_of(each).name for each in names_of(opened.spec)) if name)
        if named and limited["pool"] and not quiet:
            print_note(f"{' and '.join(named)} cannot be shown: processes of a pool do not send the info of episodes.")
        settings = RunSettings(
            agent=with_absolute_path(agent or pick.agent),
            info_metrics=() if limited["pool"] else named,
            config=spec.config.to_dict(),
            schedule=schedule_of_run(pick, opened.spec.env_steps, limited["env_steps"]),
            **environment_settings(spec.environment),
            vectorization=spec.environment.vectorization,
            strategy=opened.spec.strategy,
            study={"name": opened.name, "storage": opened.storage.label, "trial": pick.trial},
            **limited,
        )
        if not quiet:
            print_pick(pick, settings, chosen=trial is not None)
            stretching = stretch_text(pick.config, opened.spec.env_steps, settings.env_steps)
            if stretching:
                print_note(stretching[:1].lower() + stretching[1:])
            if trial is None:
                print_doubts(opened, pick)
    return settings


def _with_limit(chosen: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return the chosen settings, with a default budget if none was chosen."""
    limits = ("env_steps", "episodes")
    return {**chosen} if any(chosen[name] for name in limits) else {**chosen, "env_steps": steps}


def with_absolute_path(place: Any) -> Any:
    """Return a place with the absolute path of its file, so that it is found from other directories."""
    if not isinstance(place, str):
        return place
    from agents.contract.registry import prefixes_of

    prefixes, place = prefixes_of(place)
    file, colon, name = place.partition(".py:")
    full = f"{Path(file).resolve()}{colon}{name}" if colon else place
    return "-".join((*prefixes, full))


def environment_settings(environment: EnvironmentSpec) -> dict[str, Any]:
    """Return the description of an environment with absolute paths; see `with_absolute_path`."""
    described = environment.described
    wrappers = tuple(map(_wrapper_with_absolute_paths, described["wrappers"]))
    return {**described, "env": with_absolute_path(described["env"]), "wrappers": wrappers}


def _wrapper_with_absolute_paths(wrapper: str) -> str:
    """Return a wrapper with the absolute paths of its file and of the files that its arguments name."""
    from agents.environments.wrappers import split_arguments

    def absolute(match: re.Match[str]) -> str:
        file = Path(match[2])
        return f"{match[1]}{file.resolve() if file.is_file() else match[2]}"

    place, *arguments = split_arguments(wrapper)
    return ":".join([with_absolute_path(place), *(_FILE_IN_ARGUMENT.sub(absolute, each) for each in arguments)])


def weights_of(place: Path, *, trust: bool) -> Mapping[str, Any]:
    """Return the weights in a checkpoint, or in the newest one of a folder."""
    from agents.backend.silence import import_tensorflow
    from agents.checkpoints.file import load_weights

    import_tensorflow()
    return load_weights(place, trust=trust)

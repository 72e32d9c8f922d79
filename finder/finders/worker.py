"""Workers: processes, on one or many machines, that run trials of a study in a storage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.config.optimizers import OptimizerSpec
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.trust.allowed_modules import places_in
from agents.trust.identity import identity_of
from finder.budgets.dry_run import refuse_dry_run
from finder.executors.choice import choose_executor, settings_of_others
from finder.finders.optimizer import optimizers_by_label
from finder.results.search_result import SearchResult
from finder.search.display import open_display, uses_builtin_display
from finder.search.object_resolver import ObjectResolver, check_plan
from finder.search.options import ENVIRONMENT, non_default_params, set_by_trials, weights_digest
from finder.search.search import Search
from finder.search.trusted_code import trusted_code_only
from studies.defaults import DEFAULT_STORAGE
from studies.recording.opening import join_study
from studies.spec.spec import StudySpec

if TYPE_CHECKING:
    from finder.search.observer import Observer
    from studies.study.study import AnyStorage, OpenStudy


def work(
    study_name: str,
    storage: AnyStorage = DEFAULT_STORAGE,
    *,
    agents: Sequence[Any] = (),
    optimizers: Sequence[Any] = (),
    environment: Any = None,
    callbacks: Sequence[Any] = (),
    executor: str | None = None,
    n_jobs: int | None = None,
    population: int | None = None,
    observer: Observer | None = None,
    progress: bool | Observer = True,
    allow_modules: Sequence[str] = (),
) -> SearchResult:
    """Run trials of a study until it is done, together with any number of other processes.

    In a database, or behind `finder serve`, a study may have any number of workers in addition to the process that
    started it. A SQLite or journal file accepts one process at a time, so a worker resumes a study that no other
    process runs.

    Args:
        study_name: Name of the study.
        storage: The storage, open, or as a URL or path. Defaults to ``sqlite:///finder.db``.
        agents: The agents of the study, as they were given to the finder that started it, if they are more than names.
            Agents with other settings are refused.
        optimizers: The optimizers of the study, likewise.
        environment: The environment of the study, if it is more than a Gymnasium id. Another environment is refused.
        callbacks: Factories of the callbacks of the study, if they are defined in a script: all of them, in order.
        executor: The executor of this worker; settings of the study that it does not have, such as `population`, are
            left out. Defaults to the one of the study.
        n_jobs: Number of processes of this worker. Defaults to the one of the study.
        population: Runs that a process of this worker trains at the same time. Defaults to the number of the study.
        observer: See `StudyOptions`.
        progress: See `StudyOptions`.
        allow_modules: Modules or files whose code (environments, agents, callbacks, ...) a study of other users may
            name, in addition to Finder, Gymnasium, the arguments of this call and `FINDER_ALLOW_MODULES`. Other users
            may have written a study in a database server, behind `finder serve`, or in a file of another user.

    Returns:
        The study with the results of all workers.

    Raises:
        ConfigurationError: Agents, optimizers or environment differ from those of the study, the study names a
            module that is not allowed, or this is a dry run.
        StudyError: There is no such study, or another process writes its file.
    """
    refuse_dry_run("A worker (finder.work)")
    progress = progress if observer is None else observer
    study = join_study(study_name, storage)
    with contextlib.ExitStack() as stack:
        stack.push(_close_on_error(study))
        given = places_in(agents, optimizers, environment, callbacks, [type(agent) for agent in agents])
        stack.enter_context(trusted_code_only(study, [*allow_modules, *given]))
        spec = study.spec
        resolver = _resolver(spec, agents, optimizers, environment, callbacks)
        check_plan(spec, resolver)
        given_options = {"executor": executor, "n_jobs": n_jobs, "population": population}
        changes = {name: value for name, value in given_options.items() if value is not None}
        inherited = spec.to_json_dict()
        if executor is not None:
            inherited |= dict.fromkeys(settings_of_others(executor))
        here = StudySpec.from_json_dict({**inherited, **changes})
        known = {label: resolver.agents[label] for label in spec.agents}
        with open_display(progress) as display:
            where, alone = choose_executor(here, known, resolver.why_alone), uses_builtin_display(progress)
            search = Search(study, resolver, where, display, report_interrupts=alone)
            stopped = search.run()
    return SearchResult(search.study, stopped)


def _close_on_error(study: OpenStudy) -> Callable[..., None]:
    """Return an exit callback that closes a study after an error."""

    def close(kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            study.close()

    return close


def _resolver(
    spec: StudySpec, agents: Sequence[Any], optimizers: Sequence[Any], environment: Any, callbacks: Sequence[Any]
) -> ObjectResolver:
    if callbacks and len(callbacks) != len(spec.callbacks):
        had = ", ".join(spec.callbacks) or "none"
        raise ConfigurationError(f"The study's runs have the callbacks {had}: give {len(spec.callbacks)} callbacks.")
    place = None if environment is None else EnvironmentSpec.of(environment)
    given = [AgentSpec.of(agent, place) for agent in agents]
    if given and len(given) != len(spec.agents):
        raise ConfigurationError(f"The study compares {', '.join(spec.agents)}: give {len(spec.agents)} agents.")
    by_label = dict(zip(spec.agents, given, strict=True)) if given else {}
    for label, agent in by_label.items():
        _check_same(spec, label, agent)
    if given:
        place = given[0].environment
    elif place is not None:
        _check_environment(spec, place)
    named: Mapping[str, OptimizerSpec] = optimizers_by_label(optimizers) if optimizers else {}
    return ObjectResolver.of(spec, agents=by_label, optimizers=named, environment=place, callbacks=callbacks)


def _check_same(spec: StudySpec, label: str, agent: AgentSpec) -> None:
    """Raise `ConfigurationError` if an agent differs from the one of the study."""
    own = non_default_params(agent, set_by_trials(spec.params, spec.fixed, spec.trials))
    theirs = spec.agent_params.get(label, {})
    if own != theirs:
        raise ConfigurationError(f"The study's {label} has {theirs or 'no settings of its own'}, this one {own}.")
    if weights_digest(agent) != spec.agent_weights.get(label):
        raise ConfigurationError(f"The study's {label} starts from other weights than this one.")
    _check_object(spec, label, agent.agent)
    _check_environment(spec, agent.environment)


def _check_object(spec: StudySpec, name: str, given: Any) -> None:
    """Raise `ConfigurationError` if a class or a function is another one of the same name."""
    theirs, own = spec.objects.get(name), identity_of(given)
    if theirs and own and theirs != own:
        raise ConfigurationError(f"The study's {name} is {theirs}, this one {own}: give the same class or function.")


def _check_environment(spec: StudySpec, environment: EnvironmentSpec) -> None:
    """Raise `ConfigurationError` if an environment differs from the one of the study."""
    _check_object(spec, ENVIRONMENT, environment.id)
    given = environment.described
    theirs = {name: getattr(spec, name) for name in given}
    if theirs != given:
        expected, other = (
            " with ".join(
                [side["env"], *(f"{name} {value}" for name, value in side.items() if name != "env" and value)]
            )
            for side in (theirs, given)
        )
        raise ConfigurationError(f"The study has the environment {expected}, not {other}.")

"""Helping with a study that is in a storage: from this machine or from many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.config.optimizers import OptimizerSpec
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.trust.allowed_modules import places_in
from finder.executors import choose_executor
from finder.finders.optimizer import labelled
from finder.search.display import open_display, uses_builtin_display
from finder.search.object_resolver import ObjectResolver, check_plan
from finder.search.options import non_default_params, weights_digest
from finder.search.results import SearchResult
from finder.search.search import Search
from finder.search.trusted_code import trusted_code_only
from studies.defaults import DEFAULT_STORAGE
from studies.recording.opening import join_study
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage

if TYPE_CHECKING:
    from finder.search.observer import Observer
    from studies.study.study import OpenStudy


def work(
    study_name: str,
    storage: StudyStorage | str = DEFAULT_STORAGE,
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
    """Take trials of a study until it is done, beside any number of other processes that do the same.

    In a database, or behind `finder serve`, a study may have any number of workers, and who began it may be one of
    them. A file has one writer: there a worker goes on with a study that nobody runs.

    Args:
        study_name: The study.
        storage: Where it is, open or as a URL. Defaults to ``sqlite:///finder.db``.
        agents: The agents that the study compares, where they are more than names: as they were given to the finder
            that began it. An agent that would train something else is refused.
        optimizers: The same for optimizers.
        environment: The study's environment, where it is more than a Gymnasium id. Another one is refused.
        callbacks: What makes the callbacks of the study's runs, where they are of a script: as many, in their order.
        executor: Where trials run here. Defaults to what the study says.
        n_jobs: Processes at the same time, here. Defaults to what the study says.
        population: Runs that a process trains at the same time, here. Defaults to what the study says.
        observer: See `StudyOptions`.
        progress: See `StudyOptions`.
        allow_modules: Modules, or files, whose code the study may name (environments, agents, callbacks, ...) beside
            Finder's own, Gymnasium's and what is given here, where others may have written it: its storage is a
            database server, behind `finder serve`, or another user's file. Those of `FINDER_ALLOW_MODULES` too.

    Returns:
        The study, with what all workers have found.

    Raises:
        ConfigurationError: Agents, optimizers or an environment that are not those of the study; or it names a module
            that is not allowed.
        StudyError: There is no such study, or it is in a file that another process writes.
    """
    study = join_study(study_name, storage)
    with contextlib.ExitStack() as stack:
        stack.push(_closing(study))
        given = places_in(agents, optimizers, environment, callbacks, [type(agent) for agent in agents])
        stack.enter_context(trusted_code_only(study, [*allow_modules, *given]))
        spec = study.spec
        resolver = _resolver(spec, agents, optimizers, environment, callbacks)
        check_plan(spec, resolver)
        given_options = {"executor": executor, "n_jobs": n_jobs, "population": population}
        changes = {name: value for name, value in given_options.items() if value is not None}
        here = StudySpec.from_json_dict({**spec.to_json_dict(), **changes})
        known = {label: resolver.agents[label] for label in spec.agents}
        with open_display(progress, observer) as display:
            where, alone = choose_executor(here, known, resolver.why_alone), uses_builtin_display(progress, observer)
            search = Search(study, resolver, where, display, report_interrupts=alone)
            stopped = search.run()
    return SearchResult(search.study, stopped)


def _closing(study: OpenStudy) -> Callable[..., None]:
    """What closes a study when a block ends with an error."""

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
    named: Mapping[str, OptimizerSpec] = labelled(optimizers) if optimizers else {}
    return ObjectResolver.of(spec, agents=by_label, optimizers=named, environment=place, callbacks=callbacks)


def _check_same(spec: StudySpec, label: str, agent: AgentSpec) -> None:
    """Refuse an agent that is not the one that the study was begun with."""
    varied = {*spec.params, *spec.fixed, *(name for row in spec.trials for name in row)}
    own, theirs = non_default_params(agent, varied), spec.agent_params.get(label, {})
    if own != theirs:
        raise ConfigurationError(f"The study's {label} has {theirs or 'no settings of its own'}, this one {own}.")
    if weights_digest(agent) != spec.agent_weights.get(label):
        raise ConfigurationError(f"The study's {label} starts from other weights than this one.")
    _check_environment(spec, agent.environment)


def _check_environment(spec: StudySpec, environment: EnvironmentSpec) -> None:
    """Refuse an environment that is not the one that the study was begun with."""
    given = environment.described
    theirs = {name: getattr(spec, name) for name in given}
    if theirs != given:
        told, other = (
            " with ".join(
                [side["env"], *(f"{name} {value}" for name, value in side.items() if name != "env" and value)]
            )
            for side in (theirs, given)
        )
        raise ConfigurationError(f"The study is about {told}, not about {other}.")

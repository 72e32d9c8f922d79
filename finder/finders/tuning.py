"""Searches over any hyperparameters of an agent, also from files."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Unpack

from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.renamed import with_present_names
from finder.budgets.dry_run import refuse_dry_run
from finder.finders.declared_spaces import default_space, notes_on_pairs, parse_spaces
from finder.finders.first_trials import current_params, first_trials, with_current_params
from finder.finders.tuned_values import ZOO, has_tuned_values, widened, with_tuned_values
from finder.finders.warm_start import with_warm_start
from finder.results.flags import flag_of
from finder.results.search_result import SearchResult
from finder.search.default_metric import default_metric
from finder.search.object_resolver import ObjectResolver, check_plan
from finder.search.observer import Observer
from finder.search.options import (
    IN_MEMORY,
    StudyOptions,
    check_named,
    make_spec,
    run_options,
    scheduler_name,
    usual_metric,
)
from finder.search.run_search import run_search
from finder.search.study_file import read_study
from studies.analysis.status import study_status
from studies.checked_model import plain
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.redaction import redacted
from studies.spaces.space_notation import parse_space
from studies.spaces.spaces import Fixed
from studies.spec.budget_rules import check_horizon
from studies.spec.fields import BUDGET_FIELDS, USUAL_TRIALS
from studies.spec.population_rules import PERTURB_STEPS
from studies.spec.scheduler_names import is_grid, is_population_based
from studies.spec.spec import StudySpec
from studies.study.origin import StudyOrigin, started_by
from studies.study.study import OpenStudy
from studies.words import counted

_RUN_OPTIONS = (
    "minutes", "total_env_steps", "n_trials", "name", "n_jobs", "executor", "population",
    "warm_start", "warm_start_storage", "warm_start_trials",
)  # fmt: skip
"""Arguments of `run_file` for which `finder run` has flags."""

P = ParamSpec("P")
T = TypeVar("T")


def _with_deprecated_names(function: Callable[P, T]) -> Callable[P, T]:
    """Accept the arguments of `tune` under their deprecated names.

    `space` was the name of `params`, and `params` that of `fixed`. A keyword `params` still means `fixed` beside a
    space, or if each of its values is a single one.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        given: dict[str, Any] = plain(dict(kwargs))
        if "params" in given and "fixed" not in given:
            subject = {name: given[name] for name in ("agent", "environment") if name in given}
            is_fixed = "space" in given or len(args) > 2 or _all_fixed(given["params"], *args[:2], **subject)
            given = with_present_names(given, {"params": "fixed"} if is_fixed else {})
        return function(*plain(args), **with_present_names(given, {"space": "params", "metrics": "metric"}))

    return call


def _all_fixed(params: Mapping[str, Any] | None, agent: Any, environment: Any = None) -> bool:
    """Return whether there are parameters, and each of them has a single value that the agent takes."""

    def is_taken(name: str, given: Any) -> bool:
        try:
            config.replace({name: given})
        except ConfigurationError:
            return False
        return True

    def is_fixed(name: str, given: Any) -> bool:
        if given is None or not is_taken(name, given):
            return False
        if isinstance(given, list | tuple):  # such as the sizes of layers, each of which is no value by itself
            return not all(is_taken(name, each) for each in given)
        try:
            return isinstance(parse_space(given), Fixed)
        except StudyError:  # such as a table of arguments: a value of the agent, and no space
            return True

    try:
        config = AgentSpec.of(agent, environment).config
        return bool(params) and all(is_fixed(name, given) for name, given in (params or {}).items())
    except ConfigurationError:
        return False


@_with_deprecated_names
def tune(
    agent: str | type[Agent] | Agent | AgentSpec | Callable[..., Any],
    environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    env_steps: int | None = None,
    episodes: int | None = None,
    metric: str | Sequence[str] | None = None,
    n_trials: int | None = None,
    sampler: str = "tpe",
    sampler_kwargs: Mapping[str, Any] | None = None,
    first: str | Sequence[Mapping[str, Any] | str] | None = None,
    warm_start: str | OpenStudy | SearchResult | None = None,
    warm_start_storage: str | PathLike[str] | None = None,
    warm_start_trials: int | None = None,
    perturb_steps: int | None = None,
    **options: Unpack[StudyOptions],
) -> SearchResult:
    """Search the hyperparameters of an agent.

    Args:
        agent: A name, a class, a built agent, or an `AgentSpec`.
        environment: The environment; may be left out if the agent has one.
        params: Hyperparameter -> search space: ``"0.9:0.999"`` is a range (``"1e-5:1e-1:log"`` on a log axis), a list
            or ``"a,b,c"`` a choice, and None the range that the hyperparameter declares. Arguments of optimizers are
            named ``optimizer.momentum``; ``"0:0.99@optimizer=sgd"`` exists only in trials with that optimizer. Defaults
            to all hyperparameters with a declared range.
        env_steps: Budget of each run in environment steps. Defaults to 50,000 where `episodes` is not given.
        episodes: Budget of each run in episodes.
        metric: What runs are compared by: ``"return"``, ``"greedy-return"`` (of episodes without exploration),
            ``"auc"`` (mean return over the whole training), ``"steps-to:475"`` (environment steps to a return),
            ``"success-rate"``, ``"custom:NAME"`` or ``"loss"`` (`studies.spec.metrics`), which is hard to compare
            between rates. Defaults to ``"greedy-return"`` for `sac`, `td3` and `ddpg`, else to ``"return"``.
            Several, in a list, give a Pareto front (`studies.judging.pareto_front`).
        n_trials: Trials in total, including those of a resumed study. Defaults to 20 (to one more than the sets of
            `first`, if they are 20 or more), or with `minutes` (or `total_env_steps`) and `env_steps` to as many as it
            suffices for.
        sampler: Name of a sampler. Defaults to ``"tpe"``.
        sampler_kwargs: Arguments of the sampler.
        first: Parameter sets that are tried before the sampler proposes any, in this order; the sampler completes those
            that lack a parameter. ``"zoo"`` stands for the values that rl-baselines3-zoo tuned for the agent and the
            environment, completed by those of the agent. The agent with its own values is tried after all first
            trials, to the end, and the pick is compared with it. Defaults to ``"zoo"`` where there are such values and
            the space is the default one, without a warm start, a plan or population-based training. Such a space is
            widened by the tuned values, whatever is tried first (`finder.finders.tuned_values.widened`); ``()`` is for
            no first trials and the space as it is.
        warm_start: Another study, its name, or the result of its search: its best trials are tried first, after those
            of `first`. All of its trials that this study could have run inform the sampler (``"tpe"`` and ``"gp"``):
            same agent, environment, budget and metric, every parameter in the search space. Defaults to None.
        warm_start_storage: Storage of that study. Defaults to that of this study.
        warm_start_trials: Number of trials of that study that are tried first. Defaults to 5, or as many as fit.
        perturb_steps: With the scheduler ``"pbt"`` or ``"pb2"`` (`studies.population_based`), environment steps after
            which the worst members copy better ones. Trials then have one seed by default. Defaults to a tenth of the
            budget of a run.
        **options: See `StudyOptions`; `fixed` are hyperparameters that have the same value in every trial.

    Raises:
        ConfigurationError: A name is unknown, or a value is invalid.
        StudyError: The storage cannot be opened, or has another study of this name.
    """
    if params is not None and not isinstance(params, Mapping):
        raise ConfigurationError(
            f"The hyperparameters to search are {params!r}: give them with their spaces, such as "
            '{"gamma": "0.9:0.999"}, or None for the usual range.'
        )
    check_named("sampler", sampler)
    _check_first(first)
    spec = AgentSpec.of(agent, environment)
    _set_population_options(options, perturb_steps)
    fixed = options.get("fixed") or {}
    as_fixed = spec.with_params(fixed)
    only_live = is_population_based(scheduler_name(options) or "")
    searched = params or default_space(as_fixed, fixed, only_live=only_live)
    if not searched:
        names = list(spec.config.describe())
        raise ConfigurationError(
            f"{spec.label} declares no ranges: give the hyperparameters to search, such as {names[0]}=low:high. "
            f"It has {', '.join(names)}."
            if names
            else f"{spec.label} has no parameters to search: add some with defaults."
        )
    spaces = parse_spaces(spec, searched)
    is_plan = is_grid(sampler)
    is_default = not (params or is_plan or only_live)
    is_known = is_default and has_tuned_values(as_fixed)
    begins_tuned = is_known and first is None and warm_start is None
    given_first = ZOO if begins_tuned else first or ()
    asked = ZOO in ([given_first] if isinstance(given_first, str) else given_first)
    if is_default and (asked or (is_known and (given_first or warm_start is not None))):
        spaces = widened(spaces, as_fixed, fixed)  # the same space whatever is tried first
    current = current_params(as_fixed, spaces)
    try:
        sets, notes = with_tuned_values(given_first, as_fixed, spaces, current)
    except ConfigurationError:
        if not begins_tuned:
            raise
        sets, notes = [], []  # all that was tuned is fixed
    if begins_tuned and notes:
        notes = [f"{notes[0]} --first none leaves them out."]
    if not is_plan:  # a grid is one of lists of values
        notes = [*notes, *notes_on_pairs(spec, searched)]
    if metric is None:
        metric = usual_metric([spec], options)
    if not isinstance(sampler_kwargs, Mapping | None):
        raise ConfigurationError(f"sampler_kwargs is {sampler_kwargs!r}: give a dict of the arguments of the sampler.")
    rows = first_trials(as_fixed, spaces, fixed, sets, n_trials)
    if n_trials is None and len(rows) >= USUAL_TRIALS:
        n_trials = len(rows) + 1  # the agent with its own values is tried, too
    given: dict[str, Any] = {} if n_trials is None else {"n_trials": n_trials}
    study = make_spec(
        "tune",
        [spec],
        options,
        env_steps=env_steps,
        episodes=episodes,
        metric=metric,
        params=spaces,
        first=tuple(rows),
        **given,
        sampler=sampler,
        sampler_kwargs=dict(sampler_kwargs or {}),
    )
    study = _started(study, warm_start, warm_start_storage, warm_start_trials)
    if not is_plan:
        study = with_current_params(study, current, as_fixed)
    agents, callbacks = {spec.label: spec}, options.get("callbacks")
    resolver = ObjectResolver.of(study, agents=agents, environment=spec.environment, callbacks=callbacks)
    return SearchResult(*run_search(study, resolver=resolver, notes=notes, **run_options(options)))


def _check_first(first: Any) -> None:
    """Raise `ConfigurationError` if first trials are given as something else than a list."""
    if first is None or isinstance(first, str | Sequence):
        return
    of_frame = ", of a data frame first=frame.to_dict('records')" if hasattr(first, "to_dict") else ""
    raise ConfigurationError(
        f"first is a {type(first).__name__}: give a list of parameter sets, such as [{{'learning_rate': 3e-4}}]"
        f"{of_frame}; or 'zoo' for tuned values."
    )


def _set_population_options(options: StudyOptions, perturb_steps: int | None) -> None:
    """Set the options of population-based training, if it is the scheduler."""
    scheduler = scheduler_name(options)
    if scheduler is None or not is_population_based(scheduler):
        if perturb_steps is not None:
            raise ConfigurationError(
                f"perturb_steps is {perturb_steps}, which only population-based training has: give the scheduler 'pbt' "
                "or 'pb2' (--scheduler), or leave it out."
            )
        return
    options.setdefault("seeds", 1)
    if perturb_steps is not None:
        options["pruner_kwargs"] = {**(options.get("pruner_kwargs") or {}), PERTURB_STEPS: perturb_steps}


def _started(
    study: StudySpec,
    source: str | OpenStudy | SearchResult | None,
    storage: str | PathLike[str] | None,
    n_best: int | None,
) -> StudySpec:
    """Return a study with its warm start, the same study if it has none."""
    if source is not None:
        return with_warm_start(study, source, storage, n_best)
    if (storage, n_best) != (None, None):
        raise ConfigurationError("warm_start_storage and warm_start_trials need warm_start: give the other study too.")
    return study


def run_file(
    path: str | Path,
    observer: Observer | None = None,
    *,
    progress: bool | Observer = True,
    warm_start: str | OpenStudy | SearchResult | None = None,
    warm_start_storage: str | PathLike[str] | None = None,
    warm_start_trials: int | None = None,
    **overrides: Any,
) -> SearchResult:
    """Run the study of a TOML file.

    Args:
        path: The file.
        observer: See `StudyOptions`.
        progress: See `StudyOptions`.
        warm_start: See `tune`.
        warm_start_storage: See `tune`.
        warm_start_trials: See `tune`.
        **overrides: Fields of the study that are replaced.

    Raises:
        StudyError: The file cannot be read or has mistakes; the message lists every mistake with its line.
    """
    start = {
        "warm_start": warm_start, "warm_start_storage": warm_start_storage, "warm_start_trials": warm_start_trials,
    }  # fmt: skip
    given = {**overrides, **{name: value for name, value in start.items() if value is not None}}
    with started_by(_origin_of(path, given)):
        study = _started(_read(path, overrides), warm_start, warm_start_storage, warm_start_trials)
        return SearchResult(*run_search(study, observer=observer, progress=progress, is_named=True))


def submit_file(path: str | Path, **overrides: Any) -> tuple[OpenStudy, int]:
    """Create the study of a TOML file in its storage without running it; workers (`finder.work`) run it.

    Args:
        path: The file.
        **overrides: Fields of the study that are replaced.

    Returns:
        The study, and the number of remaining trials.

    Raises:
        StudyError: The file cannot be read or has mistakes; the message lists every mistake with its line. Or the study
            cannot be left to workers: it is population-based training, or has a budget of the whole search.
        ConfigurationError: An agent or a value cannot be built.
    """
    refuse_dry_run("The submission of a study (finder.submit_file)")
    spec = _read(path, overrides)
    if is_population_based(spec.pruner):
        raise StudyError(
            f"the study of {str(path)!r} is population-based training ({spec.pruner}), whose members are trained in "
            f"one process, so that workers cannot share it: run it with finder run {shlex.quote(str(path))}."
        )
    if spec.has_limit:
        field = spec.limit_field
        chosen = " and env_steps is still to be chosen for it" if spec.chooses_budget else ""
        raise StudyError(
            f"{field} is {getattr(spec, field):g}{chosen}, but workers do not keep a budget of the whole search: give "
            f"env_steps and n_trials instead, or run the search with finder run {shlex.quote(str(path))} and start "
            "workers beside it."
        )
    check_horizon(spec)
    check_plan(spec, ObjectResolver.of(spec))
    with started_by(_origin_of(path, overrides)):
        study = open_study(spec)
    now = study_status(study)
    return study, now.n_total - now.n_ended + now.n_again


def _read(path: str | Path, overrides: Mapping[str, Any]) -> StudySpec:
    spec = read_study(path)
    overrides = {name: IN_MEMORY if (name, value) == ("storage", None) else value for name, value in overrides.items()}
    if not overrides:
        return _with_metric(_with_room(spec))
    given = spec.model_dump(mode="json", exclude_unset=True)
    if "minutes" in overrides or "total_env_steps" in overrides:  # which choose the budget of each run
        given = {name: value for name, value in given.items() if name not in BUDGET_FIELDS}
    return _with_metric(_with_room(StudySpec.from_json_dict({**given, **overrides})))


def _origin_of(path: str | Path, given: Mapping[str, Any]) -> StudyOrigin:
    """Return the origin of the study of a file: the command that runs it, or a call if that has no flags for arguments.

    Args:
        path: The file.
        given: The arguments of the call. Suggestions name the storage anyway.
    """
    own = {name: plain(value) for name, value in given.items() if name != "storage"}
    if not all(name in _RUN_OPTIONS and isinstance(value, str | PathLike | int | float) for name, value in own.items()):
        return StudyOrigin("run_file")
    flags = [word for name in _RUN_OPTIONS if name in own for word in (flag_of(name), redacted(str(own[name])))]
    return StudyOrigin("file", ("run", str(path), *flags))


def _with_room(spec: StudySpec) -> StudySpec:
    """Return the study of a file with trials for all of its first ones.

    Raises:
        StudyError: The file gives a number of trials that does not suffice.
    """
    n_first = len(spec.first)
    if n_first <= spec.n_trials:
        return spec
    if "n_trials" in spec.model_fields_set:
        raise StudyError(
            f"the file has {counted(n_first, 'first trial')} ([[first]]), but n_trials is {spec.n_trials}: give at "
            f"least {n_first}."
        )
    return spec.model_copy(update={"n_trials": n_first})


def _with_metric(spec: StudySpec) -> StudySpec:
    """Return the study of a file with the default metric of its agents, if none is given."""
    if {"metric", "metrics"} & spec.model_fields_set or spec.kind == "range-test":
        return spec
    resolver = ObjectResolver.of(spec)
    metric = default_metric(list(resolver.agents.values()), resolver.callbacks, spec.total_env_steps)
    return spec if metric == spec.metric else spec.model_copy(update={"metric": metric})

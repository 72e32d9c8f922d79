"""The options that all finders share: the storage of the study, the budget of trials, the executor."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar

from agents.contract.spec import AgentSpec, FunctionSpec
from agents.distributed.strategies import StrategySpec
from agents.errors import ConfigurationError, unknown_name
from agents.trust.identity import identity_of
from agents.trust.loading import place_of
from finder.search.default_metric import default_metric
from finder.search.observer import Observer, RunOptions
from studies.checked_model import plain
from studies.defaults import DEFAULT_STORAGE
from studies.errors import StudyError
from studies.spaces.spaces import Space, check_json
from studies.spec.budget_rules import USUAL_STEPS, least_useful_steps
from studies.spec.metrics import metric_of
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec, default_name

_T = TypeVar("_T")

IN_MEMORY = "memory"


_OWN_ARGUMENTS = {
    "lr": ("start_lr", "end_lr", "n_rates", "rates", "optimizer", "extend"),
    "opt": ("learning_rates", "n_rates", "extend"),
    "agents": (),
    "tune": (
        "params",
        "n_trials",
        "sampler",
        "sampler_kwargs",
        "first",
        "warm_start",
        "warm_start_storage",
        "warm_start_trials",
        "perturb_steps",
    ),
}
"""Question -> arguments of its finder beside the shared options, for errors about unknown options."""


class StudyOptions(TypedDict, total=False):
    """Keyword arguments that all finders share.

    Keys:
        study_name: Name of the study. Defaults to the question, the agents and the environment, such as
            ``lr-ppo-CartPole-v1``. An existing study of this name is resumed.
        storage: Storage of the study, a URL or the path of a file. Defaults to ``sqlite:///finder.db``; None records
            nothing.
        seeds: Number of seeds (0, 1, ...), or a list of seeds. Defaults to 3, or to fewer within a budget of the whole
            search.
        horizon: Environment steps of the long run that the pick is for. If `env_steps` is not given, runs are as long
            as affordable (`default_steps_for`); for longer runs the learning rate is corrected, and the result states
            the uncertainty of the correction.
        minutes: Time of the whole search in minutes, confirmation included. The environment steps of each run are
            chosen for it by a short measurement, at most `horizon`; with `env_steps`, or where `horizon` leaves time, a
            sampler's number of trials is.
        total_env_steps: Environment steps of all runs together, confirmation included; chosen for likewise. Excludes
            `minutes`.
        executor: ``"population"`` (many trials at a time), ``"process"`` (a process for each trial), ``"inline"``
            (one trial after another in this process), or ``"ray"`` (in a Ray cluster). Defaults to populations if the
            agents support them, else processes.
        trial_cpus: CPUs of a trial in a Ray cluster. Defaults to 1.
        trial_memory_gb: Memory of a trial in a Ray cluster, in gigabytes. Defaults to no request.
        strategy: Distribution strategy of each run: ``"none"``, ``"one-device"``, ``"mirrored"`` (two
            replicas), ``"mirrored:4"``, ``"multi-worker-mirrored"``, ``"parameter-server"``, or a `tf.distribute`
            strategy of these kinds. Runs with a strategy have processes of their own. Defaults to ``"none"``.
        n_jobs: Number of processes. Defaults to as many as the cores, fewer for little work.
        population: Runs that a process trains at the same time. Defaults to as many as fit into memory, up to 64.
        scheduler: Name of a scheduler, which stops or pauses trials; ``"none"`` runs all to their end. Or ``"pbt"`` or
            ``"pb2"``, for `tune`: population-based training.
        pruner: The same under its other name.
        pruner_kwargs: Arguments of the scheduler.
        n_reports: Number of intermediate values of a trial whose budget is in environment steps. With `episodes`, a
            trial reports after 200 environment steps, and then each time that there are a fifth more.
        confirm: Number of the best trials that are repeated on further seeds after the search. Defaults to 3, within a
            budget of the whole search to 2 to 16. `tune` confirms the baseline beside them.
        confirm_seeds: Number of further seeds. Defaults to 5.
        confirm_env_steps: Environment steps of each of these runs. If they are longer than those of the search, they
            choose the pick alone, and its value is that of the longer runs. Defaults to as many as in the search.
        callbacks: Factories of the callbacks of each run, which are called without arguments: classes of
            `agents.Callback`, functions, ``"module:Class"`` or ``"file.py:Class"``. Their custom metrics
            become the attribute `custom_metrics` of the trial: mean, min and max over the last part of training.
        fixed: Hyperparameters that have the same value in every trial.
        seed: Seed of the sampler.
        max_failures_in_a_row: Number of consecutive failures that stop the study. Defaults to 3.
        checkpoint_seconds: Seconds between checkpoints of running trials, from which they resume after their process
            was killed; 0 for no checkpoints. Defaults to 60.
        hang_seconds: Time limit of an environment step and of an update, after which the run fails; 0 for no limit.
            Defaults to 600.
        progress: True for a live display on a terminal and in a notebook, and plain lines on standard error elsewhere;
            False for no display; or an observer (`finder.search.observer.Observer`). Defaults to True, or with the
            environment variable ``FINDER_PROGRESS=0`` to False.
        observer: The same as an observer given as `progress`.
    """

    study_name: str
    storage: str | PathLike[str] | None
    seeds: int | Sequence[int]
    horizon: int
    minutes: float
    total_env_steps: int
    executor: str
    trial_cpus: float
    trial_memory_gb: float
    strategy: Any
    n_jobs: int
    population: int
    scheduler: str
    pruner: str
    pruner_kwargs: Mapping[str, Any]
    n_reports: int
    confirm: int
    confirm_seeds: int
    confirm_env_steps: int
    callbacks: Sequence[Any]
    fixed: Mapping[str, Any]
    seed: int
    max_failures_in_a_row: int
    checkpoint_seconds: float
    hang_seconds: float
    progress: bool | Observer
    observer: Observer | None


_NOT_OF_THE_STUDY = {"fixed", "observer", "progress", "scheduler", "study_name"}
"""Options that are not a field of the study, or have another name there."""


def run_options(options: StudyOptions) -> RunOptions:
    """Return the arguments of `run_search` that are among the options of a study."""
    return {
        "progress": options.get("progress", True),
        "observer": options.get("observer"),
        "is_named": options.get("study_name") is not None,
    }


def make_spec(
    kind: Literal["tune", "lr", "opt", "agents"],
    agents: Sequence[AgentSpec],
    options: StudyOptions,
    *,
    env_steps: int | None,
    episodes: int | None,
    default_env_steps: int = USUAL_STEPS,
    metric: str | Sequence[str],
    labels: Sequence[str] = (),
    **fields: Any,
) -> StudySpec:
    """Return the study of a finder from its options and the fields that the finder sets (`fields`).

    Raises:
        ConfigurationError: An option does not exist.
        StudyError: A field of the study is invalid.
    """
    unknown = set(options) - set(StudyOptions.__annotations__)
    if unknown:
        known = {*StudyOptions.__annotations__, "env_steps", "episodes", "metric", *_OWN_ARGUMENTS[kind]}
        raise unknown_name("option", sorted(unknown)[0], known)
    check_study_name(options.get("study_name"))
    chosen = {key: value for key, value in options.items() if key not in _NOT_OF_THE_STUDY}
    environment = agents[0].environment
    labels = tuple(labels) or tuple(agent.label for agent in agents)
    name = options.get("study_name") or default_name(kind, labels, environment.label)
    chosen["storage"] = chosen.get("storage", DEFAULT_STORAGE) or IN_MEMORY
    chosen["callbacks"] = tuple(place_of(maker) for maker in _checked_callbacks(options))
    if (scheduler := scheduler_name(options)) is not None:
        chosen["pruner"] = scheduler
    if kind != "tune" and is_population_based(str(chosen.get("pruner"))):
        raise ConfigurationError(f"{chosen['pruner']} changes numbers during training: use it with tune, not {kind}.")
    if "strategy" in chosen:
        chosen["strategy"] = str(StrategySpec.of(chosen["strategy"]))
    if fields.get("trials") and "seed" in options:
        raise ConfigurationError(
            f"seed is {options['seed']}, but the trials of this search are planned, so that no sampler has a seed: "
            "leave it out, and choose the seeds of runs by seeds (--seeds 10,11,12)."
        )
    if "trials" in fields and not fields["trials"]:
        raise ConfigurationError("Nothing is searched: the list of learning rates is empty.")
    varied = set_by_trials(fields.get("params", {}), options.get("fixed") or {}, fields.get("trials", ()))
    named, metrics = list(zip(labels, agents, strict=True)), _study_metrics(metric)
    if any(metric_of("".join(name.split())).kind == "loss" for name in metrics):
        _refuse_adversarial_losses(named, options.get("fixed") or {})
    return StudySpec(
        kind=kind,
        agents=labels,
        **agent_fields(named, varied),
        **environment.described,
        vectorization=environment.vectorization,
        env_steps=_steps(options, default_env_steps) if env_steps is episodes is None else env_steps,
        episodes=episodes,
        metric=metrics if len(metrics) > 1 else metrics[0],  # type: ignore[arg-type]
        fixed=dict(options.get("fixed") or {}),
        **{"name": name, **chosen, **fields},
    )


def usual_metric(agents: Sequence[AgentSpec], options: StudyOptions) -> str:
    """Return the metric of a study with these agents and options where none is given; see `default_metric`."""
    return default_metric(agents, _checked_callbacks(options), options.get("total_env_steps"))


def _checked_callbacks(options: StudyOptions) -> Sequence[Any]:
    """Return the callbacks of the options.

    Raises:
        ConfigurationError: They are not a list, but a single one for example.
    """
    callbacks: Any = options.get("callbacks")
    if isinstance(callbacks, str) or not isinstance(callbacks, Sequence | None):
        named = getattr(callbacks, "__name__", repr(callbacks))
        raise ConfigurationError(f"callbacks is {callbacks!r}: give a list of factories, such as [{named}].")
    return callbacks or ()


def check_study_name(name: Any) -> None:
    """Raise `ConfigurationError` if the name of a study is given and is none."""
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise ConfigurationError(f"study_name is {name!r}: give a name, or leave it out.")


def check_named(name: str, value: Any) -> None:
    """Raise `ConfigurationError` unless a sampler or scheduler is named or left out: objects of Optuna are refused."""
    if value is not None and not isinstance(value, str):
        arguments = "sampler_kwargs" if name == "sampler" else "pruner_kwargs"
        example = "sampler='tpe'" if name == "sampler" else f"{name}='median'"
        raise ConfigurationError(
            f"{name} is {value!r}: give a name, such as {example}, and arguments by {arguments}={{...}}."
        )


def scheduler_name(options: StudyOptions) -> str | None:
    """Return the scheduler of the options; None if they have none.

    Raises:
        ConfigurationError: One is not a name, or both were given, and differ.
    """
    scheduler, pruner = options.get("scheduler"), options.get("pruner")
    check_named("scheduler", scheduler)
    check_named("pruner", pruner)
    if scheduler is not None and pruner is not None and scheduler != pruner:
        raise ConfigurationError(f"scheduler is {scheduler!r} and pruner is {pruner!r}, which are one: give scheduler.")
    return pruner if scheduler is None else scheduler


def _refuse_adversarial_losses(named: Sequence[tuple[str, AgentSpec]], fixed: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for agents whose loss says nothing about what they have learned."""
    for label, agent in named:
        learns_reward = hasattr(agent.config, "reward_update_interval")
        if learns_reward and not fixed.get("held_out_episodes", getattr(agent.config, "held_out_episodes", 0)):
            raise ConfigurationError(
                f"The loss of {label} falls and rises with a reward that is learned as well, so that trials cannot be "
                f"compared by it: judge by metric='return', or hold out some of the demonstrations "
                f"(held_out_episodes=2), the loss on which then counts."
            )


ENVIRONMENT = "environment"
"""Name of the environment among the objects of a study."""

AFFORDABLE = 100_000
"""Environment steps up to which the runs of a study are as long as the long run."""


def default_steps_for(horizon: int) -> int:
    """Return the default budget of a study for a long run of `horizon` environment steps.

    The budget is the horizon up to `AFFORDABLE`, then `AFFORDABLE`, and at least a quarter of the horizon.
    """
    return max(min(horizon, AFFORDABLE), least_useful_steps(horizon))


def spread_order(values: Sequence[_T]) -> list[_T]:
    """Return values in the order of the van der Corput sequence (1935), whose first elements lie far apart.

    When trials run one after another, the first ones then cover the whole range.
    """
    n_bits = max(1, (len(values) - 1).bit_length())
    order = sorted(range(2**n_bits), key=lambda i: int(f"{i:0{n_bits}b}"[::-1], 2))
    return [values[i] for i in order if i < len(values)]


def default_pruner(metric: str | Sequence[str], episodes: int | None) -> str:
    """Return the default scheduler of a plan of candidates.

    Candidates race by returns, of training or greedy, unless the budget is in episodes, as rungs are in environment
    steps. By other metrics they do not: the race expects learning curves as those of returns are. With several metrics
    none is stopped.
    """
    names = _study_metrics(metric)
    if len(names) > 1:
        return "none"
    return "race" if metric_of(names[0]).is_return and episodes is None else "median"


def _study_metrics(metric: str | Sequence[str]) -> tuple[str, ...]:
    """Return the metrics of a study as specs name them (`studies.spec.metrics`): ``"reward"`` means ``"return"``.

    Raises:
        ConfigurationError: There is none, or it is not a name.
    """
    names: tuple[Any, ...] = (metric,) if isinstance(metric, str) or not isinstance(metric, Iterable) else tuple(metric)
    for name in names:
        if not isinstance(name, str):
            raise ConfigurationError(
                f"metric is {metric!r}: give the name of a metric, such as 'return', or a list of names. A number that "
                "callbacks or the environment measure is 'custom:NAME'."
            )
    if not names:
        raise ConfigurationError("metric is empty: give one metric, or several, such as ['return', 'steps-to:475'].")
    return tuple("return" if name == "reward" else name for name in names)


def _steps(options: StudyOptions, default: int) -> int | None:
    """Return the budget of each run where none was given; None if it is chosen for a budget of the whole search."""
    if options.get("minutes") is not None or options.get("total_env_steps") is not None:
        return None
    horizon = options.get("horizon")
    return default if horizon is None else default_steps_for(horizon)


def set_by_trials(params: Mapping[str, Space], fixed: Collection[str], trials: Iterable[Collection[str]]) -> set[str]:
    """Return the hyperparameters that the trials of a study set, so that those of its agents do not matter.

    A conditional parameter is not among them: trials without it have the value of the agent.
    """
    return {
        *(name for name, space in params.items() if not space.when),
        *fixed,
        *(name for row in trials for name in row),
    }


def agent_fields(named: Sequence[tuple[str, AgentSpec]], varied: set[str]) -> dict[str, Any]:
    """Return the fields of a study that have the settings, the weights and the identity of its agents.

    Args:
        named: Labels and agents.
        varied: Hyperparameters that trials set.
    """
    return {
        "agent_params": {label: own for label, agent in named if (own := non_default_params(agent, varied))},
        "agent_weights": {label: digest for label, agent in named if (digest := weights_digest(agent)) is not None},
        "objects": {name: place for name, given in objects_in(named).items() if (place := identity_of(given))},
    }


def objects_in(named: Sequence[tuple[str, AgentSpec]]) -> dict[str, Any]:
    """Return what agents and their environment were made from, by label, and as `environment`."""
    found: dict[str, Any] = {label: agent.agent for label, agent in named}
    return {**found, ENVIRONMENT: named[0][1].environment.id}


def non_default_params(agent: AgentSpec, varied: set[str]) -> dict[str, Any]:
    """Return the hyperparameters of an agent that differ from the defaults of its class.

    They identify a study: a study of an agent with another discount is another study. Hyperparameters that trials set
    (`set_by_trials`) and `jit_compile`, which depends on the machine, are left out.
    """
    ignored = varied | {"jit_compile"} | ({"optimizer_kwargs"} if "optimizer" in varied else set())
    own = agent.config.to_dict()
    try:
        # All parameters of a function count: two partial functions of one name are different functions.
        usual = {} if isinstance(agent, FunctionSpec) else type(agent.config)().to_dict()
    except TypeError:  # a config class without defaults
        usual = {}
    different = {k: value for k, value in own.items() if k not in ignored and (k not in usual or usual[k] != value)}
    return {name: _as_json(value) for name, value in different.items()}


def _as_json(value: Any) -> Any:
    value = plain(value)
    try:
        check_json(value)
    except StudyError:
        return f"a {type(value).__name__}"
    return value


def weights_digest(agent: AgentSpec) -> str | None:
    """Return a digest of the initial weights of an agent; None if it starts from new weights."""
    if agent.state is None:
        return None
    return hashlib.sha256(pickle.dumps(agent.state["networks"], protocol=5)).hexdigest()[:16]

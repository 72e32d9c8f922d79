"""What every finder can be told about its study: where it is kept, how long trials are, where they run."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from agents.contract.spec import AgentSpec, FunctionSpec
from agents.distributed.strategies import StrategySpec
from agents.errors import ConfigurationError, unknown_name
from agents.trust.loading import place_of
from finder.search.observer import Observer, ObserverOptions
from finder.trials.metric import MetricName, metric_of
from studies.defaults import DEFAULT_STORAGE
from studies.errors import StudyError
from studies.spec.spaces import check_json
from studies.spec.spec import MOST_SEEDS, StudySpec, default_name

_T = TypeVar("_T")

IN_MEMORY = "memory"


_OWN_ARGUMENTS = {
    "lr": ("start_lr", "end_lr", "n_rates", "rates", "optimizer", "extend"),
    "opt": ("learning_rates", "n_rates", "extend"),
    "agents": (),
    "tune": ("params", "n_trials", "sampler", "sampler_kwargs"),
}
"""Question -> what its finder takes beside the options that all share; only named where an option is unknown."""


class StudyOptions(TypedDict, total=False):
    """Keyword arguments that all finders share.

    Keys:
        study_name: Name of the study. Defaults to the question, the agents and the environment, such as
            ``lr-ppo-CartPole-v1``. A study that exists under this name goes on.
        storage: Where it is kept. Defaults to ``sqlite:///finder.db``; None records nothing.
        seeds: How many seeds (0, 1, ...), or which. Defaults to 3.
        horizon: Environment steps of the long run that the pick is for. Where `env_steps` is not given, the study
            trains that far if it is affordable (`default_steps_for`); otherwise learning rates are corrected for the
            difference, and how sure that is is told.
        executor: ``"population"`` (many trials at a time), ``"process"`` (a process a trial), ``"inline"`` (one
            after another, here), or ``"ray"`` (in a Ray cluster). Defaults to populations where the agents can be
            trained in one, else processes.
        trial_cpus: CPUs that a trial asks a Ray cluster for. Defaults to 1.
        trial_memory_gb: Gigabytes that a trial asks a Ray cluster for. Defaults to not saying.
        strategy: On how many devices or processes each run learns: ``"none"``, ``"one-device"``, ``"mirrored"`` (two
            replicas), ``"mirrored:4"``, ``"multi-worker-mirrored"``, ``"parameter-server"``, or a `tf.distribute`
            strategy of these kinds. Runs with one have processes of their own. Defaults to ``"none"``.
        n_jobs: Processes at the same time. Defaults to as many as there are cores and as pay.
        population: Runs that a process trains at the same time. Defaults to what fits into memory, up to 64.
        pruner: Name of a pruner; ``"none"`` lets every trial end.
        pruner_kwargs: Its arguments.
        n_reports: Intermediate values a trial.
        confirm: How many of the best trials are run again on further seeds when the search is done. Defaults to 3.
        confirm_seeds: How many further seeds. Defaults to 5.
        callbacks: What makes the callbacks of each run when it is called without arguments: classes of
            `agents.Callback`, functions, ``"module:Class"`` or ``"file.py:Class"``. Custom metrics that they measure
            become the trial's attribute `custom_metrics`: mean, min and max over the last part of its training.
        fixed: Hyperparameters that have the same value in every trial.
        seed: Seed of the sampler, where there is one.
        max_failures_in_a_row: Failures without a success between them that stop the study. Defaults to 3.
        checkpoint_seconds: How often running trials are kept in checkpoints, from which they go on when their process
            is killed; 0 for never. Defaults to 60.
        hang_seconds: A run from which nothing comes back for so long has failed; 0 for never. Defaults to 600.
        progress: What is shown while it runs: True for a live display on a terminal and in a notebook, and plain lines
            on standard error elsewhere; False for nothing; or an observer (`finder.search.observer.Observer`) of your
            own. Defaults to True, or with the environment variable ``FINDER_PROGRESS=0`` to False.
        observer: The same as an observer given as `progress`.
    """

    study_name: str
    storage: str | None
    seeds: int | Sequence[int]
    horizon: int
    executor: str
    trial_cpus: float
    trial_memory_gb: float
    strategy: Any
    n_jobs: int
    population: int
    pruner: str
    pruner_kwargs: Mapping[str, Any]
    n_reports: int
    confirm: int
    confirm_seeds: int
    callbacks: Sequence[Any]
    fixed: Mapping[str, Any]
    seed: int
    max_failures_in_a_row: int
    checkpoint_seconds: float
    hang_seconds: float
    progress: bool | Observer
    observer: Observer | None


_NOT_OF_THE_STUDY = {"fixed", "observer", "progress", "seeds", "study_name"}
"""Options that become no field of the study, or one in other words."""


def observer_options(options: StudyOptions) -> ObserverOptions:
    """Return what `run_search` is told of who watches."""
    return {"progress": options.get("progress", True), "observer": options.get("observer")}


def make_spec(
    kind: Literal["tune", "lr", "opt", "agents"],
    agents: Sequence[AgentSpec],
    options: StudyOptions,
    *,
    env_steps: int | None,
    episodes: int | None,
    default_env_steps: int,
    metric: MetricName,
    labels: Sequence[str] = (),
    **fields: Any,
) -> StudySpec:
    """Return the study of a finder, from its options and what the finder itself decides (`fields`).

    Raises:
        ConfigurationError: An option that does not exist, or a bad number of seeds.
        StudyError: A value that a study refuses.
    """
    unknown = set(options) - set(StudyOptions.__annotations__)
    if unknown:
        known = {*StudyOptions.__annotations__, "env_steps", "episodes", "metric", *_OWN_ARGUMENTS[kind]}
        raise unknown_name("option", sorted(unknown)[0], known)
    if options.get("study_name") is not None and not str(options["study_name"]).strip():
        raise ConfigurationError(f"study_name is {options['study_name']!r}: give a name, or leave it out.")
    chosen = {key: value for key, value in options.items() if key not in _NOT_OF_THE_STUDY}
    environment = agents[0].environment
    labels = tuple(labels) or tuple(agent.label for agent in agents)
    name = options.get("study_name") or default_name(kind, labels, environment.label)
    chosen["storage"] = chosen.get("storage", DEFAULT_STORAGE) or IN_MEMORY
    chosen["callbacks"] = tuple(place_of(maker) for maker in options.get("callbacks") or ())
    if "strategy" in chosen:
        chosen["strategy"] = str(StrategySpec.of(chosen["strategy"]))
    varied = {
        *fields.get("params", {}),
        *(options.get("fixed") or {}),
        *(k for row in fields.get("trials", ()) for k in row),
    }
    named = list(zip(labels, agents, strict=True))
    return StudySpec(
        kind=kind,
        agents=labels,
        agent_params={label: own for label, agent in named if (own := non_default_params(agent, varied))},
        agent_weights={label: digest for label, agent in named if (digest := weights_digest(agent)) is not None},
        **environment.described,
        vectorization=environment.vectorization,
        seeds=_seeds(options.get("seeds", 3)),
        env_steps=_steps(options.get("horizon"), default_env_steps) if env_steps is episodes is None else env_steps,
        episodes=episodes,
        metric=metric_of(metric),
        fixed=dict(options.get("fixed") or {}),
        **{"name": name, **chosen, **fields},
    )


AFFORDABLE = 100_000
"""Environment steps up to which every run of a study is as long as the run that it is for."""


def default_steps_for(horizon: int) -> int:
    """Return how far a study trains for a run of so many environment steps, where nobody says: all of it up to
    `AFFORDABLE`, then that many, and a quarter of what is more than four times as long."""
    return max(min(horizon, AFFORDABLE), horizon // 4)


def spread_order(values: Sequence[_T]) -> list[_T]:
    """Return the same values in an order in which the first ones lie far apart (van der Corput 1935).

    Where trials run one after another, those that are compared with few others are not all from one end of the range.
    """
    n_bits = max(1, (len(values) - 1).bit_length())
    order = sorted(range(2**n_bits), key=lambda i: int(f"{i:0{n_bits}b}"[::-1], 2))
    return [values[i] for i in order if i < len(values)]


def default_pruner(metric: MetricName, episodes: int | None) -> str:
    """Return how a plan of candidates is pruned where nobody says.

    They race. But rungs are in environment steps, and losses of different rates say little before the end.
    """
    return "race" if metric_of(metric) == "return" and episodes is None else "median"


def _steps(horizon: int | None, default: int) -> int:
    return default if horizon is None else default_steps_for(horizon)


def non_default_params(agent: AgentSpec, varied: set[str]) -> dict[str, Any]:
    """Return what an agent sets otherwise than its class does by itself.

    It is part of what the study is: one of the same name for an agent with another discount is another study. Leaves
    out what trials set anyway (`varied`) and how the update is compiled, which belongs to the machine.
    """
    ignored = varied | {"jit_compile"} | ({"optimizer_kwargs"} if "optimizer" in varied else set())
    own = agent.config.to_dict()
    try:
        # The defaults of a function are what it was given: two partial ones of the same name are two functions.
        usual = {} if isinstance(agent, FunctionSpec) else type(agent.config)().to_dict()
    except TypeError:  # a config of the user's that has no defaults
        usual = {}
    different = {k: value for k, value in own.items() if k not in ignored and (k not in usual or usual[k] != value)}
    return {name: _as_json(value) for name, value in different.items()}


def _as_json(value: Any) -> Any:
    try:
        check_json(value)
    except StudyError:
        return f"a {type(value).__name__}"
    return value


def weights_digest(agent: AgentSpec) -> str | None:
    """Return a text that is short and the same for the same weights; None for an agent that was given none."""
    if agent.state is None:
        return None
    return hashlib.sha256(pickle.dumps(agent.state["networks"], protocol=5)).hexdigest()[:16]


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if not isinstance(seeds, int):
        return tuple(seeds)
    if not 1 <= seeds <= MOST_SEEDS:
        raise ConfigurationError(f"seeds must be >= 1 (how many, up to {MOST_SEEDS}), or a list of seeds, got {seeds}.")
    return tuple(range(seeds))

"""The flags that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from finder.cli.options import values
from finder.cli.options.budget_options import Confirm, ConfirmEnvSteps, ConfirmSeeds, DryRun, Minutes, TotalEnvSteps
from finder.cli.options.command_help import has_option, with_own_help
from finder.cli.options.expert_options import Expert, Pretrain, Reward, from_expert
from finder.cli.options.scheduler_options import Scheduler, SchedulerKwargs
from finder.cli.options.step_numbers import steps_option
from studies.defaults import DEFAULT_STORAGE

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec
    from finder.search.observer import Observer

_WHAT, _BUDGET, _STUDY, _WHERE, _OUTPUT = "What is trained", "Budget", "The study", "Where trials run", "Output"

Agent = Annotated[
    str,
    typer.Argument(
        metavar="AGENT", help="A name (dqn, ppo, sac, ...), module:Class, or file.py:Class.", show_default=False
    ),
]
ENVIRONMENT = typer.Option(
    metavar="ID",
    help="Gymnasium environment, such as CartPole-v1; module:ID or file.py:ID, which is imported first; module:Class "
    "or file.py:Class.",
    show_default=False,
    rich_help_panel=_WHAT,
)
EnvKwargs = Annotated[
    str | None, typer.Option(metavar="JSON", help="Arguments of the environment.", rich_help_panel=_WHAT)
]
Wrappers = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WRAPPER",
        help="A wrapper of the environment: a name of Gymnasium's, module:Class or file.py:Class; with arguments, "
        "NAME:key=value. May be repeated, the innermost first.",
        show_default=False,
        rich_help_panel=_WHAT,
    ),
]
MaxEpisodeSteps = Annotated[
    int | None,
    steps_option(
        "Truncate episodes after so many steps (default: the environment's own limit).",
        panel=_WHAT,
    ),
]


def _not_blank(storage: str | None) -> str | None:
    """Refuse an empty storage, such as an unset variable of a shell, instead of using the default."""
    if storage is not None and not storage.strip():
        raise typer.BadParameter(f"it is {storage!r}: give a file or a URL, or leave the flag out.")
    return storage


StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.", show_default=False)]
Storage = Annotated[
    str | None,
    typer.Option(
        envvar="OPTUNA_STORAGE",
        callback=_not_blank,
        help="Storage of the studies: a file (finder.db), a database URL, journal:///finder.log, or memory "
        f"(default {DEFAULT_STORAGE}).",
        show_default=False,
        rich_help_panel=_STUDY,
    ),
]
StudyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The study as a TOML file.", show_default=False)]
InsteadOfTheFiles = Annotated[
    str | None,
    typer.Option(
        "--storage", callback=_not_blank, help="Storage of the study; overrides the file.", rich_help_panel=_STUDY
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress; only results and errors.", rich_help_panel=_OUTPUT)
]


def _not_empty(name: str | None) -> str | None:
    if name is not None and not name.strip():
        raise typer.BadParameter("give a name, or leave the flag out.")
    return name


NewName = Annotated[
    str | None,
    typer.Option(
        "--study-name",
        metavar="NAME",
        callback=_not_empty,
        help="Name of the study; an existing one is resumed. Defaults to the question, agent and environment.",
        show_default=False,
        rich_help_panel=_STUDY,
    ),
]
_where = functools.partial(typer.Option, show_default=False, rich_help_panel=_WHERE)
NJobs = Annotated[int | None, _where(min=1, help="Processes (default: one per core, fewer for little work).")]
Executor = Annotated[
    str | None,
    _where(
        metavar="NAME",
        help="population (many trials at a time; default), process (one trial per process), inline (one after another) "
        "or ray (a Ray cluster).",
    ),
]
Population = Annotated[
    int | None,
    _where(min=1, help="Runs that a process trains at the same time (default: what fits, up to 64)."),
]
NumThreads = Annotated[
    int | None,
    _where(
        min=1,
        callback=values.limited_threads,
        help="Maximum number of TensorFlow threads in each process (default: its share of the cores).",
    ),
]
NTrials = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Trials in total, including those of a resumed study (tune: 20; run and submit: as in the file).",
        show_default=False,
        rich_help_panel=_BUDGET,
    ),
]


class Output(NamedTuple):
    """Output options of a command.

    Attributes:
        words: Words of the command, for messages on how to resume.
        json: Whether the result is printed as JSON.
        quiet: Whether only results and errors are printed.
        dry_run: Whether the plan of a search is printed in place of the search.
    """

    words: Sequence[str]
    json: bool
    quiet: bool
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The flags of `finder lr`, `opt`, `agents` and `tune`."""

    context: typer.Context
    env: Annotated[str, ENVIRONMENT]
    env_kwargs: EnvKwargs = None
    wrapper: Wrappers = None
    max_episode_steps: MaxEpisodeSteps = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Fix a hyperparameter, such as n_envs=4 or hidden_sizes=[32,32]. May be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None
    expert: Expert = None
    reward: Reward = None
    pretrain: Pretrain = False
    callback: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A callback of each run: module:Class or file.py:Class. May be repeated.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC",
            help="What runs are compared by.",
            show_default=False,
            rich_help_panel=_WHAT,
        ),
    ] = None
    env_steps: Annotated[
        int | None,
        steps_option(
            "Environment steps of each run.",
            panel=_BUDGET,
        ),
    ] = None
    minutes: Minutes = None
    total_env_steps: TotalEnvSteps = None
    horizon: Annotated[
        int | None,
        steps_option(
            "Environment steps of the long run that the pick is for. Runs are as long by default up to 100,000; "
            "beyond, they are shorter. A learning rate that is searched alone is corrected for it.",
            panel=_BUDGET,
        ),
    ] = None
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Episodes of each run, not steps.", show_default=False, rich_help_panel=_BUDGET),
    ] = None
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N or LIST",
            help="Seeds of each trial: how many, or which: 0,1,2.",
            show_default=False,
            rich_help_panel=_BUDGET,
        ),
    ] = None
    confirm: Confirm = None
    confirm_seeds: ConfirmSeeds = None
    confirm_env_steps: ConfirmEnvSteps = None
    pruner: Scheduler = None
    pruner_kwargs: SchedulerKwargs = None
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Seed of the search (default 0).",
            show_default=False,
            rich_help_panel=_STUDY,
        ),
    ] = None
    checkpoint_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds between checkpoints of running trials, from which they resume (default 60; 0: none).",
            show_default=False,
            rich_help_panel=_WHERE,
        ),
    ] = None
    hang_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Time limit of an environment step and of an update (default 600; 0: none).",
            show_default=False,
            rich_help_panel=_WHERE,
        ),
    ] = None
    storage: Storage = None
    study_name: NewName = None
    n_jobs: NJobs = None
    executor: Executor = None
    population: Population = None
    num_threads: NumThreads = None
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Distribution strategy of each run: none, one-device, mirrored (two replicas), mirrored:4, "
            "multi-worker-mirrored or parameter-server (both start processes).",
            show_default=False,
            rich_help_panel=_WHERE,
        ),
    ] = None
    vectorization: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How environments are stepped: auto, native, envpool, sync (or dummy), async (or subproc: each in a "
            "process), ray (each in an actor of a Ray cluster) or ray-subproc (an actor a machine, a process each).",
            show_default=False,
            rich_help_panel=_WHERE,
        ),
    ] = None
    dry_run: DryRun = False
    json: Json = False
    quiet: Quiet = False

    def agent(self, name: str) -> AgentSpec:
        """Return the agent of a name, with the environment of the flags."""
        from agents.contract.spec import AgentSpec
        from agents.environments import EnvironmentSpec

        environment = EnvironmentSpec.of(self.env, values.json_object(self.env_kwargs, "--env-kwargs"))
        chosen = drop_none(
            wrappers=self.wrapper, max_episode_steps=self.max_episode_steps, vectorization=self.vectorization
        )
        learner, params = from_expert(name, self.expert, self.reward, self.pretrain)
        return AgentSpec.of(learner, replace(environment, **chosen), params)

    def given(self, name: str) -> bool:
        """Return whether a flag was given explicitly."""
        return values.is_given(self.context, name)

    @property
    def output(self) -> Output:
        """Output options."""
        return Output(self.context.obj, self.json, self.quiet, self.dry_run)

    def finder_arguments(self, observer: Observer | None) -> dict[str, Any]:
        """Return the flags of the budget and the study as arguments of a finder."""
        return drop_none(
            env_steps=self.env_steps,
            episodes=self.episodes,
            minutes=self.minutes,
            total_env_steps=self.total_env_steps,
            horizon=self.horizon,
            metric=values.one_or_all(self.metric),
            storage=self.storage or DEFAULT_STORAGE,
            study_name=self.study_name,
            executor=self.executor,
            n_jobs=self.n_jobs,
            population=self.population,
            strategy=self.strategy,
            callbacks=self.callback or None,
            fixed=values.settings(self.set_),
            seeds=values.seeds(self.seeds),
            confirm=self.confirm,
            confirm_seeds=self.confirm_seeds,
            confirm_env_steps=self.confirm_env_steps,
            seed=self.seed,
            checkpoint_seconds=self.checkpoint_seconds,
            hang_seconds=self.hang_seconds,
            pruner=self.pruner,
            pruner_kwargs=values.json_object(self.pruner_kwargs, "--scheduler-kwargs") or None,
            observer=observer,
        )


def drop_none(**given: Any) -> dict[str, Any]:
    """Return the arguments that are not None, so that the others keep the defaults of the called function."""
    return {name: value for name, value in given.items() if value is not None}


def with_search_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the flags of `SearchOptions` to a command that has them; it receives them as its argument `options`."""
    name = command.__name__
    hints = get_type_hints(SearchOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=with_own_help(name, field.name, hints[field.name]),
        )
        for field in dataclasses.fields(SearchOptions)
        if has_option(name, field.name)
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "options"
    ]

    @functools.wraps(command)
    def flat(**given: Any) -> int:
        options = SearchOptions(**{parameter.name: given.pop(parameter.name) for parameter in shared})
        return command(**given, options=options)

    parameters = [*own, *shared]
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat

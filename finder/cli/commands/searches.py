"""The commands that search: `lr`, `opt`, `agents`, `tune`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agents.errors import ConfigurationError
from finder.cli.options import values
from finder.cli.options.early_checks import check_early, check_names
from finder.cli.options.parameter_sets import parameter_sets
from finder.cli.options.parameters import (
    Agent,
    NTrials,
    SearchOptions,
    drop_none,
    with_search_options,
)
from finder.cli.options.range_test_options import refuse_in_range_test
from finder.cli.options.scheduler_options import PerturbSteps
from finder.cli.options.start_options import First, WarmStart, WarmStartStorage, WarmStartTrials
from finder.cli.session import probably_forks, run_range_test, run_search_command
from finder.progress.console import print_error
from studies.errors import StudyError
from studies.spec.scheduler_names import check_sampler_name

if TYPE_CHECKING:
    from finder.results.search_result import SearchResult
    from finder.search.observer import Observer

_RATES = "The candidates"
_N_OF_LOSSES = 300
"""Rates of a range test of losses: gradient steps are cheap, and too few of them suggest rates that are too high."""

StartLR = Annotated[
    float | None,
    typer.Option(help="Smallest rate (default 1e-5; range test 1e-6).", show_default=False, rich_help_panel=_RATES),
]
EndLR = Annotated[
    float | None,
    typer.Option(help="Largest rate (default 0.1; range test 1).", show_default=False, rich_help_panel=_RATES),
]
NRates = Annotated[
    int | None,
    typer.Option(
        help="Rates, evenly spaced on a log axis (default 16; range test of losses 300, of returns 100).",
        show_default=False,
        rich_help_panel=_RATES,
    ),
]
Rates = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="The rates themselves: 1e-4,3e-4,1e-3.", rich_help_panel=_RATES),
]

Extend = Annotated[
    bool,
    typer.Option(
        "--extend/--no-extend",
        help="Try further rates where the best one is at the edge of the range (default: yes).",
        show_default=False,
        rich_help_panel=_RATES,
    ),
]


@with_search_options
def lr(
    agent: Agent,
    *,
    start_lr: StartLR = None,
    end_lr: EndLR = None,
    n_rates: NRates = None,
    rates: Rates = None,
    optimizer_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which of the agent's optimizers; all by default.", rich_help_panel=_RATES),
    ] = None,
    extend: Extend = True,
    range_test: Annotated[
        bool,
        typer.Option(
            "--range-test", help="Runs whose rate grows as they train: a quick first look.", rich_help_panel=_RATES
        ),
    ] = False,
    options: SearchOptions,
) -> int:
    """Which learning rate? Each candidate is trained on several seeds.

    Example: finder lr ppo --env CartPole-v1 --env-steps 20000
    """
    if range_test:  # it has its own metrics
        check_names(options.env, agent)
    else:
        check_early(options, agent)
    ends = drop_none(start_lr=start_lr, end_lr=end_lr, optimizer=optimizer_name)
    if range_test:
        refuse_in_range_test(options.context)
        return _range_test(agent, options, {**ends, **drop_none(N=n_rates)})
    if rates is not None and (start_lr, end_lr, n_rates) != (None, None, None):
        raise ConfigurationError("Give either --rates, or --start-lr, --end-lr and --n-rates.")
    if rates is not None:
        _refuse_extension(options, extend=extend)

    candidates = {**ends, **drop_none(n_rates=n_rates, rates=values.rates(rates)), "extend": extend}

    def search(observer: Observer) -> SearchResult:
        from finder.finders.lr import LRFinder

        finder = LRFinder(options.agent(agent))
        return finder.grid(**candidates, **options.finder_arguments(observer))

    return run_search_command(search, options.output, prepares=probably_forks(options))


def _refuse_extension(options: SearchOptions, *, extend: bool) -> None:
    """Refuse `--extend` where the rates are given."""
    if extend and options.given("extend"):
        raise ConfigurationError("--extend adds rates at the edges of a range, and --rates lists them: leave one out.")


def _range_test(agent: str, options: SearchOptions, arguments: dict[str, Any]) -> int:
    """Run a range test.

    The default metric is the loss for agents of Finder, whose loss has the error of a value function that falls during
    learning. The meaning of the loss of other agents is unknown, and the loss of a learned reward rises as the agent
    becomes like the expert: the default is the return.
    """
    from agents.contract.registry import ALGORITHMS

    if not options.given("metric"):
        plain = not options.expert and options.reward is None
        falls = agent.lower() == "bc" or (agent.lower() in ALGORITHMS and plain)
        options = dataclasses.replace(options, metric=["loss" if falls else "return"])
    if options.metric == ["loss"]:
        arguments = {"N": _N_OF_LOSSES, **arguments}
    try:
        return run_range_test(agent, options, arguments)
    except (ConfigurationError, StudyError):
        raise
    except Exception as error:
        notes = getattr(error, "__notes__", [])
        if not notes:  # not an error of the test
            raise
        print_error(f"{type(error).__name__}: {error}", "\n".join(notes))
        return 1


@with_search_options
def opt(
    agent: Agent,
    *,
    optimizer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help='A Keras optimizer: adamw, "sgd(momentum=0.9)". May be repeated '
            "(default adam, adamw, adamax, rmsprop, sgd).",
            show_default=False,
            rich_help_panel=_RATES,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Compare each optimizer that takes it with further values: momentum=0,0.9 or weight_decay=0,1e-4. "
            "May be repeated.",
            show_default=False,
            rich_help_panel=_RATES,
        ),
    ] = None,
    n_rates: Annotated[
        int | None,
        typer.Option(
            min=1, help="Learning rates of each optimizer (default 5).", show_default=False, rich_help_panel=_RATES
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Rates for all: 1e-4,1e-3; own: only each one's default; search: each one's usual range (default).",
            show_default=False,
            rich_help_panel=_RATES,
        ),
    ] = None,
    extend: Extend = True,
    options: SearchOptions,
) -> int:
    """Which optimizer? Each is compared at its own best learning rate.

    Example: finder opt ppo --env CartPole-v1 --optimizer adam --optimizer "sgd(momentum=0.9)"
    """
    check_early(options, agent)
    values.refuse_lists(optimizer or (), "--optimizer")
    learning_rates: Any = rates if rates in (None, "own", "search") else values.rates(rates)
    if rates not in (None, "search"):
        _refuse_extension(options, extend=extend)
    candidates = {**drop_none(n_rates=n_rates, learning_rates=learning_rates), "extend": extend}

    def search(observer: Observer) -> SearchResult:
        from finder.finders.optimizer import DEFAULT_OPTIMIZERS, OptFinder

        values.refuse_repeated_optimizers(optimizer or ())
        finder = OptFinder(options.agent(agent), optimizer or DEFAULT_OPTIMIZERS, vary=values.numbers(vary))
        return finder.find(**candidates, **options.finder_arguments(observer))

    return run_search_command(search, options.output, prepares=probably_forks(options))


@with_search_options
def agents(
    names: Annotated[
        list[str],
        typer.Argument(metavar="AGENT...", help="Names, module:Class or path/to/file.py:Class.", show_default=False),
    ],
    *,
    optimizer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An optimizer for all, or one for each in the agents' order (default: their own).",
            show_default=False,
            rich_help_panel=_RATES,
        ),
    ] = None,
    options: SearchOptions,
) -> int:
    """Which agent? All are trained at the same time, each in a process of its own.

    Example: finder agents dqn ppo --env CartPole-v1
    """
    check_early(options, *names)
    values.refuse_lists(optimizer or (), "--optimizer")
    if len(names) < 2:
        raise ConfigurationError(
            f"{names[0]} is compared with nothing: give two or more agents, such as finder agents dqn ppo. To "
            "train one agent: finder train; to search its hyperparameters: finder tune."
        )

    def search(observer: Observer) -> SearchResult:
        from finder.finders.parallel import AgentFinder

        one_for_all = optimizer[0] if optimizer is not None and len(optimizer) == 1 else None
        finder = AgentFinder([options.agent(name) for name in names], one_for_all or optimizer)
        return finder.find(**{**options.finder_arguments(observer), "executor": "process"})

    return run_search_command(search, options.output, prepares=probably_forks(options))


@with_search_options
def tune(
    agent: Agent,
    *,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME[=SPACE]",
            help="Search a hyperparameter: gamma=0.9:0.999, learning_rate=1e-5:1e-2:log, gae_lambda=0.8:1:0.05 (in "
            "steps), optimizer=adam,sgd; a name alone takes its usual range. May be repeated (default: all that the "
            "agent has a range for).",
            show_default=False,
            rich_help_panel=_RATES,
        ),
    ] = None,
    first: First = None,
    warm_start: WarmStart = None,
    warm_start_storage: WarmStartStorage = None,
    warm_start_trials: WarmStartTrials = None,
    n_trials: NTrials = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Proposes trials: tpe (default), random, grid, cmaes, gp, qmc, ...",
            show_default=False,
            rich_help_panel="The study",
        ),
    ] = None,
    sampler_kwargs: Annotated[
        str | None, typer.Option(metavar="JSON", help="Arguments of the sampler.", rich_help_panel="The study")
    ] = None,
    perturb_steps: PerturbSteps = None,
    options: SearchOptions,
) -> int:
    """Which hyperparameters? Any of them, including the optimizer and its arguments.

    The first trials are those of --first (default: tuned values) and --warm-start, then the agent as it is.

    Example: finder tune ppo --env CartPole-v1 --param learning_rate --param gamma=0.9:0.999 --n-trials 30
    """
    check_early(options, agent)
    if sampler is not None:
        check_sampler_name(sampler)
    params = values.spaces(param)
    arguments = values.json_object(sampler_kwargs, "--sampler-kwargs")
    sets = parameter_sets(first)

    def search(observer: Observer) -> SearchResult:
        from finder.finders.tuning import tune as search_space

        return search_space(
            options.agent(agent),
            params=params,
            first=sets,
            **drop_none(n_trials=n_trials, sampler=sampler, sampler_kwargs=arguments, perturb_steps=perturb_steps),
            **drop_none(
                warm_start=warm_start, warm_start_storage=warm_start_storage, warm_start_trials=warm_start_trials
            ),
            **options.finder_arguments(observer),
        )

    return run_search_command(search, options.output, prepares=probably_forks(options))

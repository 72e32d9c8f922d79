"""The optimizer finder: compares optimizers, each at its own best learning rate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from agents.config.optimizers import KERAS_OPTIMIZERS, OptimizerSpec
from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, unknown_name
from agents.renamed import renamed_arguments
from agents.trust.allowed_modules import places_in
from finder.range_test.arguments import given_rates
from finder.range_test.range_test import MOST_RATES, is_whole
from finder.results.search_result import OptimizerResult, finder_repr, loss_figure
from finder.search.object_resolver import ObjectResolver
from finder.search.options import (
    StudyOptions,
    default_pruner,
    make_spec,
    run_options,
    scheduler_name,
    spread_order,
    usual_metric,
)
from finder.search.run_search import run_search
from studies.judging.missing_pick import why_no_pick
from studies.judging.range_extension import RangeExtension
from studies.spec.metrics import metric_of
from studies.spec.scheduler_names import RACES, canonical_pruner_name
from studies.words import free_name

if TYPE_CHECKING:
    import plotly.graph_objects as go

DEFAULT_OPTIMIZERS = ("adam", "adamw", "adamax", "rmsprop", "sgd")

_N_RATES = 5
"""Default number of rates of each optimizer."""

Rates = Literal["search", "own"] | Sequence[float] | Mapping[str, Sequence[float]]


class OptFinder:
    """Finds an optimizer for an agent.

    All optimizers start from the same weights, the same seeds and an empty replay, with equally many learning rates and
    runs of equal length. The rates of an optimizer race against each other, not against those of other optimizers, so
    that each optimizer is compared at its best; ``scheduler="none"`` runs all trials to the end.

    Args:
        agent: A name, a class, a built agent, or an `AgentSpec`. The object itself is not trained.
        optimizers: Names (``"adamw"``, ``"sgd(momentum=0.9)"``), Keras optimizer objects, serialised Keras configs
            or `OptimizerSpec`s. Defaults to Adam, AdamW, Adamax, RMSprop and SGD.
        environment: The environment; may be left out if the agent has one.
        vary: Further arguments of optimizers, such as ``{"momentum": (0.0, 0.9), "weight_decay": (0.0, 1e-4)}``: every
            optimizer that accepts them is compared with each combination of their values, each at its own best rate.
            Defaults to none.

    Attributes:
        best_opt: Label of the best optimizer, after `find`.
        best_learning_rate: Its learning rate, corrected for the horizon if there is one.
        best_reward: Its mean return, if that is the metric, on further seeds if it was confirmed.
        best_loss: Its mean loss (`metric="loss"`), likewise.
        rewards: Label -> mean return at the best rate of the optimizer on the seeds of the search, which is biased
            upwards. Optimizers without completed trials are missing.
        losses: Label -> mean loss, likewise.
    """

    def __init__(
        self,
        agent: str | type[Agent] | Agent | AgentSpec,
        optimizers: Sequence[Any] = DEFAULT_OPTIMIZERS,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        vary: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        if environment is None:
            refuse_environment_as_optimizers(optimizers, [agent])
        # Settings of single optimizers of the agent would override the optimizers that are compared.
        spec = AgentSpec.of(agent, environment)
        has_parameter = hasattr(spec.config, "optimizer")
        make = "Search" if has_parameter else "Make it a parameter (optimizer: str = 'adam'), and search"
        spec.refuse_functions(
            f"its optimizer cannot be exchanged from outside. {make} its parameter 'optimizer' with tune."
        )
        self.spec = spec.with_params({"optimizers": {}})
        self.optimizers = optimizers_by_label(with_variations(optimizers, vary) if vary else optimizers)
        self.result: OptimizerResult | None = None
        self._clear_results()

    def __repr__(self) -> str:
        return finder_repr(f"OptFinder({self.spec!r}, {list(self.optimizers)})", self.result)

    def _clear_results(self) -> None:
        """Clear the results before a search."""
        self.best_opt: str | None = None
        self.best_learning_rate: float | None = None
        self.best_reward: float | None = None
        self.best_loss: float | None = None
        self.rewards: dict[str, float] = {}
        self.losses: dict[str, float] = {}

    @renamed_arguments(metrics="metric", params="fixed")
    def find(
        self,
        *,
        episodes: int | None = None,
        env_steps: int | None = None,
        metric: str | None = None,
        learning_rates: Rates = "search",
        n_rates: int | None = None,
        extend: bool = True,
        **options: Unpack[StudyOptions],
    ) -> OptimizerResult:
        """Train every optimizer at several learning rates, and compare the optimizers at their best rates.

        Args:
            episodes: Budget of each run in episodes.
            env_steps: Budget of each run in environment steps. Defaults to 30,000 where `episodes` is not given.
            metric: What runs are compared by: ``"return"``, ``"greedy-return"`` (of episodes without exploration),
                ``"auc"`` (mean return over the whole training), ``"steps-to:475"`` (environment steps to a return),
                ``"success-rate"``, ``"custom:NAME"`` or ``"loss"`` (`studies.spec.metrics`), which is hard to compare
                between rates. Defaults to ``"greedy-return"`` for `sac`, `td3` and `ddpg`, else to ``"return"``.
            learning_rates: ``"search"``: `n_rates` rates over the usual range of each optimizer. ``"own"``: only the
                rate of each optimizer itself. A list: these rates for all. A mapping: label -> rates. An optimizer
                whose rate is a schedule runs once in each case, with its schedule. Defaults to ``"search"``.
            n_rates: Number of rates of each optimizer for ``"search"``, >= 1, evenly spaced on a log axis including
                both ends of the range; one or two rates lie inside of it. Defaults to None: 5.
            extend: Whether the range of an optimizer is extended by up to two decades if its best rate is at the edge
                (`studies.judging.range_extension`); only for ``"search"``. Defaults to True.
            **options: See `StudyOptions`.

        Raises:
            ConfigurationError: A name is unknown, or a value is invalid.
            StudyError: The storage cannot be opened, or has another study of this name.
        """
        if not isinstance(learning_rates, str | Mapping):
            learning_rates = given_rates("learning_rates", learning_rates)
        searches = isinstance(learning_rates, str) and learning_rates == "search"
        if n_rates is not None and not searches:
            raise ConfigurationError(
                f"n_rates is {n_rates}, but the rates are given (learning_rates, --rates): leave one of the two out."
            )
        if isinstance(learning_rates, Mapping):
            for label in learning_rates:
                if label not in self.optimizers:
                    raise unknown_name("optimizer of learning_rates", label, self.optimizers)
        n_each = _N_RATES if n_rates is None else n_rates
        plan = [
            {"optimizer": label, "learning_rate": rate} if rate is not None else {"optimizer": label}
            for label, optimizer in self.optimizers.items()
            for rate in spread_order(_rates(label, optimizer, learning_rates, n_each))
        ]
        if metric is None:
            metric = usual_metric([self.spec], options)
        usual = "race" if default_pruner(metric, episodes) == "race" else "none"
        chosen: StudyOptions = {**options, "pruner": scheduler_name(options) or usual}
        if canonical_pruner_name(chosen["pruner"]) in RACES:
            chosen["pruner_kwargs"] = {"per": "optimizer", **(chosen.get("pruner_kwargs") or {})}
        spec = make_spec(
            "opt",
            [self.spec],
            chosen,
            env_steps=env_steps,
            default_env_steps=30_000,
            episodes=episodes,
            metric=metric,
            trials=tuple(plan),
        )
        resolver = ObjectResolver.of(
            spec,
            agents={self.spec.label: self.spec},
            optimizers=self.optimizers,
            environment=self.spec.environment,
            callbacks=options.get("callbacks"),
        )
        extension = RangeExtension(spec.trials) if extend and searches else None
        notes = _notes_on_schedules(self.optimizers)
        ran = run_search(spec, resolver=resolver, extend_plan=extension, notes=notes, **run_options(options))
        self._clear_results()
        self.result = OptimizerResult(*ran)
        self._set_results(self.result)
        return self.result

    def _set_results(self, result: OptimizerResult) -> None:
        metric, maximize = result.study.spec.metric, result.study.direction == "maximize"
        table = result.table()
        finished = table[table["state"] == "COMPLETE"]
        if why_no_pick(result.study):
            return  # the result has the reason
        grouped = finished.groupby("optimizer")["value"]
        best_values = grouped.max() if maximize else grouped.min()
        means = {str(label): float(value) for label, value in best_values.items()}
        pick = result.best
        self.best_opt = str(pick.params["optimizer"])
        tested = pick.params.get("learning_rate", pick.config.get("learning_rate"))
        rate = tested if pick.rate is None else pick.rate.suggested
        self.best_learning_rate = rate if isinstance(rate, float) else None
        if metric_of(metric).is_return:
            self.best_reward, self.rewards = pick.value, means
        elif metric == "loss":
            self.best_loss, self.losses = pick.value, means

    def best_optimizer(self, *, env_steps: int | None = None) -> Any:
        """Return a new Keras optimizer as in the best trial, at the rate for the horizon if there is one.

        Args:
            env_steps: Environment steps of the long run, to which a learning-rate schedule of Keras is stretched.
                Defaults to None: it keeps the gradient steps that it has in the runs of the search.
        """
        own = [
            place.partition(":")[0] for place in places_in(self.optimizers)
        ]  # modules of the optimizers of this finder
        return self._found().best_optimizer(env_steps=env_steps, allow_modules=own)

    def plot_reward(self) -> go.Figure:
        """Draw the optimizers in order of their return, each at its best learning rate."""
        return self._found().plot()

    def plot_loss(self) -> go.Figure:
        """Draw the optimizers in order of their loss, for a search by losses."""
        return loss_figure(self._found())

    def _found(self) -> OptimizerResult:
        if self.result is None:
            raise ConfigurationError("There was no search yet: call find() first.")
        return self.result


def refuse_environment_as_optimizers(optimizers: Any, agents: Sequence[Any]) -> None:
    """Raise `ConfigurationError` if the environment of agents without one was given in the place of the optimizers.

    For `LRFinder` it is the second argument.
    """
    is_one = isinstance(optimizers, str) and optimizers.partition("(")[0].strip().lower() not in KERAS_OPTIMIZERS
    if is_one and any(isinstance(agent, str | type) for agent in agents):
        raise ConfigurationError(
            f"The second argument is the optimizers, got {optimizers!r}: give the environment by its name, "
            f"environment={optimizers!r}."
        )


def optimizers_by_label(optimizers: Sequence[Any]) -> dict[str, OptimizerSpec]:
    """Return optimizers by label, with the schedule of the learning rate if there is one, and equal ones once.

    A number is appended to equal labels with other learning rates.

    Raises:
        ConfigurationError: The list is empty, or an item is not an optimizer.
    """
    _check_list(optimizers)
    result: dict[str, OptimizerSpec] = {}
    for given in optimizers:
        spec = OptimizerSpec.of(given)
        # Labels leave out arguments that have their defaults.
        if (spec.label, spec.learning_rate) not in [(each.label, each.learning_rate) for each in result.values()]:
            result[free_name(spec.label_with_schedule, result, " #")] = spec
    return result


def _check_list(optimizers: Any) -> None:
    is_several = isinstance(optimizers, Iterable) and not isinstance(optimizers, str)
    if not is_several or (isinstance(optimizers, Sized) and not len(optimizers)):
        raise ConfigurationError(f"Give a list with at least one optimizer, got {optimizers!r}.")


def with_variations(optimizers: Sequence[Any], vary: Mapping[str, Sequence[float]]) -> list[OptimizerSpec]:
    """Return each optimizer with each combination of the further arguments that it accepts; see `OptFinder`.

    Raises:
        ConfigurationError: No optimizer accepts an argument, or an argument has no values.
    """
    _check_list(optimizers)
    if not isinstance(vary, Mapping):
        raise ConfigurationError(
            f"vary is {vary!r}: give arguments of optimizers with their values, such as {{'momentum': (0.0, 0.9)}}."
        )
    for name, given_values in vary.items():
        if not isinstance(given_values, list | tuple | np.ndarray) or not len(given_values):
            raise ConfigurationError(
                f"vary has {given_values!r} for {name!r}: give a list of values, such as (0.0, 0.9)."
            )
    result: list[OptimizerSpec] = []
    taken: set[str] = set()
    for given in optimizers:
        spec = OptimizerSpec.of(given)
        own = [name for name in vary if name in spec.takes()]
        taken |= set(own)
        for values in itertools.product(*(vary[name] for name in own)):
            chosen = {name: value for name, value in zip(own, values, strict=True) if value or spec.uses(name)}
            kept = {name: value for name, value in spec.arguments.items() if name not in own}
            variant = replace(spec, arguments={**kept, **chosen})
            if variant not in result:
                result.append(variant)
    for name in vary:
        if name not in taken:
            raise ConfigurationError(f"None of the optimizers takes {name!r}, which is to be varied.")
    return result


def _notes_on_schedules(optimizers: Mapping[str, OptimizerSpec]) -> list[str]:
    """Return a note on each optimizer that runs once, with its schedule of the learning rate."""
    return [
        f"{label} runs once: its learning rate is a schedule"
        for label, optimizer in optimizers.items()
        if isinstance(optimizer.learning_rate, Mapping)
    ]


def _rates(label: str, optimizer: OptimizerSpec, wanted: Rates, n_rates: int) -> list[float | None]:
    if isinstance(optimizer.learning_rate, Mapping):
        return [None]  # a schedule has no single rate to search
    if isinstance(wanted, Mapping):
        if label not in wanted:
            raise ConfigurationError(f"learning_rates has no rates for {label!r}; it has {sorted(wanted)}.")
        return [*given_rates(f"learning_rates of {label!r}", wanted[label])]
    if not isinstance(wanted, str):
        return [*wanted]
    if wanted == "own":
        return [optimizer.learning_rate]
    if wanted != "search":
        raise ConfigurationError(f"learning_rates must be 'search', 'own', a list or a mapping, got {wanted!r}.")
    if not is_whole(n_rates) or not 1 <= n_rates <= MOST_RATES:
        raise ConfigurationError(f"n_rates must be >= 1 and <= {MOST_RATES}, and whole, got {n_rates!r}.")
    n_rates = int(n_rates)
    low, high = np.log10(optimizer.typical_rates)
    # The ends are the least likely rates: one or two rates are placed in the middles of equal parts of the range.
    middles = low + (high - low) * (np.arange(n_rates) + 0.5) / n_rates
    exponents = np.linspace(low, high, n_rates) if n_rates > 2 else middles
    return [float(f"{rate:.4g}") for rate in 10**exponents]

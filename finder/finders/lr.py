"""Which learning rate? A grid of rates that each train afresh, or a range test in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from agents.callbacks.progress import Progress
from agents.config.agent_config import AgentConfig
from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.training.trainer import Trainer
from finder.deprecation import renamed_arguments
from finder.finders.range_extension import RangeExtension
from finder.range_test.curve import changes
from finder.range_test.figures import plot_sweep
from finder.range_test.range_test import RangeTestResult, check_sweep, evenly_spaced, range_test
from finder.range_test.range_tests import pooled
from finder.range_test.recording import RangeTestRun, record_range_test
from finder.range_test.suggestion import smooth
from finder.search.display import progress_disabled
from finder.search.object_resolver import ObjectResolver
from finder.search.options import StudyOptions, default_pruner, make_spec, observer_options, spread_order
from finder.search.results import SearchResult, finder_repr
from finder.search.search import run_search
from finder.trials.metric import Metric, MetricName, metric_of
from studies.defaults import DEFAULT_STORAGE
from studies.spec.spaces import LARGEST
from studies.spec.spec import MOST_SEEDS
from studies.storage.storage import open_storage

if TYPE_CHECKING:
    import plotly.graph_objects as go


class LRFinder:
    """Finds a learning rate for an agent.

    The agent that is given is never trained: finders work on copies of it, so that its weights, optimizer slots,
    rates, target networks, normalisers and generators stay as they are, bit for bit, whatever happens.

    Args:
        agent: A name (``"ppo"``), a class, a built agent, an `AgentSpec`, or a `Trainer` in the middle of its work
            (then the range test starts from a copy of its replay too).
        environment: What it is for; may be left out where the agent knows it.
        seed: Seed of the range test, where the agent has none. Defaults to 0.

    Attributes:
        result: What the last `grid` or `find` returned.
        best_learning_rate: The rate that it picked or suggests, after a grid that for the horizon where there is one;
            None where there is none.
        best_reward: Mean return of the pick over the last part of training (a grid with `metric="return"`), on further
            seeds where it was confirmed.
        best_loss: Its mean loss (`metric="loss"`), likewise.
        rewards: Rate -> mean return on the seeds of the search, of each trial of the grid that came to its end.
        losses: Rate -> mean loss, likewise.
        study_name: Name of the study of the last range test that was recorded.
    """

    def __init__(
        self,
        agent: str | type[Agent] | Agent | AgentSpec | Trainer | Callable[..., Any],
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self._trainer = agent if isinstance(agent, Trainer) else None
        self._agent = agent.agent if isinstance(agent, Trainer) else agent
        if environment is None and self._trainer is not None:
            environment = self._trainer.environment
        self.spec = AgentSpec.of(self._agent, environment)
        self.seed = self._agent.seed if isinstance(self._agent, Agent) else seed
        self.result: SearchResult | RangeTestResult | None = None
        self.study_name: str | None = None
        self._forget()

    def __repr__(self) -> str:
        return finder_repr(f"LRFinder({self.spec!r})", self.result)

    def _forget(self) -> None:
        """Before a search: nothing is known."""
        self.best_learning_rate: float | None = None
        self.best_reward: float | None = None
        self.best_loss: float | None = None
        self.rewards: dict[float, float] = {}
        self.losses: dict[float, float] = {}

    # The grid -------------------------------------------------------------------------------------------------

    @renamed_arguments(metrics="metric", params="fixed")
    def grid(
        self,
        start_lr: float = 1e-5,
        end_lr: float = 1e-1,
        n_rates: int = 16,
        *,
        env_steps: int | None = None,
        episodes: int | None = None,
        metric: MetricName = "return",
        rates: Sequence[float] | None = None,
        optimizer: str | None = None,
        extend: bool = True,
        **options: Unpack[StudyOptions],
    ) -> SearchResult:
        """Train every candidate rate afresh, from the same weights and seeds.

        Rates race: the worst stop early, in step with what is left of the runs (`pruner="none"` lets all end). Where
        the best is the lowest or the highest that was tried, further ones are tried beyond it. `result.best.rate` says
        between which rates the best one lies, and whether there is a safe suggestion at all.

        Args:
            start_lr: Smallest rate, > 0. Defaults to 1e-5.
            end_lr: Largest rate. Defaults to 1e-1.
            n_rates: Rates, evenly spaced on a log axis, >= 2. Defaults to 16: a quarter of a decade apart.
            env_steps: Budget of each run in environment steps. Defaults to 50,000 where `episodes` is not given.
            episodes: Budget of each run in episodes, instead.
            metric: Judge by returns or by losses. Losses at different rates are hard to compare; prefer returns.
            rates: The rates themselves, instead of the three arguments before.
            optimizer: Which of the agent's optimizers, by name; None for all.
            extend: Whether rates beyond the range are tried where the best one is at its edge, up to two decades beyond
                (`finder.finders.range_extension`); not where the rates themselves are given. Defaults to True.
            **options: See `StudyOptions`.

        Raises:
            ConfigurationError: Rates out of range, unknown names.
            StudyError: The storage cannot be opened, or holds another study of that name.
        """
        candidates = (
            evenly_spaced(start_lr, end_lr, n_rates) if rates is None else sorted(float(rate) for rate in rates)
        )
        name = "learning_rate" if optimizer is None else f"{optimizer}.learning_rate"
        agent = self.spec if optimizer is not None else _with_one_rate(self.spec)
        chosen: StudyOptions = {"pruner": default_pruner(metric, episodes), **options}
        spec = make_spec(
            "lr",
            [agent],
            chosen,
            env_steps=env_steps,
            default_env_steps=50_000,
            episodes=episodes,
            metric=metric,
            trials=tuple({name: rate} for rate in spread_order(candidates)),
        )
        agents, callbacks = {self.spec.label: agent}, options.get("callbacks")
        resolver = ObjectResolver.of(spec, agents=agents, environment=self.spec.environment, callbacks=callbacks)
        extension = RangeExtension(spec.trials, name) if extend and rates is None else None
        self._forget()
        ran = run_search(spec, resolver=resolver, extend_plan=extension, **observer_options(options))
        self.result = SearchResult(*ran)
        self._conclude(self.result, name)
        return self.result

    def _conclude(self, result: SearchResult, name: str) -> None:
        """Take over what a grid of the rates of this name has found."""
        pick, by_return = result.best, result.study.spec.metric == "return"
        if not pick:
            return  # the result says why
        table = result.table()
        ended = table[table["state"] == "COMPLETE"]
        values = {float(rate): float(value) for rate, value in zip(ended[name], ended["value"], strict=True)}
        self.best_learning_rate = pick.params[name] if pick.rate is None else pick.rate.suggested
        if by_return:
            self.best_reward, self.rewards = pick.value, values
        else:
            self.best_loss, self.losses = pick.value, values

    # The range test -------------------------------------------------------------------------------------------

    @renamed_arguments(metrics="metric")
    def find(
        self,
        start_lr: float = 1e-6,
        end_lr: float = 1.0,
        N: int = 100,  # noqa: N803 - the name by which the range test's callers know it
        *,
        episodes: int | None = None,
        env_steps: int | None = None,
        window_size: int = 20,
        metric: MetricName = "return",
        optimizer: str | None = None,
        seeds: int | Sequence[int] = 3,
        strategy: Any = None,
        study_name: str | None = None,
        storage: str | None = DEFAULT_STORAGE,
        progress: bool = True,
    ) -> RangeTestResult:
        """Train copies of the agent while the rate grows by ``(end_lr/start_lr)**(1/N)``, N times.

        Args:
            start_lr: First rate, > 0. Defaults to 1e-6.
            end_lr: Last rate, reached exactly. Defaults to 1.
            N: Increases: one a gradient step for ``metric="loss"``; for ``"return"`` one an episode, or one an update
                where updates are rarer than episodes. Defaults to 100; 300 suit ``"loss"``, which costs as many steps.
            episodes: Ends the test earlier.
            env_steps: Ends the test earlier.
            window_size: Episodes that a return is normalised against. Defaults to 20.
            metric: What is watched. Defaults to ``"return"``.
            optimizer: Which of the agent's optimizers, by name; None for all.
            seeds: Runs, one after another: how many (from this finder's seed on), or their seeds. Several say how far
                they agree (`finder.range_test.range_tests`). Defaults to 3.
            strategy: On how many devices it learns; see `agents.distributed.strategies.StrategySpec.of`. Defaults to
                None.
            study_name: Name of the study. Defaults to ``range-test-AGENT-ENV``.
            storage: Where the study is kept; None records nothing.
            progress: Whether lines on standard error say how far each run is, and at which rate. Defaults to True, or
                with the environment variable ``FINDER_PROGRESS=0`` to False.

        Returns:
            The curve and the suggestion, which may be that there is none.

        Raises:
            ConfigurationError: Rates or numbers out of range, or an optimizer that the agent does not have.
            Exception: Whatever the environment or the agent raises. What was seen until then is recorded and in
                `result`; a note of the exception says where.
        """
        self.spec.refuse_functions(
            "its rate cannot be changed meanwhile. Train every rate afresh: grid(), or finder lr without --range-test."
        )
        numbers = self.check_find(start_lr, end_lr, N, window_size=window_size, metric=metric, seeds=seeds)
        if storage is not None:
            open_storage(storage).close()  # where it cannot be opened, that is said before the work, not after it
        self._forget()
        runs: list[RangeTestRun] = []
        for seed in numbers:
            with self._copy(seed, strategy, shown=progress and not progress_disabled()) as trainer:
                own = range_test(
                    trainer,
                    start_lr,
                    end_lr,
                    N,
                    metric=metric,
                    optimizer=optimizer,
                    window_size=window_size,
                    env_steps=env_steps,
                    episodes=episodes,
                )
                runs.append(RangeTestRun.of(trainer, own))
            if own.error is not None:
                break
        self.result = result = pooled([run.result for run in runs], [run.seed for run in runs])
        self.best_learning_rate = result.best
        if storage is not None:
            settings = {
                "start_lr": start_lr,
                "end_lr": end_lr,
                "N": N,
                "metric": metric_of(metric),
                "seeds": list(numbers),
            }
            self.study_name = record_range_test(
                self.spec, runs, result, settings, study_name=study_name, storage=storage
            )
        if result.error is not None:
            kept = "" if storage is None else f"; it is kept as the study {self.study_name}"
            n_points = len(result.curve()[0])
            result.error.add_note(f"The range test was ended by this after {n_points} points{kept}.")
            raise result.error
        return result

    @renamed_arguments(metrics="metric")
    def check_find(
        self,
        start_lr: float = 1e-6,
        end_lr: float = 1.0,
        N: int = 100,  # noqa: N803 - see `find`
        *,
        window_size: int = 20,
        metric: MetricName = "return",
        seeds: int | Sequence[int] = 3,
    ) -> tuple[int, ...]:
        """Return the seeds of the runs of `find`, whose arguments these are.

        Raises:
            ConfigurationError: Rates or numbers out of range.
        """
        check_sweep(start_lr, end_lr, N, window_size)
        metric_of(metric)
        several = range(self.seed, self.seed + seeds) if isinstance(seeds, int) else seeds
        numbers = tuple(several) if len(several) <= MOST_SEEDS else ()
        if not numbers or min(numbers) < 0 or max(numbers) > LARGEST or len(set(numbers)) < len(numbers):
            raise ConfigurationError(
                f"seeds must be >= 1 (how many, up to {MOST_SEEDS}), or a list of different seeds from 0 to {LARGEST}, "
                f"got {seeds!r}."
            )
        return numbers

    def _copy(self, seed: int, strategy: Any = None, *, shown: bool = False) -> Trainer:
        """Return a trainer with a copy of the agent, in environments of its own.

        With this finder's own seed it is what it was given; with another one, it draws other random numbers.
        """
        agent = replace(self.spec, state=None).build(seed, strategy)
        state = self._agent.get_state() if isinstance(self._agent, Agent) else self.spec.state
        if state is not None:
            fresh = agent.get_state()
            streams = () if seed == self.seed else tuple({"rng", "seed"} & set(fresh))
            agent.set_state({**state, **{name: fresh[name] for name in streams}})
        trainer = Trainer(agent, seed=seed, callbacks=[Progress()] if shown else [])
        if self._trainer is not None:
            trainer.memory.set_state(self._trainer.memory.get_state())
        return trainer

    # Pictures and suggestions of the last range test ----------------------------------------------------------

    def plot_reward(self, n_skip_beginning: int = 0, n_skip_end: int = 0, normalized: bool = False) -> go.Figure:
        """Return over the learning rate: of every trial of a grid, or of every episode of a range test.

        Args:
            n_skip_beginning: Points of a range test that are left out at the beginning.
            n_skip_end: Points of a range test that are left out at the end.
            normalized: Whether the returns of a range test are distances from their running mean.
        """
        if isinstance(self.result, SearchResult):
            return self.result.plot()
        result = self._range_test()
        if normalized:
            rates, values = _skip(result.rewards.rates, result.normalized, n_skip_beginning, n_skip_end)
            return plot_sweep(rates, values, "normalized")
        return self._plot("return", n_skip_beginning, n_skip_end)

    def plot_loss(self, n_skip_beginning: int = 0, n_skip_end: int = 0) -> go.Figure:
        """Loss over the learning rate, likewise; of a grid where it was judged by losses."""
        if isinstance(self.result, SearchResult):
            return self.result.plot()
        return self._plot("loss", n_skip_beginning, n_skip_end)

    def plot_reward_change(
        self,
        sma: int = 1,
        n_skip_beginning: int = 0,
        n_skip_end: int = 0,
        y_lim: tuple[float, float] | None = None,
    ) -> go.Figure:
        """Change of the return (moving average of `sma` episodes) per decade of the learning rate."""
        return self._plot_change("return", sma, n_skip_beginning, n_skip_end, y_lim)

    def plot_loss_change(
        self,
        sma: int = 1,
        n_skip_beginning: int = 0,
        n_skip_end: int = 0,
        y_lim: tuple[float, float] | None = None,
    ) -> go.Figure:
        """Change of the loss (moving average of `sma` points) per decade of the learning rate."""
        return self._plot_change("loss", sma, n_skip_beginning, n_skip_end, y_lim)

    def get_best_lr(self, sma: int | None = None, n_skip_beginning: int = 0, n_skip_end: int = 0) -> float:
        """Return the rate of a grid's pick, or the one that a range test suggests.

        Args:
            sma: Points that are averaged, >= 1. Defaults to a tenth of the points, as for the result's `best`: the
                fastest improvement from one point to the next is an accident.
            n_skip_beginning: Points that are left out at the beginning.
            n_skip_end: Points that are left out at the end.

        Raises:
            ConfigurationError: There was no search, or it found nothing; the message says why.
        """
        if isinstance(self.result, SearchResult):
            if self.best_learning_rate is None:
                raise ConfigurationError(f"The grid has {self.result.best!r}")
            return self.best_learning_rate
        result = self._range_test()
        _skip(*result.curve(), n_skip_beginning, n_skip_end)  # refuses to leave out more points than there are
        suggestion = result.read(n_skip_beginning, n_skip_end, sma)
        if suggestion.rate is None:
            raise ConfigurationError(
                f"The range test suggests no learning rate: {suggestion.reason}. Train every rate afresh with grid()."
            )
        return suggestion.rate

    def _plot(self, of: Metric, n_skip_beginning: int, n_skip_end: int) -> go.Figure:
        rates, values = _skip(*self._range_test().curve(of), n_skip_beginning, n_skip_end)
        return plot_sweep(rates, values, of)

    def _plot_change(
        self, of: Metric, sma: int, n_skip_beginning: int, n_skip_end: int, y_lim: tuple[float, float] | None
    ) -> go.Figure:
        rates, values = _skip(*self._range_test().curve(of), n_skip_beginning, n_skip_end)
        change = changes(rates, smooth(values, sma)) if len(rates) > 1 else np.array([])
        return plot_sweep(rates[1:], list(change[1:]), f"{of} change", y_lim=y_lim)

    def _range_test(self) -> RangeTestResult:
        if isinstance(self.result, SearchResult):
            raise ConfigurationError("The last search was a grid, which has no curve of a single run: call find().")
        if self.result is None:
            raise ConfigurationError("There was no range test yet: call find() first.")
        return self.result


def _skip(
    rates: Sequence[float], values: Sequence[float], n_beginning: int, n_end: int
) -> tuple[list[float], list[float]]:
    if n_beginning < 0 or n_end < 0 or n_beginning + n_end > len(rates):
        raise ConfigurationError(
            f"n_skip_beginning and n_skip_end must be >= 0 and leave some of the {len(rates)} points, "
            f"got {n_beginning} and {n_end}."
        )
    kept = slice(n_beginning, len(rates) - n_end)
    return list(rates[kept]), list(values[kept])


def _with_one_rate(agent: AgentSpec) -> AgentSpec:
    """Return the agent without rates of single optimizers, which would hide the rate that is meant for all of them."""
    own = agent.config.optimizers if isinstance(agent.config, AgentConfig) else {}
    without = {name: {k: v for k, v in override.items() if k != "learning_rate"} for name, override in own.items()}
    return agent.with_params({"optimizers": without}) if own else agent

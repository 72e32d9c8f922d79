"""The learning-rate finder: a grid of rates, each with runs of its own, or a range test in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from agents.callbacks.progress import Progress
from agents.contract.agent import Agent
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, check_whole
from agents.renamed import renamed_arguments
from agents.training.trainer import Trainer
from finder.budgets.dry_run import refuse_dry_run
from finder.range_test.arguments import rates_of_grid, refuse_after_grid, run_seeds
from finder.range_test.curve import trim
from finder.range_test.figures import plot_change, plot_sweep
from finder.range_test.metric import Metric, MetricName, curve_metric
from finder.range_test.pooling import agreed, pool_results
from finder.range_test.range_test import RangeTestResult, check_sweep, range_test
from finder.range_test.recording import RangeTestRun, record_range_test
from finder.results.search_result import SearchResult, finder_repr, loss_figure
from finder.search.display import progress_disabled
from finder.search.object_resolver import ObjectResolver
from finder.search.options import (
    StudyOptions,
    agent_fields,
    check_study_name,
    default_pruner,
    make_spec,
    run_options,
    scheduler_name,
    spread_order,
    usual_metric,
)
from finder.search.run_search import run_search
from studies.defaults import DEFAULT_STORAGE
from studies.judging.range_extension import RangeExtension
from studies.spec.metrics import metric_of
from studies.storage.storage import open_storage

if TYPE_CHECKING:
    import plotly.graph_objects as go


class LRFinder:
    """Finds a learning rate for an agent.

    The given agent is not trained. Finders work on copies, so that its weights, optimizer slots, rates, target
    networks, normalisers and generators stay equal bit for bit, also after errors.

    Args:
        agent: A name (``"ppo"``), a class, a built agent, an `AgentSpec`, or a `Trainer` during its training
            (then the range test also starts from a copy of its replay).
        environment: The environment; may be left out if the agent has one.
        seed: Seed of the range test, if the agent has none. Defaults to 0.

    Attributes:
        result: Result of the last `grid` or `find`.
        best_learning_rate: The picked or suggested rate, for a grid corrected for the horizon if there is one; or None.
        best_reward: Mean return of the pick of a grid, if that is its metric, on further seeds if it was confirmed.
        best_loss: Mean loss of the pick (`metric="loss"`), likewise.
        rewards: Rate -> mean return of each completed trial of the grid on the seeds of the search.
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
        check_whole(0, seed=seed)
        self.seed = self._agent.seed if isinstance(self._agent, Agent) else int(seed)
        self.result: SearchResult | RangeTestResult | None = None
        self.study_name: str | None = None
        self._clear_results()

    def __repr__(self) -> str:
        return finder_repr(f"LRFinder({self.spec!r})", self.result)

    def _clear_results(self) -> None:
        """Clear the results before a search."""
        self.best_learning_rate: float | None = None
        self.best_reward: float | None = None
        self.best_loss: float | None = None
        self.rewards: dict[float, float] = {}
        self.losses: dict[float, float] = {}

    # The grid -------------------------------------------------------------------------------------------------

    @renamed_arguments(metrics="metric", params="fixed")
    def grid(
        self,
        start_lr: float | None = None,
        end_lr: float | None = None,
        n_rates: int | None = None,
        *,
        env_steps: int | None = None,
        episodes: int | None = None,
        metric: str | None = None,
        rates: Sequence[float] | None = None,
        optimizer: str | None = None,
        extend: bool = True,
        **options: Unpack[StudyOptions],
    ) -> SearchResult:
        """Train every rate in runs of its own, from the same weights and seeds.

        Rates race: the worst are pruned during the runs (`scheduler="none"` runs all trials to the end). If the best
        rate is at an edge of the range, and is told apart from another rate, the range is extended. `result.best.rate`
        has the interval of the best rate, and whether there is a safe suggestion.

        Args:
            start_lr: Smallest rate, > 0. Defaults to 1e-5.
            end_lr: Largest rate. Defaults to 1e-1.
            n_rates: Rates, evenly spaced on a log axis, >= 2. Defaults to 16: a quarter of a decade apart.
            env_steps: Budget of each run in environment steps. Defaults to 50,000 where `episodes` is not given.
            episodes: Budget of each run in episodes, instead.
            metric: What runs are compared by: ``"return"``, ``"greedy-return"`` (of episodes without exploration),
                ``"auc"`` (mean return over the whole training), ``"steps-to:475"`` (environment steps to a return),
                ``"success-rate"``, ``"custom:NAME"`` or ``"loss"`` (`studies.spec.metrics`), which is hard to compare
                between rates. Defaults to ``"greedy-return"`` for `sac`, `td3` and `ddpg`, else to ``"return"``.
            rates: The rates, each counted once, instead of `start_lr`, `end_lr` and `n_rates`.
            optimizer: Name of one of the optimizers of the agent; None for all.
            extend: Whether the range is extended by up to two decades if the best rate is at its edge
                (`studies.judging.range_extension`); not if `rates` are given. Defaults to True.
            **options: See `StudyOptions`.

        Raises:
            ConfigurationError: Rates are out of range, or beside `rates`; or a name is unknown.
            StudyError: The storage cannot be opened, or has another study of this name.
        """
        candidates = rates_of_grid(start_lr, end_lr, n_rates, rates)
        name = "learning_rate" if optimizer is None else f"{optimizer}.learning_rate"
        agent = self.spec if optimizer is not None else self.spec.with_common_rate()
        if metric is None:
            metric = usual_metric([agent], options)
        chosen: StudyOptions = {**options, "pruner": scheduler_name(options) or default_pruner(metric, episodes)}
        spec = make_spec(
            "lr",
            [agent],
            chosen,
            env_steps=env_steps,
            episodes=episodes,
            metric=metric,
            trials=tuple({name: rate} for rate in spread_order(candidates)),
        )
        agents, callbacks = {self.spec.label: agent}, options.get("callbacks")
        resolver = ObjectResolver.of(spec, agents=agents, environment=self.spec.environment, callbacks=callbacks)
        extension = RangeExtension(spec.trials, name) if extend and rates is None else None
        ran = run_search(spec, resolver=resolver, extend_plan=extension, **run_options(options))
        self._clear_results()
        self.result = SearchResult(*ran)
        self._set_results(self.result, name)
        return self.result

    def _set_results(self, result: SearchResult, name: str) -> None:
        """Set the attributes from the result of a grid."""
        pick, metric = result.best, result.study.spec.metric
        if not pick:
            return  # the result has the reason
        table = result.table()
        ended = table[table["state"] == "COMPLETE"]
        values = {float(rate): float(value) for rate, value in zip(ended[name], ended["value"], strict=True)}
        self.best_learning_rate = pick.params[name] if pick.rate is None else pick.rate.suggested
        if metric_of(metric).is_return:
            self.best_reward, self.rewards = pick.value, values
        elif metric == "loss":
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
        storage: str | PathLike[str] | None = DEFAULT_STORAGE,
        progress: bool | None = True,
    ) -> RangeTestResult:
        """Train copies of the agent while the rate grows N times by the factor ``(end_lr/start_lr)**(1/N)``.

        Args:
            start_lr: First rate, > 0. Defaults to 1e-6.
            end_lr: Last rate, reached exactly. Defaults to 1.
            N: Number of increases: one for each gradient step (``metric="loss"``), or for each episode or update,
                whichever is rarer (``"return"``). Defaults to 100; 300 suit ``"loss"``.
            episodes: Limit of episodes, or None.
            env_steps: Limit of environment steps, or None.
            window_size: Number of episodes for the normalisation of returns. Defaults to 20.
            metric: The metric of the curve: ``"return"`` (or ``"reward"``) or ``"loss"``. Defaults to ``"return"``.
            optimizer: Name of one of the optimizers of the agent; None for all.
            seeds: Number of runs (from the seed of this finder on), or a list of seeds. Several runs give an interval
                of the suggestion (`finder.range_test.pooling`). Defaults to 3.
            strategy: Distribution strategy; see `agents.distributed.strategies.StrategySpec.of`. Defaults to None.
            study_name: Name of the study; a number follows if it exists (``-2``). Defaults to ``range-test-AGENT-ENV``.
            storage: Storage of the study; None records nothing. Defaults to ``sqlite:///finder.db``.
            progress: Whether to print the progress of each run to standard error. Defaults to True, or with the
                environment variable ``FINDER_PROGRESS=0`` to False.

        Returns:
            The curve and the suggestion.

        Raises:
            ConfigurationError: Rates or numbers are out of range, or the agent does not have the optimizer.
            Exception: Any error of the environment or the agent. The curve so far is recorded and in `result`; a note
                of the exception names the study.
        """
        self.spec.refuse_functions(
            "its rate cannot be changed during training. Train every rate by itself: grid(), or finder lr without "
            "--range-test."
        )
        refuse_dry_run("A range test (LRFinder.find)")
        if not isinstance(progress, bool | None):
            raise ConfigurationError(f"progress is {progress!r}: give True or False.")
        numbers = self.check_find(start_lr, end_lr, N, window_size=window_size, metric=metric, seeds=seeds)
        start_lr, end_lr, N, window_size = float(start_lr), float(end_lr), int(N), int(window_size)  # noqa: N806
        if storage is not None:
            open_storage(storage).close()  # reports an unusable storage before the work
            check_study_name(study_name)
        self._clear_results()
        runs: list[RangeTestRun] = []
        for seed in numbers:
            with self._copy(seed, strategy, shown=bool(progress) and not progress_disabled()) as trainer:
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
        self.result = result = pool_results([run.result for run in runs], [run.seed for run in runs])
        self.best_learning_rate = result.best
        if storage is not None:
            settings = {
                "start_lr": start_lr,
                "end_lr": end_lr,
                "N": N,
                "metric": curve_metric(metric),
                "seeds": list(numbers),
            }
            fields = agent_fields([(self.spec.label, self.spec)], {"learning_rate"})
            self.study_name = record_range_test(
                self.spec, runs, result, settings, fields=fields, study_name=study_name, storage=storage
            )
        if result.error is not None:
            kept = "" if storage is None else f"; it is recorded as the study {self.study_name}"
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
        """Check the arguments of `find`; return the seeds of the runs.

        Raises:
            ConfigurationError: Rates or numbers are out of range.
        """
        check_sweep(start_lr, end_lr, N, window_size)
        curve_metric(metric)
        return run_seeds(seeds, self.seed)

    def _copy(self, seed: int, strategy: Any = None, *, shown: bool = False) -> Trainer:
        """Return a trainer with a copy of the agent, in new environments.

        With another seed than that of this finder, the random generators of the copy are new.
        """
        state = self._agent.get_state() if isinstance(self._agent, Agent) else self.spec.state
        agent = replace(self.spec, state=None).build(seed, strategy)
        if state is not None:
            fresh = agent.get_state()
            streams = () if seed == self.seed else tuple({"rng", "seed"} & set(fresh))
            agent.set_state({**state, **{name: fresh[name] for name in streams}})
        trainer = Trainer(agent, seed=seed, callbacks=[Progress()] if shown else [])
        if self._trainer is not None:
            trainer.buffer.set_state(self._trainer.buffer.get_state())
        return trainer

    # Figures and suggestions of the last range test ----------------------------------------------------------

    def plot_reward(self, n_skip_beginning: int = 0, n_skip_end: int = 0, normalized: bool = False) -> go.Figure:
        """Draw the return over the learning rate: of every trial of a grid, or of every episode of a range test.

        Args:
            n_skip_beginning: Points of a range test to leave out at the beginning. Defaults to 0.
            n_skip_end: Points of a range test to leave out at the end. Defaults to 0.
            normalized: Whether to draw the normalised returns of a range test. Defaults to False.
        """
        if isinstance(self.result, SearchResult):
            refuse_after_grid(n_skip_beginning=n_skip_beginning, n_skip_end=n_skip_end, normalized=normalized)
            return self.result.plot()
        result = self._range_test()
        if normalized:
            rates, values = trim(result.rewards.rates, result.normalized, n_skip_beginning, n_skip_end)
            return plot_sweep(rates, values, "normalized")
        return self._plot("return", n_skip_beginning, n_skip_end)

    def plot_loss(self, n_skip_beginning: int = 0, n_skip_end: int = 0) -> go.Figure:
        """Draw the loss over the learning rate, likewise; for grids with ``metric="loss"``."""
        if isinstance(self.result, SearchResult):
            return loss_figure(self.result)
        return self._plot("loss", n_skip_beginning, n_skip_end)

    def plot_reward_change(
        self, sma: int = 1, n_skip_beginning: int = 0, n_skip_end: int = 0, y_lim: tuple[float, float] | None = None
    ) -> go.Figure:
        """Draw the change of the return (moving average of `sma` episodes) per decade of the learning rate."""
        return self._plot_change("return", sma, n_skip_beginning, n_skip_end, y_lim)

    def plot_loss_change(
        self, sma: int = 1, n_skip_beginning: int = 0, n_skip_end: int = 0, y_lim: tuple[float, float] | None = None
    ) -> go.Figure:
        """Draw the change of the loss (moving average of `sma` points) per decade of the learning rate."""
        return self._plot_change("loss", sma, n_skip_beginning, n_skip_end, y_lim)

    def get_best_lr(
        self, sma: int | None = None, n_skip_beginning: int = 0, n_skip_end: int = 0, rule: str | None = None
    ) -> float:
        """Return the rate of the pick of a grid, or the suggested rate of a range test.

        Args:
            sma: Length of the moving average, >= 1. Defaults to a tenth of the points, as for `best` of the result.
            n_skip_beginning: Points to leave out at the beginning. Defaults to 0.
            n_skip_end: Points to leave out at the end. Defaults to 0.
            rule: Name of the rule by which the curve of a range test is read (`finder.range_test.suggestion`):
                ``"steepest"``, ``"valley"``, ``"minimum"`` or ``"slide"``. Defaults to ``"steepest"`` for losses,
                ``"minimum"`` for returns.

        Raises:
            ConfigurationError: There was no search, it found no rate (the message has the reason), the rule is
                unknown, or a number is not whole or out of range.
        """
        if isinstance(self.result, SearchResult):
            refuse_after_grid(sma=sma, n_skip_beginning=n_skip_beginning, n_skip_end=n_skip_end, rule=rule)
            if self.best_learning_rate is None:
                raise ConfigurationError(f"The grid has {self.result.best!r}")
            return self.best_learning_rate
        result = self._range_test()
        trim(*result.curve(), n_skip_beginning, n_skip_end)  # raises if more points are left out than there are
        suggestion = agreed(result, n_skip_beginning, n_skip_end, sma, rule).suggestion
        if suggestion.rate is None:
            raise ConfigurationError(
                f"The range test suggests no learning rate: {suggestion.reason}. Train every rate by itself: grid()."
            )
        return suggestion.rate

    def _plot(self, of: Metric, n_skip_beginning: int, n_skip_end: int) -> go.Figure:
        return plot_sweep(*trim(*self._range_test().curve(of), n_skip_beginning, n_skip_end), of)

    def _plot_change(
        self, of: Metric, sma: int, n_skip_beginning: int, n_skip_end: int, y_lim: tuple[float, float] | None
    ) -> go.Figure:
        check_whole(1, sma=sma)
        shown = trim(*self._range_test().curve(of), n_skip_beginning, n_skip_end)
        return plot_change(*shown, of, sma=sma, y_lim=y_lim)

    def _range_test(self) -> RangeTestResult:
        if isinstance(self.result, SearchResult):
            raise ConfigurationError("The last search was a grid, which has no curve of a single run: call find().")
        if self.result is None:
            raise ConfigurationError("There was no range test yet: call find() first.")
        return self.result

"""The agent finder: compares agents, each in a process of its own, all at the same time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from optuna.trial import FrozenTrial, TrialState

from agents.config.optimizers import OptimizerSpec
from agents.contract.registry import resolve_agent
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.renamed import renamed_arguments
from finder.executors.message_broker import MessageBroker
from finder.executors.process import ProcessExecutor
from finder.finders.optimizer import refuse_environment_as_optimizers
from finder.results.search_result import SearchResult, finder_repr, require_losses
from finder.search.object_resolver import ObjectResolver
from finder.search.options import StudyOptions, make_spec, run_options, scheduler_name, usual_metric, weights_digest
from finder.search.run_search import run_search
from studies.database.records import EpisodeRecord
from studies.judging.missing_pick import why_no_pick
from studies.spec.metrics import metric_of
from studies.statistics.values import last_part_return, mean_of_seeds
from studies.study.study import OpenStudy
from studies.words import free_name

if TYPE_CHECKING:
    import plotly.graph_objects as go


_NOTHING_BEST: dict[str, Any] = {
    **{"best_reward": -1e9, "best_agent": None, "best_opt": None},
    **{"best_loss": 1e9, "best_loss_agent": None, "best_loss_opt": None},
}


class AgentFinder:
    """Trains several agents at the same time, each in a process of its own, and compares them.

    Args:
        agents: Names, classes, built agents or `AgentSpec`s, for the same environment, each once. A number is
            appended to equal names of agents with other settings.
        optimizers: An optimizer for each agent, or one for all, or None for the agents' own.
        environment: The environment; may be left out if the agents have one.

    Attributes:
        rewards: Agent label -> return of every episode, after `find`; seed after seed.
        losses: Agent label -> loss of the newest update when each of these episodes ended, NaN before the first update:
            ``losses[label][i]`` and ``rewards[label][i]`` belong to the same episode.
        logs: The pick of the study: `best_agent`, its optimizer `best_opt`, and its mean return `best_reward` (-1e9
            without a pick, and with a metric that is no mean return). An agent without a gradient step is never the
            pick. `best_loss`, `best_loss_agent` and `best_loss_opt` are the lowest mean loss over the last part of
            training, its agent and its optimizer; with ``metric="loss"`` they are the pick. Losses of different
            algorithms cannot be compared: with another metric `best_loss` stays 1e9 without an agent, unless all agents
            are of one class.
    """

    def __init__(
        self,
        agents: Sequence[Any],
        optimizers: Sequence[Any] | Any | None = None,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
    ) -> None:
        if isinstance(agents, str) or not agents:
            raise ConfigurationError(f"Give a list with at least one agent, got {agents!r}.")
        if environment is None:
            refuse_environment_as_optimizers(optimizers, agents)
        specs = [AgentSpec.of(agent, environment) for agent in agents]
        if len({repr(spec.environment) for spec in specs}) > 1:
            labels = ", ".join(sorted({spec.environment.label for spec in specs}))
            raise ConfigurationError(f"The agents must be for the same environment; they are for {labels}.")
        for index, optimizer in enumerate(_optimizer_of_each(optimizers, len(specs))):
            # With a name alone, the agent keeps its learning rate.
            specs[index].refuse_functions("leave its optimizer out (None): it cannot be exchanged.")
            specs[index] = specs[index].with_params({"optimizer": optimizer, "optimizers": {}})
        self.agents = _agents_by_label(specs)
        self.result: SearchResult | None = None
        self.rewards: dict[str, list[float]] = {}
        self.losses: dict[str, list[float]] = {}
        self.logs: dict[str, Any] = dict(_NOTHING_BEST)

    def __repr__(self) -> str:
        on = f" on {self._environment.label}"
        return finder_repr(f"{type(self).__name__}({list(self.agents)}{on})", self.result)

    @renamed_arguments(metrics="metric", params="fixed")
    def find(
        self,
        *,
        episodes: int | None = None,
        env_steps: int | None = None,
        metric: str | Sequence[str] | None = None,
        **options: Unpack[StudyOptions],
    ) -> SearchResult:
        """Train and compare all agents.

        Args:
            episodes: Budget of each run in episodes.
            env_steps: Budget of each run in environment steps. Defaults to 50,000 where `episodes` is not given.
            metric: What runs are compared by: ``"return"``, ``"greedy-return"`` (of episodes without exploration),
                ``"auc"`` (mean return over the whole training), ``"steps-to:475"`` (environment steps to a return),
                ``"success-rate"``, ``"custom:NAME"`` or ``"loss"`` (`studies.spec.metrics`), which is hard to compare
                between algorithms. Defaults to ``"greedy-return"`` for `sac`, `td3` and `ddpg`, else to ``"return"``.
                Several, in a list, give a Pareto front (`studies.judging.pareto_front`).
            **options: See `StudyOptions`. `n_jobs` defaults to one process for each agent, `scheduler` to none, and
                `confirm` to 0, because the selection bias among a few agents is small.

        Raises:
            ConfigurationError: A name is unknown, a value is invalid, or an agent cannot be sent to another process.
            StudyError: The storage cannot be opened, or has another study of this name.
        """
        labels = list(self.agents)
        if metric is None:
            metric = usual_metric(list(self.agents.values()), options)
        chosen: StudyOptions = {
            "n_jobs": len(labels),
            "confirm": 0,
            **options,
            "pruner": scheduler_name(options) or "none",
        }
        if "confirm_seeds" in options and "confirm" not in options:
            raise ConfigurationError(
                f"confirm_seeds is {options['confirm_seeds']}, but agents are not confirmed unless confirm is given: "
                "give confirm=2 (--confirm 2), or leave confirm_seeds (--confirm-seeds) out."
            )
        for name, given in (("executor", options.get("executor")), ("population", options.get("population"))):
            if given not in (None, "process"):
                raise ConfigurationError(
                    f"{name} is {given!r}, but agents are compared in a process each: leave it out."
                )
        spec = make_spec(
            "agents",
            list(self.agents.values()),
            chosen,
            env_steps=env_steps,
            episodes=episodes,
            metric=metric,
            labels=labels,
            trials=tuple({"agent": label} for label in labels),
        )
        callbacks = options.get("callbacks")
        resolver = ObjectResolver.of(spec, agents=self.agents, environment=self._environment, callbacks=callbacks)
        executor = ProcessExecutor(spec.n_jobs or len(labels), keep_values=True)
        study, stopped = run_search(spec, resolver=resolver, executor=executor, **run_options(options))
        self.result = SearchResult(study, stopped)
        self._set_values(self.result, executor.values)
        return self.result

    def _set_values(self, result: SearchResult, shared: Mapping[str, Mapping[int, list[float]]]) -> None:
        """Set the values of all episodes, from the shared dicts and from earlier runs of the study."""
        study = result.study
        broker = MessageBroker(keep_values=True)
        label_of = {trial.number: self._label_of(study, trial) for trial in study.trials()}
        for number in label_of.keys() - shared.get("rewards", {}).keys():
            if episodes := study.storage.episodes.curve(study.episodes_key, number):
                broker.post("episodes", 0, {number: episodes})
        values = {name: {**shared.get(name, {}), **own} for name, own in broker.values().items()}
        self.rewards, self.losses = (
            {label: values[name][number] for number, label in label_of.items() if number in values[name]}
            for name in ("rewards", "losses")
        )
        self.logs = self._best_of(result)

    def _best_of(self, result: SearchResult) -> dict[str, Any]:
        """Return the entries of `logs`: the pick, and the lowest loss if losses can be compared."""
        study, logs = result.study, dict(_NOTHING_BEST)
        if why_no_pick(study):
            return logs
        pick = result.best
        best = str(pick.params.get("agent", self._first_label))
        logs |= {"best_agent": best, "best_opt": self.agents[best].optimizer}
        if pick.metric == "loss":
            return logs | {"best_loss": pick.value, "best_loss_agent": best, "best_loss_opt": logs["best_opt"]}
        if metric_of(pick.metric).is_return:
            logs["best_reward"] = pick.value
        if self._of_one_class:
            losses = [
                (loss, trial.number, self._label_of(study, trial))
                for trial in study.trials(TrialState.COMPLETE)
                if math.isfinite(loss := last_loss(study.storage.episodes.curve(study.episodes_key, trial.number)))
            ]
            if losses:
                loss, _, label = min(losses)
                logs |= {"best_loss": loss, "best_loss_agent": label, "best_loss_opt": self.agents[label].optimizer}
        return logs

    @property
    def _first_label(self) -> str:
        return next(iter(self.agents))

    def _label_of(self, study: OpenStudy, trial: FrozenTrial) -> str:
        return str(study.params(trial).get("agent") or self._first_label)

    @property
    def _of_one_class(self) -> bool:
        return len({resolve_agent(spec.agent) for spec in self.agents.values()}) == 1

    @property
    def _environment(self) -> EnvironmentSpec:
        return next(iter(self.agents.values())).environment

    def plot_reward(self) -> go.Figure:
        """Draw the learning curves of all agents."""
        return self._curves()

    def plot_loss(self) -> go.Figure:
        """Draw the losses of all agents over their training, for a search by losses (``metric="loss"``).

        Raises:
            ConfigurationError: There was no search, or it was by another metric.
        """
        if self.result is not None:
            require_losses(self.result)
        return self._curves()

    def _curves(self) -> go.Figure:
        from studies.reports import plot_learning_curves

        if self.result is None:
            raise ConfigurationError("There was no search yet: call find() first.")
        return plot_learning_curves(self.result.study)


ParallelFinder = AgentFinder
"""Another name of `AgentFinder`."""


def last_loss(episodes: Sequence[EpisodeRecord]) -> float:
    """Return the mean loss over the last part of training, as the mean over seeds; NaN without losses."""
    by_seed: dict[int, list[EpisodeRecord]] = {}
    for episode in episodes:
        by_seed.setdefault(episode.seed, []).append(episode)
    if not by_seed:
        return math.nan
    return float(mean_of_seeds([_last_loss_of_run(own) for own in by_seed.values()]))


def _last_loss_of_run(episodes: Sequence[EpisodeRecord]) -> float:
    known = [(episode.env_steps, episode.loss) for episode in episodes if episode.loss is not None]
    if not known:
        return math.nan
    steps, losses = zip(*known, strict=True)
    return last_part_return(steps, losses, budget=max(episode.env_steps for episode in episodes))


def _optimizer_of_each(optimizers: Sequence[Any] | Any | None, n_agents: int) -> list[Any]:
    if optimizers is None:
        return []
    given = list(optimizers) if isinstance(optimizers, list | tuple) else [optimizers] * n_agents
    if len(given) != n_agents:
        raise ConfigurationError(
            f"Give one optimizer for all agents or one for each: "
            f"there are {n_agents} agents and {len(given)} optimizers."
        )
    return [each if isinstance(each, str) else OptimizerSpec.of(each) for each in given]


def _agents_by_label(specs: Sequence[AgentSpec]) -> dict[str, AgentSpec]:
    result: dict[str, AgentSpec] = {}
    for spec in specs:
        if any(_are_equal(spec, other) for other in result.values()):
            raise ConfigurationError(
                f"agents has {spec.label!r} twice, with the same settings: give each agent once, and for more runs of "
                "each more seeds (--seeds 6; in Python seeds=6)."
            )
        result[free_name(spec.label, result)] = spec
    return result


def _are_equal(one: AgentSpec, other: AgentSpec) -> bool:
    """Return whether two agents have the same class or function, the same settings and the same initial weights."""
    is_one_class = one.agent == other.agent or resolve_agent(one.agent) == resolve_agent(other.agent)
    is_same = is_one_class and one.config.to_dict() == other.config.to_dict()
    return is_same and weights_digest(one) == weights_digest(other)

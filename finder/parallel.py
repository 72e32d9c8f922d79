"""Which agent? One process an agent, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from optuna.trial import TrialState

from agents.algorithms.registry import agent_class
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError
from agents.optimizers import OptimizerSpec
from agents.spec import AgentSpec
from finder.executors.board import Board
from finder.executors.process import ProcessExecutor
from finder.options import Metrics, StudyOptions, make_spec
from finder.results import SearchResult
from finder.search import Ingredients, run_search
from finder.trial import Outcome
from studies.study import OpenStudy

if TYPE_CHECKING:
    import plotly.graph_objects as go


_NO_BEST_LOSS = {"best_loss": 1e9, "best_loss_agent": None, "best_loss_opt": None}


class ParallelFinder:
    """Trains several agents at the same time, a process each, and compares them.

    Args:
        agents: Names, classes, built agents or `AgentSpec`s, for the same environment. Equal names are told apart
            by a number.
        optimizers: An optimizer for each agent, or one for all, or None for the agents' own.
        environment: What they are for; may be left out where the agents know it.

    Attributes:
        rewards: Agent label -> return of every episode, after `find`.
        losses: Agent label -> loss at every episode's end.
        logs: `best_reward` (from -1e9), and `best_agent` and `best_opt`, whose it is; `best_loss` (from 1e9), and
            `best_loss_agent` and `best_loss_opt`. Losses of different algorithms are different things, so that
            `best_loss` stays at 1e9, and nobody's, unless all agents are of one class.
    """

    def __init__(
        self,
        agents: Sequence[Any],
        optimizers: Sequence[Any] | Any | None = None,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
    ) -> None:
        if isinstance(agents, str) or not agents:
            raise ConfigurationError(f"Give a list with at least one agent, got {agents!r}.")
        specs = [AgentSpec.of(agent, environment) for agent in agents]
        if len({repr(spec.environment) for spec in specs}) > 1:
            told = ", ".join(sorted({spec.environment.label for spec in specs}))
            raise ConfigurationError(f"The agents must be for the same environment; they are for {told}.")
        for index, optimizer in enumerate(_one_each(optimizers, len(specs))):
            # A bare name says no learning rate: then the agent keeps its own.
            specs[index] = specs[index].with_params({"optimizer": optimizer, "optimizers": {}})
        self.agents = _labelled(specs)
        self.result: SearchResult | None = None
        self.rewards: dict[str, list[float]] = {}
        self.losses: dict[str, list[float]] = {}
        self.logs: dict[str, Any] = {"best_reward": -1e9, "best_agent": None, "best_opt": None, **_NO_BEST_LOSS}

    def find(
        self,
        *,
        episodes: int | None = None,
        env_steps: int | None = None,
        metrics: Metrics = "reward",
        **options: Unpack[StudyOptions],
    ) -> SearchResult:
        """Trains all agents and compares them.

        Args:
            episodes: Budget of each run in episodes.
            env_steps: Budget of each run in environment steps. Defaults to 50,000 where `episodes` is not given.
            metrics: Compare by returns or by losses.
            **options: See `StudyOptions`. `n_jobs` defaults to one process an agent, `pruner` to none, and `confirm` to
                0: of a few agents, the best one is hardly flattered by having been chosen.

        Raises:
            ConfigurationError: Unknown names or bad values, or an agent that cannot be sent to another process.
            StudyError: The storage cannot be opened, or holds another study of that name.
        """
        labels = list(self.agents)
        chosen: StudyOptions = {"n_jobs": len(labels), "pruner": "none", "confirm": 0, **options}
        if chosen.get("executor", "process") != "process":
            raise ConfigurationError(f"ParallelFinder runs in processes, not on {chosen['executor']!r}.")
        spec = make_spec(
            "agents",
            list(self.agents.values()),
            chosen,
            env_steps=env_steps,
            default_env_steps=50_000,
            episodes=episodes,
            metrics=metrics,
            labels=labels,
            trials=tuple({"agent": label} for label in labels),
        )
        callbacks = options.get("callbacks")
        ingredients = Ingredients.of(spec, agents=self.agents, environment=self._environment, callbacks=callbacks)
        executor = ProcessExecutor(spec.n_jobs or len(labels), keep_values=True)
        study, stopped = run_search(spec, ingredients=ingredients, executor=executor, observer=options.get("observer"))
        self.result = SearchResult(study, stopped)
        self._take_values(study, executor.values)
        return self.result

    def _take_values(self, study: OpenStudy, values: dict[str, Any]) -> None:
        """Takes over the shared dicts, which are by trial, and adds what an earlier run of the study recorded."""
        only = next(iter(self.agents))
        board = Board(keep_values=True)
        board.rewards, board.losses, board.logs = values["rewards"], values["losses"], values["logs"]
        for trial in study.trials():
            if trial.number not in board.rewards and trial.state == TrialState.COMPLETE:
                label = study.params(trial).get("agent") or only
                episodes = study.storage.episodes.curve(study.episodes_key, trial.number)
                board.post("episodes", 0, {trial.number: episodes})
                optimizer = self.agents[label].config.optimizer
                board.finish(0, trial.number, label, optimizer, Outcome(state="complete"))
        label_of = {trial.number: study.params(trial).get("agent") or only for trial in study.trials()}
        self.rewards = {label: board.rewards[number] for number, label in label_of.items() if number in board.rewards}
        self.losses = {label: board.losses[number] for number, label in label_of.items() if number in board.losses}
        self.logs = board.logs if self._of_one_class else {**board.logs, **_NO_BEST_LOSS}

    @property
    def _of_one_class(self) -> bool:
        return len({agent_class(spec.agent) for spec in self.agents.values()}) == 1

    @property
    def _environment(self) -> EnvironmentSpec:
        return next(iter(self.agents.values())).environment

    def plot_reward(self) -> go.Figure:
        """Learning curves of all agents."""
        from studies.reports import plot_learning_curves

        if self.result is None:
            raise ConfigurationError("There was no search yet: call find() first.")
        return plot_learning_curves(self.result.study)


class AgentFinder(ParallelFinder):
    """`ParallelFinder` by its other name."""


def _one_each(optimizers: Sequence[Any] | Any | None, n_agents: int) -> list[Any]:
    if optimizers is None:
        return []
    given = list(optimizers) if isinstance(optimizers, list | tuple) else [optimizers] * n_agents
    if len(given) == 1:
        given *= n_agents
    if len(given) != n_agents:
        raise ConfigurationError(
            f"Give one optimizer for all agents or one for each: "
            f"there are {n_agents} agents and {len(given)} optimizers."
        )
    return [each if isinstance(each, str) else OptimizerSpec.of(each) for each in given]


def _labelled(specs: Sequence[AgentSpec]) -> dict[str, AgentSpec]:
    result: dict[str, AgentSpec] = {}
    for spec in specs:
        label, number = spec.label, 2
        while label in result:
            label, number = f"{spec.label}-{number}", number + 1
        result[label] = spec
    return result

"""The one training loop. Every algorithm runs through it.

Glossary:
    environment step: one step of one copy of the environment. Budgets are counted in these: N copies stepped
        once make N environment steps.
    episode: from a reset to `terminated` or `truncated`. Its *return* is the sum of its rewards.
    rollout: the steps that are collected for the next update; one step for DQN, `n_steps` of every copy for PPO.
    update: what follows a rollout: one or more gradient steps.
    gradient step: one minibatch, one step of every optimizer.

On-policy and off-policy learning differ in their memory (`agents.replay`), which says when an update is due and
what it learns from; not in the loop.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.agent import Agent, UpdateMetrics
from agents.callbacks import Callback, CallbackList, Episode, StopAtReturn
from agents.collector import Collector, EndedEpisode
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, NonFiniteError
from agents.replay import Batches


@dataclass
class History:
    """Every episode of a run, in the order in which they ended."""

    episodes: list[Episode] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def add(self, episode: Episode) -> None:
        """Appends one episode."""
        self.episodes.append(episode)
        self.returns.append(episode.episode_return)

    def mean_return(self, last: int = 100) -> float:
        """Mean return of the last episodes; NaN before the first."""
        return float(np.mean(self.returns[-last:])) if self.returns else float("nan")


class TrainingResult(NamedTuple):
    """How a call of `Trainer.train` ended."""

    reason: str  # why it stopped
    env_steps: int  # of the whole run so far
    gradient_steps: int
    history: History
    wall_seconds: float


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train; counted from the beginning of the run. None means without limit."""

    env_steps: int | None = None
    episodes: int | None = None

    def __post_init__(self) -> None:
        """Refuses budgets below one."""
        for name in ("env_steps", "episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} must be >= 1, got {value}.")


class Trainer:
    """Brings an agent, an environment and the agent's memory together.

    Args:
        agent: What learns.
        environment: What it learns in: an id, a function that makes one, or a spec. Defaults to what the agent
            was made for.
        callbacks: Who wants to hear of it.
        seed: Seed of environments and memory. Defaults to the agent's.
    """

    def __init__(
        self,
        agent: Agent,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        *,
        callbacks: Iterable[Callback] = (),
        seed: int | None = None,
    ) -> None:
        spec = agent.environment if environment is None else EnvironmentSpec.of(environment)
        if spec is None:
            raise ConfigurationError("Trainer needs an environment: the agent was made without one.")
        self.agent = agent
        self.environment = spec
        self.seed = agent.seed if seed is None else seed
        self.callbacks = CallbackList(callbacks)
        self.collector = Collector(spec, agent.config.n_envs, self.seed)
        try:
            self._check_spaces()
            self.memory = agent.make_memory(agent.config.n_envs, seeding.generator(self.seed, "memory"))
        except BaseException:
            self.close()
            raise
        self.history = History()
        self.env_steps = 0
        self.newest_loss: float | None = None
        self._stop_reason: str | None = None
        self._worked_seconds = 0.0
        self._working_since: float | None = None

    @property
    def wall_seconds(self) -> float:
        """Seconds of training so far, without what passed between turns of the loop."""
        running = 0.0 if self._working_since is None else time.perf_counter() - self._working_since
        return self._worked_seconds + running

    def train(
        self,
        *,
        env_steps: int | None = None,
        episodes: int | None = None,
        criterion: float | None = None,
        trial_count: int = 100,
    ) -> TrainingResult:
        """Trains until the first limit is reached; called again, it goes on.

        Args:
            env_steps: Further environment steps (rounded up to whole steps of all copies). A rollout that is not
                full by then waits in the memory: a later call goes on with it.
            episodes: Further episodes, exactly.
            criterion: Mean return of the last `trial_count` episodes at which to stop.
            trial_count: Episodes for `criterion`. Defaults to 100.

        Raises:
            ConfigurationError: No limit, or one below one.
            NonFiniteError: A reward, a loss or an output of a network became NaN or infinite.
        """
        if env_steps is None and episodes is None and criterion is None:
            raise ConfigurationError("Say how long to train: env_steps, episodes or criterion.")
        Budget(env_steps=env_steps, episodes=episodes)
        budget = Budget(
            env_steps=None if env_steps is None else self.env_steps + env_steps,
            episodes=None if episodes is None else len(self.history.returns) + episodes,
        )
        further = [] if criterion is None else [StopAtReturn(criterion, trial_count)]
        with self.also_telling(*further):
            for _ in self.iterate(budget):
                pass
        reason = self._stop_reason or "budget reached"
        return TrainingResult(reason, self.env_steps, self.agent.gradient_steps, self.history, self.wall_seconds)

    def iterate(self, budget: Budget) -> Generator[int]:
        """The loop, as a generator: collects, updates, and gives the environment steps so far, again and again.

        Several runs can be driven in turns this way, to compare them at equal environment steps.
        """
        self._stop_reason = None
        self.agent.refresh()
        self.callbacks.call("on_train_begin", self)
        try:
            while not self._finished(budget):
                with self._clock():
                    if not self.memory.due:  # an update may be due still, where an earlier call was stopped before it
                        self._collect(budget)
                    if self.memory.due and not self._stop_reason and not self._episodes_reached(budget):
                        self._update()
                yield self.env_steps
        finally:
            self.callbacks.call("on_train_end", self)

    @contextlib.contextmanager
    def _clock(self) -> Generator[None]:
        self._working_since = time.perf_counter()
        try:
            yield
        finally:
            self._worked_seconds, self._working_since = self.wall_seconds, None

    @contextlib.contextmanager
    def also_telling(self, *callbacks: Callback) -> Generator[None]:
        """Further callbacks, after the trainer's own, for as long as the block lasts."""
        before = self.callbacks
        self.callbacks = CallbackList([*before.callbacks, *callbacks])
        try:
            yield
        finally:
            self.callbacks = before

    def stop(self, reason: str) -> None:
        """Asks the loop to stop after the current step of the environments."""
        self._stop_reason = reason

    def set_hyperparameter(self, name: str, value: float) -> None:
        """Changes a live hyperparameter: ``learning_rate``, ``actor.learning_rate``, ``gamma``, ..."""
        self.agent.set_hyperparameter(name, value)
        self.memory.set_hyperparameter(name, value)

    def close(self) -> None:
        """Closes the environments."""
        self.collector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The parts of the loop ------------------------------------------------------------------------------------

    def _collect(self, budget: Budget) -> None:
        call, wants = self.callbacks.call, self.callbacks.wants
        if not self.collector.started:
            self.collector.start()
            if wants("on_episode_begin"):
                for environment in range(self.collector.n_envs):
                    call("on_episode_begin", self, environment)
        call("on_rollout_begin", self)
        while True:
            transition, ended = self.collector.step(self.agent)
            self.memory.add(transition)
            self.env_steps += self.collector.n_envs
            self.agent.advance(self.collector.n_envs)
            if ended:
                self._tell_episodes(ended, budget)
            call("on_step_end", self)
            if self.memory.due or self._stop_reason or self._reached(budget):
                break
        call("on_rollout_end", self)

    def _tell_episodes(self, ended: list[EndedEpisode], budget: Budget) -> None:
        seconds = self.wall_seconds
        for environment, episode_return, length in ended:
            if not self._episodes_reached(budget):  # several may end with the same step; a budget is exact
                index = len(self.history.returns)
                episode = Episode(index, self.env_steps, episode_return, length, self.newest_loss, seconds, environment)
                self.history.add(episode)
                self.callbacks.call("on_episode_end", self, episode)
            self.callbacks.call("on_episode_begin", self, environment)

    def _update(self) -> None:
        data = self.agent.prepare(self.memory.take())
        batches = self.memory.batches(data)
        if not self.callbacks.every_gradient_step:
            self._apply(batches)
            return
        for k in range(len(batches.indices)):
            self._apply(Batches(batches.data, batches.indices[k : k + 1]))
            if self._stop_reason:
                return

    def _apply(self, batches: Batches) -> None:
        self.callbacks.call("on_update_begin", self)
        update: UpdateMetrics = self.agent.update(batches)
        self.newest_loss = update.loss
        self.callbacks.call("on_update_end", self, update)
        if not update.finite and not self._stop_reason:
            losses = {name: values[~np.isfinite(values)] for name, values in update.losses.items()}
            told = ", ".join(f"{name}: {values[0]}" for name, values in losses.items() if len(values))
            raise NonFiniteError(
                f"The loss became {told} after {self.env_steps:,} environment steps "
                f"({self.agent.gradient_steps:,} gradient steps): the learning rate is probably too high."
            )

    # When to end ----------------------------------------------------------------------------------------------

    def _finished(self, budget: Budget) -> bool:
        return self._stop_reason is not None or self._reached(budget)

    def _reached(self, budget: Budget) -> bool:
        steps_reached = budget.env_steps is not None and self.env_steps >= budget.env_steps
        return steps_reached or self._episodes_reached(budget)

    def _episodes_reached(self, budget: Budget) -> bool:
        return budget.episodes is not None and len(self.history.returns) >= budget.episodes

    def _check_spaces(self) -> None:
        made, expected = self.collector.environments, self.agent
        pairs = (
            (made.observation_space, expected.observation_space),
            (made.action_space, expected.action_space),
        )
        if any(_kind(ours) != _kind(theirs) for ours, theirs in pairs):
            raise ConfigurationError(
                f"The agent was made for observations {expected.observation_space} and actions "
                f"{expected.action_space}; {self.environment.label!r} has {made.observation_space} and "
                f"{made.action_space}."
            )

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Everything of the run: agent, memory, environments, counters and episodes."""
        return {
            "agent": self.agent.get_state(),
            "memory": self.memory.get_state(),
            "collector": self.collector.get_state(),
            "episodes": list(self.history.episodes),
            "env_steps": self.env_steps,
            "newest_loss": self.newest_loss,
            "wall_seconds": self.wall_seconds,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on where `get_state` was called; see `Collector.set_state` for environments that cannot be copied."""
        self.agent.set_state(state["agent"])
        self.memory.set_state(state["memory"])
        self.collector.set_state(state["collector"])
        self.history = History()
        for episode in state["episodes"]:
            self.history.add(episode)
        self.env_steps = state["env_steps"]
        self.newest_loss = state["newest_loss"]
        self._worked_seconds = state["wall_seconds"]


def _kind(space: spaces.Space[Any]) -> tuple[Any, ...]:
    """What a network was made for; bounds may differ."""
    return type(space), space.shape, space.dtype, getattr(space, "n", None)

"""The one training loop. Every algorithm runs through it.

Glossary:
    environment step: one step of one copy of the environment. Budgets are counted in these: N copies stepped
        once make N environment steps.
    episode: from a reset to `terminated` or `truncated`. Its *return* is the sum of its rewards.
    rollout: the steps that are collected for the next update; one step for DQN, `n_steps` of every copy for PPO.
    update: what follows a rollout: one or more gradient steps.
    gradient step: one minibatch, one step of every optimizer.

What is trained is one agent, or a population: several members of one agent that go through all this in step. Each has
a run of its own (`agents.run`) with its counters and episodes, and may leave before the others.

On-policy and off-policy learning differ in their memory (`agents.replay`), which says when an update is due and
what it learns from; not in the loop.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from agents.callbacks import Callback, CallbackList, StopAtReturn
from agents.collector import Collector, EndedEpisode
from agents.environments import EnvironmentSpec
from agents.environments.transforms import check_same_spaces
from agents.errors import ConfigurationError, MembersFailedError
from agents.learner import Learner
from agents.pool import Pool
from agents.replay import Batches
from agents.replay.join import concatenate, split
from agents.run import Budget, History, Run, TrainingResult

if TYPE_CHECKING:
    from agents.pool.collector import PoolCollector


class Trainer:
    """Brings an agent, an environment and the agent's memory together.

    Args:
        agent: What learns: an agent, or a population.
        environment: What it learns in: an id, a function that makes one, or a spec. Defaults to what the agent
            was made for.
        callbacks: Who wants to hear of it.
        seed: Seed of environments and memory, for an agent alone. Defaults to the agent's.
        pool: Processes that step the environments of an agent alone: their number, or a `Pool`. Defaults to None: they
            are stepped here.
    """

    def __init__(
        self,
        agent: Learner,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        *,
        callbacks: Iterable[Callback] = (),
        seed: int | None = None,
        pool: int | Pool | None = None,
    ) -> None:
        spec = agent.environment if environment is None else EnvironmentSpec.of(environment)
        if spec is None:
            raise ConfigurationError("Trainer needs an environment: the agent was made without one.")
        self.agent: Any = agent  # a Learner; whoever made it knows which
        self.environment = spec
        self.callbacks = CallbackList(callbacks)
        seeds = agent.seeds if seed is None else (seed,)
        self.runs = [Run(member, seed) for member, seed in enumerate(seeds)]
        """The run of every member, also of those that have left; one for an agent alone."""
        self._present = list(self.runs)  # by position: those whose members are there
        self.memory = agent.new_memory(agent.config.n_envs, seeds)
        self.collector: Collector | PoolCollector = (
            Collector(spec, agent.config.n_envs, seeds)
            if pool is None
            else Pool.of(pool).collector(agent, spec, seeds, self.memory)
        )
        try:
            check_same_spaces(spec.label, self.collector.environments, agent)
        except BaseException:
            self.close()
            raise
        self._worked_seconds = 0.0
        self._working_since: float | None = None

    @property
    def present(self) -> tuple[int, ...]:
        """The members that are there, by position."""
        return tuple(run.member for run in self._present)

    @property
    def run(self) -> Run:
        """The run of an agent alone; of a population, that of the first member that is there."""
        return self._present[0]

    @property
    def history(self) -> History:
        """The episodes of `run`."""
        return self.run.history

    @property
    def env_steps(self) -> int:
        """Environment steps of each member that is there: they go in step."""
        return self.run.env_steps

    @property
    def newest_loss(self) -> float | None:
        """Loss of the newest update of `run`."""
        return self.run.newest_loss

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
        reason = self.run.stop_reason or "budget reached"
        return TrainingResult(reason, self.env_steps, self.agent.gradient_steps, self.history, self.wall_seconds)

    def iterate(self, budget: Budget) -> Generator[int]:
        """The loop, as a generator: collects, updates, and gives the environment steps so far, again and again.

        Several trainings can be driven in turns this way, to compare them at equal environment steps.
        """
        for run in self._present:
            run.stop_reason = None
        self.agent.refresh()
        self.callbacks.call("on_train_begin", self)
        try:
            while self._goes_on(budget):
                with self._clock(), self._members_fail_alone():
                    if not self.memory.due:  # an update may be due still, where an earlier call was stopped before it
                        self._collect(budget)
                    if self.memory.due and not any(self._is_over(run, budget) for run in self._present):
                        self._update()
                yield self.env_steps
        finally:
            self.callbacks.call_each("on_train_end", self)

    def _goes_on(self, budget: Budget) -> bool:
        """Lets members leave whose runs are over; False when none is left, or the steps are done."""
        over = [self._is_over(run, budget) for run in self._present]
        done = self._steps_reached(budget) or all(over)
        if done or any(over):
            for run, is_over in zip(self._present, over, strict=True):
                if done or is_over:
                    self.callbacks.call("on_run_end", self, run)
        if not done and any(over):
            self._keep([position for position, is_over in enumerate(over) if not is_over])
        return not done

    def _keep(self, positions: list[int]) -> None:
        self._present = [self._present[position] for position in positions]
        self.agent.keep(positions)
        self.memory.keep(positions)
        self.collector.keep(positions)

    @contextlib.contextmanager
    def _members_fail_alone(self) -> Generator[None]:
        try:
            yield
        except MembersFailedError as failure:
            self._failed(failure.errors)

    def _failed(self, errors: dict[int, Exception]) -> None:
        """Notes which members cannot go on. An agent alone has nobody who goes on without it: its error is raised."""
        for position, error in errors.items():
            if not self.agent.members_fail_alone:
                raise error
            if not self._present[position].over:
                self._present[position].error = error

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

    def stop(self, reason: str, member: int | None = None) -> None:
        """Asks a member, or all, to stop after the current step of the environments."""
        for run in self._present if member is None else [self.runs[member]]:
            run.stop_reason = reason

    def position(self, member: int) -> int:
        """Where a member stands among those that are there.

        Raises:
            ValueError: It has left.
        """
        return self.present.index(member)

    def set_hyperparameter(self, name: str, value: float, member: int | None = None) -> None:
        """Changes a live hyperparameter (``learning_rate``, ``actor.learning_rate``, ...) of a member, or of all."""
        position = None if member is None else self.position(member)
        self.agent.set_hyperparameter(name, value, position)
        self.memory.set_hyperparameter(name, value, position)

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
        n_envs = self.collector.n_envs
        if not self.collector.started:
            self.collector.start()
            if wants("on_episode_begin"):
                for run in self._present:
                    for environment in range(n_envs):
                        call("on_episode_begin", self, environment, run.member)
        call("on_rollout_begin", self)
        self.collector.plan(self._steps_ahead(budget))
        while True:
            transition, ended, errors, renewed = self.collector.step(self.agent, self.agent.config.explore)
            if renewed:
                self.memory.cut(renewed)
            self.memory.add(transition)
            for run in self._present:
                run.env_steps += n_envs
            self.agent.advance(n_envs)
            if ended:
                self._tell_episodes(ended, budget)
            if errors:
                self._failed(errors)
            call("on_step_end", self)
            if self.memory.due or self._steps_reached(budget):
                break
            if any(self._is_over(run, budget) for run in self._present):
                break
        call("on_rollout_end", self)

    def _tell_episodes(self, ended: list[EndedEpisode], budget: Budget) -> None:
        seconds = self.wall_seconds
        for position, environment, episode_return, length in ended:
            run = self._present[position]
            if not self._episodes_reached(run, budget):  # several may end with the same step; a budget is exact
                episode = run.end_episode(environment, episode_return, length, seconds)
                self.callbacks.call("on_episode_end", self, episode)
                episode.user_data.clear()
            self.callbacks.call("on_episode_begin", self, environment, run.member)

    def _update(self) -> None:
        data = self._prepared(self.memory.take())
        if data is None:
            return
        batches = self.memory.batches(data)
        if not self.callbacks.every_gradient_step:
            self._apply(batches)
            return
        for k in range(batches.indices.shape[-2]):
            self._apply(batches.of_step(k))
            if all(run.over for run in self._present):
                return

    def _prepared(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """The data as the agent prepares them. A member that fails at that leaves, and the others learn from theirs."""
        while True:
            try:
                prepared: dict[str, Any] = self.agent.prepare(data)
                return prepared
            except MembersFailedError as failure:
                self._failed(failure.errors)
                staying = [i for i in range(len(self._present)) if i not in failure.errors]
                if not staying:
                    return None
                parts = split(data, len(self._present), self.memory.member_axis)
                data = concatenate([parts[i] for i in staying], self.memory.member_axis)
                for position in failure.errors:
                    self.callbacks.call("on_run_end", self, self._present[position])
                self._keep(staying)

    def _apply(self, batches: Batches) -> None:
        self.callbacks.call("on_update_begin", self)
        update = self.agent.update(batches)
        if update.priorities is not None:
            self.memory.learned(update.priorities)
        losses, finite = np.atleast_1d(update.loss).tolist(), np.atleast_1d(update.finite)
        tells = self.callbacks.wants("on_update_end")
        for position, (run, loss) in enumerate(zip(self._present, losses, strict=True)):
            run.newest_loss = loss
            if tells:
                self.callbacks.call("on_update_end", self, update.of(position, run.member))
        for position in np.flatnonzero(~finite).tolist():
            if not self._present[position].over:
                error = update.of(position).why_not_finite(self.env_steps, self.agent.gradient_steps)
                self._failed({position: error})

    # When to end ----------------------------------------------------------------------------------------------

    def _is_over(self, run: Run, budget: Budget) -> bool:
        return run.over or self._episodes_reached(run, budget)

    def _steps_ahead(self, budget: Budget) -> int:
        """Steps of every copy until an update is due or the budget is used, whichever comes first."""
        until_due: int = self.memory.until_due
        if budget.env_steps is None:
            return until_due
        return min(until_due, -(-(budget.env_steps - self.env_steps) // self.collector.n_envs))

    def _steps_reached(self, budget: Budget) -> bool:
        return budget.env_steps is not None and self.env_steps >= budget.env_steps

    @staticmethod
    def _episodes_reached(run: Run, budget: Budget) -> bool:
        return budget.episodes is not None and len(run.history.returns) >= budget.episodes

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self, *, environments: bool = True) -> dict[str, Any]:
        """Everything of the runs: agent, memory, environments, counters and episodes.

        Args:
            environments: Whether the environments as they stand are in it. Without them, as where they cannot be
                copied, whoever goes on from this state begins new episodes (`Collector.set_state`).
        """
        return {
            "agent": self.agent.get_state(),
            "memory": self.memory.get_state(),
            "collector": self.collector.get_state(environments=environments),
            "runs": [run.get_state() for run in self.runs],
            "present": list(self.present),
            "wall_seconds": self.wall_seconds,
        }

    def set_state(self, state: dict[str, Any], members: Collection[int] | None = None) -> None:
        """Goes on where `get_state` was called; see `Collector.set_state` for environments that cannot be copied.

        Args:
            state: What `get_state` gave, of as many runs.
            members: Of a population, the only members that go on, of those that were there. Defaults to `None`: all.
        """
        if len(state["runs"]) != len(self.runs):
            raise ConfigurationError(f"{len(self.runs)} runs cannot go on from the state of {len(state['runs'])}.")
        if list(self.present) != state["present"]:
            self._keep([self.position(member) for member in state["present"]])
        self.agent.set_state(state["agent"])
        self.memory.set_state(state["memory"])
        self.collector.set_state(state["collector"])
        if state["collector"]["started"] and state["collector"]["environments"] is None:
            self.memory.cut()
        self.runs = [Run.of_state(run) for run in state["runs"]]
        self._present = [self.runs[member] for member in state["present"]]
        self._worked_seconds = state["wall_seconds"]
        if members is not None and not set(self.present) <= set(members):
            self._keep([position for position, member in enumerate(self.present) if member in members])

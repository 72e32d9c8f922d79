"""The training loop of all algorithms.

Glossary:
    environment step: one step of one environment. Budgets are counted in these: one step of N parallel environments
        counts as N environment steps.
    episode: from a reset to `terminated` or `truncated`. Its *return* is the sum of its rewards.
    rollout: the steps collected for the next update; one step for DQN, `n_steps` of every environment for PPO.
    update: one or more gradient steps after a rollout.
    gradient step: one minibatch, one step of every optimizer.

The trainer trains one agent, or a population: several members of one agent that are trained in step. Each member has a
run of its own (`agents.training.run`) with its counters and episodes, and may leave before the others.

On-policy and off-policy learning differ in their buffer (`agents.buffers`), which decides when an update is due and
samples its data; not in the loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from agents.buffers import Batches
from agents.buffers.join import concatenate, split
from agents.collection.collector import EndedEpisode
from agents.errors import ConfigurationError, MembersFailedError
from agents.training.call_progress import call_progress
from agents.training.criterion import Criterion
from agents.training.listeners import Listener
from agents.training.run import Budget, TrainingResult
from agents.training.training import Training


class Trainer(Training):
    """Train an agent in an environment.

    Args:
        agent: An agent or a population.
        environment: The environment: an id, a function that makes one, or a spec. Defaults to that of the agent.
        callbacks: Callbacks, called in this order.
        seed: Seed of environments and buffer, for a single agent. Defaults to the agent's.
        pool: Processes that step the environments of a single agent: their number, or a `Pool`. Defaults to None: the
            environments are stepped in this process.

    Raises:
        ConfigurationError: No environment, one with other spaces than the agent's, or parts that do not fit together
            (a population with a pool, for example).
    """

    def train(
        self,
        *,
        env_steps: int | None = None,
        episodes: int | None = None,
        criterion: float | None = None,
        trial_count: int = 100,
        progress: bool = True,
    ) -> TrainingResult:
        """Train until the first limit is reached; further calls continue the training.

        Args:
            env_steps: Further environment steps (rounded up to whole steps of all environments). An incomplete rollout
                stays in the buffer: a later call continues it.
            episodes: Further episodes, exactly.
            criterion: Mean return of the last `trial_count` episodes at which to stop.
            trial_count: Number of episodes for `criterion`. Defaults to 100.
            progress: Whether a call that takes longer than five seconds prints a line on standard error every five
                seconds; a `Progress` callback replaces it. Defaults to True, or with the environment variable
                ``FINDER_PROGRESS=0`` to False.

        Raises:
            ConfigurationError: No limit, or a limit below one.
            NonFiniteError: A reward, a loss or an output of a network became NaN or infinite.
        """
        if env_steps is None and episodes is None and criterion is None:
            raise ConfigurationError("train() needs a limit: pass env_steps, episodes or criterion.")
        budget = Budget(env_steps=env_steps, episodes=episodes).after(self.run)
        self.clear_stops()
        further: list[Listener] = [] if criterion is None else [Criterion(criterion, trial_count)]
        if progress:
            further += call_progress(self.callbacks.callbacks)
        with self.with_listeners(*further):
            for _ in self.iterate(budget):
                pass
        reason = self.run.stop_reason or "budget reached"
        return TrainingResult(reason, self.env_steps, self.agent.gradient_steps, self.history, self.wall_seconds)

    def iterate(self, budget: Budget) -> Generator[int]:
        """Run the loop as a generator: collect, update, and yield the environment steps so far.

        Generators of several trainings can be interleaved, to compare them at equal environment steps. A run that was
        stopped before, in this process or before a state was taken, stays stopped (`clear_stops`).
        """
        self.agent.refresh()
        if self.is_new:
            self.callbacks.reset_state()
        with self.callbacks.during(self):
            self._update_where_due(budget)  # if an earlier call stopped, or a checkpoint was written, before it
            while self._remove_finished_members(budget):
                if not self.buffer.ready:  # members that left may have made the update due
                    with self._clock(), self._members_fail_alone():
                        self._collect(budget)
                self._update_where_due(budget)
                yield self.env_steps

    def _update_where_due(self, budget: Budget) -> None:
        with self._clock(), self._members_fail_alone():
            while self.buffer.ready and not any(map(budget.is_over, self._present)):
                self._update()
                self.buffer.updated()

    def _remove_finished_members(self, budget: Budget) -> bool:
        """Remove members whose runs are over; return False when none is left, or the steps are used up."""
        over = [budget.is_over(run) for run in self._present]
        done = budget.steps_reached(self.env_steps) or all(over)
        if done or any(over):
            for run, is_over in zip(self._present, over, strict=True):
                if done or is_over:
                    self.callbacks.call("on_run_end", self, run)
        if not done and any(over):
            self._select([position for position, is_over in enumerate(over) if not is_over])
        return not done

    @contextlib.contextmanager
    def _members_fail_alone(self) -> Generator[None]:
        try:
            yield
        except MembersFailedError as failure:
            self._failed(failure.errors)

    # Parts of the loop ----------------------------------------------------------------------------------------

    def _collect(self, budget: Budget) -> None:
        call, wants = self.callbacks.call, self.callbacks.wants
        n_envs = self.collector.n_envs
        if not self.collector.started:
            self.agent.restart(None)
            self.collector.start()
            if wants("on_episode_begin"):
                for run in self._present:
                    for environment in range(n_envs):
                        call("on_episode_begin", self, environment, run.member)
        call("on_rollout_begin", self)
        self.collector.plan(budget.steps_ahead(self.env_steps, n_envs, self.buffer.steps_until_ready))
        while True:
            step = self.collector.step(self.agent, self.agent.config.explore)
            transition, ended, errors, renewed, infos = step
            for environment in renewed:  # single agents only: populations have no pool
                self.buffer.mark_truncated([environment])
                self.run.running.pop(environment, None)
                call("on_episode_begin", self, environment, self.run.member)
            for run in self._present:
                run.env_steps += n_envs
            self.agent.advance(n_envs)
            self.newest_rewards = transition.rewards
            try:
                self.buffer.add(transition, *(() if infos is None else (infos,)))
            finally:  # an error while rewards are rewritten must not lose an episode
                if ended:
                    self._dispatch_episodes(ended, budget)
            if errors:
                self._failed(errors)
            call("on_step_end", self)
            if self.buffer.ready or budget.steps_reached(self.env_steps) or any(map(budget.is_over, self._present)):
                break
        call("on_rollout_end", self)

    def _dispatch_episodes(self, ended: list[EndedEpisode], budget: Budget) -> None:
        seconds, raised = self.wall_seconds, None
        for position, environment, episode_return, length, metrics in ended:
            run = self._present[position]
            if budget.episodes_reached(run):  # several may end with the same step; a budget is exact
                run.running.pop(environment, None)
                record = None
            else:
                record = run.end_episode(environment, episode_return, length, seconds, metrics)
            if raised is None:
                try:
                    if record is not None:
                        self._dispatch(position, "on_episode_end", record)
                    self._dispatch(position, "on_episode_begin", environment, run.member)
                except Exception as error:  # noqa: BLE001 - raised below, after all ended episodes are recorded
                    raised = error
            if record is not None:
                record.user_data.clear()
        if raised is not None:
            raise raised

    def _dispatch(self, position: int, event: str, *arguments: Any) -> None:
        """Call callbacks with an event of one member. An error of a callback ends that member."""
        try:
            self.callbacks.call(event, self, *arguments)
        except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
            self._failed({position: error})

    def _update(self) -> None:
        self.callbacks.call("on_update_begin", self)  # the buffer still has its data: an error here loses none
        data = self._preprocessed(self.buffer.sample())
        if data is None:
            return
        batches = self.buffer.batches(data)
        if not self.callbacks.every_gradient_step:
            self._apply(batches)
            return
        for k in range(batches.indices.shape[-2]):
            if k:
                self.callbacks.call("on_update_begin", self)
            self._apply(batches.of_step(k))
            if all(run.over for run in self._present):
                return

    def _preprocessed(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """Return the data after `preprocess_batch`. A member that fails leaves; the others learn from their data."""
        while True:
            try:
                prepared: dict[str, Any] = self.agent.preprocess_batch(data)
                break
            except MembersFailedError as failure:
                parts = split(data, len(self._present), self.buffer.member_axis)
                staying = self.remove_failed(failure.errors)
                if not staying:
                    return None
                data = concatenate([parts[position] for position in staying], self.buffer.member_axis)
        if not isinstance(prepared, Mapping):
            raise ConfigurationError(
                f"preprocess_batch() must return the data of the update, arrays by name; it returned {prepared!r}."
            )
        return prepared

    def _apply(self, batches: Batches) -> None:
        update = self.agent.update(batches)
        if update.priorities is not None:
            self.buffer.update_priorities(update.priorities)
        losses, finite = np.atleast_1d(update.loss).tolist(), np.atleast_1d(update.finite)
        reports = self.callbacks.wants("on_update_end")
        for position, (run, loss) in enumerate(zip(self._present, losses, strict=True)):
            run.newest_loss = loss
            if reports:
                self._dispatch(position, "on_update_end", update.of(position, run.member))
        for position in np.flatnonzero(~finite).tolist():
            if not self._present[position].over:
                error = update.of(position).non_finite_error(self.env_steps, self.agent.gradient_steps)
                self._failed({position: error})

"""The parts of a training, apart from its loop: agent, environments, buffer, runs, callbacks, and their state."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import Any, Self

import numpy as np

from agents.buffers import Buffer, RewritingBuffer, Trajectory
from agents.buffers.rewriting import check_resumable
from agents.collection.collector import Collector
from agents.collection.pool import Pool
from agents.collection.pool_collector import PoolCollector, pool_collector
from agents.contract.agent import Agent, require_built
from agents.contract.learner import Learner
from agents.environments import EnvironmentSpec
from agents.environments.transforms import check_same_spaces
from agents.errors import ConfigurationError, NonFiniteError
from agents.renamed import keep_old_names, warn_renamed
from agents.training.listeners import CallbackList, Listener
from agents.training.records import History
from agents.training.run import Run

Array = np.ndarray[Any, Any]


def require_alone(trainer: Training, what: str) -> Agent:
    """Return the agent of a trainer, for callbacks that need one.

    Args:
        trainer: The trainer.
        what: Name of the callback, for the message.

    Raises:
        ConfigurationError: The trainer trains a population.
    """
    if not isinstance(trainer.agent, Agent):
        raise ConfigurationError(f"{what} works with a single agent only, and this trainer has a population.")
    return trainer.agent


class Training:
    """The parts of a training, its current members, and the methods for callbacks; see `Trainer`."""

    def __init__(
        self,
        agent: Learner,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        *,
        callbacks: Iterable[Listener] = (),
        seed: int | None = None,
        pool: int | Pool | None = None,
    ) -> None:
        require_built(agent, "A trainer")
        spec = agent.environment if environment is None else EnvironmentSpec.of(environment)
        if spec is None:
            raise ConfigurationError("Trainer needs an environment: the agent was made without one.")
        self.agent: Any = agent  # a Learner; callers know its class
        self.environment = spec
        self.callbacks = CallbackList(callbacks)
        seeds = agent.seeds if seed is None else (seed,)
        self.runs = [Run(member, seed) for member, seed in enumerate(seeds)]
        """The run of every member, also of those that have left; one for a single agent."""
        self._present = list(self.runs)  # by position: the runs of the current members
        n_envs = agent.config.n_envs
        self.buffer = agent.new_buffer(n_envs, seeds)
        rewrites, info_metrics = self.callbacks.wants("on_trajectory"), self.callbacks.info_metrics
        if (rewrites or info_metrics) and pool is not None:
            what = "on_trajectory" if rewrites else f"the metric {info_metrics[0]!r} of a callback"
            raise ConfigurationError(
                f"{what} needs the info of environments, which a pool does not send: train without a pool."
            )
        if rewrites:
            self.buffer = RewritingBuffer(self.buffer, len(seeds), n_envs, self._rewrite)
        self.collector: Collector | PoolCollector = (
            Collector(spec, n_envs, seeds, infos=rewrites, info_metrics=info_metrics)
            if pool is None
            else pool_collector(Pool.of(pool), agent, spec, seeds, self.buffer)
        )
        try:
            check_same_spaces(spec.label, self.collector.environments, agent)
            if isinstance(agent, Agent):
                agent.set_environment(spec)
        except BaseException:
            self.close()
            raise
        self.newest_rewards: Array | None = None
        """Rewards of the newest step of every environment, of all members; None before the first."""
        self._worked_seconds = 0.0
        self._working_since: float | None = None
        self.resumed = False
        """True if the training was resumed from a state, even of the very beginning."""
        self.replace_failed: Callable[[], None] = lambda: None
        """Called when members of a population have failed, before they leave; may let them continue (`replace`)."""

    @property
    def is_new(self) -> bool:
        """Return whether no step has been made, here or before the training was resumed."""
        return self.env_steps == 0 and not self.resumed

    @property
    def memory(self) -> Buffer:
        """The buffer, under its old name."""
        warn_renamed("Trainer.memory", "Trainer.buffer")
        return self.buffer

    @property
    def went_on(self) -> bool:
        """The attribute `resumed`, under its old name."""
        warn_renamed("Trainer.went_on", "Trainer.resumed")
        return self.resumed

    @property
    def present(self) -> tuple[int, ...]:
        """The current members, by position."""
        return tuple(run.member for run in self._present)

    @property
    def run(self) -> Run:
        """The run of a single agent; of a population, that of the first current member."""
        return self._present[0]

    @property
    def history(self) -> History:
        """The episodes of `run`."""
        return self.run.history

    @property
    def env_steps(self) -> int:
        """The environment steps of each current member: members are trained in step."""
        return self.run.env_steps

    @property
    def newest_loss(self) -> float | None:
        """The loss of the newest update of `run`."""
        return self.run.newest_loss

    @property
    def wall_seconds(self) -> float:
        """The seconds of training so far, without the time outside of the loop."""
        running = 0.0 if self._working_since is None else time.perf_counter() - self._working_since
        return self._worked_seconds + running

    @contextlib.contextmanager
    def with_listeners(self, *callbacks: Listener) -> Generator[None]:
        """Add further callbacks, after the trainer's own, within the block."""
        before = self.callbacks
        callback_list = CallbackList([*before.callbacks, *callbacks])
        if callback_list.wants("on_trajectory") and not isinstance(self.buffer, RewritingBuffer):
            raise ConfigurationError("A callback with on_trajectory must be passed to the trainer's constructor.")
        self.callbacks = callback_list
        try:
            yield
        finally:
            self.callbacks = before

    def stop(self, reason: str, member: int | None = None) -> None:
        """Request that a member, or all, stop after the current step of the environments. The first reason is kept."""
        for run in self._present if member is None else [self.runs[member]]:
            run.stop_reason = run.stop_reason or reason

    def clear_stops(self) -> None:
        """Withdraw all requested stops."""
        for run in self._present:
            run.stop_reason = None

    def position(self, member: int) -> int:
        """Return the position of a member among the current members.

        Raises:
            ValueError: The member has left.
        """
        return self.present.index(member)

    def set_hyperparameter(self, name: str, value: float, member: int | None = None) -> None:
        """Change a mutable hyperparameter of a member, or of all.

        Args:
            name: ``learning_rate``, ``actor.learning_rate``, ``one_minus_gamma``, ...
            value: Its new value.
            member: The member. Defaults to None: all current members.
        """
        position = None if member is None else self.position(member)
        if name in self.agent.config.complements():
            ((name, value),) = self.agent.config.field_of(name, value).items()
        self.agent.set_hyperparameter(name, value, position)
        self.buffer.set_hyperparameter(name, value, position)

    def set_hyperparameters(self, values: Mapping[str, float], member: int | None = None) -> None:
        """Change several mutable hyperparameters; see `set_hyperparameter`.

        ``learning_rate``, which is that of all optimizers, comes before those of single ones.
        """
        for name in sorted(values, key=lambda name: name not in ("learning_rate", "optimizer.learning_rate")):
            self.set_hyperparameter(name, values[name], member)

    def copy_member(self, source: int, target: int) -> None:
        """Give a member of a population the state of another one. Call it between two steps of the loop.

        The state is what an agent has learned: weights, optimizer slots, learning rates and all other mutable
        hyperparameters, target networks, normalisation statistics. The member keeps its random generators, its
        exploration, its environments with their running episodes, its replay and its history. Nothing is compiled.

        Args:
            source: The member that is copied.
            target: The member that gets the copy.

        Raises:
            ConfigurationError: The trainer has a single agent.
            ValueError: A member has left.
        """
        if isinstance(self.agent, Agent):
            raise ConfigurationError("Members are copied within a population, and this trainer has a single agent.")
        position, copied = self.position(target), self.position(source)
        self.agent.copy_member(copied, position)
        self.buffer.copy_member(copied, position)
        for name, value in self.agent.members[position].config.live_values().items():
            self.buffer.set_hyperparameter(name, value, position)

    def replace(self, target: int, source: int) -> None:
        """Let a member of a population that has failed continue, with a copy of the state of another one.

        Args:
            target: The member that has failed and has not left.
            source: The member that is copied; see `copy_member`.
        """
        self.copy_member(source, target)
        run = self.runs[target]
        run.error = run.newest_loss = None

    def fail(self, error: Exception, member: int) -> None:
        """Report the failure of a member. It leaves a population; the error of a single agent is raised."""
        self._failed({self.position(member): error})

    def call_environments(self, method: str, *arguments: Any, member: int | None = None) -> list[Any]:
        """Call a method of the environments, found through their wrappers, in any process.

        Call it from a callback, or between two calls of `train`. With a pool, transitions that were collected before
        the call may be processed after it (`collector.steps_ahead`).

        Args:
            method: Name of the method.
            *arguments: Its arguments.
            member: The member whose environments are called. Defaults to None: those of all current members.

        Returns:
            The results of the environments, in order, without environments that have raised an error before.

        Raises:
            ConfigurationError: The environment has no such method, or its copies are stepped as one (``"native"``,
                ``"envpool"``).
            ValueError: The member has left.
            Exception: The error of an environment; all other environments are called too.
        """
        return self.collector.call(method, arguments, None if member is None else self.position(member))

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Methods for the loop -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _clock(self) -> Generator[None]:
        self._working_since = time.perf_counter()
        try:
            yield
        finally:
            self._worked_seconds, self._working_since = self.wall_seconds, None

    def _select(self, positions: list[int]) -> None:
        self._present = [self._present[position] for position in positions]
        self.agent.select(positions)
        self.buffer.select(positions)
        self.collector.select(positions)

    def _failed(self, errors: dict[int, Exception]) -> None:
        """Record members that cannot continue. The error of a single agent is raised."""
        for position, error in errors.items():
            if not self.agent.members_fail_alone:
                raise error
            if not self._present[position].over:
                self._present[position].error = error

    def remove_failed(self, errors: Mapping[int, Exception]) -> list[int]:
        """Remove members of a population that cannot act or learn any more; return the positions that the others had.

        Members that are replaced (`replace_failed`) stay. If none is left, all stay, as failed members, until the loop
        ends their runs.

        Args:
            errors: Position of a member -> its error.
        """
        self._failed(dict(errors))
        self.replace_failed()
        leaving = [position for position in errors if self._present[position].over]
        staying = [position for position in range(len(self._present)) if position not in leaving]
        if staying and leaving:
            for position in leaving:
                self.callbacks.call("on_run_end", self, self._present[position])
            self._select(staying)
        return staying

    def _rewrite(self, trajectory: Trajectory) -> None:
        """Let callbacks rewrite a trajectory. A member with a reward that is not finite afterwards fails."""
        position = trajectory.member
        trajectory.member = self._present[position].member
        self.callbacks.call("on_trajectory", self, trajectory)
        try:
            trajectory.check()
        except NonFiniteError as error:
            self._failed({position: error})

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self, *, environments: bool = True) -> dict[str, Any]:
        """Return the state of all runs: agent, buffer, environments, counters and episodes.

        Args:
            environments: Whether the state has copies of the environments. Without copies, also of environments that
                cannot be copied, a resumed training begins new episodes (`Collector.set_state`).
        """
        return {
            "agent": self.agent.get_state(),
            "memory": self.buffer.get_state(),
            "collector": self.collector.get_state(environments=environments),
            "runs": [run.get_state() for run in self.runs],
            "present": list(self.present),
            "wall_seconds": self.wall_seconds,
        }

    def set_state(self, state: dict[str, Any], members: Collection[int] | None = None) -> None:
        """Restore a state of `get_state`; see `Collector.set_state` for environments that cannot be copied.

        Args:
            state: A state with the same number of runs.
            members: The only members of a population that continue, by number. Defaults to `None`: all.
        """
        if len(state["runs"]) != len(self.runs):
            raise ConfigurationError(f"{len(self.runs)} runs cannot resume from the state of {len(state['runs'])}.")
        if list(self.present) != state["present"]:
            self._select([self.position(member) for member in state["present"]])
        check_resumable(self.buffer, state["memory"])
        self.resumed = True
        self.agent.set_state(state["agent"])
        self.buffer.set_state(state["memory"])
        self.collector.set_state(state["collector"])
        if state["collector"]["started"] and state["collector"]["environments"] is None:
            self.buffer.mark_truncated()
        self.runs = [Run.of_state(run) for run in state["runs"]]
        if state["collector"]["environments"] is None:
            for run in self.runs:
                run.running.clear()  # of episodes that do not continue
        self._present = [self.runs[member] for member in state["present"]]
        self._worked_seconds = state["wall_seconds"]
        if members is not None and not set(self.present) <= set(members):
            self._select([position for position, member in enumerate(self.present) if member in members])


keep_old_names(Training, {"also_telling": "with_listeners", "forget_stops": "clear_stops"})

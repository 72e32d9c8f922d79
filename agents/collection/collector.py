"""The collector: it steps the environments, and sums the returns of episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.buffers import Transition
from agents.collection.tally import tally_of
from agents.environments import Environments, EnvironmentSpec
from agents.environments.vector.batch import can_be_pooled
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number | np.bool_) or (isinstance(value, np.ndarray) and not value.shape)


class Actor(Protocol):
    """Protocol of what acts in environments: an agent or a population."""

    @property
    def memory(self) -> Array | None:
        """Memories after the newest `act`, [N, M]; see `Agent.act`."""

    @property
    def memory_size(self) -> int:
        """Numbers of memory per environment, M."""

    def act(self, observations: Array, explore: bool = False) -> Array:
        """Return an action for each observation."""

    def restart(self, environments: Array) -> None:
        """Reset the exploration of the environments in which new episodes begin: [N] bool."""


class EndedEpisode(NamedTuple):
    """Return and length of an episode that has just ended in one environment."""

    position: int  # of the member among the current members
    environment: int  # index of the member's environment
    episode_return: float
    length: int
    metrics: Mapping[str, float] = {}  # further numbers: the return of each of several agents


class Collected(NamedTuple):
    """Result of one step of all environments."""

    transition: Transition
    ended: list[EndedEpisode]
    errors: dict[int, Exception]  # position of a member -> error of its environment
    renewed: tuple[int, ...] = ()  # environments whose episode was replaced by a new one before its end
    infos: Sequence[Mapping[str, Any] | None] | None = None  # see `agents.environments.Step`


class Collector:
    """Own N environments for each member, and the state of their episodes.

    Args:
        environment: The environment to make.
        n_envs: Number of environments per member.
        seeds: A seed per member; the seeds of its environments are derived from it.
        copies: Range of the environments of this collector, if other collectors have the rest. Defaults to None: all.
        life: Number of collectors of these environments that were lost before; episodes differ between lives.
        infos: Whether the `info` of each step is returned.
        info_metrics: Names of numbers in the `info` of an episode's last step that are returned with its end.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        n_envs: int,
        seeds: Sequence[int],
        *,
        copies: range | None = None,
        life: int = 0,
        infos: bool = False,
        info_metrics: Sequence[str] = (),
    ) -> None:
        every = [seeding.integers(seed, "environment", n_envs) for seed in seeds]
        self._seeds = every if copies is None else [each[copies.start : copies.stop] for each in every]  # [P][N]
        self.n_envs = n_envs if copies is None else len(copies)
        n_copies = self.n_envs * len(self._seeds)
        self._infos, self._info_metrics = infos, tuple(info_metrics)
        self.info_names: set[str] = set()
        """Names of all numbers in the `info` of the last steps of episodes, if `info_metrics` are read."""
        reads_infos = infos or bool(info_metrics)
        self.environments = Environments(environment, n_copies, infos=reads_infos, of_member=self.n_envs)
        self._resets, self._life = 0, life
        self._returns = np.zeros(self.environments.n_envs, np.float64)
        self._lengths = np.zeros(self.environments.n_envs, np.int64)
        self._tally = tally_of(self.environments.observation_space, self.environments.n_envs)
        self._observations: Array | None = None
        self._checked = False  # whether the agent's actions have the right size
        self._memory: Array | None = None  # [P * N, M] of the running episodes, for agents with memory

    @property
    def started(self) -> bool:
        """True if the first episodes have begun."""
        return self._observations is not None

    def start(self) -> None:
        """Begin the first episodes."""
        self._observations = self.environments.reset(self._seeds_now())

    def _seeds_now(self) -> list[int]:
        """Return seeds that no earlier episode had: [P * N]."""
        if not self._resets and not self._life:
            return [seed for seeds in self._seeds for seed in seeds]
        key = (self._resets, self._life) if self._life else (self._resets,)
        shifts = [np.random.SeedSequence(seeds, spawn_key=key) for seeds in self._seeds]
        return [int(word) >> 1 for shift in shifts for word in shift.generate_state(self.n_envs)]

    def plan(self, n_steps: int) -> None:
        """Take the number of steps until the next update; this collector ignores it and makes steps one by one."""

    def step(self, actor: Actor, explore: bool = False) -> Collected:
        """Let the agent act once in every environment."""
        if self._observations is None:
            self.start()
        memory_size = actor.memory_size
        observations = self._with_memory(memory_size)
        actions = actor.act(observations, explore)
        if not self._checked:
            self._check(actions)
        step = self.environments.step(actions)
        self._returns += step.rewards
        self._lengths += 1
        self._tally.add(step.successors)
        ended = []
        over = step.terminated | step.truncated
        some_over = over.any()
        if explore and some_over:
            actor.restart(over)
        for i in np.flatnonzero(over).tolist() if some_over else ():
            position, environment = divmod(i, self.n_envs)
            numbers = float(self._returns[i]), int(self._lengths[i])
            metrics = self._tally.end(i)
            if self._info_metrics and step.infos is not None:
                metrics = {**self._metrics_in(step.infos[i]), **metrics}
            ended.append(EndedEpisode(position, environment, *numbers, metrics))
            self._returns[i] = 0.0
            self._lengths[i] = 0
        self._observations = step.observations
        successors = self._remember(actor.memory, over, step.successors) if memory_size else step.successors
        rewards = step.rewards.astype(np.float32)  # cast after the sums, which keep the precision of the environments
        transition = Transition(observations, actions, rewards, successors, step.terminated, step.truncated)
        errors: dict[int, Exception] = {}
        for i, error in step.errors.items():
            errors.setdefault(i // self.n_envs, error)
        return Collected(transition, ended, errors, infos=step.infos if self._infos else None)

    def _metrics_in(self, info: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the metrics in the `info` of an episode's last step, as they are; those that it lacks are left out."""
        if info is None:
            return {}
        self.info_names.update(str(name) for name, value in info.items() if _is_number(value))
        return {name: info[name] for name in self._info_metrics if name in info}

    def _check(self, actions: Any) -> None:
        """Refuse actions of another size than those of the action space, and discrete ones that are no integers."""
        space, n_envs = self.environments.action_space, self.environments.n_envs
        found, shape, self._checked = np.shape(actions), (n_envs, *(space.shape or ())), True
        if found[:1] != shape[:1] or math.prod(found) != math.prod(shape):
            raise ConfigurationError(
                f"act() must return an action of {space} for each of {n_envs} observations, an array of the shape "
                f"{shape}; it returned the shape {found}."
            )
        if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
            self._check_numbers(space, np.asarray(actions))

    @staticmethod
    def _check_numbers(space: spaces.Discrete | spaces.MultiDiscrete, actions: Array) -> None:
        """Refuse discrete actions that are not integers in the range of the space, such as probabilities."""
        wrong = actions.flat[0] if actions.dtype.kind not in "iubO" else None
        if wrong is None and actions.dtype != bool:
            given = actions.reshape(-1, *(space.shape or ()))
            n = space.n if isinstance(space, spaces.Discrete) else space.nvec
            outside = (given < space.start) | (given >= space.start + n)
            wrong = given[outside][0] if outside.any() else None
        if wrong is not None:
            raise ConfigurationError(
                f"act() must return numbers of actions of {space}, as integers; it returned {wrong} ({actions.dtype})."
            )

    def _with_memory(self, size: int) -> Array:
        """Return the observations, followed by the memories of agents that have one."""
        observations: Array = self._observations  # type: ignore[assignment]
        if not size:
            return observations
        if self._memory is None:
            self._memory = np.zeros((len(observations), size), np.float32)
        return np.concatenate([observations, self._memory], axis=1)

    def _remember(self, memory: Array | None, over: Array, successors: Array) -> Array:
        """Keep new memories, zero where an episode begins; return the successors with the memories that led there."""
        assert memory is not None
        self._memory = np.where(over[:, None], np.float32(0.0), memory)
        return np.concatenate([successors, memory], axis=1)

    @property
    def steps_ahead(self) -> int:
        """The number of steps per environment that are made and not returned yet."""
        return 0

    def call(self, method: str, arguments: Sequence[Any], position: int | None = None) -> list[Any]:
        """Call a method of every running environment, of one member or of all; return the results in order.

        Raises:
            ConfigurationError: The environments have no such method, or are stepped as one.
            Exception: The first error of a call; all other environments are called too.
        """
        first = 0 if position is None else position * self.n_envs
        copies = range(first, self.environments.n_envs if position is None else first + self.n_envs)
        answers = self.environments.call(method, arguments, copies).values()
        for answer in answers:
            if answer.error is not None:
                raise answer.error
        return [answer.result for answer in answers]

    def select(self, positions: Sequence[int]) -> None:
        """Keep the environments of these members only, in this order."""
        rows = [position * self.n_envs + i for position in positions for i in range(self.n_envs)]
        self.environments.select(rows)
        self._seeds = [self._seeds[position] for position in positions]
        self._returns, self._lengths = self._returns[rows], self._lengths[rows]
        self._tally.select(rows)
        if self._observations is not None:
            self._observations = self._observations[rows]
        if self._memory is not None:
            self._memory = self._memory[rows]

    def close(self) -> None:
        """Close the environments."""
        self.environments.close()

    def get_state(self, *, environments: bool = True) -> dict[str, Any]:
        """Return the state of episodes; ``"environments"`` is None if they cannot be copied, or if not requested."""
        return {
            "environments": self.environments.get_state() if self.started and environments else None,
            "started": self.started,
            "kind": self.environments.kind,
            "observations": None if self._observations is None else self._observations.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "tally": self._tally.get_state(),
            "memory": None if self._memory is None else self._memory.copy(),
            "resets": self._resets,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state of `get_state`.

        Environments that could not be copied begin new episodes instead, with seeds that no earlier episode had.

        Raises:
            ConfigurationError: The state belongs to a pool.
        """
        if "parts" in state:
            raise ConfigurationError(
                f"A trainer without a pool cannot resume from the state of a pool of {len(state['parts'])} processes: "
                f"give it a pool of that size (pool={len(state['parts'])})."
            )
        self._resets = state["resets"]
        self._step_as_before(state)
        if state["environments"] is not None:
            self.environments.set_state(state["environments"])
            self._observations = state["observations"].copy()
            self._returns = state["returns"].copy()
            self._lengths = state["lengths"].copy()
            self._tally.set_state(state.get("tally"))
            self._memory = None if state.get("memory") is None else state["memory"].copy()
            return
        self._resets += bool(state["started"])
        self._observations = (
            None  # episodes begin with the next step: until then callbacks may prepare the environments
        )
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._tally.reset()
        self._memory = None

    def _step_as_before(self, state: dict[str, Any]) -> None:
        """Step the environments with EnvPool if a run of an earlier version did, and no other vectorization is set.

        Earlier versions used EnvPool by default and did not record this; it is assumed where EnvPool has these
        environments and they could not be copied.
        """
        kind = state.get("kind", "envpool" if state["started"] and state["environments"] is None else "")
        environments = self.environments
        if (kind, environments.spec.vectorization) == ("envpool", "auto") and can_be_pooled(environments.spec):
            spec = replace(environments.spec, vectorization="envpool")
            pooled = Environments(spec, environments.n_envs, of_member=self.n_envs)
            environments.close()
            self.environments = pooled

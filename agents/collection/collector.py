"""The collector steps the environments and is the only place where an episode's return is summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from agents import seeding
from agents.buffers import Transition
from agents.environments import Environments, EnvironmentSpec
from agents.environments.vector.batch import can_be_pooled
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]


class Actor(Protocol):
    """Who acts: an agent or a population."""

    def act(self, observations: Array, explore: bool = False) -> Array:
        """An action for each observation."""

    def restart(self, environments: Array) -> None:
        """Is told in which copies new episodes begin: [N] bool."""


class EndedEpisode(NamedTuple):
    """Return and length of an episode that has just ended in one copy of the environment."""

    position: int  # of the member among those that are there
    environment: int  # which of its copies
    episode_return: float
    length: int


class Collected(NamedTuple):
    """What one step of all copies gave."""

    transition: Transition
    ended: list[EndedEpisode]
    errors: dict[int, Exception]  # position of a member -> why its environment cannot go on
    renewed: tuple[int, ...] = ()  # copies that began a new episode with this step, though their last one did not end
    infos: Sequence[Mapping[str, Any] | None] | None = None  # see `agents.environments.Step`


class Collector:
    """Owns N copies of an environment for each member, and where each of them stands.

    Args:
        environment: What to make.
        n_envs: Copies a member.
        seeds: A seed for the environments of each member; each copy gets its own from it.
        copies: Which of the copies are here, where others have the rest. Defaults to None: all.
        life: How many collectors of these copies were lost before. Its episodes are others than theirs.
        infos: Whether what environments tell beside each step is wanted.
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
    ) -> None:
        every = [seeding.integers(seed, "environment", n_envs) for seed in seeds]
        self._seeds = every if copies is None else [each[copies.start : copies.stop] for each in every]  # [P][N]
        self.n_envs = n_envs if copies is None else len(copies)
        n_copies = self.n_envs * len(self._seeds)
        self.environments = Environments(environment, n_copies, infos=infos, of_member=self.n_envs)
        self._resets, self._life = 0, life
        self._returns = np.zeros(self.environments.n_envs, np.float64)
        self._lengths = np.zeros(self.environments.n_envs, np.int64)
        self._observations: Array | None = None

    @property
    def started(self) -> bool:
        """Whether the first episodes have begun."""
        return self._observations is not None

    def start(self) -> None:
        """Begin the first episodes."""
        self._observations = self.environments.reset(self._seeds_now())

    def _seeds_now(self) -> list[int]:
        """Seeds that no earlier episode had: [P * N]."""
        if not self._resets and not self._life:
            return [seed for seeds in self._seeds for seed in seeds]
        key = (self._resets, self._life) if self._life else (self._resets,)
        shifts = [np.random.SeedSequence(seeds, spawn_key=key) for seeds in self._seeds]
        return [int(word) >> 1 for shift in shifts for word in shift.generate_state(self.n_envs)]

    def plan(self, n_steps: int) -> None:
        """Is told how many steps will be wanted until the agent learns: it makes them one by one, as they are."""

    def step(self, actor: Actor, explore: bool = False) -> Collected:
        """Let the agent act once in every copy."""
        if self._observations is None:
            self.start()
        observations: Array = self._observations  # type: ignore[assignment]
        actions = actor.act(observations, explore)
        step = self.environments.step(actions)
        self._returns += step.rewards
        self._lengths += 1
        ended = []
        over = step.terminated | step.truncated
        some_over = over.any()
        if explore and some_over:
            actor.restart(over)
        for i in np.flatnonzero(over).tolist() if some_over else ():
            position, environment = divmod(i, self.n_envs)
            ended.append(EndedEpisode(position, environment, float(self._returns[i]), int(self._lengths[i])))
            self._returns[i] = 0.0
            self._lengths[i] = 0
        self._observations = step.observations
        rewards = step.rewards.astype(np.float32)  # only now: the sums above stay as exact as the environments are
        transition = Transition(observations, actions, rewards, step.successors, step.terminated, step.truncated)
        errors: dict[int, Exception] = {}
        for i, error in step.errors.items():
            errors.setdefault(i // self.n_envs, error)
        return Collected(transition, ended, errors, infos=step.infos)

    @property
    def steps_ahead(self) -> int:
        """Steps of each copy that are made and were not given yet."""
        return 0

    def call(self, method: str, arguments: Sequence[Any], position: int | None = None) -> list[Any]:
        """Call a method of every copy that is alive, of one member or of all; gives what they gave, in order.

        Raises:
            ConfigurationError: Copies have no such method, or are no single environments.
            Exception: What the first of them raised; the others were called too.
        """
        first = 0 if position is None else position * self.n_envs
        copies = range(first, self.environments.n_envs if position is None else first + self.n_envs)
        answers = self.environments.call(method, arguments, copies).values()
        for answer in answers:
            if answer.error is not None:
                raise answer.error
        return [answer.result for answer in answers]

    def select(self, positions: Sequence[int]) -> None:
        """Goes on with the environments of these members only, in this order."""
        rows = [position * self.n_envs + i for position in positions for i in range(self.n_envs)]
        self.environments.select(rows)
        self._seeds = [self._seeds[position] for position in positions]
        self._returns, self._lengths = self._returns[rows], self._lengths[rows]
        if self._observations is not None:
            self._observations = self._observations[rows]

    def close(self) -> None:
        """Close the environments."""
        self.environments.close()

    def get_state(self, *, environments: bool = True) -> dict[str, Any]:
        """Where the episodes stand. ``"environments"`` is None where they cannot be copied, or shall not be."""
        return {
            "environments": self.environments.get_state() if self.started and environments else None,
            "started": self.started,
            "kind": self.environments.kind,
            "observations": None if self._observations is None else self._observations.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "resets": self._resets,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on where `get_state` was called.

        Environments that could not be copied begin new episodes instead, with seeds that no earlier episode had.

        Raises:
            ConfigurationError: It is the state of a pool.
        """
        if "parts" in state:
            raise ConfigurationError(
                f"A trainer without a pool cannot go on from the state of a pool of {len(state['parts'])} processes: "
                f"give it one (pool={len(state['parts'])})."
            )
        self._resets = state["resets"]
        self._step_as_before(state)
        if state["environments"] is not None:
            self.environments.set_state(state["environments"])
            self._observations = state["observations"].copy()
            self._returns = state["returns"].copy()
            self._lengths = state["lengths"].copy()
            return
        self._resets += bool(state["started"])
        self._observations = None  # they begin with the next step: until then others may prepare them
        self._returns[:] = 0.0
        self._lengths[:] = 0

    def _step_as_before(self, state: dict[str, Any]) -> None:
        """Has EnvPool step the environments of a run that it stepped before, where nothing else is asked for.

        Earlier versions took it without being asked, and did not note that they had: it is taken for what stepped them
        where it can step these environments and they could not be copied.
        """
        kind = state.get("kind", "envpool" if state["started"] and state["environments"] is None else "")
        environments = self.environments
        if (kind, environments.spec.vectorization) == ("envpool", "auto") and can_be_pooled(environments.spec):
            spec = replace(environments.spec, vectorization="envpool")
            pooled = Environments(spec, environments.n_envs, of_member=self.n_envs)
            environments.close()
            self.environments = pooled

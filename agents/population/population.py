"""Many members of one agent, trained in step.

Members differ in seeds and in all numbers that do not change the compiled update: learning rates, discounts, weights of
losses, parameters of exploration. The trainer treats a population like a single agent; each member has the same results
as a single agent with its seed and hyperparameters.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from agents import seeding
from agents.backend.variables import assign_all, values_of
from agents.buffers import Batches, Buffer, join
from agents.buffers.join import concatenate, split
from agents.config.agent_config import AgentConfig
from agents.contract.agent import Agent, UpdateMetrics
from agents.contract.keras_agent import KerasAgent
from agents.contract.restoring import restoring
from agents.contract.spec import AgentSpec
from agents.contract.weights import start_from
from agents.environments import EnvironmentSpec
from agents.errors import ConfigurationError, NotMappableError
from agents.population.members import (
    MemberSpec,
    RowNumbers,
    all_members,
    bind,
    check_same_structure,
    member_of,
    one_member,
)
from agents.population.one_by_one import one_by_one
from agents.population.probes import action_at, agreement, probe_observations
from agents.population.saved_values import loaded_values, saved_values
from agents.population.stacks import Values, copy_position
from agents.population.template import CompiledTemplate

Array = np.ndarray[Any, Any]

_AGREES = 0.98
"""Share of actions that must be equal; some may differ where two actions are equally good up to rounding."""


class Population:
    """P members of one agent. For the trainer it is a `agents.contract.learner.Learner`, as an agent is.

    Args:
        spec: The agent, with the default hyperparameters of members.
        members: Hyperparameters of each member by name, and its `seed` (default 0).
        template: A compiled agent of the same structure to train in, from an earlier population.

    Raises:
        ConfigurationError: No members, or members of different structure; the message gives the differences.
        NotMappableError: The agent cannot be trained in a population; the message gives the reason.
    """

    members_fail_alone = True

    def __init__(
        self, spec: AgentSpec, members: Sequence[Mapping[str, Any]], *, template: CompiledTemplate | None = None
    ) -> None:
        if not members:
            raise ConfigurationError("A population needs at least one member.")
        self._spec = spec
        self._members = [member_of(spec, values) for values in members]
        check_same_structure(self._members)
        own = AgentSpec(spec.agent, spec.environment, self.config)
        self._template = template or CompiledTemplate(own, len(members))
        if len(members) > self._template.capacity:
            raise ConfigurationError(
                f"{len(members)} members do not fit into a template for {self._template.capacity}."
            )
        self._extra = None if spec.state is None else spec.state["extra"]
        self._member_axis = 0
        self._all: KerasAgent | None = None  # acts for all members
        self.actors: list[KerasAgent] = []  # one for all members, or one for each
        self.gradient_steps = 0
        probes = probe_observations(self.observation_space, self.config.n_envs, self.memory_size)
        expected = self._draw_members(probes)
        self._make_actors()
        self._check_acting(probes, expected)
        self._make_actors()  # made again, as the probes may have changed their state

    # Properties -----------------------------------------------------------------------------------------------

    @property
    def agent(self) -> KerasAgent:
        """The template agent. Its variables have no member's values."""
        return self._template.agent

    @property
    def config(self) -> AgentConfig:
        """The hyperparameters of the first member."""
        return self._members[0].config

    @property
    def environment(self) -> EnvironmentSpec | None:
        """The environment that the members are made for."""
        return self._spec.environment

    @property
    def observation_space(self) -> spaces.Box:
        """The space of observations."""
        return self.agent.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The space of actions."""
        return self.agent.action_space

    @property
    def memory_size(self) -> int:
        """Numbers of memory per environment; see `Agent.act`."""
        return self.agent.memory_size

    @property
    def memory(self) -> Array | None:
        """Memories of all members after the newest `act`, [P * N, M]."""
        if not self.memory_size:
            return None
        return np.concatenate([cast("Array", actor.memory) for actor in self.actors])

    @property
    def updates_as_function(self) -> bool:
        """False if updates must assign the variables of the compiled agent (`agents.updates.state_scope`)."""
        return self._template.update.functional

    @property
    def members(self) -> tuple[MemberSpec, ...]:
        """The current members, in order."""
        return tuple(self._members)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each member."""
        return tuple(member.seed for member in self._members)

    def describe(self, position: int) -> KerasAgent:
        """Return the member at a position, for its hyperparameters only: it has no networks and cannot learn."""
        return one_member(self.agent, self._members[position], None)

    def extract(self, position: int) -> KerasAgent:
        """Return the member at a position as a single agent in the member's current state."""
        member, actor = self._members[position], self.actors[0 if self._all is not None else position]
        with restoring():
            alone = AgentSpec(self._spec.agent, self._spec.environment, member.config).build(member.seed)
        assert isinstance(alone, KerasAgent)
        assign_all(alone.state_variables(), [values[position] for values in self._values()])
        alone.rng.bit_generator.state = self._generators()[position].bit_generator.state
        alone.set_extra_state(actor.extra_state())
        alone.env_steps, alone.gradient_steps, alone.fresh = actor.env_steps, self.gradient_steps, False
        alone.refresh()
        return alone

    # Acting and learning --------------------------------------------------------------------------------------

    def act(self, observations: Array, explore: bool = False) -> Array:
        """Return an action for each row, [P * N, ...]; see `Agent.act`."""
        if self._all is not None:
            return self._all.act(observations, explore)
        rows = np.split(observations, len(self.actors))
        actions = one_by_one(
            self.actors,
            lambda i: self.actors[i].act(rows[i], explore),
            lambda actor: actor.running_state(),
            lambda actor, state: actor.set_running_state(state),
        )
        return np.concatenate(actions)

    def new_buffer(self, n_envs: int, seeds: Sequence[int]) -> Buffer:
        """Return the members' buffers as one."""
        buffer = join([actor.new_buffer(n_envs, [seed]) for actor, seed in zip(self._each(), seeds, strict=True)])
        self._member_axis = buffer.member_axis
        return buffer

    def preprocess_batch(self, data: dict[str, Array]) -> dict[str, Array]:
        if type(self.agent).preprocess_batch is Agent.preprocess_batch:
            return data
        axis = self._member_axis
        if self._all is not None:
            with seeding.restored_on_error(self._all.rng):  # without members that fail, the others repeat the call
                if axis == 1:  # [T, P * N]: the rows of acting
                    return self._all.preprocess_batch(data)
                with self.rows_of_members(len(next(iter(data.values()))) // len(self._members)):
                    return self._all.preprocess_batch(data)
        parts = split(data, len(self.actors), axis)
        prepared = one_by_one(
            self.actors,
            lambda i: self.actors[i].preprocess_batch(parts[i]),
            lambda actor: copy.deepcopy(actor.extra_state()),
            lambda actor, state: actor.set_extra_state(state),
        )
        return concatenate(prepared, axis)

    def update(self, batches: Batches) -> UpdateMetrics:
        """Make the gradient steps of all members."""
        values, watched = self._template.update(len(self._members), batches)
        self.gradient_steps += batches.indices.shape[-2]
        for actor in self.actors:
            actor.gradient_steps = self.gradient_steps
        self._load(watched)
        if self._all is None:
            self._bind()
        return self.agent.metrics_of(values)

    def restart(self, environments: Array | None) -> None:
        """Reset the exploration of the environments in which new episodes begin, [P * N] bool, or None for all."""
        n = len(self.actors)
        own = [None] * n if environments is None else np.split(environments, n)
        for actor, copies in zip(self.actors, own, strict=True):
            actor.restart(copies)

    def advance(self, env_steps: int) -> None:
        """Count `env_steps` further environment steps of each member."""
        for actor in self.actors:
            actor.advance(env_steps)

    def refresh(self) -> None:
        """Do nothing: members' weights are stored here only."""

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        """Change a mutable hyperparameter of one member, or of all; see `KerasAgent.set_hyperparameter`."""
        agent, state = self.agent, self._values()
        variables = self._template.stacks.variables
        for i in range(len(self._members)) if position is None else [position]:
            assign_all(variables, [values[i] for values in state])
            agent.config = self._members[i].config
            agent.set_hyperparameter(name, value)
            for values, own in zip(state, values_of(variables), strict=True):
                values[i] = own
            self._members[i] = self._members[i]._replace(config=agent.config)
        self._set_values(state)
        self._update_actors()

    def select(self, positions: Sequence[int]) -> None:
        """Keep these members only, in this order."""
        kept = list(positions)
        state = self._values()
        generators = [self._generators()[i] for i in kept]
        self._members = [self._members[i] for i in kept]
        if self._all is None:
            self.actors = [self.actors[i] for i in kept]
        else:
            self._all.rng = seeding.MemberStreams(generators)  # type: ignore[assignment]
        self._set_values([values[kept] for values in state])
        self._update_actors()

    def copy_member(self, source: int, target: int) -> None:
        """Give the member at `target` what the one at `source` has learned, and its mutable hyperparameters.

        The random streams stay, and so do exploration, its hyperparameters, and the state of running episodes.
        """
        state, own = self._values(), self._members[target]
        copy_position(self._template.stacks.variables, state, source, target)
        config = self._members[source].config.replace(own.config.acting_values())
        self._members[target] = own._replace(config=config)
        if self._all is None:  # the actor of all members has no state that differs between members
            actor = self.actors[target]
            actor.set_extra_state({**copy.deepcopy(self.actors[source].extra_state()), **actor.running_state()})
        self._set_values(state)
        self._update_actors()

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return all state that training changes, of the current members."""
        return {
            "values": saved_values(self.agent, self._values()),
            "members": [(member.seed, member.config.to_dict()) for member in self._members],
            "generators": [generator.bit_generator.state for generator in self._generators()],
            "extra": [actor.extra_state() for actor in self.actors],
            "env_steps": self.actors[0].env_steps,
            "gradient_steps": self.gradient_steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state` with the same number of members."""
        config_class = type(self.config)
        members = [MemberSpec(seed, config_class.from_dict(config)) for seed, config in state["members"]]
        check_same_structure([self._members[0], *members])
        self._members = members
        self._make_actors()
        for generator, own in zip(self._generators(), state["generators"], strict=True):
            generator.bit_generator.state = own
        for actor, extra in zip(self.actors, state["extra"], strict=True):
            actor.set_extra_state(extra)
            actor.env_steps, actor.gradient_steps = state["env_steps"], state["gradient_steps"]
        self.gradient_steps = state["gradient_steps"]
        self._set_values(loaded_values(self.agent, state["values"]))
        self._update_actors()

    # Parts ----------------------------------------------------------------------------------------------------

    def _draw_members(self, probes: Array) -> list[list[Array | None]]:
        """Build every member as a single agent; return the actions of each at the probes, [P][T] of [N, ...]."""
        agent, variables = self.agent, self._template.stacks.variables
        of_seed: dict[int, Values] = {}  # members with the same seed differ only in mutable hyperparameters
        drawn: list[Values] = []
        actions: list[list[Array | None]] = []
        for member in self._members:
            if member.seed in of_seed:
                assign_all(variables, of_seed[member.seed])
                agent.renumber(member.config)
            else:
                agent.reset(member.seed, member.config.to_dict())
            if self._spec.state is not None:
                start_from(agent, self._spec.state)
            drawn.append(values_of(variables))
            of_seed.setdefault(member.seed, drawn[-1])
            actions.append([action_at(agent, probe) for probe in probes])
        self._set_values([np.stack(values) for values in zip(*drawn, strict=True)])
        return actions

    def _values(self) -> Values:
        """Return the values of all variables, [P, ...] each."""
        return self._template.stacks.get(len(self._members))

    def _set_values(self, values: Values) -> None:
        stacks = self._template.stacks
        stacks.set(values)
        self._template.update.spoil()
        own = {id(variable): value for variable, value in zip(stacks.variables, values, strict=True)}
        self._load([own[id(variable)] for variable in self._template.inference.watched])

    def _load(self, watched: Values) -> None:
        """Load new weights into the forward passes."""
        self._template.inference.load(watched, len(self._members))

    def _make_actors(self) -> None:
        """Make the actors: one for all members if possible, else one per member."""
        self._all = all_members(self.agent, self._members, self._extra)
        self.actors = [self._all] if self._all is not None else self._each()
        self._update_actors()

    def _each(self) -> list[KerasAgent]:
        return [one_member(self.agent, member, self._extra) for member in self._members]

    def _update_actors(self) -> None:
        """Update the actors after a change of members, hyperparameters or weights."""
        n_envs = self.config.n_envs
        if self._all is not None:
            self._all.number = RowNumbers(self._members, n_envs)  # type: ignore[method-assign]
        else:
            for actor, member in zip(self.actors, self._members, strict=True):
                actor.config = member.config
        self._bind()

    def _bind(self) -> None:
        """Set the actors' forward passes, with the newest weights."""
        for position, actor in enumerate(self.actors):
            bind(actor, self._template.inference, None if self._all is not None else position)

    @contextmanager
    def rows_of_members(self, n_rows: int) -> Generator[None]:
        """Let the actors take `n_rows` rows of each member, member after member, within the block."""
        if self._all is not None:
            self._all.number = RowNumbers(self._members, n_rows)  # type: ignore[method-assign]
            bind(self._all, self._template.inference, None, n_rows)
        try:
            yield
        finally:
            self._update_actors()

    def _generators(self) -> list[np.random.Generator]:
        """Return the exploration stream of each member."""
        if self._all is not None:
            streams: Any = self._all.rng
            return list(streams.generators)
        return [actor.rng for actor in self.actors]

    def _check_acting(self, probes: Array, expected: list[list[Array | None]]) -> None:
        """Compare actions of members with those of equal single agents, before the training."""
        n = len(self._members)
        if self._all is not None:
            rows = np.tile(probes, (1, n, *[1] * (probes.ndim - 2)))  # [T, P * N, ...]
            together = [action_at(self._all, row) for row in rows]
            seen = [[None if each is None else np.split(each, n)[i] for each in together] for i in range(n)]
        else:
            seen = [[action_at(actor, probe) for probe in probes] for actor in self.actors]
        agrees = [agreement(one, alone) for one, alone in zip(seen, expected, strict=True)]
        if min(agrees) < _AGREES:
            raise NotMappableError(
                "as a member of a population it acts otherwise than alone: act() probably uses something that is not "
                "the member's own. Use networks with self.infer(name, observations), and make all other "
                "parts in start()."
            )

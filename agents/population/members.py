"""Members of a population as agents: what acts and prepares for one of them, or for all of them at once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents import seeding
from agents.config.agent_config import AgentConfig
from agents.contract.agent import Agent
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError, NotMappableError
from agents.networks.forwards import Forwards
from agents.population.inference import AllMembers, MemberInference
from agents.updates.mutable import OPTIMIZER_FIELDS, refusing

Array = np.ndarray[Any, Any]


class MemberSpec(NamedTuple):
    """One member: the agent with this seed and these hyperparameters."""

    seed: int
    config: AgentConfig


class _NotHere(Mapping[str, Any]):
    """Stands where an agent alone has its networks or optimizers."""

    def __init__(self, what: str, names: Sequence[str], instead: str) -> None:
        self._what, self._names, self._instead = what, names, instead

    def __getitem__(self, name: str) -> Any:
        raise NotMappableError(
            f"it uses its {self._what} {name!r} outside of the loss, where a population keeps those of all members "
            f"together: {self._instead}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _LiveNotHere:
    """Stands where an agent alone has its live numbers as variables."""

    def __getattr__(self, name: str) -> Any:
        raise NotMappableError(
            f"it reads self.live.{name} outside of the loss, where a population keeps those of all members together: "
            f"use self.number({name!r})."
        )


def _without_networks(agent: KerasAgent) -> KerasAgent:
    member = copy.copy(agent)
    use = "use self.infer(name, observations)."
    member.networks = _NotHere("network", list(agent.networks), use)  # type: ignore[assignment]
    member._optimizers = _NotHere("optimizer", list(agent.optimizers), "change rates by callbacks.")  # type: ignore[assignment]
    member.live = _LiveNotHere()  # type: ignore[assignment]
    member.env_steps = member.gradient_steps = 0
    member.forwards = Forwards({})
    return member


def one_member(agent: KerasAgent, spec: MemberSpec, extra: Mapping[str, Any] | None) -> KerasAgent:
    """A member that acts and prepares for itself.

    Args:
        agent: The agent that stands for all.
        spec: Which member.
        extra: The `extra_state` that it starts from, or None for what `start` makes.
    """
    member = _without_networks(agent)
    member.config, member.seed = spec.config, spec.seed
    member.rng = seeding.generator(spec.seed, "exploration")
    member.start()
    if extra is not None:
        member.set_extra_state(extra)
    return member


def all_members(agent: KerasAgent, specs: Sequence[MemberSpec], extra: Mapping[str, Any] | None) -> KerasAgent | None:
    """One that acts and prepares for all members at once, or None where that cannot be; see `KerasAgent.rowwise`."""
    first = specs[0].config.acting_values()
    if any(spec.config.acting_values() != first for spec in specs):
        return None
    member = one_member(agent, specs[0], extra)
    if not (member.rowwise and _means_it(type(agent))):
        return None
    member.rng = seeding.MemberStreams([seeding.generator(spec.seed, "exploration") for spec in specs])  # type: ignore[assignment]
    differing = {
        name: f"it reads self.config.{name} where it acts or prepares for all members at once (rowwise), which may "
        f"differ between them: use self.number({name!r})."
        for name in (*OPTIMIZER_FIELDS, *member.config.live_values())
    }
    member.config = refusing(member.config, differing, NotMappableError)
    return member


def _means_it(agent_class: type[KerasAgent]) -> bool:
    """Whether `rowwise` was said of the ways to act and prepare that there are: a subclass's own may be otherwise."""

    def distance(name: str) -> int:
        return next((i for i, base in enumerate(agent_class.__mro__) if name in vars(base)), len(agent_class.__mro__))

    return distance("rowwise") <= min(map(distance, ("act", "chosen", "preprocess_batch")))


class RowNumbers:
    """`KerasAgent.number` for the rows of all members."""

    def __init__(self, specs: Sequence[MemberSpec], n_envs: int) -> None:
        self._specs, self._n_envs = specs, n_envs

    def __call__(self, name: str) -> Array:
        """[P * N] float32."""
        values = np.array([getattr(spec.config, name) for spec in self._specs], np.float32)
        return np.repeat(values, self._n_envs)


def bind(member: KerasAgent, inference: MemberInference, position: int | None, n_rows: int | None = None) -> None:
    """Give a member its forward passes: those of one member, or of all, `n_rows` of each (by default its copies)."""
    rows = n_rows or member.config.n_envs
    for name in inference.networks:
        member.forwards[name] = (
            AllMembers(inference, name, rows) if position is None else inference.of_one(name, position)
        )


def check_mappable(agent: KerasAgent) -> None:
    """Raise `NotMappableError` when an agent's class does what members cannot.

    Raises:
        NotMappableError: It has an `update` or an `__init__` of its own.
    """
    own = type(agent)
    if own.__init__ is not KerasAgent.__init__:
        raise NotMappableError(
            f"{own.__name__} has an __init__ of its own, which members of a population do not go through: make in "
            f"start() what it makes."
        )
    for name in ("update", "new_memory", "refresh", "reset", "get_state", "set_state"):
        if getattr(own, name) not in (getattr(KerasAgent, name), getattr(Agent, name)):
            raise NotMappableError(
                f"{own.__name__} has a method {name}() of its own, which a population does not call."
            )


def check_same_structure(specs: Sequence[MemberSpec]) -> None:
    """Raise `ConfigurationError` when members cannot share one compiled agent."""
    first = specs[0].config.structure()
    for spec in specs[1:]:
        own = spec.config.structure()
        differing = [name for name in first if own.get(name) != first[name]]
        if differing:
            told = ", ".join(f"{name} ({first[name]!r} and {own.get(name)!r})" for name in differing)
            raise ConfigurationError(
                f"Members of one population must have the same structure; these differ in {told}: put them into "
                f"populations of their own."
            )

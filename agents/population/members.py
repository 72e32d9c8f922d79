"""Members of a population as agents that act and preprocess batches, for one member or for all at once."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents import seeding
from agents.config.agent_config import AgentConfig
from agents.contract.agent import Agent
from agents.contract.keras_agent import KerasAgent
from agents.contract.rows import treats_rows_alone
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError, NotMappableError
from agents.networks.forwards import Forwards
from agents.population.inference import AllMembers, MemberInference
from agents.updates.mutable import OPTIMIZER_FIELDS, with_unreadable_fields

Array = np.ndarray[Any, Any]


class MemberSpec(NamedTuple):
    """One member: a seed and hyperparameters."""

    seed: int
    config: AgentConfig


def member_of(spec: AgentSpec, values: Mapping[str, Any]) -> MemberSpec:
    """Return a member of an agent, from its hyperparameters and its `seed` (default 0)."""
    params = dict(values)
    seed = params.pop("seed", 0)
    config = spec.config.replace(params)
    assert isinstance(config, AgentConfig)
    return MemberSpec(seed, config)


class _Unavailable(Mapping[str, Any]):
    """Placeholder for the networks or optimizers of a single agent, which raises an error when it is read."""

    def __init__(self, what: str, names: Sequence[str], instead: str) -> None:
        self._what, self._names, self._instead = what, names, instead

    def __getitem__(self, name: str) -> Any:
        raise NotMappableError(
            f"it uses its {self._what} {name!r} outside of the loss, where a population stores those of all members "
            f"together: {self._instead}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _UnavailableNumbers:
    """Placeholder for the mutable hyperparameters of a single agent, which raises an error when it is read."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __getattr__(self, name: str) -> Any:
        raise NotMappableError(
            f"it reads self.live.{name} outside of the loss, where a population stores those of all members together: "
            f"use self.hyperparameters.{name}."
        )


def _without_networks(agent: KerasAgent) -> KerasAgent:
    member = copy.copy(agent)
    use = "use self.infer(name, observations)."
    member.networks = _Unavailable("network", list(agent.networks), use)  # type: ignore[assignment]
    member._optimizers = _Unavailable("optimizer", list(agent.optimizers), "change rates by callbacks.")
    member.live = _UnavailableNumbers(agent.config.live_values())  # type: ignore[assignment]
    member.env_steps = member.gradient_steps = 0
    in_loss = "only networks that act are evaluated there; use this one in the loss."
    member.forwards = Forwards(_Unavailable("network", list(agent.networks), in_loss))
    return member


def one_member(agent: KerasAgent, spec: MemberSpec, extra: Mapping[str, Any] | None) -> KerasAgent:
    """Return a member that acts and preprocesses batches for itself.

    Args:
        agent: The template agent.
        spec: The member.
        extra: Its initial `extra_state`, or None for that of `start`.
    """
    member = _without_networks(agent)
    member.config, member.seed = spec.config, spec.seed
    member.rng = seeding.generator(spec.seed, "exploration")
    member.start()
    if extra is not None:
        member.set_extra_state(extra)
        member.restart(None)
    return member


def all_members(agent: KerasAgent, specs: Sequence[MemberSpec], extra: Mapping[str, Any] | None) -> KerasAgent | None:
    """Return an agent that acts and preprocesses for all members at once, or None; see `KerasAgent.rowwise`."""
    first = specs[0].config.acting_values()
    if any(spec.config.acting_values() != first for spec in specs):
        return None
    member = one_member(agent, specs[0], extra)
    if not (member.rowwise and treats_rows_alone(type(agent), ("act", "chosen", "preprocess_batch"))):
        return None
    member.rng = seeding.MemberStreams([seeding.generator(spec.seed, "exploration") for spec in specs])  # type: ignore[assignment]
    differing = {
        name: f"it reads self.config.{name} where it acts or preprocesses for all members at once (rowwise), which may "
        f"differ between members: use self.hyperparameters.{name}."
        for name in (*OPTIMIZER_FIELDS, *member.config.live_values())
    }
    member.config = with_unreadable_fields(member.config, differing, NotMappableError)
    return member


class RowNumbers:
    """`KerasAgent.number` for the rows of all members."""

    def __init__(self, specs: Sequence[MemberSpec], n_envs: int) -> None:
        self._specs, self._n_envs = specs, n_envs

    def __call__(self, name: str) -> Array:
        """Return the numbers of all rows, [P * N] float32."""
        values = np.array([getattr(spec.config, name) for spec in self._specs], np.float32)
        return np.repeat(values, self._n_envs)


def bind(member: KerasAgent, inference: MemberInference, position: int | None, n_rows: int | None = None) -> None:
    """Set a member's forward passes: those of one member, or of all with `n_rows` each (default: its environments)."""
    rows = n_rows or member.config.n_envs
    for name in inference.networks:
        member.forwards[name] = (
            AllMembers(inference, name, rows) if position is None else inference.of_one(name, position)
        )


def check_mappable(agent: KerasAgent) -> None:
    """Check that an agent's class can be trained as a member.

    Raises:
        NotMappableError: The class overrides `__init__`, `update` or another method that a population does not call.
    """
    own = type(agent)
    if own.__init__ is not KerasAgent.__init__:
        raise NotMappableError(
            f"{own.__name__} has an __init__ of its own, which members of a population do not call: move its "
            f"content to start()."
        )
    for name in ("update", "new_buffer", "refresh", "reset", "get_state", "set_state"):
        if getattr(own, name) not in (getattr(KerasAgent, name), getattr(Agent, name)):
            raise NotMappableError(f"{own.__name__} overrides the method {name}(), which a population does not call.")


def check_same_structure(specs: Sequence[MemberSpec]) -> None:
    """Raise `ConfigurationError` if members cannot share one compiled agent."""
    first = specs[0].config.structure()
    for spec in specs[1:]:
        own = spec.config.structure()
        differing = [name for name in first if own.get(name) != first[name]]
        if differing:
            differences = ", ".join(f"{name} ({first[name]!r} and {own.get(name)!r})" for name in differing)
            raise ConfigurationError(
                f"Members of one population must have the same structure; these differ in {differences}: put them into "
                f"separate populations."
            )

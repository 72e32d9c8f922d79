"""Self-play: opponents that are earlier versions of the agent itself, or agents that other processes train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from agents.callbacks.callback import Callback
from agents.contract.agent import Agent, UpdateMetrics
from agents.contract.pickling import pickled, spec_of, unpickled
from agents.contract.restoring import restoring
from agents.errors import ConfigurationError, check_at_least
from agents.self_play.publish import NamedAgent, reach

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

Array = np.ndarray[Any, Any]


class EarlierAgent:
    """An agent as it was at one moment of its training. It is built when it first acts; all environments share it.

    Copies of environments share it too, so that a checkpoint has it once.

    Args:
        recipe: The agent's spec and interface, pickled.
        env_steps: Environment steps of its training.
        state: Its `acting_state`.
    """

    def __init__(self, recipe: bytes, env_steps: int, state: Sequence[Array]) -> None:
        self.recipe, self.env_steps, self.state = recipe, env_steps, [np.array(each) for each in state]
        self._agent: Agent | None = None
        self.rng: np.random.Generator | None = None

    def begin(self) -> None:
        """Do nothing: it does not change."""

    def act(self, vectors: Array) -> Array:
        """Draw actions as in training."""
        if self._agent is None:
            spec, interface = unpickled(self.recipe)
            with restoring():
                agent: Agent = spec.build(self.env_steps, interface=interface)
            agent.set_acting_state(self.state)
            agent.advance(self.env_steps)
            self._agent = agent
        return _drawn(self._agent, vectors, self.rng)

    def __deepcopy__(self, memo: dict[int, Any]) -> EarlierAgent:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_agent": None, "rng": None}


class PublishedAgent:
    """The newest version of an agent that is published under a name (`agents.Publish`).

    Args:
        name: The name.
        space: Space of the learner's observations, which must be that of the agent.
    """

    def __init__(self, name: str, space: spaces.Box) -> None:
        self.name, self.space = name, space
        self._agent: NamedAgent | None = None
        self.rng: np.random.Generator | None = None

    def begin(self) -> None:
        """Load the newest weights.

        Raises:
            ConfigurationError: The agent has memory, or acts on other observations than the learner.
        """
        if self._agent is None:
            self._agent = self._checked(reach(self.name))
        self._agent.refresh()

    def _checked(self, named: NamedAgent) -> NamedAgent:
        agent = named.agent
        if agent.memory_size:
            raise ConfigurationError(
                f"The agent {self.name!r} has memory (gru_units), and cannot be an opponent: publish one without."
            )
        if agent.observation_space != self.space:
            raise ConfigurationError(
                f"The agent {self.name!r} cannot be an opponent: it acts on {agent.observation_space}, and the learner "
                f"on {self.space}. Train both in the same environment."
            )
        return named

    def act(self, vectors: Array) -> Array:
        """Draw actions as in training."""
        if self._agent is None:  # a copy in the middle of an episode
            self.begin()
        assert self._agent is not None
        return _drawn(self._agent.agent, vectors, self.rng)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_agent": None, "rng": None}


def _drawn(agent: Agent, vectors: Array, rng: np.random.Generator | None) -> Array:
    """Return actions as in training, drawn from a generator; None: that of the agent."""
    agent.rng = rng or agent.rng
    return agent.interface.convert_actions(agent.act(vectors, explore=True))


class SelfPlay(Callback):
    """Let an agent play against its own earlier versions, or against published agents.

    The environment has the wrapper `agents.environments.multi_agent.opponents.Opponents`, which draws side and opponent
    for each episode. The first version is the agent as it is when training begins; the versions that are kept are
    spread over the whole training, as an agent that only meets its newest versions forgets how to beat the others
    (Bansal et al. 2018, arXiv 1710.03748). Each member of a population plays against its own versions. A resumed
    training has the versions of before.

    Args:
        every: Environment steps between two versions, >= 1. Defaults to 10,000.
        keep: Number of versions to draw from, >= 1: the first, the newest, and others between them; 1: the newest only.
            Defaults to 10.
        names: Names of agents that other processes publish (`agents.Publish`), as further opponents.

    Raises:
        ConfigurationError: A number below 1. When training begins: the environment lacks the wrapper, or the agent has
            memory.

    Example:
        >>> opponents = "agents.environments.multi_agent.opponents:Opponents"
        >>> pong = agents.EnvironmentSpec("my_games.py:pong", wrappers=[opponents])
        >>> agent = agents.make("mappo", pong, team_reward=False)
        >>> agents.Trainer(agent, callbacks=[agents.SelfPlay(every=50_000)]).train(env_steps=1_000_000)
    """

    of_members = True
    changes_environments = True

    def __init__(self, every: int = 10_000, keep: int = 10, names: Sequence[str] = ()) -> None:
        check_at_least(1, every=every, keep=keep)
        self.every, self.keep, self.names = every, keep, tuple(names)
        self._versions: dict[int, list[EarlierAgent]] = {}

    def versions(self, member: int = 0) -> list[int]:
        """Return the environment steps of the versions of a member, oldest first."""
        return [each.env_steps for each in self._versions.get(member, [])]

    def on_train_begin(self, trainer: Trainer) -> None:
        if not all(trainer.call_environments("has_wrapper_attr", "set_opponents")):
            raise ConfigurationError(
                f"SelfPlay needs an environment with opponents: give {trainer.environment.label!r} the wrapper "
                f"agents.environments.multi_agent.opponents:Opponents."
            )
        if trainer.agent.memory_size:
            raise ConfigurationError(
                "Agents with memory (gru_units) cannot be opponents: leave out SelfPlay or gru_units."
            )
        for member in trainer.present:
            if not self._versions.get(member):
                self._add(trainer, member)
            self._set(trainer, member)

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        newest = self._versions[update.member][-1].env_steps
        if update.finite and trainer.runs[update.member].env_steps - newest >= self.every:
            self._add(trainer, update.member)
            self._set(trainer, update.member)

    def _add(self, trainer: Trainer, member: int) -> None:
        learner = trainer.agent
        agent = learner if isinstance(learner, Agent) else learner.extract(trainer.present.index(member))
        spec = spec_of(agent, trainer.environment)
        recipe = pickled(spec, (spec, agent.interface))
        version = EarlierAgent(recipe, trainer.runs[member].env_steps, agent.acting_state())
        self._versions[member] = _spread([*self._versions.get(member, []), version], self.keep)

    def _set(self, trainer: Trainer, member: int) -> None:
        published = [PublishedAgent(name, trainer.agent.observation_space) for name in self.names]
        trainer.call_environments("set_opponents", [*self._versions[member], *published], member=member)

    def reset_state(self) -> None:
        self._versions = {}

    def get_state(self) -> dict[str, Any]:
        return {
            "versions": {
                member: [(each.recipe, each.env_steps, each.state) for each in versions]
                for member, versions in self._versions.items()
            }
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._versions = {
            member: [EarlierAgent(*version) for version in versions] for member, versions in state["versions"].items()
        }


def _spread(versions: list[EarlierAgent], n: int) -> list[EarlierAgent]:
    """Return n versions, oldest first, at about equal distances: the first, the newest, and others between them."""
    left = list(versions)
    while len(left) > max(n, 2):
        gaps = [after.env_steps - before.env_steps for before, after in zip(left, left[2:], strict=False)]
        del left[1 + gaps.index(min(gaps))]
    return left[-n:]

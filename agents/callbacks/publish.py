"""Agents that others act with while they learn, under a name: opponents in an environment, a script that watches.

The agent that learns publishes what acting needs; whoever knows the name, in any process of the study or machine of the
cluster (`agents.distributed.shared`), has a copy that acts by itself and takes newer weights when it asks for them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agents.callbacks.callback import Callback
from agents.contract.agent import Agent, UpdateMetrics
from agents.contract.pickling import pickled, spec_of, unpickled
from agents.errors import ConfigurationError
from agents.shared_objects import shared

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

Array = np.ndarray[Any, Any]

_POLL_SECONDS = 0.1


class Published(NamedTuple):
    """An agent as it was published."""

    version: int  # how often it had been by then
    recipe: bytes  # its spec and its environment's spaces; empty where they are known
    env_steps: int  # that it had been trained for
    state: list[Array]  # its `acting_state`


class Board:
    """What was published of one agent."""

    def __init__(self) -> None:
        self._version = 0
        self._recipe = b""
        self._env_steps = 0
        self._state: list[Array] = []

    def put(self, env_steps: int, state: Sequence[Array], recipe: bytes = b"") -> None:
        """Take newer weights, how long was trained, and where it is told the recipe of the agent."""
        self._version += 1
        self._recipe = recipe or self._recipe
        self._env_steps, self._state = env_steps, list(state)

    def newer(self, version: int) -> Published | None:
        """What was published last, where that is newer than a version; 0 is before the first."""
        if self._version == version:
            return None
        return Published(self._version, b"" if version else self._recipe, self._env_steps, self._state)


class Publish(Callback):
    """Publishes the agent that trains under a name, for `reach`.

    Args:
        name: The name.
        every: Updates from one publication to the next, >= 1. Defaults to 1. Beginning and end of training are
            published in any case.
    """

    def __init__(self, name: str, every: int = 1) -> None:
        if not name:
            raise ConfigurationError("An agent that is published needs a name.")
        if every < 1:
            raise ConfigurationError(f"every must be >= 1, got {every}.")
        self._every, self._updates, self._finite = every, 0, True
        self._board = _board(name)

    def on_train_begin(self, trainer: Trainer) -> None:
        """Publish the agent.

        Raises:
            ConfigurationError: It is a population.
        """
        agent = trainer.agent
        if not isinstance(agent, Agent):
            raise ConfigurationError("A population cannot be published under one name: publish an agent alone.")
        spec = spec_of(agent, trainer.environment)
        recipe = pickled(spec, (spec, agent.interface))
        self._finite = True
        self._board.put(agent.env_steps, agent.acting_state(), recipe)

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        """Publish its weights when it is time; those of an update that has diverged are nothing to act with."""
        self._updates += 1
        self._finite = bool(update.finite)
        if self._finite and self._updates % self._every == 0:
            self._board.put(trainer.agent.env_steps, trainer.agent.acting_state())

    def on_train_end(self, trainer: Trainer) -> None:
        """Publish its last weights."""
        if self._finite:
            self._board.put(trainer.agent.env_steps, trainer.agent.acting_state())


def reach(name: str, *, seed: int = 0, wait_seconds: float = 60.0) -> NamedAgent:
    """An agent that is published under a name, to act with.

    An environment calls it in `reset`, not where it is made: the agent is published when training begins, for which
    environments are there already.

    Args:
        name: The name.
        seed: Of its exploration. Defaults to 0.
        wait_seconds: How long to wait for somebody to publish it. Defaults to 60.

    Raises:
        ConfigurationError: Nobody has published it by then.
    """
    board, until = _board(name), time.monotonic() + wait_seconds
    while (newest := board.newer(0)) is None:
        if time.monotonic() > until:
            raise ConfigurationError(
                f"No agent is published as {name!r}: train one with callbacks=[agents.Publish({name!r})]."
            )
        time.sleep(_POLL_SECONDS)
    return NamedAgent(board, newest, seed)


class NamedAgent:
    """A copy of an agent that learns elsewhere.

    Args:
        board: Where newer weights are published.
        newest: What `Board.newer` gave.
        seed: Of its exploration.
    """

    def __init__(self, board: Board, newest: Published, seed: int) -> None:
        self._board = board
        spec, interface = unpickled(newest.recipe)
        self.agent: Agent = spec.build(seed, interface=interface)
        self.version = 0
        """How often the agent was published by then."""
        self._take(newest)

    def _take(self, newest: Published) -> None:
        self.version = newest.version
        self.agent.set_acting_state(newest.state)
        # So that its exploration has come as far as the learner's.
        self.agent.advance(max(0, newest.env_steps - self.agent.env_steps))

    def act(self, observations: Array, explore: bool = False) -> Array:
        """Choose an action for each observation, with the weights of the last `refresh`; see `Agent.act`.

        Args:
            observations: [N, ...], as the agent sees them.
            explore: Whether actions are drawn as in training. Defaults to False: the action that is thought best.
        """
        return self.agent.act(observations, explore)

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Choose what to do, as the environment speaks, with the weights of the last `refresh`; see `Agent.predict`.

        Args:
            observation: What the environment gives, or a batch.
            deterministic: Whether it is the action that is thought best. Defaults to True.
        """
        return self.agent.predict(observation, deterministic)

    def refresh(self) -> bool:
        """Take the newest weights; False where it has them already. Worth it once an episode, not at every step."""
        newest = self._board.newer(self.version)
        if newest is None:
            return False
        self._take(newest)
        return True


def _board(name: str) -> Board:
    return shared(f"agent {name}", Board)

"""Publication of learning agents under a name: as opponents in an environment, or for a script that watches.

The learning agent publishes its acting state; any process of the study or machine of the cluster
(`agents.distributed.shared`) can reach a copy by the name, act with it, and load newer weights at any time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agents.callbacks.callback import Callback
from agents.contract.agent import Agent, UpdateMetrics
from agents.contract.pickling import pickled, spec_of, unpickled
from agents.contract.restoring import restoring
from agents.errors import ConfigurationError, check_at_least
from agents.shared_objects import shared

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

Array = np.ndarray[Any, Any]

_POLL_SECONDS = 0.1


class Published(NamedTuple):
    """One publication of an agent."""

    version: int  # number of publications so far
    recipe: bytes  # its spec and its environment's spaces; empty if they are known
    env_steps: int  # of its training so far
    state: list[Array]  # its `acting_state`


class WeightStore:
    """The newest publication of one agent."""

    def __init__(self) -> None:
        self._version = 0
        self._recipe = b""
        self._env_steps = 0
        self._state: list[Array] = []

    def put(self, env_steps: int, state: Sequence[Array], recipe: bytes = b"") -> None:
        """Store newer weights and their environment steps; the first time with the agent's recipe."""
        self._version += 1
        self._recipe = recipe or self._recipe
        self._env_steps, self._state = env_steps, list(state)

    def newer(self, version: int) -> Published | None:
        """Return the newest publication if it is newer than a version, else None; 0 is before the first."""
        if self._version == version:
            return None
        return Published(self._version, b"" if version else self._recipe, self._env_steps, self._state)


class Publish(Callback):
    """Publish the training agent under a name, for `reach`.

    Args:
        name: The name.
        every: Number of updates between publications, >= 1. Defaults to 1. Beginning and end of training are always
            published.

    Raises:
        ConfigurationError: An empty name, or `every` below 1.
    """

    def __init__(self, name: str, every: int = 1) -> None:
        if not name:
            raise ConfigurationError("Publish needs a name for the agent.")
        check_at_least(1, every=every)
        self._every, self._updates, self._finite = every, 0, True
        self._store = _store_of(name)

    def on_train_begin(self, trainer: Trainer) -> None:
        """Publish the agent.

        Raises:
            ConfigurationError: The trainer has a population.
        """
        agent = trainer.agent
        if not isinstance(agent, Agent):
            raise ConfigurationError("A population cannot be published under one name: publish a single agent.")
        spec = spec_of(agent, trainer.environment)
        recipe = pickled(spec, (spec, agent.interface))
        self._finite = True
        self._store.put(agent.env_steps, agent.acting_state(), recipe)

    def on_update_end(self, trainer: Trainer, update: UpdateMetrics) -> None:
        """Publish the weights if due; an update that has diverged is not published."""
        self._updates += 1
        self._finite = bool(update.finite)
        if self._finite and self._updates % self._every == 0:
            self._store.put(trainer.agent.env_steps, trainer.agent.acting_state())

    def on_train_end(self, trainer: Trainer) -> None:
        """Publish the last weights."""
        if self._finite:
            self._store.put(trainer.agent.env_steps, trainer.agent.acting_state())


def reach(name: str, *, seed: int = 0, wait_seconds: float = 60.0) -> NamedAgent:
    """Return a copy of an agent that is published under a name.

    Call it in an environment's `reset`, not in its constructor: the agent is published when training begins, after the
    environments are made.

    Args:
        name: The name.
        seed: Seed of its exploration. Defaults to 0.
        wait_seconds: Seconds to wait for the publication. Defaults to 60.

    Raises:
        ConfigurationError: No agent was published under the name in time.
    """
    store, until = _store_of(name), time.monotonic() + wait_seconds
    while (newest := store.newer(0)) is None:
        if time.monotonic() > until:
            raise ConfigurationError(
                f"No agent is published as {name!r}: train one with callbacks=[agents.Publish({name!r})]."
            )
        time.sleep(_POLL_SECONDS)
    return NamedAgent(store, newest, seed)


class NamedAgent:
    """A copy of an agent that learns in another process.

    Args:
        store: Store of newer weights.
        newest: Result of `WeightStore.newer`.
        seed: Seed of its exploration.
    """

    def __init__(self, store: WeightStore, newest: Published, seed: int) -> None:
        self._store = store
        spec, interface = unpickled(newest.recipe)
        with restoring():
            self.agent: Agent = spec.build(seed, interface=interface)
        self.version = 0
        """Number of publications up to these weights."""
        self._take(newest)

    def _take(self, newest: Published) -> None:
        self.version = newest.version
        self.agent.set_acting_state(newest.state)
        # Its exploration then has the progress of the learner's.
        self.agent.advance(max(0, newest.env_steps - self.agent.env_steps))

    def act(self, observations: Array, explore: bool = False) -> Array:
        """Choose an action for each observation, with the weights of the last `refresh`; see `Agent.act`.

        Args:
            observations: [N, ...], in the agent's space.
            explore: Whether actions are drawn as in training. Defaults to False: the greedy action.
        """
        return self.agent.act(observations, explore)

    def predict(self, observation: Any, deterministic: bool = True) -> Any:
        """Choose an action in the environment's spaces, with the weights of the last `refresh`; see `Agent.predict`.

        Args:
            observation: An observation of the environment, or a batch.
            deterministic: Whether the greedy action is chosen. Defaults to True.
        """
        return self.agent.predict(observation, deterministic)

    def refresh(self) -> bool:
        """Load the newest weights; return False if they are unchanged. Call it once per episode, not at every step."""
        newest = self._store.newer(self.version)
        if newest is None:
            return False
        self._take(newest)
        return True


def _store_of(name: str) -> WeightStore:
    return shared(f"agent {name}", WeightStore)

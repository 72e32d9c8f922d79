"""Trajectories that are handed out to be rewritten before anything is learned from them, and the memory that does so.

What an agent learns from may be another reward than the environment's: one that comes to light when the episode is
over and is filled in backwards, or a bonus for what is new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import cloudpickle
import numpy as np

from agents.buffers.buffer import Array, Batches, Buffer, Transition
from agents.errors import ConfigurationError, NonFiniteError
from agents.short_repr import short_repr
from agents.trust.signatures import from_own_bytes

Infos = Sequence[Mapping[str, Any] | None]
"""What each copy told beside a step; None of one that made none, as it has raised."""

_KEY = "rewriting"
"""Where the state of a memory has what waits here, beside what is the memory's own."""


@dataclass(kw_only=True, eq=False, repr=False)
class Trajectory:
    """Consecutive steps of one episode, in one copy of the environment, that are about to be learned from.

    `rewards` are there to be changed, in place or by others. All else is to be read only: arrays refuse to be written
    to, and what is done to `infos` has no effect.

    Attributes:
        observations: [T, ...] as the agent saw them.
        actions: [T] or [T, D] as the agent gave them: within [-1, 1] where the environment's are bounded.
        rewards: [T] float32.
        next_observations: [T, ...] true successors.
        terminated: [T] bool; only the last can be true.
        truncated: [T] bool; only the last can be true.
        infos: What the environment told beside each step (that of a reset is not among them).
        environment: Which of the member's copies of the environment.
        member: Which member of a population; 0 for an agent alone.
        begins: Whether the episode begins with the first of these steps.
        ends: Whether it ends with the last.
    """

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    terminated: Array
    truncated: Array
    infos: list[Mapping[str, Any]]
    environment: int
    member: int
    begins: bool
    ends: bool

    __repr__ = short_repr

    def check(self) -> None:
        """Make the rewards what a memory stores.

        Raises:
            ConfigurationError: They are not one number a step.
            NonFiniteError: One is NaN or infinite.
        """
        n_steps = len(self.terminated)
        try:
            with np.errstate(over="ignore"):
                rewards = np.array(self.rewards, np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"on_trajectory left rewards that are no numbers: {error}.") from error
        if rewards.shape != (n_steps,):
            raise ConfigurationError(
                f"on_trajectory must leave one reward a step, an array of shape {(n_steps,)}; it left {rewards.shape}."
            )
        if not np.isfinite(rewards).all():
            at = int(np.flatnonzero(~np.isfinite(rewards))[0])
            raise NonFiniteError(
                f"on_trajectory left the reward {rewards[at]} (step {at} of {n_steps}, member {self.member}, copy "
                f"{self.environment})."
            )
        self.rewards = rewards


@dataclass
class _Slot:
    """One step of all environments that waits."""

    transition: Transition
    infos: Infos


class RewritingBuffer(Buffer):
    """Holds steps back from another memory until they were handed out, as parts of trajectories.

    For a memory that is `off_policy` a trajectory is a whole episode: its steps wait until it has ended, those of the
    other environments at the same times with them, so that an update learns from what is as old as the longest episode
    that has not ended (an environment without a time limit should get one). A rollout takes what it needs when that is
    there: episodes that have not ended by then are handed out in pieces.

    The other memory gets the same steps in the same order as without this one. It gets no more as long as an update is
    due, so there are as many updates for as many steps; they follow one another where an episode ended.

    Args:
        memory: The other memory.
        n_members: Members that it has.
        n_envs: Environments of each.
        hand_out: Is given each trajectory, whose `member` is a position, before its steps may be learned from.

    Raises:
        ConfigurationError: The memory computes rewards itself.
    """

    def __init__(self, buffer: Buffer, n_members: int, n_envs: int, hand_out: Callable[[Trajectory], None]) -> None:
        if buffer.computes_rewards:
            raise ConfigurationError(
                f"{type(buffer).__name__} computes the rewards of other goals itself, where on_trajectory cannot "
                f"rewrite them: use another replay, or write the rewards into a goal_function."
            )
        self.buffer = buffer
        self._n_envs = n_envs
        self._hand_out = hand_out
        self._slots: deque[_Slot] = deque()
        self._handed = np.zeros(n_members * n_envs, np.int64)  # how many of those that wait were handed out, a column
        self._begins = np.ones(n_members * n_envs, bool)  # whether what comes after these begins an episode

    def add(self, transition: Transition, infos: Infos = ()) -> None:
        """Take one step of all environments, and what each of them told beside it."""
        self._hand_out_ended()  # those that were cut
        own = Transition(*map(np.array, transition))  # copies: an agent may reuse its arrays
        self._slots.append(_Slot(own, infos or [{}] * len(self._handed)))
        self._hand_out_ended()
        self._pass_on()

    def updated(self) -> None:
        self.buffer.updated()
        self._pass_on()

    def _pass_on(self) -> None:
        """Return the other memory what it may have, until an update is due."""
        buffer, slots = self.buffer, self._slots
        if not buffer.off_policy and not buffer.ready and len(slots) >= buffer.steps_until_ready:
            self._hand_out_columns(np.flatnonzero(self._handed < len(slots)))
        while slots and self._handed.all() and not buffer.ready:
            buffer.add(slots.popleft().transition)
            self._handed -= 1

    def _hand_out_ended(self) -> None:
        if self._slots:
            newest = self._slots[-1].transition
            open_ones = self._handed < len(self._slots)
            self._hand_out_columns(np.flatnonzero(open_ones & (newest.terminated | newest.truncated)))

    def _hand_out_columns(self, columns: Array) -> None:
        for column in columns.tolist():
            slots = list(islice(self._slots, int(self._handed[column]), None))
            trajectory = self._trajectory(column, slots)
            if all(info is not None for info in trajectory.infos):  # else it has raised: its member leaves
                self._hand_out(trajectory)  # where that raises, the trajectory is still to be handed out
                for slot, reward in zip(slots, trajectory.rewards, strict=True):
                    slot.transition.rewards[column] = reward
            self._handed[column] = len(self._slots)
            self._begins[column] = trajectory.ends

    def _trajectory(self, column: int, slots: Sequence[_Slot]) -> Trajectory:
        arrays = {
            name: np.stack([values[column] for values in steps])
            for name, steps in zip(
                Transition._fields, zip(*(slot.transition for slot in slots), strict=True), strict=True
            )
        }
        for name, values in arrays.items():
            values.flags.writeable = name == "rewards"
        position, environment = divmod(column, self._n_envs)
        infos: list[Any] = [slot.infos[column] for slot in slots]
        begins, ends = bool(self._begins[column]), bool(arrays["terminated"][-1] or arrays["truncated"][-1])
        return Trajectory(**arrays, infos=infos, environment=environment, member=position, begins=begins, ends=ends)

    # As the other memory --------------------------------------------------------------------------------------

    @property
    def member_axis(self) -> int:  # type: ignore[override]
        """As the other memory has it."""
        return self.buffer.member_axis

    @property
    def off_policy(self) -> bool:  # type: ignore[override]
        """As the other memory has it."""
        return self.buffer.off_policy

    @property
    def ready(self) -> bool:
        return self.buffer.ready

    @property
    def steps_until_ready(self) -> int:
        return 1 if self.off_policy else max(1, self.buffer.steps_until_ready - len(self._slots))

    def sample(self) -> dict[str, Array]:
        return self.buffer.sample()

    def batches(self, data: dict[str, Array]) -> Batches:
        return self.buffer.batches(data)

    def update_priorities(self, priorities: Array) -> None:
        self.buffer.update_priorities(priorities)

    def set_hyperparameter(self, name: str, value: float, position: int | None = None) -> None:
        self.buffer.set_hyperparameter(name, value, position)

    def bytes_when_full(self, transition: Transition) -> int:
        """Return the other memory's, and what waits now: how much will wait is up to the length of episodes."""
        return self.buffer.bytes_when_full(transition) + len(self._slots) * super().bytes_when_full(transition)

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:
        """As `Memory.cut`; what is cut off here is handed out with the next step."""
        columns = np.arange(len(self._handed)) if environments is None else np.array(environments, np.int64)
        if self._slots:
            newest = self._slots[-1].transition
            newest.truncated[columns] |= ~newest.terminated[columns]
        else:
            self.buffer.mark_truncated(environments)
        self._begins[columns[self._handed[columns] == len(self._slots)]] = True

    def select(self, positions: Sequence[int]) -> None:
        columns = (np.asarray(positions)[:, None] * self._n_envs + np.arange(self._n_envs)).ravel()
        self.buffer.select(positions)
        self._handed, self._begins = self._handed[columns], self._begins[columns]
        for slot in self._slots:
            slot.transition = Transition(*(values[columns] for values in slot.transition))
            slot.infos = [slot.infos[column] for column in columns.tolist()]

    def get_state(self) -> dict[str, Any]:
        """Return the other memory's state, and what waits.

        Raises:
            ConfigurationError: What an environment told beside a step cannot be pickled.
        """
        try:
            infos = cloudpickle.dumps([list(slot.infos) for slot in self._slots])
        except Exception as error:
            raise ConfigurationError(
                f"What waits for on_trajectory cannot be kept: the environment's info cannot be pickled ({error}). "
                f"Leave out of it what cannot be, for example by a wrapper."
            ) from error
        steps = [tuple(np.copy(values) for values in slot.transition) for slot in self._slots]
        waiting = {"steps": steps, "infos": infos, "handed": self._handed.copy(), "begins": self._begins.copy()}
        return {**self.buffer.get_state(), _KEY: waiting}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on where `get_state` was called; from the state of the other memory alone, nothing waits."""
        own = {name: value for name, value in state.items() if name != _KEY}
        self.buffer.set_state(own)
        self._slots.clear()
        self._handed[:], self._begins[:] = 0, False
        if (waiting := state.get(_KEY)) is not None:
            self._handed, self._begins = waiting["handed"].copy(), waiting["begins"].copy()
            for step, infos in zip(waiting["steps"], from_own_bytes(waiting["infos"]), strict=True):
                self._slots.append(_Slot(Transition(*(np.copy(values) for values in step)), infos))


def check_goes_on(buffer: Buffer, state: Mapping[str, Any]) -> None:
    """Refuse to lose steps that wait.

    Raises:
        ConfigurationError: The state is of a memory that rewrites, and this one does not.
    """
    if _KEY in state and not isinstance(buffer, RewritingBuffer):
        raise ConfigurationError(
            "This training was rewriting trajectories, and steps wait for that: give the trainer a callback with "
            "on_trajectory again."
        )

"""Trajectories that a callback rewrites before the update, and the buffer that holds their steps back.

The rewritten reward may differ from the environment's: a reward that is known only at the end of the episode and is
assigned to earlier steps, or a bonus for novelty.
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
from agents.errors import ConfigurationError, NonFiniteError, with_cause
from agents.short_repr import short_repr
from agents.trust.signatures import from_own_bytes

Infos = Sequence[Mapping[str, Any] | None]
"""Info of each environment copy for a step; None for a copy that has raised."""

_KEY = "rewriting"
"""Key of the held-back steps in the state of the wrapped buffer."""


@dataclass(kw_only=True, eq=False, repr=False)
class Trajectory:
    """Consecutive steps of one episode in one environment copy, before they are used for an update.

    `rewards` may be changed in place or replaced. All other fields are read-only: arrays cannot be written to, and
    changes of `infos` have no effect.

    Attributes:
        observations: [T, ...] as seen by the agent.
        actions: [T] or [T, D] as chosen by the agent: within [-1, 1] where the environment's actions are bounded.
        rewards: [T] float32.
        next_observations: [T, ...] true successors.
        terminated: [T] bool; only the last can be true.
        truncated: [T] bool; only the last can be true.
        infos: Info of each step (infos of resets are not included).
        environment: Index of the environment copy of the member.
        member: Index of the member of a population; 0 for a single agent.
        begins: Whether the first of these steps is the first of the episode.
        ends: Whether the last of these steps is the last of the episode.
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
        """Check the rewards and convert them to the type that buffers store.

        Raises:
            ConfigurationError: The rewards are not one number per step.
            NonFiniteError: A reward is NaN or infinite.
        """
        n_steps = len(self.terminated)
        try:
            with np.errstate(over="ignore"):
                rewards = np.array(self.rewards, np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"on_trajectory left rewards that are not numbers: {error}.") from error
        if rewards.shape != (n_steps,):
            raise ConfigurationError(
                f"on_trajectory must leave one reward per step, an array of shape {(n_steps,)}; it left "
                f"{rewards.shape}."
            )
        if not np.isfinite(rewards).all():
            at = int(np.flatnonzero(~np.isfinite(rewards))[0])
            message = (
                f"on_trajectory left the reward {rewards[at]} (step {at} of {n_steps}, member {self.member}, copy "
                f"{self.environment})."
            )
            raise with_cause(NonFiniteError(message), "code")
        self.rewards = rewards


@dataclass
class _Slot:
    """One held-back step of all environments."""

    transition: Transition
    infos: Infos


class RewritingBuffer(Buffer):
    """Buffer that holds steps back from another buffer until a callback has seen their trajectories.

    For a buffer that is `off_policy` a trajectory is a whole episode: its steps are held back until the episode has
    ended, together with simultaneous steps of the other environments. Data of an update may therefore be as old as the
    longest unfinished episode (set a time limit if the environment has none). A rollout takes its steps as soon as it
    is full: episodes that have not ended by then are handed out in pieces.

    The other buffer receives the same steps in the same order as without rewriting. No steps are passed on while an
    update is due, so the number of updates per step is unchanged; several updates may follow the end of an episode.

    Args:
        buffer: The other buffer.
        n_members: Number of members of the other buffer.
        n_envs: Number of environments per member.
        on_trajectory: Called with each trajectory, whose `member` is a position, before an update uses its steps.

    Raises:
        ConfigurationError: The other buffer computes rewards itself.
    """

    def __init__(
        self, buffer: Buffer, n_members: int, n_envs: int, on_trajectory: Callable[[Trajectory], None]
    ) -> None:
        if buffer.computes_rewards:
            raise ConfigurationError(
                f"{type(buffer).__name__} computes the rewards of other goals itself, where on_trajectory cannot "
                f"rewrite them: use another replay, or compute the rewards in a goal_function."
            )
        self.buffer = buffer
        self._n_envs = n_envs
        self._emit = on_trajectory
        self._slots: deque[_Slot] = deque()
        self._handed = np.zeros(n_members * n_envs, np.int64)  # held-back steps already handed out, per column
        self._begins = np.ones(n_members * n_envs, bool)  # whether the next step begins an episode

    def add(self, transition: Transition, infos: Infos = ()) -> None:
        """Store one step of all environments, with the info of each copy."""
        self._emit_ended()  # trajectories that were truncated
        own = Transition(*map(np.array, transition))  # copies: an agent may reuse its arrays
        self._slots.append(_Slot(own, infos or [{}] * len(self._handed)))
        self._emit_ended()
        self._pass_on()

    def updated(self) -> None:
        self.buffer.updated()
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass completed steps on to the other buffer, until an update is due."""
        buffer, slots = self.buffer, self._slots
        if not buffer.off_policy and not buffer.ready and len(slots) >= buffer.steps_until_ready:
            self._emit_columns(np.flatnonzero(self._handed < len(slots)))
        while slots and self._handed.all() and not buffer.ready:
            buffer.add(slots.popleft().transition)
            self._handed -= 1

    def _emit_ended(self) -> None:
        if self._slots:
            newest = self._slots[-1].transition
            open_ones = self._handed < len(self._slots)
            self._emit_columns(np.flatnonzero(open_ones & (newest.terminated | newest.truncated)))

    def _emit_columns(self, columns: Array) -> None:
        for column in columns.tolist():
            slots = list(islice(self._slots, int(self._handed[column]), None))
            trajectory = self._trajectory(column, slots)
            if all(info is not None for info in trajectory.infos):  # else a copy has raised: its member leaves
                self._emit(trajectory)  # after an error the trajectory stays in the queue
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

    # As the other buffer --------------------------------------------------------------------------------------

    @property
    def member_axis(self) -> int:  # type: ignore[override]
        """Value of the other buffer."""
        return self.buffer.member_axis

    @property
    def off_policy(self) -> bool:  # type: ignore[override]
        """Value of the other buffer."""
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

    def copy_member(self, source: int, target: int) -> None:
        self.buffer.copy_member(source, target)

    def bytes_when_full(self, transition: Transition) -> int:
        """Return the size of the full other buffer and of the steps held back now."""
        return self.buffer.bytes_when_full(transition) + len(self._slots) * super().bytes_when_full(transition)

    def mark_truncated(self, environments: Sequence[int] | None = None) -> None:
        """See `Buffer.mark_truncated`; truncated trajectories are handed out with the next step."""
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
        """Return the other buffer's state and the held-back steps.

        Raises:
            ConfigurationError: The info of a step cannot be pickled.
        """
        try:
            infos = cloudpickle.dumps([list(slot.infos) for slot in self._slots])
        except Exception as error:
            raise ConfigurationError(
                f"Steps held back for on_trajectory cannot be saved: the environment's info cannot be pickled "
                f"({error}). Remove those parts of it, for example by a wrapper."
            ) from error
        steps = [tuple(np.copy(values) for values in slot.transition) for slot in self._slots]
        waiting = {"steps": steps, "infos": infos, "handed": self._handed.copy(), "begins": self._begins.copy()}
        return {**self.buffer.get_state(), _KEY: waiting}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state of `get_state`; a state of the other buffer alone has no held-back steps."""
        own = {name: value for name, value in state.items() if name != _KEY}
        self.buffer.set_state(own)
        self._slots.clear()
        self._handed[:], self._begins[:] = 0, False
        if (waiting := state.get(_KEY)) is not None:
            self._handed, self._begins = waiting["handed"].copy(), waiting["begins"].copy()
            for step, infos in zip(waiting["steps"], from_own_bytes(waiting["infos"]), strict=True):
                self._slots.append(_Slot(Transition(*(np.copy(values) for values in step)), infos))


def check_resumable(buffer: Buffer, state: Mapping[str, Any]) -> None:
    """Refuse a state whose held-back steps would be lost.

    Raises:
        ConfigurationError: The state belongs to a rewriting buffer, and `buffer` is not one.
    """
    if _KEY in state and not isinstance(buffer, RewritingBuffer):
        raise ConfigurationError(
            "This training rewrote trajectories, and some steps still wait for it: give the trainer a callback with "
            "on_trajectory again."
        )

"""A callback that changes hyperparameters at given environment steps, as population-based training found them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from agents.callbacks.callback import Callback
from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.training.trainer import Trainer


class HyperparameterSchedule(Callback):
    """Set mutable hyperparameters at environment steps; nothing is compiled.

    A change takes effect before the first rollout, or the first transition that is collected for a replay, that begins
    at its step or later: between two updates. A training that resumes from a checkpoint has its present numbers, and
    continues with the next change, exactly as if it had not been stopped.

    Args:
        changes: Pairs of environment steps and the hyperparameters that are set there, by the names of
            `Trainer.set_hyperparameter`, ascending.
        member: The member of a population that is changed. Defaults to None: all members.

    Raises:
        ConfigurationError: The changes are no pairs, the steps are negative or do not ascend, or a value is no finite
            number; when training reaches a change, a hyperparameter that cannot change while an agent trains.
    """

    of_members = True

    def __init__(self, changes: Sequence[tuple[int, Mapping[str, float]]], *, member: int | None = None) -> None:
        self.changes = _pairs(changes)
        self.member = member
        self.n_applied = 0
        """Number of changes that have been made."""
        self._in_rollout = False  # of a training that was stopped, or saved, before the update that follows
        before = -1
        for env_steps, values in self.changes:
            if env_steps <= before:
                raise ConfigurationError(
                    f"The steps of a schedule are {[at for at, _ in self.changes]}: give them from 0 on, ascending."
                )
            before = env_steps
            for name, value in values.items():
                is_number = isinstance(value, Real) and not isinstance(value, bool)
                if not is_number or not math.isfinite(value):
                    raise ConfigurationError(
                        f"The schedule sets {name} to {value!r} at step {env_steps}: give a finite number."
                    )
                values[name] = int(value) if isinstance(value, Integral) else float(value)

    def on_rollout_begin(self, trainer: Trainer) -> None:
        if self._in_rollout:
            return  # the rest of a rollout
        self._in_rollout = True
        while self.n_applied < len(self.changes) and self.changes[self.n_applied][0] <= trainer.env_steps:
            values = self.changes[self.n_applied][1]  # one after the other: a common rate overrides earlier single ones
            self.n_applied += 1
            if self.member is None or self.member in trainer.present:
                trainer.set_hyperparameters(values, self.member)

    def on_rollout_end(self, trainer: Trainer) -> None:
        self._in_rollout = not trainer.buffer.ready

    def reset_state(self) -> None:
        self.n_applied, self._in_rollout = 0, False

    def get_state(self) -> dict[str, Any]:
        return {"n_applied": self.n_applied, "in_rollout": self._in_rollout}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.n_applied, self._in_rollout = state["n_applied"], state["in_rollout"]


def _pairs(changes: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the changes of a schedule.

    Raises:
        ConfigurationError: They are not pairs of a whole number and a mapping.
    """
    try:
        pairs = [(at, dict(values)) for at, values in changes]
        are_steps = all(isinstance(at, Real) and float(at).is_integer() for at, _ in pairs)
    except (TypeError, ValueError, OverflowError):
        are_steps = False
    if not are_steps:
        raise ConfigurationError(
            f"The schedule is {changes!r}: give a list of pairs of environment steps and hyperparameters, such as "
            "[(1000, {'learning_rate': 1e-4})]."
        )
    return [(int(at), values) for at, values in pairs]
